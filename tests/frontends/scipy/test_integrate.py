"""scipy.integrate in a traced program: integrals, and differential equations by their sensitivities."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate as si

import tapegrad as tg
from tests.frontends.scipy.differences import check_solver, differences

METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
# SciPy's BDF subtracts memory that nobody has written to, and does not use it
UNWRITTEN = pytest.mark.filterwarnings("ignore:.* encountered in (subtract|multiply):RuntimeWarning")


@pytest.mark.quick
def test_an_integral_by_its_integrand_and_its_limits() -> None:
    def f(a: Any, b: Any, k: Any) -> Any:
        return si.quad(lambda x: np.exp(k * x), a, b)[0]

    value, (_, da, db, dk) = tg.grad(f, 0.5, 2.0, 1.5)
    assert value == f(0.5, 2.0, 1.5)
    assert (da, db) == (pytest.approx(-np.exp(0.75)), pytest.approx(np.exp(3.0)))
    assert dk == pytest.approx((2 * np.exp(3) - 0.5 * np.exp(0.75)) / 1.5 - value / 1.5)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda k: si.quad(lambda x: np.sin(k * x), 0.0, 1.0)[0], 1.2),
        (lambda k: si.quad(lambda x, c: np.exp(-c * x * x), k, np.inf, args=(k,))[0], 0.7),
        (lambda k: si.quad(lambda x, c, d: np.sum(c * x) ** d, 1.0, k[0], (k, 2))[0], np.array([2.0, 0.5])),
        (lambda k: si.quad(lambda x: k * x, k, -k)[0], 1.5),
        (lambda k: si.quad(lambda x: np.exp(-k * abs(x - 0.4)), 0.0, 1.0, points=[0.4])[0], 0.4),
        (lambda k: si.fixed_quad(lambda x: np.cos(k * x), 0.0, k)[0], 0.8),
        (lambda k: si.quad(lambda x: x if x < 0.3 else k * x * x, 0.0, k, points=[0.3])[0], 0.6),
    ],
)
def test_quad(f: Callable[[Any], Any], x: Any) -> None:
    check_solver(f, x)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (
            lambda k: si.dblquad(
                lambda y, x, c: c * x * y * y, 0.0, k, lambda x: k * x, lambda x: x * x + 2, args=(k,)
            )[0],
            0.5,
        ),
        (lambda k: si.dblquad(lambda y, x: np.exp(-k * x * y), 0.0, 1.0, 0.0, k)[0], 0.5),
        (lambda k: si.nquad(lambda x, y, c: x * y * c, [lambda y, c: (0.0, y + c), (k, 1.0)], args=(k,))[0], 0.5),
    ],
)
def test_integrals_over_several_variables(f: Callable[[Any], Any], x: Any) -> None:
    value, (_, dx) = tg.grad(f, x)
    assert value == f(x)
    assert dx == pytest.approx(differences(f, x, 1e-3), 1e-8)
    assert tg.trace(f, x)[1].play(0.6) == f(0.6)


def test_tplquad() -> None:
    def f(k: Any) -> Any:
        return si.tplquad(lambda z, y, x: k * x * y * z, 0.0, 1.0, 0.0, lambda x: x, 0.0, lambda x, y: x + k * y)[0]

    assert tg.trace(f, 0.5)[1].play(0.6) == f(0.6)


@pytest.mark.parametrize(
    "f",
    [
        lambda k: si.quad(lambda x: 1.0 if x < k else k, 0.0, 5.0, points=[k])[0],
        lambda k: si.quad(lambda x: np.where(x < k, 1.0, k), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: k * np.floor(k * x), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: x if x < k else 0.0, 0.0, k)[0],
        lambda k: si.odeint(lambda y, t: 1.0 if y < k else 0.5, 0.0, [0.0, 5.0])[-1, 0],
        lambda k: si.odeint(lambda y, t: k * np.sign(y - 3.0) - 3.0, 4.0, [0.0, 5.0])[-1, 0],
        lambda k: tg.gradient(lambda k: si.quad(lambda x: abs(x - k), 0.0, 5.0)[0], k)[0],
        lambda k: si.quad(lambda x: np.arctan2(x - k, -1.0), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.angle(x - 1.0 + 1j * (x - k)), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.sqrt(-1.0 + 1j * (x - k)).imag, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.log(k * 1j - 2j - x * x + x).imag, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: (((x - k) * 1j - 1.0) ** 1.5).imag, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.arctan(1.0 / (x - k)), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: math.atan(math.pow(x - k, -1)) if x > 0.5 else k, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.arctan(np.reciprocal(x - k) ** 3), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.arctan((x - k) ** -3), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.tanh(np.tan(x - k)), 0.0, 3.0)[0],
        lambda k: si.quad(lambda x: x * (x - k) / abs(x - k), 0.0, 5.2, points=[k])[0],
        lambda k: si.odeint(lambda y, t: -1.0 + 0.1 * np.arctan(k / (y - 3.0)), 4.0, [0.0, 5.0])[-1, 0],
        lambda k: si.odeint(lambda y, t: np.array([-1.0, np.arctan(y[1] / y[0])]), [k, 1.0], [0.0, 3.0])[-1, 1],
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_jumps_that_move_are_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.UnknownFunction, match="jump") as caught:
        tg.grad(f, 2.0)
    assert caught.value.where is not None and caught.value.where.file == __file__


@pytest.mark.parametrize(
    "f",
    [
        lambda k: si.quad(lambda x: np.arctan2(k - x, 1.0 + k * x), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.angle(x + 1.0 + 1j * (x - k)), 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.sqrt(1.0 + 1j * (x - k)).imag, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: (((x - k) * 1j - 1.0) ** 2).imag, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: (x - 3.0 - k) ** 3, 0.0, 5.0)[0],
        lambda k: si.quad(lambda x: np.sin(x - k) / (x - k), 0.0, 5.3)[0],
        lambda k: si.quad(lambda x: (x - k) ** 2 / abs(x - k), 0.0, 5.3, points=[k])[0],
        lambda k: si.quad(lambda x: x * np.exp(-(((x - k) / 0.01) ** 2)), 0.0, 5.0, points=[k])[0],
        lambda k: si.quad(lambda x: abs(np.arctan(1.0 / (x - k))), 0.0, 5.3, points=[k])[0],
        lambda k: si.quad(lambda x: np.exp(-x) / (1.0 + k * x), 0.0, np.inf)[0],
        lambda k: si.odeint(lambda y, t: np.sin(y - k) / (y - k), 0.0, [0.0, 5.0], rtol=1e-11, atol=1e-11)[-1, 0],
    ],
)
def test_branches_that_are_not_cut(f: Callable[[Any], Any]) -> None:
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (2.0, 2.5, 1.5):
        assert step(k)[1][1] == pytest.approx(differences(f, k, 1e-4), 1e-6)


def test_kinks_that_move_and_jumps_that_stay() -> None:
    def f(k: Any) -> Any:
        return si.quad(lambda x: np.maximum(x - k, 0.0) + (k if x < 1.0 else 0.0), 0.0, 5.0, points=[k, 1.0])[0]

    assert tg.gradient(f, 2.0)[0] == pytest.approx(-3.0 + 1.0)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (2.0, 2.5, 3.0, 1.5):
        assert step(k)[1][1] == pytest.approx(k - 4.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda k: si.quad(lambda x: k * x, 0.0, 1.0, full_output=1)[0],
        lambda k: si.quad(lambda x: k * x, 0.0, 1.0, weight="cos", wvar=2.0)[0],
        lambda k: si.nquad(lambda x: k * x, [(0.0, 1.0)], full_output=True)[0],
        lambda k: si.odeint(lambda y, t: -k * y, 1.0, [0.0, 1.0], full_output=True)[0].sum(),
        lambda k: si.quad_vec(lambda x: k * x, 0.0, 1.0, full_output=True)[0],
        lambda k: si.ode(lambda t, y: -k * y).set_initial_value([1.0], 0.0).integrate(0.5)[0],
        lambda k: si.odeint(lambda y, t: k * y * y, 1.0, [0.0, 9.0]).sum(),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_refused_with_the_users_line(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.UnknownFunction) as caught:
        tg.grad(f, 2.0)
    assert caught.value.try_ and caught.value.where is not None and caught.value.where.file == __file__


# -- differential equations


def lotka(t: Any, y: Any, k: Any) -> Any:
    return np.array([k * y[0] - y[0] * y[1], y[0] * y[1] - y[1]])


CLOSE = {"rtol": 1e-9, "atol": 1e-11}


@UNWRITTEN
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "pick",
    [
        lambda s: s.y[:, -1].sum(),
        lambda s: s.y.sum(),
        lambda s: s.sol(np.array([0.3, 1.1])).sum(),
        lambda s: s.t_events[0][0],
        lambda s: s.y_events[0][0].sum(),
    ],
)
def test_solve_ivp(method: str, pick: Callable[[Any], Any]) -> None:
    def f(k: Any) -> Any:
        return pick(
            si.solve_ivp(
                lotka,
                (0.0, 2.0),
                [1.0, 0.5],
                method,
                t_eval=[0.0, 0.7, 2.0],
                dense_output=True,
                events=lambda t, y, k: y[0] - 1.2 * k,
                args=(k,),
                **CLOSE,
            )
        )

    value, (_, dk) = tg.grad(f, 1.1)
    assert value == pytest.approx(f(1.1), 1e-12)
    assert dk == pytest.approx(differences(f, 1.1, 1e-3), 1e-6)
    assert tg.jvp(f, (1.1,), (1.0,))[1] == pytest.approx(dk, 1e-9)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
def test_solve_ivp_in_every_mode(method: str) -> None:
    def f(k: Any, end: Any) -> Any:
        return (
            si.solve_ivp(lambda t, y: -k * y + np.sin(t), (0.0, end), np.array([1.0, k]), method=method,
                         **CLOSE).y[:, -1].sum()
        )

    _, (_, dk, dend) = tg.grad(f, 1.1, 2.0)
    assert dk == pytest.approx(differences(lambda k: f(k, 2.0), 1.1, 1e-3), 1e-6)
    assert dend == pytest.approx(differences(lambda end: f(1.1, end), 2.0, 1e-3), 1e-6)
    assert tg.jvp(f, (1.1, 2.0), (1.0, 1.0))[1] == pytest.approx(dk + dend, 1e-8)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for k in (1.1, 1.1001, 1.1002, 2.5):  # whatever the number of steps
        assert step(k, 2.0)[1][1] == pytest.approx(tg.grad(f, k, 2.0)[1][1], 1e-9)
    assert step.stats.hits == 2


@UNWRITTEN
@pytest.mark.parametrize("method", METHODS)
def test_solve_ivp_to_its_own_tolerance(method: str) -> None:
    """The derivative is as close to that of the equation's solution as the solution is, at SciPy's defaults."""
    def last(k: Any) -> Any:
        return si.solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [3.0], method).y[0, -1]

    assert tg.gradient(last, 0.7)[0] == pytest.approx(-6.0 * np.exp(-1.4), 1e-2)


def test_solve_ivp_to_the_second_order() -> None:
    def f(k: Any) -> Any:
        return si.solve_ivp(lotka, (0.0, 1.0), [1.0, 0.5], args=(k,), **CLOSE).y[0, -1]

    second = tg.gradient(lambda k: tg.gradient(f, k)[0], 1.1)[0]
    assert second == pytest.approx(differences(lambda k: tg.gradient(f, k)[0], 1.1, 1e-3), 1e-6)


TIMES = np.array([0.0, 0.5, 1.0, 2.0])


def solution(k: Any, y0: Any, times: Any = TIMES) -> Any:
    return si.odeint(
        lambda y, t: np.array([-k[0] * y[0] * np.sin(t), k[1] * y[0] - y[1] ** 2]), y0, times, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda k: solution(k, np.array([1.0, 0.5])), np.array([1.3, 0.7])),
        (lambda y0: solution((1.3, 0.7), y0), np.array([1.0, 0.5])),
        (
            lambda a: si.odeint(
                lambda t, y, a: -a * y, a, [0.0, 1.0, a], args=(a,), tfirst=True, rtol=1e-12, atol=1e-12
            ),
            1.3,
        ),
        (lambda a: si.odeint(lambda y, t: [-a * y[1], y[0]], [a, 1.0], [0.0, 2.0], rtol=1e-12, atol=1e-12)[-1], 1.3),
    ],
)
def test_odeint(f: Callable[[Any], Any], x: Any) -> None:
    check_solver(f, x, tol=1e-5)


def test_odeint_by_its_times() -> None:
    y0 = np.array([1.0, 0.5])
    np.testing.assert_allclose(
        tg.jacobian(lambda t: solution((1.3, 0.7), y0, t + 0.1))(TIMES),
        differences(lambda t: solution((1.3, 0.7), y0, t + 0.1), TIMES, 1e-3),
        1e-6,
        1e-6,
    )


def test_lsoda_at_given_times() -> None:
    def f(k: Any) -> Any:
        return si.solve_ivp(
            lotka, (0.0, 2.0), [1.0, 0.5], "LSODA", t_eval=[0.5, 2.0], args=(k,), rtol=1e-11, atol=1e-11
        ).y

    check_solver(f, 1.1, tol=1e-5)
    for span in ((0.0, 2.0), (2.0, 0.0)):
        def decay(k: Any, end: Any, span: Any = span) -> Any:  # at the first time, too, and where one stands twice
            times = np.linspace(span[0], end, 5)
            return si.solve_ivp(lambda t, y: -k * y, (span[0], end), [1.0], "LSODA", t_eval=times, rtol=1e-11,
                                atol=1e-12).y[0]
        times, k = np.linspace(*span, 5), 0.7
        found, tape = tg.trace(decay, k, span[1])
        np.testing.assert_allclose(found, np.exp(-k * (times - span[0])), rtol=1e-8)
        dk, dend = (np.asarray(tg.jacobian(decay, argnums=i)(k, span[1])) for i in (0, 1))
        np.testing.assert_allclose(dk, (span[0] - times) * found, atol=1e-7)
        np.testing.assert_allclose(dend, -k * found * np.arange(5) / 4, atol=1e-7)
        np.testing.assert_array_equal(tape.play(k, span[1]), found)
    for still in (lambda y: si.solve_ivp(lambda t, y: -y, (0.0, 1.0), [y], "LSODA", [0.0]).y.sum(),
                  lambda y: si.odeint(lambda y, t: -y, [y], [0.5, 0.5]).sum()):
        value, (_, dy) = tg.grad(still, 0.7)  # no time passes
        assert (value, dy) == (still(0.7), pytest.approx(still(1.0)))
    stiff = tg.gradient(lambda m: si.solve_ivp(pol, (0.0, 20.0), [2.0, 0.0], "LSODA", [20.0], args=(m,), **CLOSE).y[0, -1],
                        5.0)
    assert stiff == (pytest.approx(-0.520387, 1e-4),)  # of an exact solution


def pol(t: Any, y: Any, m: Any) -> Any:
    return [y[1], m * (1 - y[0] ** 2) * y[1] - y[0]]
