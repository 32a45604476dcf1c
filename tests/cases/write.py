"""Cases of the ops that make arrays to be written to, and of writing; tests/trace/test_write.py has the programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case, draw


def filled(make: Any) -> Any:
    """Write into what a constructor made."""
    def f(x: Any) -> Any:
        y = make(x)
        y[1:] = x[:-1] * 2
        return y * x
    return f


def written(index: Any, value: Any) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        y[index] = value(x)
        return y * x
    return f


def written_whole(x: Any) -> Any:
    y = np.array(x)
    y[...] = x * x
    return y * x


ROWS = [(draw(4),), (draw(3, 2),), (draw(4, 6).T[::-2],)]

CASES = [
    Case("zeros", filled(lambda x: np.zeros(x.shape)), ROWS), Case("ones", filled(lambda x: np.ones(x.shape)), ROWS),
    Case("empty", lambda x: np.multiply(x, x, out=np.empty(x.shape)), [*ROWS, (np.zeros((0, 2)),)]),
    Case("full", filled(lambda x: np.full(x.shape, 0.5)), ROWS), Case("full:traced", filled(lambda x: np.full(x.shape, x.sum())), ROWS, ops=("full",)),
    Case("zeros_like", filled(np.zeros_like), ROWS), Case("ones_like", filled(lambda x: np.ones_like(x)), ROWS),
    Case("empty_like", lambda x: np.multiply(x, x, out=np.empty_like(x)), ROWS), Case("full_like", filled(lambda x: np.full_like(x, 0.5)), ROWS),
    Case("array", lambda x: np.array(x) * 2, [(1.5,), (np.float64(0.5),), (draw(3),)]),
    Case("array:list", lambda a, b: np.array([[a, b * 2.0], [0.0, a * b]]) @ np.array([b, 1.0]), [(1.5, 0.5)], ops=("array", "stack")),
    Case("setitem", written(0, lambda x: x[-1] ** 2), ROWS, errors=[((np.array(1.0),), IndexError)]),
    Case("setitem:slice", written(slice(1, None), lambda x: x[:-1]), ROWS), Case("setitem:all", written(Ellipsis, lambda x: x[0]), ROWS),
    Case("setitem:integers", written(np.array([1, 0]), lambda x: x[1:3]), ROWS), Case("setitem:repeats", written([1, 1], lambda x: x[1:3]), ROWS, ops=("setitem", "wins")),
    Case("setitem:mask", lambda x: written(x > 0, lambda x: x.sum())(x), ROWS, ops=("setitem",)),
    Case("setitem:new axis", written(None, lambda x: x[None] * 3), ROWS),
    Case("setitem:0-d", written_whole, [(np.array(2.0),)], ops=("setitem",)),
]
