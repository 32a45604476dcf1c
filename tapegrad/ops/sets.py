"""Ops that compare and count values: unique, isin, bincount, orders by several keys, and flat indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Array
from tapegrad.numbers.lazy import needed, torch
from tapegrad.numbers.tensors import of_reals, on_host, on_one_device, together
from tapegrad.ops.elementwise import constant
from tapegrad.ops.index import take
from tapegrad.rules import batching, types
from tapegrad.rules.facts import CONSTANT, FRESH, RAISES, linear_in
from tapegrad.rules.registry import define


def _unique(x: Any, axis: Any = None, equal_nan: bool = True) -> Any:
    return np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=equal_nan)[1:]


# the first place of each value, which value each element is, and the counts: the values are read at those places
unique = define("unique", _unique, rule=CONSTANT, batch=False, torch=on_host(_unique),
    memory=FRESH, spec=types.opaque("values decide how many there are", dynamic=True))
isin = constant("isin", lambda x1, x2, invert=False: np.isin(x1, x2, invert=invert), batch=batching.of_first,
                on_torch=of_reals(lambda x1, x2, invert=False: torch.isin(*together((x1, x2)), invert=invert),
                                  lambda x1, x2, invert=False: np.isin(x1, x2, invert=invert)), spec=types.is_member)
bincount = define("bincount", lambda x, weights=None, minlength=0: np.bincount(x, weights, minlength), (
    None, lambda dy, _y, x, _weights, minlength=0: take(dy, x)), effects=RAISES, tangent=linear_in(1), batch=False,
    torch=lambda x, weights=None, minlength=0: torch.bincount(x, None if weights is None else weights.to(torch.float64),
                                                              minlength),
    memory=FRESH, spec=types.opaque("values decide how many there are", dynamic=True))


def _lexsort(*keys: Any, axis: int = -1) -> Any:
    return np.lexsort(keys, axis)


def _lexsort_tensors(*keys: Any, axis: int = -1) -> Any:
    first, *others = on_one_device(keys)
    order = torch.argsort(first, dim=axis, stable=True)
    for key in others:
        order = order.take_along_dim(torch.argsort(key.take_along_dim(order, axis), dim=axis, stable=True), axis)
    return order


lexsort = constant("lexsort", _lexsort, batch=False, on_torch=of_reals(_lexsort_tensors, _lexsort),
                   spec=types.places_of_keys)
ravel_multi_index = constant("ravel_multi_index",
                             lambda *index, shape, **how: np.ravel_multi_index(index, shape, **how), effects=RAISES,
                             batch=batching.elementwise,
                             on_torch=on_host(lambda *index, shape, **how: np.ravel_multi_index(index, shape, **how)),
                             spec=types.raveled)
unravel_index = constant("unravel_index", lambda x, shape, order="C": np.unravel_index(x, shape, order), effects=RAISES,
                         batch=batching.of_first,
                         on_torch=on_host(lambda x, shape, order="C": np.unravel_index(x, shape, order)),
                         spec=types.unraveled)


def _nearest_points(points: Array, x: Array, k: Any, p: float) -> Any:
    """Return which points are the nearest to those of x, by SciPy, imported at the first call."""
    return needed("scipy.spatial").KDTree(points).query(x, k=k, p=p)[1]


nearest_points = constant("nearest_points", _nearest_points, batch=False, on_torch=on_host(_nearest_points),
                          spec=types.opaque("SciPy's tree decides"))
