"""reshaping: the types of rearrangements of an array's elements, with the strides of views."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.rules.types.family import axes_of, axis_of, dtype_of, known, knowns, number, numeric, numerics
from tapegrad.rules.types.family import together as strong
from tapegrad.rules.types.layout import array, copied, reshaped, together_in_memory, whole_shape
from tapegrad.tape.spec import Spec


def as_array(x: Any) -> Spec:
    """Return the spec of an array; a number becomes an array without axes."""
    spec = numeric(x)
    return spec if spec.is_array else array(dtype_of(spec), ())


def viewed(x: Spec, shape: Any, steps: Any) -> Spec:
    """Return the type of a view with this shape and these strides (None if unknown)."""
    return Spec(np.ndarray, x.dtype, tuple(shape), None if steps is None else tuple(steps))


def reshape(x: Any, shape: Any) -> Spec:
    """Return the type of an array in another shape."""
    spec = as_array(x)
    found = whole_shape(knowns(shape), spec.size)
    if not found and numeric(x).is_scalar:
        return numeric(x)
    return viewed(spec, found, reshaped(spec, found))


def permuted(x: Any, axes: Any = None) -> Spec:
    """Return the type of an array with its axes in another order."""
    spec = as_array(x)
    order = range(spec.ndim - 1, -1, -1) if axes is None else [axis_of(a, spec.ndim) for a in knowns(axes)]
    if sorted(order) != list(range(spec.ndim)):
        raise ValueError("no permutation of the axes")
    if numeric(x).is_scalar:
        return numeric(x)
    return viewed(spec, [spec.shape[i] for i in order], spec.strides and [spec.strides[i] for i in order])


def expanded(x: Any, axis: Any) -> Spec:
    """Return the type of an array with new axes of length 1."""
    spec, axes = as_array(x), knowns(axis)
    ndim = spec.ndim + len(axes)
    new = {axis_of(a, ndim) for a in axes}
    shape = iter(spec.shape)
    found = tuple([1 if i in new else next(shape) for i in range(ndim)])
    return viewed(spec, found, reshaped(spec, found))


def squeezed(x: Any, axis: Any = None) -> Spec:
    """Return the type of an array without axes of length 1."""
    spec = numeric(x)
    spec = spec if spec.shape else as_array(x) if not spec.is_scalar else spec
    if not spec.shape:
        return spec
    gone = [i for i, n in enumerate(spec.shape) if n == 1] if axis is None else axes_of(axis, spec.ndim)
    if any(spec.shape[i] != 1 for i in gone):
        raise ValueError("an axis that is squeezed out is longer than 1")
    left = [i for i in range(spec.ndim) if i not in gone]
    return viewed(spec, [spec.shape[i] for i in left], spec.strides and [spec.strides[i] for i in left])


def flipped(x: Any, axis: Any = None) -> Spec:
    """Return the type of an array reversed along axes."""
    spec = as_array(x)
    if not spec.shape:
        return number(spec.dtype)
    axes = axes_of(axis, spec.ndim)
    return viewed(spec, spec.shape, spec.strides and [-step if i in axes else step
                                                      for i, step in enumerate(spec.strides)])


def broadcast(x: Any, shape: Any) -> Spec:
    """Return the type of a broadcast array: the strides of stretched axes are 0."""
    spec, shape = as_array(x), knowns(shape)
    if np.broadcast_shapes(spec.shape, shape) != shape:
        raise ValueError(f"{spec.shape} is not broadcast to {shape}")
    more = len(shape) - spec.ndim
    if spec.strides is None:
        return viewed(spec, shape, None)
    steps = [0 if n == 1 and shape[more + i] != 1 else step
             for i, (n, step) in enumerate(zip(spec.shape, spec.strides))]
    return viewed(spec, shape, [*[0] * more, *steps])


def diagonal(x: Any, offset: Any = 0) -> Spec:
    """Return the type of the diagonals of matrices."""
    spec, k = as_array(x), known(offset)
    rows, columns = spec.shape[-2:]
    n = max(0, min(rows + min(k, 0), columns - max(k, 0)))
    return viewed(spec, [*spec.shape[:-2], n], spec.strides and [*spec.strides[:-2], sum(spec.strides[-2:])])


# -- copies


def rolled(x: Any, shift: Any, axis: Any = None) -> Spec:
    """Return the type of an array with its elements shifted cyclically."""
    spec = as_array(x)
    if axis is None:
        return array(spec.dtype, spec.shape)
    axes_of(axis, spec.ndim)
    return copied(spec.dtype, spec)


def tiled(x: Any, reps: Any) -> Spec:
    """Return the type of an array tiled along its axes."""
    spec, counts = as_array(x), knowns(reps)
    ndim = max(spec.ndim, len(counts))
    shape, counts = (1,) * (ndim - spec.ndim) + spec.shape, (1,) * (ndim - len(counts)) + counts
    found = [n * count for n, count in zip(shape, counts)]
    return array(spec.dtype, found, () if spec.is_contiguous else None)


def repeated(x: Any, repeats: Any, axis: Any = None) -> Spec:
    """Return the type of an array with its elements repeated."""
    spec, times = as_array(x), known(repeats)
    shape = (spec.size,) if axis is None else spec.shape
    at = axis_of(0 if axis is None else axis, len(shape))
    n = int(np.sum(np.broadcast_to(times, (shape[at],)))) if np.ndim(times) else shape[at] * int(times)
    return array(spec.dtype, [n if i == at else size for i, size in enumerate(shape)])


def padded(x: Any, widths: Any, value: Any = 0) -> Spec:
    """Return the type of an array with a border."""
    spec, widths = as_array(x), known(widths)
    shape = [n + before + after for n, (before, after) in zip(spec.shape, widths, strict=True)]
    order = "F" if spec.layout == "F" else "C"
    return copied(spec.dtype, array(spec.dtype, shape), order)


def triangle(x: Any, k: Any = 0) -> Spec:
    """Return the type of triangular matrices."""
    spec = as_array(x)
    shape = (*spec.shape, *spec.shape) if spec.ndim == 1 else spec.shape
    rows, columns = shape[-2:]
    mask = array(np.dtype(bool), (rows, columns))
    strides = together_in_memory(spec.itemsize, shape, [mask, spec])
    return array(spec.dtype, shape, strides)


def concatenated(*xs: Any, axis: Any = 0) -> Spec:
    """Return the type of arrays that are joined along an axis."""
    specs = numerics(xs)
    dtype = strong(*specs)
    if axis is None:
        return array(dtype, (sum(x.size for x in specs),))
    ndim = specs[0].ndim
    at = axis_of(axis, ndim)
    rest = {(*x.shape[:at], *x.shape[at + 1:]) for x in specs}
    if len(rest) != 1 or any(x.ndim != ndim for x in specs):
        raise ValueError("arrays of other shapes are joined")
    shape = [sum(x.shape[at] for x in specs) if i == at else n for i, n in enumerate(specs[0].shape)]
    return array(dtype, shape, () if len(shape) == 1 or all(x.is_contiguous for x in specs) else None)


def stacked(*xs: Any, axis: Any = 0) -> Spec:
    """Return the type of arrays of one shape along a new axis."""
    specs = numerics(xs)
    shape = specs[0].shape
    if any(x.shape != shape for x in specs):
        raise ValueError("arrays of other shapes are stacked")
    at, dtype = axis_of(axis, len(shape) + 1), strong(*specs)
    found = (*shape[:at], len(specs), *shape[at:])
    plain = all(x.is_contiguous for x in specs) or len(found) < 3
    return array(dtype, found, () if plain and not at else None)
