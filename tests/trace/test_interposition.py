"""Interposition: what is replaced while a trace runs, seen from outside and from other threads."""

from __future__ import annotations

import builtins
import cmath
import math
from math import cos as cosine
from typing import Any

import numpy as np
import pytest
from numpy import zeros

import tapegrad as tg
from tapegrad.testing import check_grads
from tests.threads import at_once


def names() -> list[Any]:
    return [math.sin, math.hypot, np.zeros, np.array, np.random.rand, cosine, zeros, plain.__code__]


def plain(x: Any) -> Any:
    return x * 2


@tg.rrule(plain)
def _(x: Any) -> Any:
    return plain(x), lambda dy: (7.0 * dy,)


def program(x: Any) -> Any:
    out = zeros(3)
    out[0], out[1], out[2] = cosine(x), math.sin(x), plain(x)
    return out


@pytest.mark.parametrize("ends_well", [True, False])
def test_everything_is_restored(ends_well: bool) -> None:
    before = names()
    kept = [id(x) for x in before]  # in a list that the program captured, they are replaced too

    def f(x: Any) -> Any:
        assert id(math.sin) != kept[0] and id(np.zeros) != kept[2]
        tg.gradient(lambda y: program(y).sum(), 1.0)
        assert id(math.sin) != kept[0]  # the inner trace has ended, the outer has not
        return program(x).sum() if ends_well else program(x) / "text"
    if ends_well:
        assert tg.gradient(f, 0.5) == pytest.approx((-math.sin(0.5) + math.cos(0.5) + 7.0,))
    else:
        with pytest.raises(TypeError):
            tg.gradient(f, 0.5)
    assert all(a is b for a, b in zip(names(), before))


def test_names_bound_by_from_import() -> None:
    assert tg.gradient(lambda x: program(x)[0], 0.5) == pytest.approx((-math.sin(0.5),))
    assert tg.gradient(cosine, 0.5) == pytest.approx((-math.sin(0.5),))


def test_constructors_of_constants_are_plain_where_plain_arrays_are_wanted() -> None:
    def f(x: Any) -> Any:
        A = np.array([[1.0, 2.0], [3.0, 5.0]])
        assert isinstance(A, np.ndarray) and A.shape == (2, 2)
        assert np.require(A, float, "C").sum() == 11.0 and float(A[0, 0]) == 1.0  # C code may have it: no gradient is lost
        return x * A.sum() * len(np.zeros(3)) * np.array(["text", "more"]).size
    assert tg.gradient(f, 2.0) == (66.0,)


def test_libraries_make_what_they_always_made() -> None:
    def f(x: Any) -> Any:
        made = np.linalg.qr(np.asarray(RAW))[0]  # numpy's own Python code calls constructors
        return x * made.trace() + x * np.polynomial.Polynomial([1.0, 2.0])(3.0) + x * np.random.default_rng(0).normal()
    value, tape = tg.trace(f, 2.0)
    assert value == pytest.approx(f(2.0)) and tape.play(2.0) == pytest.approx(value)


RAW = np.array([[1.0, 2.0], [3.0, 5.0]])


def test_a_rule_of_the_users_runs_outside_the_trace() -> None:
    @tg.primitive
    def filled(x: Any) -> Any:
        out = np.zeros(2)
        assert type(out) is np.ndarray
        out[0] = x
        return out

    @tg.rrule(filled)
    def _(x: Any) -> Any:
        out = np.zeros(2)
        out[0] = x
        return out, lambda dy: (dy[0],)
    assert tg.gradient(lambda x: (filled(x * 3.0) * np.array([2.0, 1.0])).sum(), 2.0) == (6.0,)


def test_closures_with_a_rule_keep_it_wherever_they_are_captured() -> None:
    def make(args: float) -> Any:
        def scaled(x: Any) -> Any:
            return args * x
        return scaled
    scaled = make(3.0)
    tg.rrule(scaled)(lambda x: (3.0 * x, lambda dy: (30.0 * dy,)))
    assert tg.gradient(scaled, 2.0) == tg.gradient(lambda x: scaled(x), 2.0) == (30.0,)
    assert tg.trace(lambda x: scaled(x), 2.0, ctx=tg.Context(primitives=[scaled]))[0] == 6.0


def test_other_threads_never_notice() -> None:
    failures: list[Any] = []

    def ordinary() -> None:
        for _ in range(1500):
            a, b = np.zeros(3), np.array([1.0, 2.0])
            a[0] = math.sin(1.0)
            if type(a) is not np.ndarray or type(b) is not np.ndarray or a[0] != SIN_ONE or plain(2.0) != 4.0:
                failures.append((type(a), type(b), a[0]))

    def traced(k: int) -> None:
        for i in range(60):
            x = 0.1 * i
            got = tg.gradient(lambda x: program(x * k).sum(), x)[0]
            if got != pytest.approx(k * (-math.sin(x * k) + math.cos(x * k) + 7.0)):
                failures.append((k, x, got))
    at_once(lambda k: traced(k) if k else ordinary(), [0, 0, 1, 2, 3], interval=1e-5)
    assert not failures


SIN_ONE = math.sin(1.0)


LISTS = [
    lambda a, b: np.sum([a, b]) + np.mean([a, 2.0, b]) + np.max((a, b)) * np.prod([a, b, b]), lambda a, b: np.dot([a, b], [b, 1.0]),
    lambda a, b: np.linalg.norm([[a, b], [b, 1.0]]) + np.linalg.det([[a, b], [b, 1.0]]), lambda a, b: np.abs(np.fft.fft([a, b, 1.0])).sum(),
    lambda a, b: np.sort([a, b, 0.0])[1] * np.cumsum([a, b])[1] * np.argmax([a, b]), lambda a, b: np.outer([a, b], [b, a]).sum(),
    lambda a, b: np.concatenate([[a], [b, a]]).sum() + np.stack([[a, b], [b, b]]).prod() + np.interp(a, [0.0, b], [1.0, b]),
]


@pytest.mark.parametrize("f", LISTS)
def test_lists_of_traced_values(f: Any) -> None:
    check_grads(f, 0.4, 1.3, order=2)
    assert tg.trace(f, 0.4, 1.3)[0] == pytest.approx(f(0.4, 1.3), rel=1e-15)


@pytest.mark.parametrize("f", [
    lambda z: abs(cmath.exp(z) * cmath.log(z, 2.0) / cmath.sqrt(z)), lambda z: cmath.phase(z) * cmath.polar(z)[0], lambda z: cmath.sin(z.real).real,
    lambda z: abs(cmath.rect(abs(z), 0.3) + cmath.tanh(z) * cmath.atan(z) - cmath.acosh(z)), lambda z: abs(cmath.log10(z)) * cmath.isfinite(z),
])
def test_cmath(f: Any) -> None:
    check_grads(f, 0.7 + 1.1j)
    assert tg.trace(f, 0.7 + 1.1j)[0] == pytest.approx(f(0.7 + 1.1j), rel=1e-14)


def test_parts_of_a_complex_array_are_assigned() -> None:
    def f(x: Any) -> Any:
        z = x * (1 + 0.5j)
        z.imag = x * x
        z.real += x[::-1]
        y = x * 1.0
        y.flat = x[:2]
        return np.abs(z).sum() + y.sum()
    check_grads(f, np.array([1.0, 2.0, 3.0, -1.0]))
    assert tg.trace(f, np.arange(4.0))[0] == f(np.arange(4.0))


@pytest.mark.filterwarnings("ignore:.*writes to found:tapegrad.RetraceWarning")  # a list that grows
def test_numpy_that_a_function_imports_takes_lists() -> None:
    before, found = builtins.__import__, []

    def f(x: Any) -> Any:
        import numpy as mine
        from numpy import cbrt, linalg
        found.append(mine)
        return mine.cbrt([x, x * x]).sum() + cbrt([x]).sum() + mine.add.reduce([x, x]) + linalg.norm([x, x]) + mine.sin(x)

    def expected(x: float) -> float:
        return 2 * np.cbrt(x) + np.cbrt(x * x) + 2 * x + np.sqrt(2.0) * x + np.sin(x)
    value, (_, dx) = tg.grad(f, 2.0)
    assert value == pytest.approx(expected(2.0))
    assert dx == pytest.approx((expected(2.0 + 1e-6) - expected(2.0 - 1e-6)) / 2e-6)
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (2.0, 3.0, 4.0):
        assert step(x)[0] == pytest.approx(expected(x))
    f(2.0)
    assert found[-1] is np and builtins.__import__ is before


def test_a_name_that_a_function_makes_global_is_numpy_itself() -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    global np\n    import numpy as np\n    return np.sin(x)", space)
    assert tg.gradient(space["f"], 1.0)[0] == np.cos(1.0)
    assert space["np"] is np


class Function:
    """A class as that of Cython's functions before Cython 3.1, whose `__module__` is a descriptor of theirs."""

    def __call__(self, x: Any) -> Any:
        return np.zeros(2) + x


Function.__module__ = property(lambda self: "compiled")  # type: ignore[assignment]


def test_an_object_whose_class_tells_no_module() -> None:
    held = Function()

    def f(x: Any) -> Any:
        here, y = held, np.zeros(3)
        y[0] = x
        return y.sum() * here(x).sum() * np.random.default_rng(0).random()
    step = tg.value_and_grad(f, warmup=1)
    for x in (1.0, 2.0, 3.0):
        assert tg.grad(f, x)[1][1] == step(x)[1] == pytest.approx(4 * x * np.random.default_rng(0).random())
