"""np.ma of traced numbers: classes, numbers and masks are NumPy's, and gradients those of differences; nothing that is masked has one."""

from __future__ import annotations

import copy
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.ma as ma
import pytest

import tapegrad as tg

X, W = np.array([0.31, 0.52, 0.93, 1.44]), np.array([1.0, 2.0, 3.0, 4.0])
MASK = np.array([False, True, False, False])
TABLE = ma.array(W, mask=[True, False, False, False])
GAPS = ma.masked_invalid([1.0, np.nan, 3.0, np.nan])
ROWS = np.array([[0, 1, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1]], bool)


def square(a: Any) -> Any:
    return a.reshape(2, 2)


def set_to(a: Any, index: Any, value: Any) -> Any:
    a[index] = value
    return a


def called(a: Any, name: str, *args: Any) -> Any:
    getattr(a, name)(*args)
    return a


# of a masked array, and of its numbers
OF_MASKED: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda a, x: ma.stack([a + x, x - a, a * 2.0, 2.0 / a, a / x, a ** 2, 2.0 ** a, -a, abs(a), a % 0.4, a // 0.1 * 0.0 + a, a * TABLE, TABLE - a]),
    "in place": lambda a, x: called(called(called(called(a, "__iadd__", x), "__imul__", TABLE), "__itruediv__", x + 1), "__ipow__", 2),
    "comparisons": lambda a, x: ma.where((a > 0.4) & (a < 1.0) | (a == x), a, 3.0 * x),
    "functions": lambda a, x: ma.stack([ma.exp(a), ma.sqrt(a), ma.log(a - 0.6), ma.arctan2(a, x), ma.maximum(a, 0.6), ma.hypot(a, TABLE), ma.power(a, x), ma.arcsin(a)]),
    "ufuncs": lambda a, x: ma.stack([np.exp(a), np.log(a - 0.6), np.multiply(x, a), np.add(a, TABLE), np.square(a), np.maximum(a, x), np.modf(a)[0], np.sqrt(a - 0.6)]),
    "outer": lambda a, x: ma.multiply.outer(a, x) + np.add.outer(a, a) + ma.outer(a, x),
    "sums": lambda a, x: ma.array([a.sum(), a.mean(), a.prod(), a.var(), a.std(ddof=1), a.min(), a.max(), a.ptp(), a.count() * x[0], a.anom()[0], ma.median(a)]),
    "sums of NumPy's": lambda a, x: np.sum(a) + 2 * np.mean(a) + np.prod(a) * np.var(a) + np.std(a) * np.max(a) + np.ptp(a) * np.average(a, weights=W) + np.median(a),
    "axes": lambda a, x: ma.concatenate([square(a).sum(axis=0), square(a).mean(1), square(a).var(axis=0), square(a).cumsum(axis=0).ravel(), square(a).max(0)]),
    "running": lambda a, x: ma.concatenate([a.cumsum(), a.cumprod(), ma.diff(a), np.diff(a), ma.ediff1d(a)]),
    "filled": lambda a, x: a.filled() * (W < 2) + a.filled(7.0) + a.filled(x[0]) + ma.filled(a, -1.0),
    "compressed": lambda a, x: a.compressed() * ma.compressed(a),
    "data": lambda a, x: a.data * W + np.asarray(a) + ma.getdata(a) + np.exp(a).data + (a * 3).data,
    "products": lambda a, x: ma.dot(a, a) + ma.dot(a, x) * ma.inner(a, x) + np.dot(a, x) + ma.average(a) * ma.average(a, weights=W) + square(a).dot(square(x))[0, 1],
    "correlations": lambda a, x: ma.cov(a, W) + ma.corrcoef(a, TABLE),
    "parts": lambda a, x: ma.concatenate([a[2:], a[[0, 3]], a[a > 0.4], a[~a.mask], a[W > 2], a[a.nonzero()], a.take([0, 2]), a[None, :][:, 1], a[::-1]]),
    "an item": lambda a, x: a[0] * a[3] + a.item(2),
    "written": lambda a, x: set_to(set_to(set_to(set_to(a, 0, x[1] ** 2), 1, 5.0 * x[2]), 2, ma.masked), slice(3, None), x[:1]),
    "written hard": lambda a, x: set_to(called(a, "harden_mask"), slice(None), 2.0 * x),
    "written in a view": lambda a, x: (set_to(a[1:], 0, 7.0 * x[0]), a)[1],
    "put": lambda a, x: called(called(a, "put", [0], [x[2] ** 2]), "__setmask__", [False, False, True, False]),
    "shapes": lambda a, x: ma.concatenate([square(a).T.ravel(), square(a).flatten(), square(a).diagonal(), a.repeat(2), ma.squeeze(a[None]), np.expand_dims(a, 0)[0]]),
    "shapes of NumPy's": lambda a, x: ma.concatenate([np.roll(a, 1), np.tile(a, 2), np.flip(a), np.repeat(a, 2), np.ravel(square(a)), np.broadcast_to(a, (1, 4))[0]]),
    "joined": lambda a, x: ma.concatenate([ma.vstack([a, x]).ravel(), ma.hstack([a, TABLE]), np.concatenate([a, a]), ma.column_stack([a, x]).ravel(), np.stack([a, x])[0]]),
    "order": lambda a, x: ma.concatenate([ma.sort(a), np.sort(a), called(a.copy(), "sort"), a[a.argsort()], a[[a.argmax(), a.argmin()]]]),
    "rounded": lambda a, x: ma.around(a, 1) * x + a.clip(0.4, 1.0) + ma.clip(x, 0.4, a.max()) + a.round(1) * a,
    "chosen": lambda a, x: ma.where(a > 0.6, a, 3 * a) + ma.choose([0, 1, 0, 1], [a, 2 * a]) + ma.where(MASK, a, x),
    "masks": lambda a, x: ma.stack([ma.array(a, mask=[1, 0, 0, 0]), ma.array(a, mask=[1, 0, 0, 0], keep_mask=False), ma.masked_greater(a, 1.0), ma.masked_inside(x, 0.5, 0.6)]),
    "copies": lambda a, x: a.copy() + copy.copy(a) + copy.deepcopy(a) + ma.array(a, copy=True) + a.view() + ma.masked_array(x, MASK),
    "iterated": lambda a, x: sum(v * v for v in a if v is not ma.masked) + sum(a.compressed()) + sum(v for v in a.flat if v is not ma.masked),
    "of lists": lambda a, x: ma.array([a, 2 * a]) + ma.array([x, x * x], mask=[MASK, ~MASK]),
    "filled in": lambda a, x: set_to(set_to(ma.zeros(4), slice(0, 2), x[:2] ** 2), 3, ma.masked) + set_to(ma.masked_all(4), slice(0, 3), x[:3]) + set_to(ma.empty(4), slice(None), x),
    "linear": lambda a, x: ma.polyfit(W, a ** 2, 1) + np.linalg.norm(a) + np.linalg.solve(np.diag(W), a)[:2],
    "facts": lambda a, x: a.sum() * (isinstance(a, ma.MaskedArray) + 2 * isinstance(a * 2, np.ndarray) + 4 * ma.is_masked(a) + a.size + a.ndim + (a[1] is ma.masked)),
    "text": lambda a, x: a * (len(str(a)) > 3) * repr(a).count("mask"),
}


def described(y: Any) -> Any:
    if isinstance(y, ma.MaskedArray):
        assert type(y) is ma.MaskedArray and y.baseclass is np.ndarray
        return "masked", y.shape, y.filled(-99.0).round(9).tolist(), ma.getmaskarray(y).tolist()
    return type(y).__name__, np.shape(y), np.asarray(y).round(9).tolist()


def number(y: Any) -> Any:
    """Return one number of a result, to each of whose parts the gradient is another."""
    y = ma.filled(y, 0.0)
    return (y * np.cos(np.arange(np.size(y))).reshape(np.shape(y))).sum()


def slopes(f: Callable[[Any], Any], x: Any) -> Any:
    return np.array([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(len(x))], float)


def check(f: Callable[[Any], Any], x: Any = X) -> None:
    """Compare values and gradients, traced once, again and compiled, with those of NumPy."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert described(tg.trace(f, x)[0]) == described(f(x))
        g: Callable[[Any], Any] = lambda x: number(f(x))  # noqa: E731
        np.testing.assert_allclose(tg.gradient(g, x)[0], slopes(g, x), atol=2e-6)
        step = tg.value_and_grad(g, argnums=0, warmup=1)
        for k in (1.0, 1.01, 0.99, 1.0):
            value, dx = step(x * k)
            assert value == pytest.approx(g(x * k))
            np.testing.assert_allclose(dx, slopes(g, x * k), atol=2e-6)


@pytest.mark.parametrize("name", OF_MASKED)
def test_masked_arrays(name: str) -> None:
    check(lambda x: OF_MASKED[name](ma.array(x.copy(), mask=MASK.copy()), x))


@pytest.mark.parametrize("name", ["arithmetic", "ufuncs", "sums", "sums of NumPy's", "axes", "filled", "data", "in place"])
def test_without_a_mask(name: str) -> None:
    check(lambda x: OF_MASKED[name](ma.array(x.copy()), x), X + 1.0)


@pytest.mark.quick
def test_masks_of_traced_numbers() -> None:
    check(lambda x: ma.masked_where(x > 0.7, x * x))
    check(lambda x: ma.masked_greater(x, 0.7) + ma.masked_less_equal(x, 0.4) + ma.masked_outside(x, 0.4, 1.0) + ma.masked_values(x, 0.93))
    check(lambda x: ma.array(x, mask=x < 0.4).mean() * ma.masked_array(W, x > 1.0))
    step = tg.value_and_grad(lambda x: ma.masked_where(x > 0.7, x * x).sum(), argnums=0, warmup=1)
    for k in (1.0, 2.0, 0.4, 1.0):
        np.testing.assert_allclose(step(X * k)[1], np.where(X * k > 0.7, 0.0, 2 * X * k))


def test_axes_of_many_rows() -> None:
    def rows(x: Any) -> Any:
        return ma.array(np.outer(W[:3], x), mask=ROWS)
    check(lambda x: rows(x).sum(0) + rows(x).mean(axis=0) + rows(x).var(axis=0) + ma.median(rows(x), axis=0))
    check(lambda x: ma.concatenate([rows(x).sum(1), rows(x).std(axis=1, ddof=1), ma.average(rows(x), axis=1, weights=W)]))
    check(lambda x: ma.mask_rows(rows(x).copy()) + ma.dot(rows(x).T, rows(x)).sum())


@pytest.mark.parametrize("f", [
    lambda x: (GAPS - x) ** 2, lambda x: (GAPS - x) * (x - GAPS), lambda x: np.exp(GAPS * x), lambda x: ma.sqrt(GAPS * x), lambda x: np.abs(GAPS / x),
    lambda x: ma.power(GAPS, x), lambda x: ma.log(x - 0.9), lambda x: np.sqrt(ma.masked_equal(x * (W > 1), 0.0)), lambda x: ma.sqrt(ma.masked_equal(x * (W > 1), 0.0)),
    lambda x: ma.masked_equal(x * (W > 1), 0.0) ** 0.5, lambda x: 1.0 / ma.array(x * (W > 1)), lambda x: ma.divide(x, x * (W > 1)), lambda x: ma.array(x) / (x * (W > 1)),
    lambda x: np.hypot(ma.masked_equal(x * (W > 1), 0.0), 0.0), lambda x: np.log(ma.array(x * (W > 1))), lambda x: ma.arccosh(x + 0.2), lambda x: GAPS.var() * x + (GAPS * x).std(),
])
def test_nothing_comes_of_what_is_masked(f: Callable[[Any], Any]) -> None:
    check(f)


@pytest.mark.filterwarnings("ignore::tapegrad.EffectWarning")  # they write into their arguments
def test_captured_and_arguments() -> None:
    held = ma.array(W.copy(), mask=MASK.copy())

    def f(x: Any) -> Any:
        return (held * x).sum() + held.count() * x[0]
    step = tg.value_and_grad(f, argnums=0, warmup=1)
    for change in ((0, 2.0), (2, ma.masked), (1, 5.0), (3, 9.0)):
        for _ in range(2):
            np.testing.assert_allclose(step(X)[1], slopes(f, X), atol=1e-8)
        held[change[0]] = change[1]

    def g(a: Any, x: Any) -> Any:
        return (a * x).sum() + a.mean() * a.count()
    both = tg.value_and_grad(g, argnums=(0, 1), warmup=1)
    for mask in (MASK, MASK, ~MASK, ma.nomask, [1, 0, 1, 0], ma.nomask, MASK):
        a = ma.array(W.copy(), mask=mask)
        value, (da, dx) = both(a, X)
        assert value == pytest.approx(g(a, X))
        np.testing.assert_allclose(da, ma.filled((ma.array(X, mask=mask) + 1), 0.0))
        np.testing.assert_allclose(dx, a.filled(0.0))

    def written(a: Any) -> Any:
        a[0] = 5.0 * a[2]
        a[2] = ma.masked
        return a.sum()
    a = ma.array(W.copy(), mask=MASK.copy())
    np.testing.assert_allclose(tg.gradient(written, a)[0], [0.0, 0.0, 5.0, 1.0])
    assert described(a) == described(ma.array(W, mask=MASK))


def test_with_other_transforms() -> None:
    def f(x: Any) -> Any:
        return (ma.array(x, mask=MASK) ** 3).sum()
    np.testing.assert_allclose(tg.hessian(f)(X), np.diag(np.where(MASK, 0.0, 6 * X)))
    np.testing.assert_allclose(tg.vmap(f)(np.stack([X, 2 * X])), [f(X), f(2 * X)])
    assert tg.jvp(f, (X,), (np.ones(4),))[1] == pytest.approx(np.where(MASK, 0.0, 3 * X ** 2).sum())
    assert tg.gradient(f, X.astype(np.float32))[0].dtype == np.float32
    np.testing.assert_allclose(tg.gradient(lambda x: tg.gradient(f, x)[0].sum(), X)[0], np.where(MASK, 0.0, 6 * X))
    z = X + 1j * X[::-1]
    np.testing.assert_allclose(tg.gradient(lambda z: (abs(ma.array(z, mask=MASK)) ** 2).sum(), z)[0], np.where(MASK, 0.0, 2 * z))
    y, (_, dx) = tg.grad(lambda x: ma.array(x, mask=MASK) ** 2, X, seed=np.ones(4))
    assert described(y) == described(ma.array(X, mask=MASK) ** 2)
    np.testing.assert_allclose(dx[~MASK], 2 * X[~MASK])


@pytest.mark.parametrize("f", [
    lambda x: x.sum() + ma.masked, lambda x: ma.array(x, mask=True).sum(), lambda x: x.view(type("Own", (ma.MaskedArray,), {})).sum(),
    lambda x: sum(ma.array(x, mask=MASK).tolist()[2:]), lambda x: np.dot(x, TABLE),
])
def test_what_is_refused(f: Callable[[Any], Any]) -> None:
    with pytest.raises(tg.TapeError) as err:
        tg.gradient(f, X)
    assert err.value.try_ and err.value.where is not None


def test_other_threads() -> None:
    found: list[Any] = []

    def plain() -> None:
        for _ in range(200):
            y = (ma.array(X, mask=MASK) ** 2).std() + ma.zeros(3).sum()
            found.append(type(y) is np.float64 and type(ma.zeros(3)) is ma.MaskedArray and type(ma.exp(ma.array(X))) is ma.MaskedArray)
    thread = threading.Thread(target=plain)
    thread.start()
    for _ in range(10):
        tg.gradient(lambda x: ma.exp(ma.array(x, mask=MASK)).std(), X)
    thread.join()
    assert len(found) == 200 and all(found)
