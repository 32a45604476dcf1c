"""np.nditer, and ufuncs of np.frompyfunc, of traced arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

X = np.arange(6.0).reshape(2, 3) + 1.25
PRODUCT = np.frompyfunc(lambda a, b: (a * b, a + b), 2, 2)
PIECES = np.frompyfunc(lambda a: 1 if a > 2 else a * 0.5, 1, 1)


def weighted(values: Any) -> Any:
    total, weight = 0.0, 1.0
    for v in values:
        total, weight = total + weight * v * v, weight + 1.0
    return total


def by_index(x: Any) -> Any:
    it, total = np.nditer(x, flags=["multi_index", "f_index"]), 0.0
    while not it.finished:
        total = total + it[0] * it.multi_index[1] * it.index
        it.iternext()
    return total


def in_place(x: Any) -> Any:
    y = x * 1
    with np.nditer([y, np.arange(3.0)], op_flags=[["readwrite"], ["readonly"]]) as it:
        for u, v in it:
            u[...] = u * v
    return (y * y).sum()


def filled(x: Any) -> Any:
    y = np.zeros(x.shape)
    it = np.nditer(y, flags=["multi_index"], op_flags=["writeonly"])
    for v in it:
        v[...] = x[it.multi_index] ** 2
    return (y * x).sum()


def of_python(x: Any) -> Any:
    p, q = PRODUCT(x, 2.0)
    return (p.astype(float) * q.astype(float)).sum() * PIECES(x[0, 0]) + PIECES(x).astype(float).sum()


def of_objects(x: Any) -> Any:
    pairs = np.vectorize(lambda a, k: (a * k, a + k), excluded=[1], otypes=[np.ndarray])
    return np.array(pairs(x, x[0, 0]).tolist()).prod(axis=-1).sum() * np.array(pairs(x[0, 1], 2.0).tolist())[1]


def written_to_afterwards(x: Any) -> Any:
    y = x * 1
    elements = list(np.nditer(y))
    pairs = list(np.nditer([y, x[0]]))
    y *= x
    with pytest.raises(ValueError):
        elements[0][...] = 1.0
    return weighted(elements) + sum(u * v for u, v in pairs)


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda x: weighted(np.nditer(x)),
    lambda x: weighted(np.nditer(x.T)),
    lambda x: weighted(np.nditer(x.T, order="C")),
    lambda x: weighted(np.nditer(x[::-1])),
    lambda x: weighted(np.nditer(x[:, ::-1].T)),
    lambda x: weighted(np.nditer(np.broadcast_to(x[0, ::-1], (3, x.shape[1])))),
    by_index,
    in_place,
    written_to_afterwards,
    filled,
    lambda x: sum(u * v for u, v in np.nditer([x, x[0]])),
    of_python,
    lambda x: np.frompyfunc(lambda a: a * a, 1, 1)(x).sum(),
    of_objects,
    lambda x: sum(p * q for p, q in np.frompyfunc(lambda a: [a, a * a], 1, 1)(x).flat),
    lambda x: sum(float(v) for v in np.nditer(np.arange(3.0))) * x.sum(),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_gradients(number: int) -> None:
    f = PROGRAMS[number]
    fast = tg.value_and_grad(f, argnums=0, warmup=1)
    for x in (X, X * 2, X * 3, np.asfortranarray(X), X.astype(np.float32)):
        units, wide = np.eye(x.size).reshape(-1, *x.shape) * 1e-6, x.astype(float)
        expected = np.reshape([(float(f(wide + e)) - float(f(wide - e))) / 2e-6 for e in units], x.shape)
        if x.flags.f_contiguous:  # what NumPy goes by is how x lies
            expected = np.reshape(
                [(float(f(np.asfortranarray(wide + e))) - float(f(np.asfortranarray(wide - e)))) / 2e-6 for e in units],
                x.shape,
            )
        rtol = 1e-3 if x.dtype == np.float32 else 1e-5
        for value, dx in (tg.grad(f, x, argnums=0), fast(x)):
            np.testing.assert_allclose(value, float(f(x)), rtol=rtol)
            np.testing.assert_allclose(dx, expected, rtol=rtol)


def test_what_it_does_not_hand_out() -> None:
    with pytest.raises(tg.UnknownFunction, match=r"np.nditer with buffers"):
        tg.grad(lambda x: sum(v.sum() for v in np.nditer(x, flags=["external_loop"])), X)

    def writes(x: Any) -> Any:
        for v in np.nditer(x * 1):
            v[...] = 1.0

    with pytest.raises((ValueError, TypeError)):
        tg.grad(writes, X)


def test_broadcast_has_the_common_shape_and_goes_through_the_elements() -> None:
    def f(x: Any, y: Any) -> Any:
        both, total = np.broadcast(x, y[:, None], 2.0), 0.0
        for i, (a, b, c) in enumerate(both):
            total = total + (i + 1) * a * b ** 2 * c
        return total * both.size + np.broadcast_to(x, np.broadcast(x, y[:, None]).shape)[1].sum()
    x, y = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0])
    step = tg.value_and_grad(f, argnums=(0, 1), warmup=1)
    for k in (1.0, 1.1, 1.2, 1.3):
        value, (dx, dy) = step(x * k, y)
        assert np.isclose(value, f(x * k, y))
        assert np.allclose(dx, [(f(x * k + e, y) - f(x * k - e, y)) / 2e-6 for e in 1e-6 * np.eye(3)], rtol=1e-6)
        assert np.allclose(dy, [(f(x * k, y + e) - f(x * k, y - e)) / 2e-6 for e in 1e-6 * np.eye(2)], rtol=1e-6)
    assert np.isclose(step(np.ones((2, 3)), y)[0], f(np.ones((2, 3)), y))
    with pytest.raises(ValueError, match="shape mismatch"):
        tg.grad(lambda x: np.broadcast(x, np.ones(2)).size * x.sum(), x)
