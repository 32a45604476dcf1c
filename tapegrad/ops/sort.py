"""Ops of order: sorting, the permutations that sort, and places in a sorted array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.elementwise import constant
from tapegrad.ops.index import take_along_axis
from tapegrad.ops.shape import permute_dims
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, RAISES
from tapegrad.rules.registry import define


def _sort_cotangent(dy: Cotangent, y: Array, x: Array, axis: int = -1) -> Any:
    # sorting reads along the permutation that sorts; ties keep their order
    return take_along_axis.cotangent(0, dy, y, (x, argsort(x, axis=axis, stable=True)), {"axis": axis})


def _argsort(x: Array, axis: int = -1, **_: Any) -> Any:
    return torch.argsort(x, dim=axis, stable=True)  # the stable order is one that an unstable sort may return


def _searchsorted(x1: Array, x2: Array, side: str = "left") -> Any:
    x1, x2 = (x.contiguous() for x in tensors.together((x1, x2)))
    return torch.searchsorted(x1, x2, side=side)


def _digitize(x: Array, bins: Any, right: bool = False) -> Any:
    x, bins = tensors.together((x, bins))
    side = "left" if right else "right"
    rising = _searchsorted(bins, x, side)
    if len(bins) < 2:
        return rising
    # both, since the bins that decide are on the device
    return torch.where(bins[0] > bins[-1], len(bins) - _searchsorted(bins.flip(0), x, side), rising)


sort = define("sort", lambda x, axis=-1: np.sort(x, axis=axis), (_sort_cotangent,), batch=batching.along(),
              tangent=lambda ts, _y, x, axis=-1: take_along_axis(ts[0], argsort(x, axis=axis, stable=True), axis=axis),
              torch=tensors.of_reals(lambda x, axis=-1: torch.sort(x, axis).values, np.sort), memory=FRESH,
              spec=types.sorted_along)
argsort = constant("argsort",
                   lambda x, axis=-1, stable=False: np.argsort(x, axis=axis, kind="stable" if stable else None),
                   batch=batching.along(), on_torch=tensors.of_reals(_argsort, np.argsort), spec=types.places_along)
argpartition = constant("argpartition", lambda x, kth, axis=-1: np.argpartition(x, kth, axis=axis),
                        batch=batching.along(), on_torch=tensors.of_reals(lambda x, kth, axis=-1: _argsort(x, axis),
                                                  lambda x, kth, axis=-1: np.argpartition(x, kth, axis)),
                                                  spec=types.places_along)


SORTED = 512  # numbers for each rank, up to which one sort is quicker than a look for each rank


def _argrank(x: Array, ranks: tuple[int, ...]) -> Any:
    missing = np.isnan(x)
    places: Any
    if len(x) <= SORTED * len(ranks):
        places = np.argsort(x, axis=0, kind="stable")[list(ranks)]
    else:  # of equal values, the one that a stable sort would put there: the same on every backend
        values = np.partition(x, sorted(set(ranks)), axis=0)
        there = [np.cumsum(x == values[rank], axis=0) > rank - np.sum(x < values[rank], axis=0) for rank in ranks]
        places = np.argmax(np.stack(there), axis=1)
    return np.where(missing.any(axis=0), np.argmax(missing, axis=0), places) if missing.any() else places


def _argrank_tensor(x: Array, ranks: tuple[int, ...]) -> Any:
    order, missing = _argsort(x, 0), torch.isnan(x)
    places = torch.stack([order[rank] for rank in ranks])  # torch would copy a list of them to the device in each call
    return torch.where(missing.any(0), missing.to(torch.int8).argmax(0), places)


def _argrank_batch(_members: Any, x: Array, ranks: tuple[int, ...]) -> Any:
    axes = (1, 0, *range(2, len(shape_of(x))))  # the members are among the axes that stay
    return permute_dims(argrank(permute_dims(x, axes=axes), ranks=ranks), axes=axes)


argrank = constant("argrank", _argrank, batch=_argrank_batch, on_torch=tensors.of_reals(_argrank_tensor, _argrank),
                   spec=types.places_of_ranks)
searchsorted = constant("searchsorted", lambda x1, x2, side="left": np.searchsorted(x1, x2, side=side),
                        batch=batching.of_second, on_torch=tensors.of_reals(_searchsorted, np.searchsorted),
                        spec=types.places_among)
digitize = constant("digitize", np.digitize, effects=RAISES, batch=batching.of_first, on_torch=_digitize,
                    spec=types.bins_of)
