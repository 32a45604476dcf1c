"""Slopes of `solve_ivp` that switch: what jumps is refused, what has a kink is differentiated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import tapegrad as tg
from tests.frontends.scipy.test_integrate import UNWRITTEN

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
Slope = Callable[[Any, Any, Any], Any]


def last(slope: Slope, k: Any, start: Any = 1.0, **options: Any) -> Any:
    return si.solve_ivp(slope, (0.0, 2.0), [start], args=(k,), **{**CLOSE, **options}).y[0, -1]


def differences(f: Callable[[float], Any], x: float, h: float = 1e-3) -> float:
    return float((f(x + h) - f(x - h)) / (2 * h))


def branch(t: Any, y: Any, k: Any) -> Any:
    return [-k * y[0] if y[0] > 0.5 else -0.2 * k]


def off(t: Any, y: Any, k: Any) -> Any:
    return [-k if y[0] > 0.5 else 0.0]


JUMPING: dict[str, Slope] = {
    "branch": branch,
    "off": off,
    "where": lambda t, y, k: np.where(y > 0.5, -k * y, -0.2 * k),
    "sign": lambda t, y, k: -k + 0.1 - 0.1 * np.sign(y - 0.5),
    "heaviside": lambda t, y, k: -k * np.heaviside(y - 0.5, 0.0) - 0.1,
    "mask": lambda t, y, k: -k * (y > 0.5) - 0.1,
    "floor": lambda t, y, k: -2.0 * k - 0.2 * np.floor(2.0 * y),
    "int": lambda t, y, k: [-k * (1.0, 3.0)[int(2.0 * y[0]) % 2]],
    "math.floor": lambda t, y, k: [-2.0 * k - 0.2 * math.floor(2.0 * y[0])],
    "remainder": lambda t, y, k: -k - 0.1 * (y % 0.5),
    "arctan2": lambda t, y, k: -2.0 * k + 0.1 * np.arctan2(y - 0.5, -1.0),
    "place of a parameter": lambda t, y, k: [-1.0 if t < k else -2.0],
    "tiny": lambda t, y, k: [-k if y[0] > 0.5 else -k * 1.001],
    "over its size": lambda t, y, k: -2.0 * k + 0.1 * (y - 0.5) / abs(y - 0.5),
    "pole": lambda t, y, k: -2.0 * k + 0.1 * np.arctan(1.0 / (y - 0.5)),
    "bearing": lambda t, y, k: [-2.0 * k + 0.1 * math.atan(k / (y[0] - 0.5))],
    "tangent": lambda t, y, k: -2.0 * k + 0.1 * np.tanh(np.tan(y - 0.5 + math.pi / 2)),
    "between two": lambda t, y, k: [-2.0 * k if 0.501 < y[0] < 0.7 else -k],
}


@UNWRITTEN
@pytest.mark.parametrize("method", ["RK45", "BDF"])
@pytest.mark.parametrize("name", JUMPING)
def test_a_jump_of_the_slope_is_refused(name: str, method: str) -> None:
    options = {"rtol": 1e-4, "atol": 1e-6}
    with pytest.raises(tg.UnknownFunction, match=r"jumps at .*test_switches\.py") as caught:
        tg.grad(lambda k: last(JUMPING[name], k, method=method, **options), 0.7)
    assert caught.value.where is not None and caught.value.where.file == __file__


STAYING: dict[str, Slope] = {
    "if max": lambda t, y, k: [-1.0 - k * (y[0] - 0.5) if y[0] > 0.5 else -1.0],
    "where": lambda t, y, k: np.where(y > 0.5, -1.0 - k * (y - 0.5), -1.0),
    "max": lambda t, y, k: [-1.0 - k * max(y[0] - 0.5, 0.0)],
    "maximum": lambda t, y, k: -1.0 - k * np.maximum(y - 0.5, 0.0),
    "sign": lambda t, y, k: -1.0 - k * (y - 0.5) ** 2 * np.sign(y - 0.5),
    "square": lambda t, y, k: [-1.0 - k * (y[0] - 0.5) ** 2 if y[0] > 0.5 else -1.0],
    "same": lambda t, y, k: [-k * y[0] if y[0] > 0.5 else -y[0] * k],
    "arctan2": lambda t, y, k: -k - np.arctan2(y - 0.5, 1.0),
    "pulse": lambda t, y, k: -k - np.exp(-(((t - k) / 0.4) ** 2)),
    "0 / 0": lambda t, y, k: -k * np.sin(y - 0.5) / (y - 0.5),
    "of a parameter": lambda t, y, k: [-k if k > 0.5 else -2.0 * k],
}


@pytest.mark.parametrize("name", STAYING)
def test_a_kink_is_differentiated(name: str) -> None:
    def f(k: Any, **options: Any) -> Any:
        return last(STAYING[name], k, **options)

    def expected(k: float) -> Any:  # a step across a kink is not as exact
        return pytest.approx(differences(lambda k: f(k, max_step=0.002), k), 1e-4)

    assert tg.gradient(f, 0.7)[0] == expected(0.7)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (0.7, 0.7, 0.75, 0.6):
        value, (_, dk) = step(k)
        assert value == pytest.approx(f(k), 1e-12)
        assert dk == expected(k)


def test_a_jump_at_a_time_is_differentiated() -> None:
    """The sizes of the steps have no derivative, and the sensitivities no jump."""
    k, e = 0.7, np.exp(-0.7)
    dk, = tg.gradient(lambda k: last(lambda t, y, k: [-k * y[0] + (1.0 if t > 1.0 else 0.0)], k), k)
    assert dk == pytest.approx(-2.0 * e * e + e / k - (1.0 - e) / k**2, 1e-6)
    dk, = tg.gradient(lambda k: last(lambda t, y, k: [-k * y[0] * (1.0 if t < 1.1 else 2.0)], k), k)
    assert dk == pytest.approx(-2.9 * np.exp(-2.9 * k), 1e-6)


def test_a_jump_at_a_time_is_differentiated_in_steps_of_one_size() -> None:
    def f(k: Any) -> Any:
        return last(lambda t, y, k: [-k * y[0] + (1.0 if t > 1.0 else 0.0)], k, first_step=0.02, max_step=0.02, rtol=1.0)

    assert tg.gradient(f, 0.7)[0] == pytest.approx(differences(f, 0.7), 1e-5)


@pytest.mark.parametrize("slope", [
    lambda t, y, p: [np.maximum(p - t, 0.0)],
    lambda t, y, p: [abs(p - t)],
    lambda t, y, p: [p - t if p > t else 0.0],
    lambda t, y, p: [np.clip(p - t, 0.0, 9.0)],
    lambda t, y, p: np.fmax(p - t + 0 * y, 0.0),
])
def test_a_kink_that_moves_has_no_second_derivative(slope: Slope) -> None:
    """The sensitivities jump there."""
    with pytest.raises(tg.UnknownFunction, match="jump"):
        tg.gradient(lambda p: tg.gradient(lambda p: last(slope, p), p)[0], 0.7)


def test_what_starts_on_a_switch_is_differentiated() -> None:
    def f(k: Any) -> Any:
        return last(lambda t, y, k: k - 0.3 * np.sign(y), k, 0.0)

    assert tg.gradient(f, 0.7)[0] == pytest.approx(2.0, 1e-6)


@pytest.mark.parametrize("slope", [branch, JUMPING["where"], JUMPING["int"]])
def test_every_mode_refuses(slope: Slope) -> None:
    def f(k: Any) -> Any:
        return last(slope, k, rtol=1e-3, atol=1e-6)

    for run in (
        lambda: tg.jvp(f, (0.7,), (1.0,)),
        lambda: tg.hessian(f)(0.7),
        lambda: tg.jacobian(f, mode="forward")(0.7),
        lambda: tg.gradtape(f, 0.7),
        lambda: tg.grad(lambda k: tg.gradient(lambda j: j * j, k)[0] + f(k), 0.7),
        lambda: tg.vmap(lambda k: tg.gradient(f, k)[0])(np.array([0.7, 0.70001])),
        lambda: tg.grad(lambda c: si.solve_ivp(slope, (0.0, 2.0), [c], args=(0.7,)).y[0, -1], 1.0),
    ):
        with pytest.raises(tg.TapeError, match="jump"):
            run()


@pytest.mark.parametrize("slope", [branch, JUMPING["where"], JUMPING["sign"], JUMPING["remainder"], JUMPING["int"]])
def test_a_path_without_the_switch_is_not_taken_with_it(slope: Slope) -> None:
    """From 0.95 and with a small k, nothing is crossed; with such tolerances the steps are the same."""

    def f(k: Any) -> Any:
        return last(slope, k, 0.95, rtol=1.0, atol=1e3)

    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (0.02, 0.02, 0.03):
        assert step(k)[1][1] == pytest.approx(differences(f, k), 1e-4)
    with pytest.raises(tg.UnknownFunction, match="jump"):
        step(0.9)


def test_values_are_not_refused() -> None:
    plain = last(branch, 0.7)
    assert tg.trace(lambda k: last(branch, k), 0.7)[0] == pytest.approx(plain, 1e-14)
    run = tg.compile(lambda k: last(branch, k))
    for k in (0.7, 0.7, 0.71, 0.6):
        assert run(k) == pytest.approx(last(branch, k), 1e-12)
    assert tg.gradient(lambda k: k * tg.stop_gradient(last(branch, k)), 0.7)[0] == pytest.approx(plain)


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_an_event_and_a_second_call_cure_it() -> None:
    def f(k: Any) -> Any:
        def reached(t: Any, y: Any, k: Any) -> Any:
            return y[0] - 0.5

        reached.terminal = True  # type: ignore[attr-defined]
        first = si.solve_ivp(lambda t, y, k: -k * y, (0.0, 2.0), [1.0], args=(k,), events=reached, **CLOSE)
        t, y = first.t_events[0][0], first.y_events[0][0]
        return si.solve_ivp(lambda t, y, k: [-0.2 * k], (t, 2.0), y, args=(k,), **CLOSE).y[0, -1]

    exact = 0.5 - 0.2 * (2.0 * 0.7 - math.log(2.0))
    assert f(0.7) == pytest.approx(exact, 1e-6)
    assert tg.gradient(f, 0.7)[0] == pytest.approx(-0.4, 1e-5)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (0.7, 0.72, 0.74):
        assert step(k)[1][1] == pytest.approx(-0.4, 1e-5)
