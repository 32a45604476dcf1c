"""NumPy's functions that make an array like a traced one, or from traced bounds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.numpy.shape import (
    broadcast_arrays,
    integers,
    moveaxis,
    numpy_dtype,
    rank,
)
from tapegrad.rules import Traced, means, register
from tapegrad.tangent import dtype_of, shape_of


def like(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return the meaning of `zeros_like` and its kin: a plain array, which depends on nothing."""
    def make_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None) -> Any:
        return make(shape_of(a) if shape is None else integers(shape), numpy_dtype(a) if dtype is None else dtype)
    return make_like


register(np.zeros_like, like(np.zeros))
register(np.ones_like, like(np.ones))
register(np.empty_like, like(np.empty))


@means(np.full_like)
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: Any = None) -> Any:
    value, shape = as_array(fill_value), shape_of(a) if shape is None else integers(shape)
    dtype = numpy_dtype(a) if dtype is None else np.dtype(dtype)
    if not isinstance(value, Traced):
        return np.full(shape, value, dtype)
    value = value if numpy_dtype(value) == dtype else ops.astype(value, dtype=dtype)
    return ops.copy(ops.broadcast_to(value, shape))  # what is broadcast cannot be written to


@means(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Any, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    order = list(range(len(xi)))
    if indexing == "xy":
        order[:2] = order[:2][::-1]
    grids = [ops.reshape(as_array(x), tuple(-1 if i == at else 1 for i in range(len(xi)))) for x, at in zip(xi, order)]
    full = tuple(grids) if sparse else broadcast_arrays(*grids)
    return tuple(map(ops.copy, full)) if copy else full


@means(np.linspace)
def linspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0, *,
             device: Any = None) -> Any:
    a, b, n = as_array(start), as_array(stop), operator.index(num)
    if n < 0:
        raise ValueError(f"Number of samples, {n}, must be non-negative.")
    kinds = [x.__class__(0) if dtype_of(x) is None else dtype_of(x) for x in (a, b)]
    delta, steps = b - a, n - 1 if endpoint else n
    k = np.arange(n, dtype=np.result_type(*kinds, 0.0)).reshape((-1,) + (1,) * rank(delta))
    step = delta / steps if steps > 0 else np.nan
    y = k * (step if steps > 0 else delta) + a
    if endpoint and n > 1:
        y = ops.where(k == n - 1, b, y)
    y = moveaxis(y, 0, axis) if axis else y
    if dtype is not None and np.dtype(dtype) != numpy_dtype(y):
        y = ops.astype(np.floor(y) if np.issubdtype(dtype, np.integer) else y, dtype=np.dtype(dtype))
    return (y, step) if retstep else y


@means(np.logspace)
def logspace(start: Any, stop: Any, num: Any = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0) -> Any:
    base = as_array(base)
    if rank(base):
        start, stop, base = broadcast_arrays(start, stop, base)
        base = ops.expand_dims(base, axis=static(axis))
    y = ops.pow(base, linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else ops.astype(y, dtype=np.dtype(dtype))
