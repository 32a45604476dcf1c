"""indexing: the types of indexed reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.rules.types.family import (
    Unknown,
    axis_of,
    dtype_of,
    known,
    knowns,
    nest,
    number,
    numeric,
    numerics,
    promoted,
)
from tapegrad.rules.types.family import together as strong
from tapegrad.rules.types.layout import array, copied
from tapegrad.rules.types.reshaping import as_array, viewed
from tapegrad.tape.spec import Spec, absent, spec_of
from tapegrad.tree.signature import ValueAndGradients


def through_path(x: Spec, path: Any) -> Spec:
    """Return the type of the view that a path of views yields."""
    for step in path:
        x = step.op.spec(x, *step.args, **step.kwargs)
    return x


def read(x: Any, *index: Any, through: Any = ()) -> Spec:
    """Return the type of `x[index]`: a view if the index has only integers and slices."""
    spec = through_path(as_array(x) if not through else numeric(x), through)
    return place(spec, index)


def place(x: Spec, index: Sequence[Any]) -> Spec:
    """Return the type of an indexed part of an array."""
    flags = [each for each in index if isinstance(each, (bool, np.bool_))]
    if flags:
        return _flagged(x, index, all(flags))
    index = [part for each in index for part in (_places(each) if _is_mask(each) else [each])]
    parts = [_part(each) for each in index]
    taken = sum(_axes(part) for part in parts)
    if taken > x.ndim:
        raise IndexError("too many indices")
    if not any(part is Ellipsis for part in parts):
        parts.append(Ellipsis)
    numbers = [i for i, part in enumerate(parts) if type(part) is Spec or type(part) is int]
    near = bool(numbers) and numbers[-1] - numbers[0] + 1 == len(numbers)  # an ellipsis separates, even one of no axes
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    has_dots = any(each is Ellipsis for each in index)
    parts[at:at + 1] = [slice(None)] * (x.ndim - taken)
    arrays = [i for i, part in enumerate(parts) if type(part) is Spec]
    if arrays:
        return _gathered(x, parts, arrays, near)
    shape, steps, axis = [], [], 0
    strides = x.strides or (0,) * x.ndim
    for part in parts:
        if part is None:
            shape.append(1)
            steps.append(0)
            continue
        if isinstance(part, slice):
            start, stop, step = part.indices(x.shape[axis])
            shape.append(len(range(start, stop, step)))
            steps.append(strides[axis] * step)
        axis += 1
    if not shape and not has_dots:
        return number(x.dtype)
    return viewed(x, shape, None if x.strides is None else steps)


def _flagged(x: Spec, index: Sequence[Any], count: bool) -> Spec:
    """Return the type of a part indexed by Python bools among slices: a copy with a new axis of length 1 or 0."""
    first = next(i for i, each in enumerate(index) if isinstance(each, (bool, np.bool_)))
    rest = [each for each in index if not isinstance(each, (bool, np.bool_))]
    basic = all(each is None or each is Ellipsis or isinstance(each, slice) for each in rest)
    if not basic or len(index) - len(rest) > 1 or Ellipsis in rest[:first]:
        raise Unknown("a bool among other indices")
    found = place(x, [*rest[:first], None, *rest[first:]])
    at = sum(each is None or isinstance(each, slice) for each in rest[:first])
    return array(x.dtype, (*found.shape[:at], int(count), *found.shape[at + 1:]), None)


def _axes(part: Any) -> int:
    return 0 if part is None or part is Ellipsis else 1


def _is_mask(part: Any) -> bool:
    return getattr(part, "ndim", 0) > 0 and type(part) is not Spec and part.dtype.kind == "b"


def _places(mask: Any) -> list[Spec]:
    """Return integer index arrays equivalent to a known mask, one per axis."""
    return [array(np.dtype(np.intp), (int(np.count_nonzero(mask)),))] * mask.ndim


def _part(part: Any) -> Any:
    """Return the index of one axis as None, an ellipsis, a slice, 0 for an integer, or the spec of an index array."""
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        return slice(*[None if end is None else int(known(end)) for end in (part.start, part.stop, part.step)])
    spec = part if type(part) is Spec else spec_of(np.asarray(part) if type(part) in (list, tuple) else part)
    if spec.type is bool or spec.kind == "b":
        raise Unknown("a mask decides how many numbers are read")
    if not (spec.is_python or spec.kind in "iu"):
        raise IndexError("no index")
    return spec if spec.shape or spec.is_array else 0


def _gathered(x: Spec, parts: Sequence[Any], arrays: Sequence[int], near: bool) -> Spec:
    """Return the type of advanced indexing, a copy; the indexed axes stay in place if adjacent, else come first."""
    first = next(i for i, part in enumerate(parts) if type(part) is Spec or type(part) is int)
    common = np.broadcast_shapes(*[parts[i].shape for i in arrays])
    before: list[int] = []
    behind: list[int] = []
    axis = 0
    for i, part in enumerate(parts):
        side = before if near and i < first else behind
        if part is None:
            side.append(1)
            continue
        if isinstance(part, slice):
            side.append(len(range(*part.indices(x.shape[axis]))))
        axis += 1
    shape = (*before, *common, *behind)
    if not shape:
        return number(x.dtype)
    plain = x.is_contiguous and len(arrays) == 1 and (parts[arrays[0]].is_contiguous or not common)
    return array(x.dtype, shape, () if len(shape) == 1 or (plain and near and not before) else None)


def taken(x: Any, indices: Any, axis: Any = 0) -> Spec:
    """Return the type of `np.take`."""
    spec, at = as_array(x), numeric(indices)
    if axis is None:
        shape = at.shape
    else:
        i = axis_of(axis, spec.ndim)
        shape = (*spec.shape[:i], *at.shape, *spec.shape[i + 1:])
    return array(spec.dtype, shape) if shape else number(spec.dtype)


def taken_along(x: Any, indices: Any, axis: Any = -1) -> Spec:
    """Return the type of `np.take_along_axis`."""
    spec, at = numerics((x, indices))
    i = axis_of(axis, spec.ndim)
    shape = [n if k == i else max(m, n) if m and n else 0 for k, (m, n) in enumerate(
        zip(spec.shape, at.shape, strict=True))]
    return array(spec.dtype, shape, () if spec.is_contiguous and at.is_contiguous else None)


def written(x: Any, value: Any, *_: Any, through: Any = ()) -> Spec:
    """Return the type of an array after a write to a part of it."""
    spec = numeric(x)
    return copied(dtype_of(spec), spec)


def scattered(*parts: Any, shape: Any, ranks: Any, dtype: Any = None, through: Any = (), order: Any = "C") -> Spec:
    """Return the type of an array of zeros with parts added to it."""
    pieces, at = [], 0
    for rank in ranks:
        pieces.append(numeric(parts[at]))
        at += 1 + rank
    kinds = [*pieces, *([] if dtype is None else [number(np.dtype(dtype))])]
    found = _wide(kinds)
    shape = knowns(shape) if shape != () else ()
    return copied(found, array(found, shape), order) if shape else number(found)


def _wide(kinds: Sequence[Spec]) -> Any:
    strongs = [x for x in kinds if not x.is_python]
    return promoted(*kinds) if strongs else strong(*kinds)


def wins(*index: Any, shape: Any) -> Spec:
    """Return the type of the mask of those writes that are not overwritten by later ones."""
    found = place(array(np.dtype(np.intp), knowns(shape)), index)
    return array(np.dtype(bool), found.shape, ()) if found.shape else number(np.dtype(bool))


def raveled(*index: Any, shape: Any, **_: Any) -> Spec:
    """Return the type of flat indices."""
    specs = numerics(index)
    common = np.broadcast_shapes(*[x.shape for x in specs])
    dtype = np.dtype(np.intp)
    return array(dtype, common, () if all(x.is_contiguous for x in specs) else None) if common else number(dtype)


def unraveled(x: Any, shape: Any, order: Any = "C") -> Spec:
    """Return the type of a tuple of indices, one per axis."""
    spec, dtype = numeric(x), np.dtype(np.intp)
    one = array(dtype, spec.shape, None) if spec.shape else number(dtype)  # parts of one array
    return nest(*[one] * len(knowns(shape)))


def is_member(x1: Any, x2: Any, invert: Any = False) -> Spec:
    """Return the type of `np.isin`: a bool for each number of the first argument."""
    spec = numeric(x1)
    return array(np.dtype(bool), spec.shape, () if spec.is_contiguous else None)


def field(x: Any, key: Any) -> Spec:
    """Return the type of one part of a nest."""
    if type(x) is not Spec:
        return spec_of(x[key])
    if not isinstance(key, int) or key >= len(x.parts):
        raise Unknown("nobody knows its parts")
    return x.parts[key]


def packed(*leaves: Any, into: Any) -> Spec:
    """Return the type of a nest of these leaves."""
    parts = [absent(leaf) if type(leaf) is Spec else leaf for leaf in leaves]
    if isinstance(into, ValueAndGradients):  # it can be built from values only, which it checks
        return spec_of((parts[0], into.signature.gradients(parts[1:])))
    return spec_of(into.build(parts))
