"""Machine code on arrays of every dtype that it computes with, against the program itself, and gradients against a trace."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.compile.native import backend
from tests.threads import at_once

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(0)
DTYPES = ["f8", "f4", "i8", "i4", "?", "c16", "c8"]
EPS = {dtype: float(np.finfo(dtype).eps) for dtype in ("f8", "f4", "c16", "c8")}


@pytest.fixture(autouse=True)
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What could not be compiled, which is nothing once a test has ended."""
    found: list[Any] = []
    monkeypatch.setattr(backend, "failed", lambda tape, err: found.append(err))
    yield found
    assert not found


def sample(dtype: str, *shape: int) -> Any:
    if dtype == "?":
        return RNG.random(shape) > 0.5
    if dtype[0] == "i":
        return RNG.integers(-50, 50, shape).astype(dtype)
    return (RNG.normal(size=shape) + (1j * RNG.normal(size=shape) if dtype[0] == "c" else 0.0)).astype(dtype)


def written(x: Any) -> Any:
    y = x * 1
    y[3] = 1
    y[4:9] = x[:5]
    return y + x


def written_below(x: Any) -> Any:
    y = x[:, None] * np.ones(20, x.dtype)
    y[:, 0] = (x * x)[None]
    y[:, 1:2] = x[None, :, None]
    return y[:, :3] + y[:, 1:4]


def table(x: Any) -> Any:
    rows = x[:len(x) // 3 * 3].reshape(-1, 3)
    return np.stack([rows[:, 1] * 2, rows[:, 0], rows[:, 2] * rows[:, 1]], axis=1).sum(axis=1)


ANY: dict[str, Callable[[Any], Any]] = {
    "polynomial": lambda x: ((x * 2 + 1) * x - 3) * x, "sum": lambda x: (x * x - 2 * x).sum(), "mean": lambda x: (x * x).mean(),
    "divide": lambda x: (x + 1) / (x * x + 3), "where": lambda x: np.where(abs(x + 1) > 1, x, x * x), "negative": lambda x: x - -(x * 2),
    "abs": lambda x: abs(x * 3 + 1), "rows": lambda x: (x[:60] * 2).reshape(6, 10).sum(axis=0), "columns": lambda x: (x[:60] * 2).reshape(6, 10).mean(axis=1),
    "backwards": lambda x: x[::-1] * x, "every second": lambda x: x[: len(x) // 2 * 2: 2] * 3 - x[1::2], "equal": lambda x: (x * x == x) | (x != 3),
    "any and all": lambda x: (x == x[0]).any() | (x * x == x).all(), "which": lambda x: np.any(x[:60].reshape(6, 10) == 1, axis=1) | np.all(x[:60].reshape(10, 6), axis=0)[0],
    "count": lambda x: (x * x != x).sum(), "joined": lambda x: np.concatenate([x * 2, x]).sum(), "few": lambda x: (x[:5] * x[1:6]).sum() * x[3],
    "written": written, "written below": written_below, "table": table, "square": lambda x: np.square(x + 1) * 2, "outer": lambda x: (x[:9, None] * x[None, :11]).sum(axis=1),
    "gathered": lambda x: x[[0, 0, 5, 3] * 30] * 2, "numbers": lambda x: x * np.float32(0.5) + x * 2, "wider": lambda x: x * np.arange(len(x)) + 1,
}
REAL: dict[str, Callable[[Any], Any]] = {
    "extrema": lambda x: np.maximum(x, 3 - x).max() - np.minimum(x * 2, x).min(), "order": lambda x: ((x < 3) & (x >= -2) | (x > 5)).sum(axis=0),
    "floats": lambda x: (x * 1.5).astype("f4") * x, "float64": lambda x: x.astype("f8") * 0.1, "narrow": lambda x: (x * 2 + 1).astype("i4") * 3,
    "wide": lambda x: (x * 3).astype("i8") - 1, "rounded": lambda x: np.floor(x * 1.5) + np.ceil(x * 0.3) - np.trunc(x / 7),
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "quotient": lambda x: x // 7 + x % 5, "below zero": lambda x: x // -3 - x % -4, "bits": lambda x: ((x & 7) ^ (x | 3)) + ~x,
    "signs": lambda x: np.sign(x) * x, "over": lambda x: x * 2 ** 30 * x * 2 ** 29 * x, "to floats": lambda x: np.sqrt(abs(x)) + np.exp(x / 50),
}
FLOATS: dict[str, Callable[[Any], Any]] = {
    "functions": lambda x: np.exp(-x * x) * np.sin(x) + np.tanh(x), "more": lambda x: np.log1p(x * x) + np.hypot(x, 1) - np.arctan2(x, 2),
    "powers": lambda x: abs(x) ** 1.5 + (x * x + 1) ** x, "softmax": lambda x: np.exp(x - x.max()) / np.exp(x - x.max()).sum() * x,
    "signs": lambda x: np.sign(x) + np.rint(x * 3), "logaddexp": lambda x: np.logaddexp(x, -x * x) + np.logaddexp(0, x * 30),
    "questions": lambda x: np.isfinite(x / (x - x[0])) & ~np.isnan(x),
}
COMPLEX: dict[str, Callable[[Any], Any]] = {
    "conjugate": lambda x: (x * np.conj(x)).real.sum(), "parts": lambda x: np.imag(x * x) + np.real(x) * 2, "real beside": lambda x: x * abs(x) + x.real,
    "quotient": lambda x: 1 / x + x / (2 - 1j), "functions": lambda x: np.exp(x * 0.1j) * x,
    "products": lambda x: (x[:30].reshape(6, 5) @ x[30:60].reshape(5, 6).T.conj().T @ x[:6]).sum() * x,
    "matrices": lambda x: np.exp((x[:, None] * x).real[:9] @ (x[:, None] * x[:60]) * 0.01j).T @ x[:9],
}
PROGRAMS = [pytest.param(dtype, f, id=f"{dtype} {name}") for dtype in DTYPES
            for name, f in {**ANY, **(REAL if dtype[0] != "c" else COMPLEX), **(INTEGERS if dtype[0] == "i" else {}),
                            **(FLOATS if dtype[0] == "f" else {})}.items()
            if dtype != "?" or name not in ("square", "negative", "narrow")]


def near(found: Any, expected: Any, terms: int = 64) -> None:
    """Check type, dtype, shape, and numbers: of inexact ones, as sums of so many terms may differ."""
    assert type(found) is type(expected) and found.dtype == expected.dtype and found.shape == expected.shape
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
    else:
        eps = EPS[expected.dtype.str[1:]]
        finite = np.abs(expected)[np.isfinite(expected)]
        np.testing.assert_allclose(found, expected, 8 * eps, terms * eps * (finite.max() if finite.size else 0))


def plain(f: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("dtype", "f"), PROGRAMS)
def test_programs(dtype: str, f: Callable[..., Any]) -> None:
    for n in (61, 300):
        fast = tg.compile(f, mode="native", warmup=1)
        for x in [sample(dtype, n) for _ in range(3)] + [sample(dtype, 2 * n)[::2], sample(dtype, n)[::-1]]:
            near(fast(x), plain(f, x))
        if n > 64 and dtype[0] in "fc" and f(x).dtype.kind in "fc":
            step = tg.value_and_grad(lambda x: np.sum(abs(f(x))), mode="native", warmup=1)
            for _ in range(3):
                value, dx = step(x)
                expected, (_, dy) = tg.grad(lambda x: np.sum(abs(f(x))), x)
                assert abs(value - expected) <= 64 * EPS[dtype] * abs(expected)
                near(dx, dy, 512)


# -- random programs

STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, s: a * b, lambda a, b, s: a - b, lambda a, b, s: a + 2 * b, lambda a, b, s: a / (1.0 + b * b), lambda a, b, s: np.sin(a) + np.cos(a),
    lambda a, b, s: np.tanh(a * s), lambda a, b, s: np.exp(-np.abs(a)), lambda a, b, s: np.where(a > b, a, 0.5), lambda a, b, s: np.maximum(a, b),
    lambda a, b, s: np.where(np.logical_and(a > 0, b < 1), b, a), lambda a, b, s: np.hypot(a, 1 + np.abs(b)), lambda a, b, s: np.tanh(a) ** 2,
    lambda a, b, s: np.tanh(a * np.mean(b)), lambda a, b, s: np.sin(a + np.tanh(np.sum(b))), lambda a, b, s: np.cos(a) * np.tanh(np.max(b)),
    lambda a, b, s: np.cumsum(a)[::-1] / a.size - b, lambda a, b, s: np.tanh(a) if np.mean(b) > 0 else np.sin(b), lambda a, b, s: np.logaddexp(a, b) - 1,
    lambda a, b, s: a.astype(np.float32) * b, lambda a, b, s: (a * 5).astype(np.int64) + b, lambda a, b, s: a[::-1] * np.sum(b > 0),
]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=12),
       st.sampled_from([7, 65, 127, 300]), st.sampled_from([np.float64, np.float32]), st.sampled_from(["native", "numpy"]))
def test_random_programs(program: Any, n: int, dtype: Any, mode: str) -> None:
    def f(x: Any, y: Any, s: float) -> Any:
        values = [x, y]
        for number, i, j in program:
            values.append(np.tanh(STEPS[number](values[i % len(values)], values[j % len(values)], s)))
        return np.sum(values[-1] * values[len(values) // 2]), values[-1], values[-2]

    def loss(x: Any, y: Any, s: float) -> Any:
        total, last, other = f(x, y, s)
        return total + np.mean(last * other)
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n)).astype(dtype)
    narrow = dtype is np.float32 or any(number == 18 for number, _, _ in program)
    tolerance = 2e-3 if narrow else 1e-11
    fast, step = tg.compile(f, mode=mode, warmup=1), tg.value_and_grad(loss, argnums=None, mode=mode, warmup=1)
    for _ in range(3):
        expected, (value, (_, *dxs)) = f(x, y, 0.5), tg.grad(loss, x, y, 0.5)
        found, (got, (_, *dys)) = fast(x, y, 0.5), step(x, y, 0.5)
        for a, b in zip([*found, got, *dys], [*expected, value, *dxs], strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype and np.shape(a) == np.shape(b)
            np.testing.assert_allclose(a, b, tolerance, tolerance)


# -- numbers, layouts, warnings

@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_numbers_keep_their_types(dtype: str) -> None:
    x = np.linspace(1, 2, 80).astype(dtype)
    cases: list[tuple[Callable[..., Any], Any]] = [
        (lambda x, s: (x * s + 1) ** 3, 2.0), (lambda x, s: x * s + 1, np.float64(2.0)), (lambda x, s: s - np.sqrt(x) * s, np.float32(2.0)),
        (lambda x, s: np.where(x > s, x, s) * 2, 1.5), (lambda x, s: 2 ** (x * s), 3), (lambda x, s: s - x / s, np.array(2.0)),
        (lambda x, s: x * s, np.int64(3)), (lambda x, s: x[3] * s, np.float32(3)), (lambda x, s: x * s, 2j), (lambda x, s: x * s + s, np.complex64(1j)),
        (lambda x, s: x.sum() * s, True), (lambda x, s: x[:3] * s + s * s, np.int32(2))]
    for f, s in cases:
        fast = tg.compile(f, mode="native", warmup=1)
        for _ in range(3):
            near(fast(x, s), f(x, s))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_nan_inf_and_zeros_of_either_sign(dtype: str) -> None:
    tiny = np.finfo(dtype).tiny
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, -np.finfo(dtype).max, tiny / 4, np.finfo(dtype).smallest_subnormal, 1e22] * 6).astype(dtype)
    y = np.roll(x, 5)
    functions: list[Callable[..., Any]] = [
        lambda x, y: x * y - y, lambda x, y: np.hypot(x, y) * 2, lambda x, y: np.where(x > y, x, y) / x, lambda x, y: np.maximum(x, y) - y,
        lambda x, y: np.minimum(x, y) * 2, lambda x, y: np.sqrt(x) + y, lambda x, y: np.exp(x) + np.log(y), lambda x, y: np.isnan(x * y) | np.isinf(x),
        lambda x, y: np.copysign(x, y) * 2, lambda x, y: np.floor(x) + np.abs(y), lambda x, y: (x > y).sum() + x, lambda x, y: np.tanh(x) * np.arctan(y)]
    for f in functions:
        fast = tg.compile(f, mode="native", warmup=1)
        for _ in range(3):
            found, expected = fast(x, y), plain(f, x, y)
            near(found, expected)
            np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arguments_in_any_layout(dtype: str) -> None:
    def f(x: Any) -> Any:
        return x * 2 + x.sum(axis=0), x.max() if dtype[0] in "fi" else x[0, 0]
    fast, a = tg.compile(f, mode="native", warmup=1), sample(dtype, 13, 17)
    frozen, empty = a.copy(), a[:0]
    frozen.flags.writeable = False
    bytes_ = np.frombuffer(b"x" + a.tobytes(), np.uint8)[1:]
    for x in (a, a, a, np.asfortranarray(a), a[::-1, ::-1], sample(dtype, 26, 34)[::2, 1::2], frozen, a.T.copy().T, bytes_.view(dtype).reshape(13, 17)):
        for found, expected in zip(fast(x), f(x), strict=True):
            near(found, expected)
            assert np.shape(found) == () or found.strides == expected.strides
    g = tg.compile(lambda x: (x * 2, x.sum()), mode="native", warmup=1)
    for _ in range(3):
        assert g(empty)[0].shape == (0, 17) and g(empty)[1] == 0


def test_integers_that_leave() -> None:
    """NumPy warns of a division by zero, and wraps what is too large; Python's integers grow."""
    def f(x: Any, y: Any) -> Any:
        return x // y + x % y
    fast = tg.compile(f, mode="native", warmup=1)
    for dtype in ("i8", "i4"):
        x, y = sample(dtype, 100), np.full(100, 3, dtype)
        for _ in range(3):
            near(fast(x, y), f(x, y))
        y[50] = 0
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            found = fast(x, y)
        np.testing.assert_array_equal(found, plain(f, x, y))
        y[:], x[50] = -1, np.iinfo(dtype).min
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            near(fast(x, y), plain(f, x, y))
    add = tg.compile(lambda x, n: x + n, mode="native", warmup=1)
    x = sample("i4", 100)
    for _ in range(3):
        near(add(x, 7), x + 7)
    with pytest.raises(OverflowError):
        add(x, 1 << 40)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
def test_float_errors_are_those_of_the_caller(dtype: str) -> None:
    fast, x = tg.compile(lambda x: 1.0 / x + x, mode="native", warmup=1), np.ones(200, dtype)
    for _ in range(3):
        fast(x)
    x[::7] = 0.0
    with pytest.warns(RuntimeWarning, match="encountered in"):
        fast(x)
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        fast(x)
    with np.errstate(all="ignore"):
        fast(x)


def test_shapes_that_values_decide() -> None:
    def f(x: Any) -> Any:
        y = x[x > 0]
        return np.sum(np.sin(y) * y) / np.mean(y * y)
    for mode in ("native", "numpy"):
        fast, rng = tg.value_and_grad(f, mode=mode), np.random.default_rng(0)
        for n in (40, 60, 90, 300):
            for _ in range(4):
                x = rng.normal(size=n)
                (value, dx), (expected, (_, dy)) = fast(x), tg.grad(f, x)
                np.testing.assert_allclose(value, expected, 1e-12)
                np.testing.assert_allclose(dx, dy, 1e-10, 1e-12)


def test_many_callers_at_once() -> None:
    fast, x = tg.compile(lambda x: np.sum(np.exp(-x) * x) + x, mode="native", warmup=1), np.linspace(0, 1, 500, dtype=np.float32)
    for _ in range(3):
        fast(x)
    found: dict[int, list[Any]] = {}
    at_once(lambda k: found.update({k: [fast(x * k) for _ in range(50)]}), range(4))
    for k in range(4):
        for each in found[k]:
            near(each, np.sum(np.exp(-(x * k)) * (x * k)) + x * k)


def test_modes() -> None:
    for make in (tg.compile, tg.value_and_grad):
        for mode in ("fast", "threads", "blocks", "plain"):
            with pytest.raises(tg.ArgumentError, match=f"there is no mode '{mode}'"):
                make(lambda x: x, mode=mode)


@pytest.mark.parametrize("fn", [np.vdot, np.vecdot, np.vecmat, np.matvec])
def test_products_of_a_conjugate(fn: Any) -> None:
    z = np.array([[1 + 2j, 0.5 - 1j, 3j], [2.0, 1j, 1 - 1j], [0.3, -1j, 2 + 1j]])
    a, b = (z, z[0]) if fn is np.matvec else (z[0], z.T) if fn is np.vecmat else (z[0], z[1])
    step = tg.compile(fn, mode="native")
    for _ in range(3):
        np.testing.assert_allclose(step(a, b), fn(a, b), 1e-13)


@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("index", [slice(None), slice(None, None, 2), 1], ids=str)
def test_a_write_into_a_part_of_complex_numbers(part: str, index: Any) -> None:
    def f(x: Any, k: float) -> Any:
        z = x * k
        getattr(z, part)[index] = k
        return z.sum(), z * 1j
    for n in (3, 200):
        x, step = np.linspace(1 + 2j, 3 - 1j, n), tg.compile(f, mode="native")
        for _ in range(3):
            for found, expected in zip(step(x, 2.0), f(x, 2.0)):
                np.testing.assert_allclose(found, expected, 1e-13)
