"""What programs do with differential equations and integrals besides solving them."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.integrate as si

import tapegrad as tg
from tests.frontends.scipy.differences import differences

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


class Rates:
    factor: ClassVar[float] = 1.0
    table: ClassVar[Any] = np.ones(2)


class Decay(Rates):
    def __init__(self, k: Any) -> None:
        self.k = k

    @property
    def doubled(self) -> Any:
        return 2 * self.factor

    def by_attribute(self, t: Any, y: Any) -> Any:
        return -self.k * y * self.factor

    def by_property(self, t: Any, y: Any) -> Any:
        return -self.k * y * self.doubled

    def by_class(self, t: Any, y: Any) -> Any:
        return -self.k * y * Rates.factor

    def by_array(self, t: Any, y: Any) -> Any:
        return -self.k * y * self.table[1]


SOLVERS: dict[str, Callable[[Any], Any]] = {
    "solve_ivp": lambda slope: si.solve_ivp(slope, (0.0, 1.0), [1.0], **CLOSE).y[0, -1],  # type: ignore[arg-type]
    "odeint": lambda slope: si.odeint(slope, [1.0], [0.0, 1.0], tfirst=True, rtol=1e-10, atol=1e-10)[-1, 0],
    "quad": lambda slope: si.quad(lambda t: slope(t, np.array([t]))[0] ** 2, 0.0, 1.0)[0],
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("slope", ["by_attribute", "by_property", "by_class", "by_array"])
def test_what_a_class_holds_may_change(solver: str, slope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(k: Any) -> Any:
        return SOLVERS[solver](getattr(Decay(k), slope))

    step = tg.value_and_grad(f, warmup=1)
    for factor in (1.0, 2.0, 1.0, 3.0, 3.0, 2.0):
        monkeypatch.setattr(Rates, "factor", factor)
        monkeypatch.setattr(Rates, "table", np.full(2, factor))
        slopes = differences(f, 0.5, 1e-4)
        assert tg.grad(f, 0.5)[1][1] == pytest.approx(slopes, 1e-6)
        assert step(0.5) == (pytest.approx(f(0.5)), pytest.approx(slopes, 1e-6))


def falls(v: Any, **options: Any) -> Any:
    def hits(t: Any, y: Any) -> Any:
        return y[0]

    hits.terminal, hits.direction = True, -1  # type: ignore[attr-defined]
    return si.solve_ivp(lambda t, y: [y[1], -9.8 - 0.1 * y[1]], (0.0, 50.0), [0.1, v], events=hits,
                        **CLOSE, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("use", [
    lambda s: s.sol.t_max + s.sol.t_min, lambda s: s.sol.ts[-1] * 2 + s.sol.ts[0],
    lambda s: s.sol(s.sol.t_max / 2)[0]])
@pytest.mark.parametrize("times", [None, [0.1, 0.2]])
def test_the_dense_output_spans_the_solution(use: Callable[[Any], Any], times: Any) -> None:
    def f(v: Any) -> Any:
        return use(falls(v, t_eval=times, dense_output=True))

    value, (_, dv) = tg.grad(f, 6.0)
    assert value == pytest.approx(f(6.0), 1e-9)
    assert dv == pytest.approx(differences(f, 6.0, 1e-4), 1e-6)
    assert tg.value(falls(6.0, t_eval=times, dense_output=True).sol.ts).size > 3


def test_an_event_before_all_times() -> None:
    def f(v: Any) -> Any:
        found = falls(v, t_eval=[40.0, 45.0])
        return found.t_events[0][0] + found.y_events[0][0, 1] + len(found.t)

    value, (_, dv) = tg.grad(f, 6.0)
    assert value == pytest.approx(f(6.0), 1e-9)
    assert dv == pytest.approx(differences(f, 6.0, 1e-4), 1e-6)


def test_events_whatever_the_number_of_steps() -> None:
    def f(v: Any) -> Any:
        return falls(v).y[1, -1]

    assert len({len(falls(v).t) for v in (1.0, 5.0, 20.0)}) > 1
    step = tg.value_and_grad(f, warmup=1)
    for v in (5.0, 1.0, 20.0, 8.0, 5.0, 1.0):
        assert step(v) == (pytest.approx(f(v)), pytest.approx(differences(f, v, 1e-4), 1e-6))
    tape = tg.gradtape(lambda v: falls(v).t_events[0][0], 5.0)  # which asks for no steps
    assert tape.play(20.0)[1][1] == pytest.approx(differences(lambda v: falls(v).t_events[0][0], 20.0, 1e-4), 1e-6)


@pytest.mark.parametrize("start", [np.ones((2, 2)), 1.0])
def test_starts_are_refused_as_scipy_does(start: Any) -> None:
    with pytest.raises(ValueError, match="`y0` must be 1-dimensional"):
        tg.grad(lambda k: si.solve_ivp(lambda t, y: -k * y, (0.0, 1.0), start).y.sum(), 1.0)
    if np.ndim(start):
        with pytest.raises(ValueError, match="y0 must be one-dimensional"):
            tg.grad(lambda k: si.odeint(lambda y, t: -k * y, start, [0.0, 1.0]).sum(), 1.0)


def test_slopes_with_the_size_of_a_complex_number() -> None:
    def f(k: Any) -> Any:
        found = si.solve_ivp(lambda t, y: [1j * k * y[0] * abs(y[0]) ** 2 / (1 + 1 / abs(y[1])), y[1]], (0.0, 1.0),
                             np.array([1.0 + 0.5j, 0.5]), **CLOSE)  # type: ignore[arg-type]
        return found.y[0, -1].real

    assert tg.grad(f, 1.1)[1][1] == pytest.approx(differences(f, 1.1, 1e-4), 1e-6)


def test_slopes_that_fill_an_array_like_their_state() -> None:
    def f(k: Any) -> Any:
        def heat(t: Any, u: Any) -> Any:
            du, rest = np.zeros_like(u), np.empty_like(u)
            du[1:-1] = k * (u[2:] - 2 * u[1:-1] + u[:-2])
            rest[:] = 0.1 * u
            return du + rest

        return (si.solve_ivp(heat, (0.0, 1.0), np.arange(5.0) ** 2, method="BDF", rtol=1e-8, atol=1e-9).y[:, -1] ** 2).sum()

    assert tg.grad(f, 0.3)[1][1] == pytest.approx(differences(f, 0.3, 1e-3), 1e-4)


@pytest.mark.parametrize("solve", ["quad(lambda t: math.exp(-a * t) * K * t, 0, a)[0]",
                                   "solve_ivp(lambda t, y: [-a * y[0] * K], (0, 1), [1.0], rtol=1e-9, atol=1e-11).y[0, -1]"])
def test_modules_of_equal_text_have_slopes_of_their_own(solve: str) -> None:
    for k in (2.0, 3.0):
        space: dict[str, Any] = {"K": k, "math": math, "quad": si.quad, "solve_ivp": si.solve_ivp}
        exec(f"def f(a): return {solve}", space)
        assert tg.grad(space["f"], 1.5)[1][1] == pytest.approx(differences(space["f"], 1.5, 1e-4), 1e-6)


CALLS: list[int] = []
sines = tg.differences(lambda x: np.array([math.sin(v) for v in x]))


def catching(t: Any, y: Any, p: Any) -> Any:
    try:
        r = math.sqrt(t - 0.1)
    except ValueError:
        r = 0.0
    return -p * y + r


def counting(t: Any, y: Any, p: Any) -> Any:
    CALLS.append(1)
    return -p * y


# slopes of which the derivatives are not computed at many points at once, or fewer points than else
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("slope", [catching, counting, lambda t, y, p: -sines(y * p), lambda t, y, p: -y * np.mean(np.sin(p + np.arange(3e5)))],
                         ids=["raises early", "writes", "differences", "large values"])
def test_slopes_that_are_differentiated_one_by_one(slope: Callable[..., Any]) -> None:
    def f(p: Any) -> Any:
        return si.solve_ivp(slope, (0.0, 0.5), [1.0, 0.5], args=(p,), rtol=1e-5, max_step=0.02).y[:, -1].sum()
    step = tg.value_and_grad(f, warmup=1)
    for p in (0.5, 0.6, 0.7):
        wanted = pytest.approx(differences(f, p, 1e-4), 2e-4)
        assert tg.grad(f, p)[1][1] == wanted and step(p)[1] == wanted
