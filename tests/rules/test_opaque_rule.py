"""Rules that call C: gradients of first order call them as they are, compiled ones too, and one of second order says
what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import cython_special
from scipy.special import j0 as j0_of_scipy
from scipy.special import j1 as j1_of_scipy

import tapegrad as tg

X = np.array([0.5, 0.6, 0.7])
KEPT = np.zeros(3)


def _c(fn: Callable[[float], float], x: Any) -> Any:
    return np.array([fn(float(v)) for v in np.ravel(x)], getattr(x, "dtype", float)).reshape(np.shape(x))


@tg.primitive
def bessel(x: float) -> float:
    return cython_special.j0(x)  # type: ignore[no-any-return]


@tg.rrule(bessel)
def _(x: float) -> Any:
    return cython_special.j0(x), lambda dy: (-cython_special.j1(x) * dy,)


@tg.primitive
def scaled(x: Any, w: float, power: int = 1) -> Any:
    return _c(cython_special.j0, x) * float(w) ** power


@tg.rrule(scaled)
def _(x: Any, w: float, power: int = 1) -> Any:
    def pullback(dy: Any) -> Any:  # the rule can be traced, and this cannot
        return -_c(cython_special.j1, x) * dy * w**power, float(np.sum(dy * _c(cython_special.j0, x))) * power * w ** (
            power - 1
        )

    return j0_of_scipy(x) * w**power, pullback


@tg.primitive
def kept(x: Any) -> Any:
    KEPT[:] = _c(cython_special.j0, x)
    return KEPT


@tg.rrule(kept)
def _(x: Any) -> Any:
    known = [float(v) for v in x]
    return kept(np.array(known)), lambda dy: (-_c(cython_special.j1, np.array(known)) * dy,)


@tg.primitive
def both(x: Any) -> Any:
    return _c(cython_special.j0, x), _c(cython_special.j1, x)


@tg.rrule(both)
def _(x: Any) -> Any:
    y, z = _c(cython_special.j0, x), _c(cython_special.j1, x)

    def pullback(dys: Any) -> Any:
        dy, dz = dys
        dx = np.zeros_like(y)
        dx = dx if isinstance(dy, tg.ZeroTangent) else dx - z * dy
        return (dx if isinstance(dz, tg.ZeroTangent) else dx + (y - z / _c(abs, x)) * dz,)

    return (y, z), pullback


PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda a: bessel(a * a) * a, (1.3,)),
    (lambda a: sum(bessel(a * k) * a for k in range(30)), (1.3,)),
    (lambda a, b: bessel(a) if b > 100 else bessel(b) * a, (1.3, 0.7)),
    (lambda x: (scaled(x * x, 2.0) * x).sum(), (X,)),
    (lambda x, w: (scaled(x * x, w * w, power=2) * x).sum(), (X, 1.5)),
    (lambda x: (kept(x) * 3 + kept(x * x) * x).sum(), (X,)),
    (lambda x: (both(x)[0] * x).sum(), (X,)),
    (lambda x: (both(x)[0] * both(x * x)[1]).sum(), (X,)),
    (lambda x: (scaled(x, 2.0) * x).sum(), (X.astype(np.float32),)),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_gradients_of_first_order(number: int) -> None:
    f, args = PROGRAMS[number]
    single = any(getattr(x, "dtype", None) == np.float32 for x in args)
    step, rtol = (1e-3, 1e-2) if single else (1e-6, 1e-6)
    for i, x in enumerate(args):
        units = np.eye(np.size(x)).reshape(-1, *np.shape(x))
        expected = [
            (float(f(*args[:i], x + step * e, *args[i + 1 :])) - float(f(*args[:i], x - step * e, *args[i + 1 :])))
            / (2 * step)
            for e in units
        ]
        np.testing.assert_allclose(np.ravel(tg.gradient(f, *args)[i]), expected, rtol=rtol)
    tape = tg.flatgrad(tg.trace(f, *args)[1])
    compiled, again, fast = tg.value_and_grad(f, argnums=None, warmup=1), tg.compile(tape), tg.compile(f, warmup=1)
    for factor in (1.0, 1.1, 0.9):
        given = tuple([type(x)(x * factor) if type(x) is float else (x * factor).astype(x.dtype) for x in args])
        value, (_, *dargs) = tg.grad(f, *given)
        for found in (compiled(*given), again(*given), tape.play(*given), tg.gradtape(f, *given).play(*given)):
            np.testing.assert_allclose(found[0], value, rtol=1e-6)
            for dx, expected in zip(found[1][1:], dargs):
                assert np.shape(dx) == np.shape(expected)
                np.testing.assert_allclose(dx, expected, rtol=1e-6)
        np.testing.assert_allclose(fast(*given), value, rtol=1e-6)
    assert compiled.stats.hits == 2


def test_forward_mode_and_jacobians() -> None:
    def f(x: Any) -> Any:
        return scaled(x, 2.0) * x

    expected = np.diag(2 * j0_of_scipy(X) - 2 * X * j1_of_scipy(X))
    for mode in ("auto", "forward", "reverse"):
        np.testing.assert_allclose(tg.jacobian(f, mode=mode)(X), expected)
    np.testing.assert_allclose(tg.jvp(f, (X,), (X,))[1], expected @ X)
    np.testing.assert_allclose(tg.vmap(lambda x: tg.gradient(bessel, x)[0])(X), -j1_of_scipy(X))
    pushed = tg.compile(lambda x, v: tg.jvp(f, (x,), (v,))[1], warmup=1)
    for _ in range(3):
        np.testing.assert_allclose(pushed(X, X), expected @ X)


def _loss(x: Any) -> Any:
    return (scaled(x, 2.0) * x).sum()


SECOND: list[Callable[[], Any]] = [
    lambda: tg.hessian(_loss)(X),
    lambda: tg.hvp(_loss)(X, X),
    lambda: tg.gradient(lambda x: tg.gradient(_loss, x)[0].sum(), X),
    lambda: tg.jvp(lambda x: tg.gradient(_loss, x)[0], (X,), (X,)),
    lambda: tg.jvp(lambda x: tg.jvp(_loss, (x,), (X,))[1], (X,), (X,)),
    lambda: tg.flatgrad(tg.flatgrad(tg.trace(_loss, X)[1]), seed=(1.0, (None, X))),
    lambda: tg.hessian(lambda a: bessel(a) ** 2)(1.5),
    lambda: tg.gradient(lambda a: tg.gradient(bessel, a)[0], 1.5),
    lambda: tg.gradient(lambda x: tg.gradient(lambda z: kept(z).sum(), x)[0].sum(), X),
    lambda: tg.gradient(lambda a: tg.value_and_grad(lambda b: bessel(b * b), argnums=None, warmup=1)(a)[1][1], 1.5),
]


@pytest.mark.parametrize("number", range(len(SECOND)))
def test_a_second_order_says_what_it_needs(number: int) -> None:
    with pytest.raises(tg.MissingRule, match="cannot be traced") as caught:
        SECOND[number]()
    assert "NumPy" in caught.value.try_ and "@tg.rrule" in caught.value.try_


def test_a_second_order_that_does_not_pass_the_pullback() -> None:
    np.testing.assert_allclose(
        tg.gradient(lambda a: tg.gradient(lambda b: bessel(b) * a, 1.5)[0], 2.0)[0], -cython_special.j1(1.5)
    )
    step = tg.value_and_grad(
        lambda a: tg.gradient(lambda z: (scaled(z, 1.0) * a).sum(), X)[0].sum(), argnums=0, warmup=1
    )
    for a in (2.0, 3.0, 4.0):
        np.testing.assert_allclose(step(a), (-a * j1_of_scipy(X).sum(), -j1_of_scipy(X).sum()))


def test_an_error_of_the_rules_own_is_its_own() -> None:
    @tg.primitive
    def faulty(x: float) -> float:
        return x

    @tg.rrule(faulty)
    def _(x: float) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tg.grad(faulty, 1.0)
    with pytest.raises(KeyError, match="mine"):
        tg.flatgrad(tg.trace(faulty, 1.0)[1])


def test_what_a_failed_attempt_recorded_is_gone() -> None:
    _, tape = tg.trace(lambda a: bessel(a * a), 1.3)
    names = [
        op.fn.__name__ for op in tg.flatgrad(tape).ops if op.kind == "call" and op.fn.__name__.startswith("bessel")
    ]
    assert names == ["bessel_with_pullback", "bessel_pullback"]
