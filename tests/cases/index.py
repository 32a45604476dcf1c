"""Cases of the index ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tests.cases.case import Case, draw

MASK = np.array([[True, False, True, False], [False, False, True, True], [True, True, False, False]])
TWICE = np.array([2, 0, 2, -1, 2])
ORDER = np.array([[1, 0, 2, 0], [2, 2, 0, 1]])


def reads(name: str, fn: Callable[[Any], Any], outside: Any = None, **kwargs: Any) -> Case:
    """A read of a 3×4 array: contiguous, strided, complex; `outside` is an array that the index does not fit."""
    errors = [] if outside is None else [((outside,), IndexError)]
    samples = [(draw(3, 4),), (draw(4, 6, seed=1).T[::2],), (draw(3, 4) + 1j * draw(3, 4, seed=2),)]
    return Case(f"getitem:{name}", fn, samples, errors=errors, **kwargs)


def both(name: str, fn: Callable[[Any], Any], outside: Any = None) -> Case:
    """A read that torch writes in the same way."""
    errors = [] if outside is None else [((outside,), IndexError)]
    return Case(f"getitem:{name}", fn, [(draw(3, 4),), (draw(4, 6, seed=1).T[::2],)], torch=fn, errors=errors)


def each(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        for j in range(x.shape[1]):
            total = total + x[i, j] * x[-i, j] + x[i][j]
    return total



CASES = [
    Case("getitem", lambda x, i: x[i] * 2,
         [(draw(4), 2), (draw(3, 4), -1), (draw(3, 4), ORDER % 2), (draw(3, 4), np.array(1)), (draw(3, 4), np.int64(1)),
          (draw(0, 3), np.zeros(0, int)), (draw(4), [3, 0])],
         errors=[((np.ones(3), 3), IndexError), ((np.ones(3), 1.0), IndexError), ((np.float64(1.0), 0), IndexError),
                 ((1.0, 0), TypeError)]),
    both("element", lambda x: x[1, 2] * x[-1, -2], np.ones((2, 2))), both("row", lambda x: x[1], np.ones((1, 4))),
    both("slices", lambda x: x[1:, ::2]), both("empty", lambda x: x[2:1]), both("none", lambda x: x[None, :, None, 1]),
    both("ellipsis", lambda x: x[..., 1]), both("all", lambda x: x[...]), both("too many", lambda x: x[1, 0] + x[1, 2], np.ones(3)),
    both("repeats", lambda x: x[TWICE], np.ones((2, 4))), both("pairs", lambda x: x[TWICE % 3, TWICE]), both("grid", lambda x: x[ORDER]),
    both("apart", lambda x: x[TWICE, None, 1:]), both("mask", lambda x: x[x > 0.3]),
    both("constant mask", lambda x: x[MASK], np.ones((2, 4))), both("mask of rows", lambda x: x[x[:, 0] > 0.0, 1:]),
    both("mask and integers", lambda x: x[[True, False, True], [1, 1]]), both("views", lambda x: x[1:][0][::2] * x[0, 1]),
    both("each", each), reads("negative step", lambda x: x[::-1, ::-2]), reads("range", lambda x: x[range(2), 1:].T * x[range(1, -1, -1), [0]]),
    reads("list", lambda x: x[[0, 0, 2]], np.ones((1, 4))),
    reads("empty list", lambda x: x[[]]), reads("tuple", lambda x: x[(0, 1), (1, 1)]),
    reads("split_indices", lambda x: x[None, TWICE, ..., TWICE, None]), reads("ix", lambda x: x[np.ix_([0, 2, 2], [True, False, True, True])]),
    reads("bools", lambda x: x[True, 1:] * x[None, :-1]),
    reads("iteration", lambda x: sum(a * b for row in x for a, b in zip(row, row[::-1]))),
    reads("loop", lambda x: sum(x[i, i] * x[i % 2] for i in range(3))),
    reads("with sum", lambda x: sum(x[i, 0] * x[i, 1] for i in range(3)) + x.sum() * x[0, 0]),
    Case("getitem:traced grid", lambda x, i: x[np.ix_(i, [True, False, True])] * x[np.ix_([0, 1], x[0] > x[1])],
         [(draw(3, 3), np.array([2, 0]))], errors=[((np.ones((3, 3)), np.array([[0]])), ValueError)]),
    Case("getitem:scalar", lambda x: x[()] + x[None] + x[...] + np.square(x)[()], [(np.array(2.5),)]),
    Case("getitem:traced bounds", lambda x, n: x[n: 2 * n] * 2, [(draw(5), 1), (draw(5), 2)]),
    Case("getitem:own index", lambda x: x[(x * x).argmax()] * x[[x.argmax(), 0]], [(draw(5),)], ops=("getitem",)),
    Case("getitem_masked", lambda x, y: x[x > y] * y[x > y],
         [(draw(2, 3), draw(2, 3, seed=4)), (np.zeros((0, 2)), np.zeros((0, 2))), (draw(3), draw(3, seed=1))],
         torch=lambda x, y: x[x > y] * y[x > y], errors=[((np.ones((2, 3)), np.ones((3, 2))), ValueError)]),
    Case("getitem_masked:scalar", lambda x: x[x > 0] * x, [(np.array(2.5),)]),
    # the gradient of a read is a scatter: its own rule shows in the second order
    reads("scatter", lambda x: (x[TWICE] ** 2).sum() * x[0, 1] * x[MASK].sum() + (x[1:, ::2] ** 3).sum(), ops=("scatter",)),
    Case("take", lambda x: np.take(x, ORDER), [(draw(3, 4),), (draw(3),), (draw(3, 4).T[::-1],)],
         torch=lambda x: torch.take(x, torch.tensor(ORDER)), errors=[((np.ones(2),), IndexError)]),
    Case("take:axis", lambda x: np.take(x, [1, 1, 0], axis=1) * x.take(2, axis=-1).sum(), [(draw(3, 4),), (draw(2, 4, 3),), (draw(0, 3),)],
         torch=lambda x: torch.index_select(x, 1, torch.tensor([1, 1, 0])) * x.select(-1, 2).sum(), errors=[((np.ones(3),), ValueError)]),
    Case("take:modes", lambda x: np.take(x, [-1, 5, 9], mode="wrap") * np.take(x, [-1, 1, 9], mode="clip") + x.take([True, False, False]),
         [(draw(2, 2),), (draw(3),)]),
    Case("take:traced", lambda x, i: np.take(x, i, 0), [(draw(3, 4), ORDER), (draw(3), 1), (draw(3), np.array(2))]),
    Case("take_along_axis", lambda x: np.take_along_axis(x, ORDER.T, axis=0), [(draw(3, 2),), (draw(5, 2),), (draw(3, 4).T[:, ::2],)],
         torch=lambda x: torch.take_along_dim(x, torch.tensor(ORDER.T), 0),
         errors=[((np.ones((2, 2)),), IndexError), ((np.ones(3),), ValueError)]),
    Case("take:windows", lambda x: np.lib.stride_tricks.sliding_window_view(x, 2), [(draw(5),)], errors=[((np.ones(1),), ValueError)]),
    Case("take:windows of axes", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)) * 2, [(draw(3, 4),), (draw(4, 3).T,)]),
    Case("take:windows of one axis", lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(-1, 1)).max(-1), [(draw(3, 4),)]),
    Case("take:strided", lambda x: np.lib.stride_tricks.as_strided(x, (2, 2), (x.strides[0], x.strides[-1])) ** 2, [(draw(3),), (draw(3, 4).T,), (draw(6)[::-2],)]),
    Case("take_along_axis:flat", lambda x: np.take_along_axis(x, np.array([1, 1, 0]), axis=None), [(draw(3, 2),)]),
    Case("take_along_axis:stretched", lambda x: np.take_along_axis(x, np.array([[1, 2]]), axis=1), [(draw(3, 4),), (draw(1, 3),)]),
    Case("take_along_axis:order", lambda x: np.take_along_axis(x, np.argsort(x, axis=1), 1) ** 2, [(draw(3, 4),)]),
    Case("compress", lambda x: np.compress([True, False, True], x, axis=1), [(draw(2, 3),), (draw(2, 4),), (draw(0, 3),)],
         ops=("getitem",)),
    Case("compress:traced", lambda x: x.compress(x[0] > 0, 1) * 2, [(draw(2, 3),)], ops=("getitem_masked",)),
    Case("extract", lambda x: np.extract(x > 0, x), [(draw(2, 3),)], ops=("getitem_masked",)),
    Case("choose", lambda a, b: np.choose([[0, 1, 1], [1, 0, 1]], (a, b)) * np.choose([2, 0, 1], [a, b], mode="wrap"),
         [(draw(2, 3), draw(3, seed=1)), (draw(3), 2.0)], ops=("take_along_axis",), errors=[((np.ones(2), np.ones(3)), ValueError)]),
    Case("choose:method", lambda i, a: i.choose([a, 2 * a, a * a]), [(np.array([0, 2, 1]), draw(3))], ops=("take_along_axis",)),
    Case("select", lambda x: np.select([x > 1, x < -1], [x * x, 3 * x], default=-x), [(draw(3, 4),), (draw(4, seed=1),)], ops=("where",)),
    Case("select:none", lambda x: np.select([], []) + x, [], ops=("where",), errors=[((np.ones(2),), ValueError)]),
]
