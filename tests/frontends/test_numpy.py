"""NumPy's functions in a replay: other values, the same program."""

from __future__ import annotations

import array
import cmath
import collections
import functools
import inspect
import itertools
import math
import operator
import re
import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import check_grads
from tests.harness.run import exported


@pytest.mark.quick
def test_a_replay_follows_other_values() -> None:
    def f(x: Any) -> Any:
        return (np.unique(x) ** 2).sum()
    _, tape = tg.trace(f, np.array([1.0, 2.0, 2.0]))
    assert tape.play(np.array([1.0, 2.0, 3.0])) == 14.0
    _, (_, dx) = tg.gradtape(f, np.array([1.0, 2.0, 2.0])).play(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(dx, [2.0, 6.0, 4.0])


def test_windows_can_only_be_read() -> None:
    def f(x: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, 2)
        windows[0, 0] = 5.0
        return windows.sum()
    with pytest.raises(ValueError, match="read-only"):
        tg.trace(f, np.ones(4))
    with pytest.raises(tg.UnknownFunction, match="writeable"):
        tg.trace(lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, writeable=True), np.ones(4))


def test_strided_memory_is_that_of_its_array() -> None:
    def frames(x: Any) -> Any:
        return np.lib.stride_tricks.as_strided(x, (len(x) - 2, 3), x.strides * 2)

    def stale(x: Any) -> Any:
        y = x * 1.0
        windows = frames(y)
        y[1] = 0.0
        return windows.sum()

    def written(x: Any) -> Any:
        windows = frames(x * 1.0)
        windows[0, 0] = 5.0
        return windows.sum()
    compiled = tg.value_and_grad(lambda x: (frames(x) ** 2).sum())
    for x in (np.arange(5.0), np.arange(10.0)[::2], np.arange(5.0)[::-1]) * 3:
        np.testing.assert_array_equal(compiled(x)[1], 2 * x * [1, 2, 3, 2, 1])
    for f in (stale, written):
        with pytest.raises(tg.MutationError, match="share"):
            tg.grad(f, np.ones(5))
    with pytest.raises(tg.UnknownFunction, match="beyond"):
        tg.grad(lambda x: frames(x[1:4][:2]).sum() + np.lib.stride_tricks.as_strided(x[1:3], (3,), x.strides).sum(), np.ones(5))


def test_the_length_of_a_range_is_guarded() -> None:
    _, tape = tg.trace(lambda stop: np.arange(0, stop, 0.1) * stop, 1.04)
    np.testing.assert_array_equal(tape.play(1.02), np.arange(0, 1.02, 0.1) * 1.02)
    assert tg.gradient(lambda stop: tape.play(stop).sum(), 1.02) == pytest.approx((5.5,))
    with pytest.raises(tg.GuardError, match="ceil"):
        tape.play(1.2)


def test_a_vectorized_function_guards_its_branches() -> None:
    f = np.vectorize(lambda x: x * x if x > 0 else -x)
    _, tape = tg.trace(lambda x: f(x), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(tape.play(np.array([3.0, -1.0])), [9.0, 1.0])
    with pytest.raises(tg.GuardError):
        tape.play(np.array([-3.0, -1.0]))


def test_what_is_taken_of_a_constant_by_a_traced_mask() -> None:
    fixed = np.array([1.0, 2.0, 3.0])
    for f in (lambda x: np.extract(x > 0, fixed).sum() * x[0], lambda x: np.compress(x > 0, fixed * 2.0).sum() * x[0], lambda x: np.extract(x[0], 1.0).sum() * x[0]):
        x = np.array([0.5, -1.0, 2.0])
        value, (_, dx) = tg.grad(f, x)
        assert value == f(x)
        np.testing.assert_allclose(dx, [f(x) / x[0], 0.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_])
@pytest.mark.parametrize("kwargs", [{}, {"cache": True}, {"otypes": [np.float32]}])
def test_a_vectorized_function_gives_the_dtype_of_its_first_number(dtype: Any, kwargs: Any) -> None:
    seen: list[Any] = []

    def sine(x: Any) -> Any:
        seen.append(x)
        return np.sin(x)
    f, x = np.vectorize(sine, **kwargs), np.array([1.0, 0.0, 1.0]).astype(dtype)
    y = f(x)
    count = len(seen)
    value, tape = tg.trace(lambda x: f(x) * 1, x)
    assert len(seen) == 2 * count
    for found in (value, tape.play(x)):
        assert found.dtype == y.dtype
        np.testing.assert_array_equal(found, y)


KEPT: dict[str, Any] = {"calls": [], "table": np.array([0.5, 2.0]), "sum": [0.0]}


def counted(x: Any) -> Any:
    KEPT["calls"].append(1)
    return x * len(KEPT["calls"])


def written(x: Any) -> Any:
    KEPT["table"][0] += 0.5
    return x * KEPT["table"][0]


def remembered(x: Any, seen: list[int] = []) -> Any:  # noqa: B006
    seen += [1]
    return x * (len(seen) > 3)


def drawn(x: Any) -> Any:
    return x * np.random.rand()


def told(x: Any) -> Any:
    print("called")
    return x * x


class Counter:
    calls = 0

    def rate(self, x: Any) -> Any:
        self.calls += 1
        return x * self.calls


def raised(x: Any) -> Any:
    if x > 1.5:
        raise KeyError("large")
    return x if x > -1.5 else [][1]


@pytest.mark.parametrize("make", [lambda: counted, lambda: written, lambda: functools.partial(remembered, seen=[]), lambda: drawn, lambda: told, lambda: Counter().rate,
                                  lambda: (lambda calls: lambda x: x * next(calls))(itertools.count()), lambda: raised])
def test_what_does_more_than_compute_is_called_for_each_number(make: Any, capsys: Any) -> None:
    x, found = np.linspace(-1.0, 2.0, 40), []
    for run in (lambda f: f(x), lambda f: tg.grad(lambda x: f(x) * 1, x, seed=np.ones(40))[0]):
        KEPT["calls"].clear()
        KEPT["table"][:] = [0.5, 2.0]
        np.random.seed(0)
        try:
            value = run(np.vectorize(make(), otypes=[float])).tolist()
        except KeyError as err:
            value = str(err)
        found.append((value, len(KEPT["calls"]), KEPT["table"].tolist(), capsys.readouterr().out))
    assert found[0] == found[1]


def scaled(x: Any) -> Any:
    total = 0.0
    for k, c in enumerate(KEPT["table"]):
        total += c * x ** k if k else abs(x) * math.exp(x)
    return total / (1 + x * x)


class Scale:
    def __init__(self, k: float) -> None:
        self.k = k

    def rate(self, x: Any) -> Any:
        return self.k * self.square(x) if x > 0 else 0.0

    def square(self, x: Any) -> Any:
        return x * x


@pytest.mark.parametrize("f", [scaled, Scale(2.0).rate, functools.partial(operator.mul, 3.0), lambda x: math.sqrt(x) if x > 1 else float(x > 0)])
@pytest.mark.parametrize("wrap", [np.vectorize, lambda f: np.frompyfunc(f, 1, 1), lambda f: np.vectorize(f, otypes=[np.float32])])
def test_what_only_computes_is_called_for_all_numbers_at_once(f: Any, wrap: Any) -> None:
    x, KEPT["table"][:] = np.linspace(-1.0, 2.0, 100), [0.5, 2.0]
    value, tape = tg.trace(lambda x: wrap(f)(x), x)
    expected = wrap(f)(x)
    np.testing.assert_allclose(value, expected.astype(value.dtype), 1e-15)
    assert len(tape.ops) < 80 and (expected.dtype == object or value.dtype == expected.dtype)
    along = tg.jvp(lambda x: wrap(f)(x), (x,), (np.ones(100),))[1]
    alone = [tg.jvp(lambda x: f(x) * 1.0, (each,), (1.0,))[1] for each in x.tolist()]
    np.testing.assert_allclose(along, np.array([0.0 if t is None else t for t in alone]), 1e-6 if value.dtype == np.float32 else 1e-13)


SMALL = [np.array([1, 0, 1]).astype(dtype) for dtype in (np.bool_, np.int8, np.uint8, np.int32, np.float16, np.float32, np.complex64, np.longdouble)]
TYPED = [
    lambda x: np.power(x, 2), lambda x: x ** 2, lambda x: x ** 2.0, lambda x: x ** 0.5, lambda x: x ** 1.0, np.fabs, lambda x: np.dot(x, 2),
    lambda x: np.dot(2.0, x), lambda x: np.inner(x, 2.0), lambda x: np.outer(2.0, x), lambda x: np.kron(x, 2.0), lambda x: np.clip(x, 0, np.int8(1)),
    lambda x: np.clip(x, 0.0, np.float32(1)), lambda x: np.max(x, initial=0), lambda x: np.sum(x, initial=0.5), lambda x: np.prod(x, initial=2.5),
    lambda x: np.linspace(x, np.float16(2), 3), lambda x: np.linspace(x[::-1], x, 3), lambda x: np.reshape(2.0, (-1, 1)) * x,
    lambda x: np.array(2, dtype=float) * x, lambda x: np.broadcast_to(2.0, (2, 3)) * x,
]


@pytest.mark.parametrize("x", SMALL, ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("f", TYPED)
def test_results_have_numpys_dtype(f: Any, x: Any) -> None:
    try:
        y = f(x)
    except TypeError:
        pytest.skip("NumPy has no such function")
    value, tape = tg.trace(f, x)
    for found in (value, tape.play(x), tg.optimise(tape).play(x), tg.compile(tape)(x), exported(tape)(x)):
        assert found.dtype == y.dtype and found.shape == y.shape
        np.testing.assert_allclose(found, y, rtol=1e-3)


@pytest.mark.parametrize("f", [
    lambda s, x: np.outer(s, x), lambda s, x: np.kron(s, x), lambda s, x: np.ravel(s) * x, lambda s, x: np.reshape(s, (1, 1)) + x,
    lambda s, x: np.broadcast_to(s, (3,)) * x, lambda s, x: np.array(s, dtype=float) * x, lambda s, x: np.dot(s, x), lambda s, x: np.atleast_1d(s) / x,
])
@pytest.mark.parametrize("s", [0.1, 3])
def test_an_array_made_of_a_number_stays_one(f: Any, s: Any) -> None:
    x = np.array([1.0, 2.0, 3.0], np.float32)
    y, tape = f(s, x), tg.trace(f, s, x)[1]
    for found in (tape.play(s, x), tg.optimise(tape).play(s, x), tg.compile(tape)(s, x)):
        assert found.dtype == y.dtype
        np.testing.assert_array_equal(found, y)


OF_NONE = [
    lambda x: np.max(x[x > 5], initial=x[0]) * x[1], lambda x: np.maximum.reduce(x[:0], initial=x[0]) * x[1], lambda x: np.max(np.ones((0, 3)) * x, axis=1, initial=1.0).sum() + x[0],
    lambda x: np.max(np.ones((2, 0, 3)) * x, axis=1, initial=x[1]).sum(), lambda x: np.nanmax(np.ones((2, 0)) * x[0], axis=-1, keepdims=True, initial=x[2]).sum() * x[1],
    lambda x: np.min(np.ones((2, 0, 3)) * x, axis=(0, 1), initial=2.0, keepdims=True).sum() * x[0], lambda x: np.min(x[x > 2.5], initial=7.0) * x[0],
]


@pytest.mark.parametrize("f", OF_NONE)
def test_the_largest_of_none_is_what_it_begins_with(f: Any) -> None:
    x = np.array([3.0, 1.0, 2.0])
    check_grads(f, x)
    compiled = tg.value_and_grad(f, argnums=None, warmup=1)
    for other in (x, x, 4.0 * x, x):
        assert compiled(other)[0] == f(other)
        np.testing.assert_array_equal(compiled(other)[1][1], tg.grad(f, other)[1][1])


def write_product(a: Any, b: Any) -> Any:
    np.dot(a, b, out=b)
    return (b * a).sum()


def add_to_a_number(a: Any, b: Any) -> Any:
    x = np.where(a[0, 0] > 0, b[0], b[1])
    np.add.at(x, [0, 0, 1], 1.0)
    return x


def vectorized(a: Any, b: Any) -> Any:
    return np.vectorize(lambda p: b)(np.ones(3) * a[0, 0]).sum()


@pytest.mark.parametrize(("f", "good", "bad"), [
    (write_product, np.ones(3), np.ones(6)[::2]), (add_to_a_number, None, np.ones(3)), (vectorized, np.array(2.0), np.ones(3)), (vectorized, 2.0, []),
])
def test_what_raises_in_numpy_raises_at_every_call(f: Any, good: Any, bad: Any) -> None:
    a = np.arange(9.0).reshape(3, 3)
    functions = [f, lambda *args: tg.grad(f, *args), tg.compile(f, warmup=1), tg.value_and_grad(f, argnums=None, warmup=1)]
    for fn in functions:
        for b in (good, good, bad, good):
            if b is bad:
                with pytest.raises((ValueError, IndexError)):
                    fn(a, b)
            elif b is not None:
                fn(a, np.copy(b) if isinstance(b, np.ndarray) else b)


ALONG_A_NUMBER = [
    lambda s: np.take(s, [0, -1, 0], axis=-1).sum(), lambda s: np.take(s, 0, axis=0), lambda s: np.compress([True], s, axis=0).sum(), lambda s: np.repeat(s, 3, axis=0).sum(),
    lambda s: np.cumsum(s, axis=0)[0], lambda s: np.sum(s, axis=0), lambda s: np.sort(s, axis=0), lambda s: np.median(s, axis=0), lambda s: np.argwhere(s).sum() + s,
    lambda s: np.quantile(s, 0.5, axis=0), lambda s: np.maximum.accumulate(s), lambda s: np.roll(s, 1, axis=0), lambda s: np.apply_along_axis(np.sum, 0, s),
]


@pytest.mark.filterwarnings("ignore:Calling nonzero:DeprecationWarning")
@pytest.mark.parametrize("s", [np.float64(1.5), np.array(1.5)])
@pytest.mark.parametrize("f", ALONG_A_NUMBER)
def test_a_number_may_have_one_axis(f: Any, s: Any) -> None:
    try:
        y = f(s)
    except (TypeError, ValueError) as err:
        with pytest.raises(type(err)):
            tg.trace(f, s)
        return
    np.testing.assert_array_equal(tg.trace(f, s)[0], y)
    check_grads(f, s)


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("f", [lambda v: math.hypot(v), lambda v: math.pow(v, 2), lambda v: math.fsum([v, v]), lambda v: math.atan2(v, 2.0), lambda v: math.sin(v), lambda v: math.dist([v], [0.5])])
def test_math_takes_the_real_part_of_numpys_complex_numbers(f: Any) -> None:
    z = np.array([1.5 + 2.0j, 3.0 - 4.0j])
    value, (_, dz) = tg.grad(lambda z: f(z[0]) * 2.0, z)
    assert value == f(z[0]) * 2.0
    np.testing.assert_allclose(dz, [tg.grad(f, 1.5)[1][1] * 2.0, 0.0])


@pytest.mark.parametrize("f", [
    lambda x: np.clip(x, 0.0, 2.0), lambda x: np.divmod(x, 0.5), lambda x: np.isclose(x, 0.75), lambda x: np.isclose(0.75, x), lambda x: np.iscomplex(x), lambda x: np.isreal(x),
    lambda x: np.clip(x, None, None), lambda x: np.clip(np.float32(1), 0, x), lambda x: np.divmod(x, 0)[0], lambda x: np.divmod(3.0, x * 0.0)[0],
])
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("x", [0.75, 2])
def test_of_pythons_numbers_numpy_makes_its_own(f: Any, x: Any) -> None:
    y, value = f(x), tg.trace(f, x)[0]
    for one, other in zip(y, value) if isinstance(y, tuple) else [(y, value)]:
        assert type(one) is type(other) and one == other


def test_a_value_with_more_axes_is_written() -> None:
    def f(a: Any, b: Any) -> Any:
        np.copyto(a, np.atleast_2d(b[0]))
        a[1:2] = np.sin(b[:1][None])
        a[2:] *= np.reshape(b[1:2], (1, 1))[0]
        return (a * np.array([1.0, 2.0, 3.0])).sum()
    a, b = np.array([0.5, -0.5, 1.0]), np.array([0.25, 0.75])
    check_grads(f, a, b, order=2)
    flat = tg.flatgrad(tg.trace(f, a, b)[1], 1.0)
    for fn in (flat.play, tg.optimise(flat).play, tg.compile(flat), tg.value_and_grad(f, argnums=None, warmup=1)):
        np.testing.assert_allclose(np.concatenate(fn(a, b)[1][1:]), np.concatenate(tg.grad(f, a, b)[1][1:]))


@pytest.mark.parametrize(("f", "x"), [
    (lambda b: np.multiply(b, 1.0, dtype=np.float64), np.array([1.0 + 2.0j])), (lambda b: np.sin(b, dtype=np.float32), np.array([1.0j])), (lambda b: np.power(b, 2, dtype=np.int64), np.array([1.5])),
    (lambda b: np.add(b, 1, dtype=np.float32, casting="no"), np.array([1.5])), (lambda b: np.add(b, 1.5, casting="equiv"), np.array([1.5], np.float32)),
])
def test_a_ufunc_refuses_a_cast_as_numpy_does(f: Any, x: Any) -> None:
    with pytest.raises(TypeError) as plain:
        f(x)
    with pytest.raises(TypeError, match=re.escape(str(plain.value))):
        tg.trace(f, x)


def test_a_traced_number_is_filled_in_vain_as_numpys_is() -> None:
    def f(x: Any) -> Any:
        x.fill(2.0)
        return x * x
    assert tg.grad(f, np.float64(3.0)) == (9.0, (None, 6.0))


@pytest.mark.parametrize("x", [1.855, 2.675, 0.125, -1.5, 25, 1e300])
@pytest.mark.parametrize("digits", [2, 0, -1])
def test_pythons_round_is_exact_in_every_replay(x: Any, digits: int) -> None:
    tape = tg.trace(lambda x: round(x, digits) * 1, type(x)(1))[1]
    for replay in (tape.play, tg.optimise(tape).play, tg.compile(tape), tg.compile(tape, backend="torch")):
        assert replay(x) == round(x, digits)


@pytest.mark.parametrize("f", [np.median, lambda a: np.median(a, axis=0).sum(), lambda a: np.percentile(a, [30, 50, 60]).sum(), lambda a: np.quantile(a, 0.3, axis=1).sum()])
def test_of_elements_that_tie_every_backend_takes_the_same(f: Any) -> None:
    random = np.random.default_rng(0)
    for _ in range(10):
        a = random.integers(0, 4, (5, 7)) * 1.0
        tape = tg.flatgrad(tg.trace(f, a)[1], 1.0)
        one, other = tg.compile(tape)(a)[1][1], tg.compile(tape, backend="torch")(a)[1][1]
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, tg.grad(f, a)[1][1])


@pytest.mark.parametrize("f", [
    lambda x: np.percentile(x, np.array([30.0, 60.0])).sum(), lambda x: np.quantile(x, np.linspace(0, 1, (x > 0.5).sum() + 2)[1:-1].tolist()).sum(),
    lambda x: np.nanquantile(x, np.argsort(x)[:3] / 7).sum(),
])
def test_quantiles_at_numbers_that_the_program_makes(f: Any) -> None:
    x, step = np.array([0.1, 0.4, 0.7, 1.1, 1.3, 1.8]), tg.value_and_grad(f, warmup=1)
    for at in (x, x * 1.1, x[::-1] * 1.2, x * 1.3):
        value, slope = step(at)
        assert value == pytest.approx(f(at), rel=1e-15)
        np.testing.assert_allclose(slope, [(f(at + h) - f(at - h)) / 2e-6 for h in 1e-6 * np.eye(6)], atol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("f", "good", "bad"), [
    (lambda x: cmath.exp(x), 1.5, 1e6), (lambda x: cmath.log(x), 1.5, 0.0), (lambda x: cmath.sinh(x), 1.0j, 1e4 + 0j), (lambda x: cmath.exp(x), float("inf"), 1e6),
])
def test_cmath_raises_in_every_call_what_it_raises(f: Any, good: Any, bad: Any) -> None:
    compiled = tg.compile(f, warmup=1)
    for _ in range(3):
        assert type(compiled(good)) is complex
        np.testing.assert_allclose(compiled(good), f(good), rtol=1e-14)
        with pytest.raises((ValueError, OverflowError)):
            compiled(bad)
    with pytest.raises((tg.GuardError, ValueError, OverflowError)):
        tg.trace(f, good)[1].play(bad)


def test_a_zero_with_another_sign_is_another_number() -> None:
    def f(x: Any) -> Any:
        return math.copysign(1.0, float(np.floor(x))) * x
    compiled = tg.compile(f, warmup=1)
    tape = tg.trace(f, 0.0)[1]
    for x in (0.0, 0.0, 0.5, -0.0, 0.0, -0.0):
        assert compiled(x) == f(x) and math.copysign(1.0, compiled(x)) == math.copysign(1.0, f(x))
    with pytest.raises(tg.GuardError):
        tape.play(-0.0)
    assert not math.isclose(float("inf"), 1.0) and not tg.trace(lambda x: math.isclose(x, 1.0), float("inf"))[0]


@pytest.mark.parametrize("f", [lambda x: math.sqrt(np.copy(x)), lambda x: math.log(x[()]), lambda x: math.fabs(x), lambda x: math.acos(x), lambda x: math.nextafter(x, 2.0)])
@pytest.mark.parametrize("make", [np.array, np.float64, np.float32, lambda x: np.array([x], np.float32)[0:1].reshape(())])
def test_math_takes_a_python_number_of_numpys(f: Any, make: Any) -> None:
    def g(x: Any) -> Any:
        return f(x) * 1.1
    tape = tg.trace(g, make(0.3))[1]
    for replay in (tape.play, tg.compile(tape), tg.compile(g, warmup=1)):
        for x in (0.3, 0.3, 0.7, -4.0, 0.3):
            try:
                y = g(make(x))
            except ValueError:
                with pytest.raises(ValueError):
                    replay(make(x))
            else:
                assert type(replay(make(x))) is float and math.isclose(replay(make(x)), y, rel_tol=1e-15)


@pytest.mark.parametrize("f", [
    lambda x: math.fsum(x), lambda x: math.fsum(np.fromiter((t for t in [1.0, 2.0]), float)) * x[0], lambda x: math.dist(x, x[::-1]), lambda x: math.prod(x), lambda x: math.fsum(x[:1]),
    lambda x: math.hypot(*x), lambda x: math.fsum(t * t for t in x),
])
def test_math_goes_through_arrays(f: Any) -> None:
    with pytest.raises(TypeError) as plain:
        math.sqrt(np.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=re.escape(str(plain.value))):
        tg.trace(lambda x: math.sqrt(x), np.ones(2))
    x = np.array([0.3, 0.7, 1.5])
    assert tg.trace(f, x)[0] == f(x)
    check_grads(f, x)


@pytest.mark.parametrize("x", [1.5, np.float64(1.5), np.float32(1.5)], ids=["a float", "np.float64", "np.float32"])
@pytest.mark.parametrize("f", [
    lambda x: np.shape([x, 2.0]), lambda x: np.ndim([[x]]), lambda x: np.size([x, 2.0]), lambda x: np.isrealobj([x, 1j]),
    lambda x: np.iscomplexobj([x, 1j]), lambda x: np.full_like([x, 2.0], 3.0), lambda x: np.trapezoid([x, 2.0]), lambda x: np.real([x, 2j]),
    lambda x: np.imag([x, 2j]), lambda x: np.concatenate((x, 2.0), None), lambda x: np.append(x, 2.0), lambda x: np.union1d(x, 2.0),
    lambda x: np.clip(1.75, x, 2.0), lambda x: np.asarray_chkfinite(x), lambda x: np.cov([x, 2.0], dtype=np.float32), lambda x: np.diff([x], 0),
    lambda x: np.shares_memory([x], [x]), lambda x: np.nanquantile([x, -np.inf, np.nan], [0, 1]), lambda x: np.nanmedian([[x]] * 0),
])
def test_lists_and_python_numbers_mean_what_they_mean_to_numpy(f: Any, x: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted, found = f(x), tg.trace(f, x)[0]
    assert type(wanted) is type(found)
    assert np.array_equal(wanted, found, equal_nan=True) and np.asarray(wanted).dtype == np.asarray(found).dtype


def test_an_array_without_axes_is_not_written_to_while_numpy_is_asked_what_it_would_write() -> None:
    x = np.array(0.84)
    assert tg.trace(lambda x: np.logical_not(2.0, x), x)[0] == 0.0 and x == 0.84
    assert tg.trace(lambda x: np.fix(2.5, x), x)[0] == 2.0 and x == 0.84


def test_where_there_was_nothing_to_write_a_replay_asks_again() -> None:
    for f in (lambda x: np.negative(2.0, x), lambda x: np.floor(2.0, x)):
        tape = tg.trace(f, np.zeros((0, 3)))[1]
        with pytest.raises(tg.GuardError):
            tape.play(np.ones((2, 3)))
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: np.floor(2.0, x), np.ones(2))[1].play(np.ones(2, bool))


def test_what_numpy_puts_in_no_order_is_refused() -> None:
    if "sorted" in inspect.signature(np.unique).parameters:
        with pytest.raises(tg.UnknownFunction, match="hash table"):
            tg.trace(np.unique_values, np.ones(3))


def test_where_takes_both_values_or_neither() -> None:
    for x in (np.array([1.0, -1.0]), 2.0):
        for f, kind in ((lambda x: np.where(x > 0, 1.0), ValueError), (lambda x: np.where(x > 0, x), ValueError), (lambda x: np.where(x > 0, y=x), TypeError), (lambda x: np.where(x > 0, x, x, x), TypeError)):
            with pytest.raises(kind):
                tg.trace(f, x)
        assert [*map(list, tg.trace(lambda x: np.where(np.asarray(x) > 0), np.array([1.0, -1.0]))[0])] == [[0]]


class Pair:
    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> Any:
        return (1.0, 2.0)[at]


SEQUENCES: dict[str, Any] = {"range": range(1, 3), "deque": collections.deque([1.0, 2.0]), "UserList": collections.UserList([1.0, 2.0]), "a class's": Pair(), "array": array.array("d", [1.0, 2.0]),
                             "memory": memoryview(np.array([1.0, 2.0])), "bytearray": bytearray(b"\1\2")}


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("f", [
    lambda x, s: np.dot(s, [x, 1.0]), lambda x, s: np.inner(np.array([x, 1.0]), s), lambda x, s: np.array([x, 1.0]).dot(s), lambda x, s: np.dot([[x, 1.0], [2.0, 3.0]], s),
    lambda x, s: np.kron(s, [x, 1.0]), lambda x, s: np.convolve(s, [x, 1.0]), lambda x, s: np.interp(x, s, s), lambda x, s: np.polyval(s, x), lambda x, s: np.average([x, 1.0], weights=s),
    lambda x, s: np.clip([x, 1.0], s, 9), lambda x, s: np.linspace(s, x, 3), lambda x, s: np.hstack([s, x]), lambda x, s: np.diff(s, append=x), lambda x, s: np.gradient([x, 1.0], s),
    lambda x, s: np.dot(np.array([x, 1.0]), collections.deque([x, s[0]]))])
def test_sequences_that_are_no_lists_are_arrays(f: Any, kind: str) -> None:
    def g(x: Any) -> Any:
        return f(x, SEQUENCES[kind])
    np.testing.assert_array_equal(tg.trace(g, 1.5)[0], g(1.5))
    np.testing.assert_allclose(tg.jvp(g, (1.5,), (1.0,))[1], (g(1.5 + 1e-6) - g(1.5 - 1e-6)) / 2e-6, atol=1e-6)


RECORD = [("a", float), ("b", int)]


@pytest.mark.parametrize("f", [
    lambda x: np.array([(1.0, 2), (3.0, 4)], dtype=RECORD)["a"] * x, lambda x: np.asarray([(1.0, 2), (3.0, 4)], RECORD)["b"].sum() * x, lambda x: np.array((1.0, 2), dtype=RECORD)["a"] * x,
    lambda x: np.asanyarray([(1.0, 2)], dtype=np.dtype(RECORD))["a"] * x, lambda x: np.array([(1.0, [2, 3])], dtype=[("a", float), ("v", float, 2)])["v"] * x,
    lambda x: sum(r["a"] * r["b"] for r in np.ascontiguousarray([(1.0, 2), (3.0, 4)], dtype=RECORD)) * x, lambda x: np.array([[1, 2], [3]], dtype=object)[1][0] * x,
    lambda x: np.array([{"a": 2.0}, [1]], dtype=object)[0]["a"] * x])
def test_records_and_objects_without_traced_numbers_are_numpys(f: Any) -> None:
    step = tg.compile(f, warmup=1)
    for got in (tg.trace(f, 2.0)[0], step(2.0), step(2.0)):
        np.testing.assert_array_equal(got, f(2.0))
    with pytest.raises(tg.ConcretizationError):
        tg.trace(lambda x: np.array([(x, 2)], dtype=RECORD), 2.0)


@pytest.mark.parametrize("low", [-0.0, 0.0, -1.0, np.float64(-0.0), None])
@pytest.mark.parametrize("high", [0.0, -0.0, 1.0, None])
@pytest.mark.parametrize("x", [0.0, -0.0, np.float64(0.0), np.array(-0.0), np.array([0.0, -0.0, 2.0, -2.0, np.nan])])
def test_what_lies_within_bounds_keeps_its_sign(x: Any, low: Any, high: Any) -> None:
    given = [bound for bound in (low, high) if bound is not None]
    for args, f in (((x,), lambda x: np.clip(x, low, high)), ((x, *given), lambda x, *given: np.clip(x, *(bound if bound is None else given[k - (low is None)] for k, bound in enumerate((low, high)))))):
        want, step = f(*args), tg.compile(f, warmup=1)
        for got in (tg.trace(f, *args)[0], step(*args), step(*args), tg.trace(f, *args)[1].play(*args)):
            np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
            np.testing.assert_array_equal(got, want)


def test_a_call_that_numpy_takes_and_its_meaning_does_not_is_refused_in_our_words() -> None:
    with pytest.raises(tg.UnknownFunction, match=r"this call of np\.clip cannot be recorded"):
        tg.trace(lambda x: np.clip(x, 0, 1, dtype=np.float32), np.ones(3, np.float32))
    with pytest.raises(TypeError, match="unexpected keyword"):
        tg.trace(lambda x: np.clip(x, 0, 1, nothing=3), np.ones(3))


def test_a_planar_vector_has_no_third_component() -> None:
    x = np.array([[np.inf, 1.0, 2.0], [1.0, np.nan, 3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for f in (lambda x: np.cross(x, [0.5, 2.0]), lambda x: np.cross([0.5, 2.0], x)):
            try:
                expected = f(x)
            except ValueError:  # since NumPy 2.5
                with pytest.raises(ValueError):
                    tg.trace(f, x)
            else:
                np.testing.assert_array_equal(expected, tg.trace(f, x)[0])


def test_text_of_a_number_is_made_at_each_call() -> None:
    f = tg.compile(lambda x: (np.format_float_positional(x), x * 2.0), warmup=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        assert [str(f(x)[0]) for x in (1.5, 2.5, 3.5, 4.5)] == ["1.5", "2.5", "3.5", "4.5"]


@pytest.mark.parametrize("f", [lambda x: np.cumsum(x, 1), lambda x: np.nancumprod(x, axis=-2), lambda x: np.cumulative_sum([[x], [x]])])
def test_a_running_total_of_a_number_is_that_of_a_row_of_one(f: Any) -> None:
    with pytest.raises(ValueError, match="axis"):
        f(2.0)
    with pytest.raises(ValueError, match="axis"):
        tg.trace(f, 2.0)
    assert tg.grad(lambda x: np.cumsum(x, 0)[0], 2.0) == (2.0, (None, 1.0))


def test_text_goes_on_no_tape() -> None:
    def f(x: Any) -> Any:
        return (x * (len(np.array_str(x) + np.array_repr(x) + np.array2string(x, precision=2)) > 0)).sum()
    value, (_, dx) = tg.grad(f, np.array([1.5, 2.0]))
    assert value == 3.5 and dx.tolist() == [1.0, 1.0]


class Mask:
    """Shows itself as an array, which may be a traced one."""

    def __init__(self, of: Any) -> None:
        self.of = of

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.of > 1.0


def test_objects_that_show_themselves_as_arrays_are_indices() -> None:
    def f(x: Any) -> Any:
        x[..., Mask(x)] = x[Mask(x)] * 3.0
        return (x[Mask(x)] ** 2).sum() + x[Mask(np.array([0.0, 2.0, 2.0]))].sum()
    x = np.array([0.5, 1.5, 2.0])
    step = tg.value_and_grad(lambda x: f(x.copy()), warmup=1)
    for k in (1.0, 1.1, 1.2):
        found = [(f(k * x + e) - f(k * x - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
        assert np.allclose(step(k * x)[1], found, rtol=1e-6) and np.allclose(tg.gradient(f, k * x)[-1], found, rtol=1e-6)


@pytest.mark.parametrize("f", [
    lambda a, b: np.bincount([0, 1, 1], weights=[a, b, 2.0]).prod(), lambda a, b: np.interp(x=0.5, xp=[0.0, 1.0], fp=[a, b]) ** 2, lambda a, b: np.dot(a=[a, 2.0], b=[b, a]),
    lambda a, b: np.trapezoid([1.0, a], x=[b, 5.0]), lambda a, b: np.stack(arrays=[[a, b], [b, 1.0]]).prod(), lambda a, b: np.linalg.norm(x=[a, b]), lambda a, b: np.cov([1.0, 2.0, 4.0], aweights=[a, b, 1.0])])
def test_lists_of_traced_numbers_by_keyword(f: Any) -> None:
    check_grads(f, 1.5, 2.5)
    assert tg.trace(f, 1.5, 2.5)[1].play(2.0, 3.0) == f(2.0, 3.0)
