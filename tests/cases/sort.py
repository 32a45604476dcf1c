"""Cases of the ops of order: sorting, ranks and quantiles, places in a sorted array."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.cases.case import Case, draw

SOME = [(draw(2, 3),), (draw(3, 4, seed=1),), (draw(5, seed=2),)]
EMPTY, STRIDED, NUMBER = (np.zeros((0, 3)),), (draw(4, 3, seed=1).T[::-1, ::2],), (1.5,)
GAPS = np.where(draw(3, 4, seed=9) > 1.2, np.nan, draw(3, 4, seed=8))
EDGES = np.array([-1.0, 0.0, 1.0])



def in_place(x: Any) -> Any:
    y = x.copy()
    y[::2].sort()
    y.partition(2)
    return y[2] * y.sum()


CASES = [
    Case("sort", np.sort, [*SOME, EMPTY, STRIDED], torch=lambda x: torch.sort(x).values, errors=[((1.0,), np.exceptions.AxisError)]),
    Case("sort:axis", lambda x: np.sort(x, axis=0) * x, [*SOME, EMPTY]), Case("sort:flat", lambda x: np.sort(x, axis=None), [*SOME, NUMBER]),
    Case("sort:stable", lambda x: np.sort(x, -1, "stable") + np.sort(x, stable=True), SOME[:2]),
    Case("sort:in place", in_place, [(draw(5),)], ops=("sort", "setitem")),
    Case("sort:integers", lambda n, x: x * np.sort(n), [(draw(4, dtype=int), 1.5)]),
    Case("argsort", np.argsort, [*SOME, EMPTY, STRIDED]), Case("argsort:axis", lambda x: x.argsort(0) - np.argsort(x, 0, stable=True), SOME),
    Case("argsort:flat", lambda x: np.argsort(x, axis=None, kind="stable"), [*SOME, (np.ones(20),)]),
    Case("argsort:read", lambda x, y: np.take_along_axis(y, np.argsort(x, axis=1), axis=1), [(draw(2, 3), draw(2, 3, seed=5))]),
    # what stands on each side of kth is ordered anyhow: sums are what a program may rely on
    Case("argpartition", lambda x: np.argpartition(x, 1, axis=0)[1] + x.argpartition((0, 1), axis=0)[1], SOME),
    Case("argpartition:partition", lambda x: np.partition(x, 2)[..., 2], SOME, errors=[((np.ones(2),), ValueError)]),
    Case("argpartition:largest", lambda x: np.partition(x, -3, axis=None)[-3:].sum() ** 2, SOME),
    Case("argrank", lambda x: np.median(x, axis=0).sum() + np.quantile(x, 0.25), SOME),
    Case("median", np.median, [*SOME, NUMBER, (np.array(1.5),), STRIDED], ops=("argrank", "mean")),
    Case("median:axis", lambda x: np.median(x, axis=-1) * np.median(x, axis=-1, keepdims=True), SOME, ops=("mean",)),
    Case("median:axes", lambda x: np.median(x, axis=(0, 2), keepdims=True), [(draw(2, 3, 2),)],
         ops=("mean",), errors=[((np.ones(3),), np.exceptions.AxisError)]),
    Case("median:integers", lambda n, x: np.median(n) * x, [(draw(4, dtype=int), 1.5)], ops=("mean",)),
    Case("median:nan", lambda x: np.nan_to_num(np.median(x, axis=0)), [(GAPS,)], ops=("isnan",)),
    Case("quantile", lambda x: np.quantile(x, 0.3), [*SOME, NUMBER, STRIDED],
         ops=("argrank", "take_along_axis"), torch=lambda x: torch.quantile(x, 0.3)),
    Case("quantile:axis", lambda x: np.quantile(x, [0.0, 0.5, 0.9, 1.0], axis=-1), SOME, ops=("take_along_axis",),
         torch=lambda x: torch.quantile(x, torch.tensor([0.0, 0.5, 0.9, 1.0], dtype=x.dtype), -1)),
    Case("quantile:axes", lambda x: np.quantile(x, [[0.25, 0.8]], axis=(2, 0), keepdims=True), [(draw(2, 3, 2),)], ops=("take_along_axis",)),
    Case("quantile:nan", lambda x: np.nan_to_num(np.quantile(x, [0.1, 0.6], axis=0)), [(GAPS,)], ops=("isnan",)),
    Case("quantile:range", lambda x: np.quantile(x, 1.5), [], errors=[((np.ones(3),), ValueError)], ops=("take_along_axis",)),
    Case("percentile", lambda x: np.percentile(x, 37, axis=0), SOME, ops=("take_along_axis",)),
    Case("percentile:many", lambda x: np.percentile(x, [10.0, 90.0]), SOME, ops=("take_along_axis",)),
    Case("searchsorted", lambda x: np.searchsorted(EDGES, x), [*SOME, NUMBER]),
    Case("searchsorted:side", lambda x, v: np.searchsorted(x, v, side="right") + x.searchsorted(v), [(EDGES, draw(2, 2)), (EDGES, 0.0)]),
    Case("searchsorted:sorter", lambda x, v: np.searchsorted(x, v, sorter=np.argsort(x)), [(draw(5), draw(3))]),
    Case("digitize", lambda x: np.digitize(x, EDGES), [*SOME, NUMBER]),
    Case("digitize:right", lambda x, e: np.digitize(x, e, True), [(draw(4), EDGES), (draw(4), EDGES[::-1])]),
]
