"""reduction: the types of reductions along axes (sums, extremes, counts), of cumulative sums, and of sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tapegrad.rules.types.family import (
    Family,
    Unknown,
    axes_of,
    axis_of,
    dtype_of,
    inexact,
    known,
    nest,
    number,
    numeric,
    numerics,
    promoted,
    real_of,
)
from tapegrad.rules.types.layout import array, made
from tapegrad.tape.spec import Spec, spec_of


def total(dtype: Any) -> Any:
    """Return the dtype of NumPy's sum: integers are summed in 64 bits."""
    if dtype.kind in "bi":
        return np.dtype(np.int64) if dtype.itemsize < 8 else dtype
    return np.dtype(np.uint64) if dtype.kind == "u" and dtype.itemsize < 8 else dtype


def logarithmic(dtype: Any) -> Any:
    """Return the dtype of a logarithm of a sum of exponentials."""
    return np.logaddexp.resolve_dtypes((dtype, dtype, None))[-1]


def same(dtype: Any) -> Any:
    """Return the dtype unchanged."""
    return dtype


def over(x: Spec, axes: Iterable[int], keepdims: Any, dtype: Any) -> Spec:
    """Return the type of an array after `axes` are reduced."""
    axes, keepdims = set(axes), bool(known(keepdims))
    if keepdims:
        shape = tuple([1 if i in axes else n for i, n in enumerate(x.shape)])
        # the remaining axes keep their order in memory, and an axis of length 1 does not count
        return made(dtype, shape, [Spec(x.type, x.dtype, shape, x.strides)] if x.shape else [])
    left = [i for i in range(x.ndim) if i not in axes]
    if not left:
        return number(dtype)
    shape = tuple([x.shape[i] for i in left])
    strides = None if x.strides is None else tuple([x.strides[i] for i in left])
    return made(dtype, shape, [Spec(x.type, x.dtype, shape, strides)])


def by_reduction(rule: Callable[[Any], Any]) -> Family:
    """Return the family of a reduction along axes; `rule` maps the operand's dtype to the result's."""
    def family(x: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> Spec:
        spec = numeric(x)
        found = rule(dtype_of(spec)) if dtype is None else np.dtype(known(dtype))
        return over(spec, axes_of(axis, spec.ndim) if spec.shape else (), keepdims, found)
    return family


def by_norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: Any = False) -> Spec:
    """Return the type of a norm of vectors, which is real."""
    spec = numeric(x)
    return over(spec, axes_of(axis, spec.ndim), keepdims, real_of(inexact(dtype_of(spec))))


def by_place(x: Any, axis: Any = None, keepdims: Any = False) -> Spec:
    """Return the type of argmin and argmax."""
    spec = numeric(x)
    left = over(spec, axes_of(axis, spec.ndim), keepdims, np.dtype(np.intp))
    return array(left.dtype, left.shape) if left.shape else left


_COUNT = spec_of(np.count_nonzero(()))  # a Python or a NumPy number, depending on NumPy's version


def by_count(x: Any, axis: Any = None, keepdims: Any = False) -> Spec:
    """Return the type of a count."""
    spec = numeric(x)
    if axis is None and not keepdims:
        return _COUNT
    return over(spec, axes_of(axis, spec.ndim), keepdims, np.dtype(np.intp))


def running(rule: Callable[[Any], Any]) -> Family:
    """Return the family of a cumulative reduction along an axis."""
    def family(x: Any, axis: Any = 0, dtype: Any = None, include_initial: Any = False) -> Spec:
        spec = numeric(x)
        found = rule(dtype_of(spec)) if dtype is None else np.dtype(known(dtype))
        at = axis_of(axis, spec.ndim)
        if known(include_initial):
            shape = tuple([n + (i == at) for i, n in enumerate(spec.shape)])
            return array(found, shape, () if spec.is_contiguous else None)
        return made(found, spec.shape, [spec])
    return family


def recurrent(a: Any, b: Any, axis: Any = 0, reverse: Any = False) -> Spec:
    """Return the type of a recurrence of two arrays along an axis."""
    specs = numerics((a, b))
    shape = np.broadcast_shapes(*[x.shape for x in specs])
    return array(promoted(*specs), shape, () if len(shape) == 1 and not known(reverse) else None)


def sorted_along(x: Any, axis: Any = -1) -> Spec:
    """Return the type of a sorted array."""
    spec = numeric(x)
    if axis is None:
        return array(dtype_of(spec), (spec.size,))
    axis_of(axis, spec.ndim)
    return array(dtype_of(spec), spec.shape, () if spec.is_contiguous else None)


def places_along(x: Any, *_: Any, axis: Any = -1, **__: Any) -> Spec:
    """Return the type of the indices that sort along an axis."""
    spec = numeric(x)
    axis_of(axis, spec.ndim)
    return array(np.dtype(np.intp), spec.shape, () if spec.is_contiguous else None)


def places_of_ranks(x: Any, ranks: Any) -> Spec:
    """Return the type of the indices of order statistics along the first axis."""
    spec = numeric(x)
    return array(np.dtype(np.intp), (len(ranks), *spec.shape[1:]), () if spec.is_contiguous else None)


def places_among(x1: Any, x2: Any, side: Any = "left") -> Spec:
    """Return the type of `np.searchsorted`: an index for each number of the second argument."""
    numeric(x1)
    spec = numeric(x2)
    return array(np.dtype(np.intp), spec.shape) if spec.shape else number(np.dtype(np.intp))


def bins_of(x: Any, bins: Any, right: Any = False) -> Spec:
    """Return the type of `np.digitize`: an index for each number of the first argument."""
    return places_among(bins, x)


def places_of_keys(*keys: Any, axis: Any = -1) -> Spec:
    """Return the type of `np.lexsort`."""
    specs = numerics(keys)
    shape = (len(specs), *specs[0].shape)[1:]
    if len(specs) == 1 and specs[0].ndim > 1:
        shape = specs[0].shape[1:]
    return array(np.dtype(np.intp), shape, () if specs[0].is_contiguous else None)


def by_logsumexp(several: bool) -> Family:
    """Return the family of SciPy's weighted logsumexp; `several` if it returns the sign as well."""
    def family(x: Any, b: Any = None, axis: Any = None, keepdims: Any = False) -> Spec:
        specs = numerics([part for part in (x, b) if part is not None])
        shape = np.broadcast_shapes(*[part.shape for part in specs])
        dtype = inexact(promoted(*specs))
        if several and dtype != np.result_type(dtype, float) and any(part.is_python for part in specs):
            raise Unknown("SciPy 1.15 makes arrays of numbers")
        whole = array(dtype, shape, () if all(part.is_contiguous for part in specs) else None)
        found = over(whole, axes_of(axis, len(shape)), keepdims, dtype)
        if not several:
            return found
        # for complex numbers SciPy 1.15 returns the real part of an array
        whole = whole if dtype.kind != "c" else array(dtype, shape, None)
        return nest(over(whole, axes_of(axis, len(shape)), keepdims, real_of(dtype)), found)
    return family
