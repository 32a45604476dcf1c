"""result_spec: the type of what an op returns, from those of its arguments, where nothing is computed.

A function of specs, and of what else an op is called with, returns a spec, or None where it cannot tell: then
the op is run on samples.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from operator import mul
from typing import Any

import numpy as np

from tapegrad.tape.spec import Spec

ResultSpec = Callable[..., Spec | None]


def array_spec(dtype: Any, shape: tuple[int, ...]) -> Spec | None:
    """Return the spec of a new array that lies row by row; None for an empty one, whose strides may be anything."""
    if 0 in shape:
        return None
    steps = accumulate(shape[:0:-1], mul, initial=dtype.itemsize) if shape else ()
    return Spec(np.ndarray, dtype, shape, tuple(steps)[::-1])


def by_ufunc(ufunc: np.ufunc) -> ResultSpec:
    """Return what tells the type of a ufunc's result: of an array and arrays or numbers, of which Python's give way."""
    def result_spec(*xs: Any, **kwargs: Any) -> Spec | None:
        if kwargs or len(xs) != ufunc.nin or not any(x.has_axes for x in xs) or not all(map(_is_plain, xs)):
            return None
        try:
            dtype = ufunc.resolve_dtypes((*[x.type if x.type in _WEAK else np.dtype(x.type) if x.is_python else x.dtype
                                            for x in xs], None))[-1]
            return array_spec(dtype, np.broadcast_shapes(*[x.shape for x in xs]))
        except (TypeError, ValueError):  # it is refused where it runs
            return None
    return result_spec


_WEAK = frozenset([int, float, complex])


def _is_plain(x: Spec) -> bool:
    """True for a number, and for an array that lies row by row: of others the result may lie otherwise."""
    return x.is_python or (x.kind in "biufc" and (x.is_scalar or (x.is_array and x.is_contiguous)))


def by_reduction(x: Spec, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Spec | None:
    """Return the type of a sum, a product, a mean or an extreme of floating numbers along axes."""
    if not (x.has_axes and x.is_contiguous and x.kind in "fc") or dtype is not None:
        return None
    over = {a % x.ndim for a in (range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,))}
    shape = tuple(1 if a in over else n for a, n in enumerate(x.shape) if keepdims or a not in over)
    return array_spec(x.dtype, shape) if shape else Spec(x.dtype.type, x.dtype, (), ())


def by_matmul(a: Spec, b: Spec) -> Spec | None:
    """Return the type of a product of two matrices."""
    alike = (a.is_array and b.is_array and a.ndim == b.ndim == 2 and a.dtype == b.dtype and a.kind in "fc"
             and a.is_contiguous and b.is_contiguous)
    return array_spec(a.dtype, (a.shape[0], b.shape[1])) if alike and a.shape[1] == b.shape[0] and a.size else None
