"""Index ops: reading parts of an array, and adding parts to one.

The index of `getitem` is splatted into arguments, so that a traced integer, integer array or mask is a variable of its
own: `x[1:, mask]` is `getitem(x, 1:, mask)`. The cotangent of a read is sparse (`Scatter`): a single `scatter` adds up
the reads of one array. `through` is the path to a view of `x` that is read; `x` itself is not copied.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tapegrad.numbers import tensor_dtypes, tensor_index, tensors
from tapegrad.numbers.cotangents import ZERO, Scatter, dtype_of, kind_of, layout_of, shape_of
from tapegrad.numbers.dtypes import INEXACT
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array, Cotangent, DType
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensor_array import TensorArray
from tapegrad.numbers.view_path import Path, add_at, follow, repeats
from tapegrad.ops.batched_index import read_members, scatter_members, take_members
from tapegrad.ops.shape import reshape
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, MOVED, RAISES, VIEW, Joint, linear_in
from tapegrad.rules.registry import define

MAX_INDEX = 128  # more than NumPy takes: 64 dimensions, an ellipsis, and new axes

# -- adding into zeros


def pieces_with_indices(parts: Sequence[Any], ranks: Sequence[int]) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield each piece and its index: a piece is followed by the parts of its index, as many as its rank."""
    at = 0
    for rank in ranks:
        yield parts[at], tuple(parts[at + 1: at + 1 + rank])
        at += 1 + rank


_DOUBLE = frozenset([np.dtype(np.float64)])


def _wide(pieces: Any, dtype: DType) -> Any:
    """Return the dtype that holds all pieces; Python numbers take that of the array."""
    kinds = {getattr(piece, "dtype", type(piece)) for piece in pieces}
    if kinds <= _DOUBLE and (dtype is None or dtype in _DOUBLE):
        return np.float64
    given = [kind if isinstance(kind, np.dtype) else kind(0) if kind in PYTHON else np.dtype(object) for kind in kinds]
    return np.result_type(*given, *([] if dtype is None else [dtype]))


def _scatter(*parts: Any, shape: tuple[int, ...], ranks: tuple[int, ...], dtype: Any = None,
             through: tuple[Path, ...] = (), order: Any = "C") -> Any:
    y = np.zeros(shape, _wide((piece for piece, _ in pieces_with_indices(parts, ranks)), dtype), order)
    places: Any = None
    for (piece, index), path in zip(pieces_with_indices(parts, ranks), through or ((),) * len(ranks)):
        if path or order != "C":
            add_at(y, piece, index, path)
        elif repeats(index):
            if _add_rows(y, piece, index):
                continue
            if places is None:
                places = np.arange(y.size).reshape(shape)
            at = places[index]
            # ten times as fast in one dimension
            np.add.at(y.reshape(-1), at.ravel(), np.broadcast_to(piece, at.shape).ravel())
        else:
            y[index] += piece
    return y if shape else y[()]


MANY = 512  # number of elements or rows from which the direct sums are faster


def _add_rows(y: Any, piece: Any, index: tuple[Any, ...]) -> bool:
    """Add elements to a vector, or rows stored column by column to a table, in double precision: in np.add.at's order,
    in a fifth of the time.
    """
    if not y.ndim:
        return False
    rows, n = index[0], len(y)
    if (type(piece) is not np.ndarray or piece.strides[:1] != (8,) or not piece.dtype == y.dtype == np.float64
        or len(index) > 1 or rows.ndim != 1):
        return False
    if y.ndim == 1 and piece.shape == rows.shape and rows.dtype == np.intp and n <= max(4 * rows.size, MANY):
        try:
            total = np.bincount(rows, piece, n)
        except ValueError:  # a place counted from the end
            return False
        if len(total) == n:
            y += total
        return len(total) == n
    if (y.ndim != 2 or piece.shape != (rows.size, y.shape[1]) or rows.size < MANY or 4 * rows.size < n
        or rows.min() < -n or rows.max() >= n):
        return False
    rows = np.where(rows < 0, rows + n, rows) if rows.min() < 0 else rows
    for j in range(y.shape[1]):
        y[:, j] += np.bincount(rows, piece[:, j], n)
    return True


def _scatter_tensors(*parts: Any, shape: tuple[int, ...], ranks: tuple[int, ...], dtype: Any = None,
                     through: tuple[Path, ...] = (), order: Any = "C") -> Any:
    pieces = [piece for piece, _ in pieces_with_indices(parts, ranks)]
    device = tensors.device_of(parts)
    wanted = [] if dtype is None else [torch.empty((), dtype=tensor_dtypes.torch_dtype(dtype))]
    wide = tensor_dtypes.result_type(*pieces, *wanted)
    if not through and len(ranks) > 1 and (axis := _tiled(parts, shape, ranks)) is not None:
        return _concatenated(parts, shape, ranks, axis, wide, device)
    # in C order: where torch has no view, a path is followed by flat positions
    y = torch.zeros(shape, dtype=wide, device=device)
    numbers: Any = None
    first = True
    for (piece, index), path in zip(pieces_with_indices(parts, ranks), through or ((),) * len(ranks)):
        if path:
            add_at(TensorArray(y), piece, index, path)
            first = False
            continue
        where = tuple(tensor_index.parts_of(index, device))
        if numbers is None and not tensor_index.is_basic(list(where)) and not tensor_index.selects(list(where)):
            numbers = torch.arange(y.numel(), device=device).reshape(shape)
        if first and tensor_index.is_view(list(where)):
            tensor_index.write(y, piece, where)  # into zeros
        else:
            tensor_index.add_at(y, piece, where, numbers)
        first = False
    return y


def _tiled(parts: Sequence[Any], shape: tuple[int, ...], ranks: Sequence[int]) -> int | None:
    """Return the axis along which the indices are adjacent slices that cover it, None if there is none.

    The cotangent of a split array is then concatenated.
    """
    if len(set(ranks)) != 1 or not 0 < ranks[0] <= len(shape):
        return None
    axis = ranks[0] - 1
    indices = [index for _, index in pieces_with_indices(parts, ranks)]
    if not all(type(part) is slice and part.step in (None, 1)
               and all(bound is None or type(bound) is int for bound in (part.start, part.stop))
               for index in indices for part in index):
        return None
    spans = [[part.indices(n) for part, n in zip(index, shape)] for index in indices]
    if any(span != (0, n, 1) for row in spans for span, n in zip(row[:axis], shape)):
        return None
    ends = sorted(row[axis][:2] for row in spans)
    return axis if [0, *(stop for _, stop in ends)] == [*(start for start, _ in ends), shape[axis]] else None


def _concatenated(parts: Sequence[Any], shape: tuple[int, ...], ranks: Sequence[int], axis: int, dtype: DType,
                  device: Any) -> Any:
    pieces = sorted(((range(shape[axis])[index[axis]], piece) for piece, index in pieces_with_indices(parts, ranks)),
                    key=lambda pair: pair[0].start)
    whole = [tensors.to_tensor(piece, device, dtype) for _, piece in pieces]
    shapes = [(*shape[:axis], len(span), *shape[axis + 1:]) for span, _ in pieces]
    return torch.cat([x if x.shape == wanted else x.broadcast_to(wanted) for x, wanted in zip(whole, shapes)], axis)


def _scatter_vjp(y: Array, *parts: Any, shape: tuple[int, ...], ranks: tuple[int, ...], through: tuple[Path, ...] = (),
                 **_: Any) -> Any:
    def scatter_pullback(dy: Cotangent) -> tuple[Any, ...]:
        dy = dy if shape else reshape(dy, shape)  # a plain number has no index
        pieces = zip(pieces_with_indices(parts, ranks), through or ((),) * len(ranks))
        return tuple(dx for (_, index), path in pieces for dx in (read(dy, index, path), *[ZERO] * len(index)))
    return scatter_pullback


def _scatter_tangent(ts: Any, _y: Array, *parts: Any, ranks: tuple[int, ...], **how: Any) -> Any:
    first = {0, *itertools.accumulate(1 + rank for rank in ranks)}  # positions of the pieces
    pieces = [part if i not in first else np.zeros(shape_of(part)) if t is None else t
              for i, (t, part) in enumerate(zip(ts, parts))]
    return scatter(*pieces, ranks=ranks, **how)


# a vjp, not partials, each of which would get all parts: n pieces would cost O(n²)
scatter = define("scatter", _scatter, rule=Joint(_scatter_vjp), torch=_scatter_tensors, tangent=_scatter_tangent,
                 batch=scatter_members, memory=FRESH, spec=types.scattered)


def assemble(x: Array, pieces: Sequence[Any], indices: Sequence[tuple[Any, ...]], paths: Sequence[Path] = ()) -> Any:
    """Return zeros of x's shape with each piece added at its index and path: a sparse cotangent, made dense."""
    if type(x) is np.ndarray and x.dtype is _FLOAT and not any(paths) and all(map(_is_simple, pieces, indices)):
        y = _zeros(x.shape)
        for piece, index in zip(pieces, indices):
            y[index] += piece
        return y
    dtype = dtype_of(x)
    parts = [part for piece, index in zip(pieces, indices) for part in (piece, *index)]
    known: dict[str, Any] = {"dtype": dtype} if dtype != np.float64 and kind_of(x, "i") in INEXACT else {}
    if any(paths):  # they are followed in zeros with x's memory order
        known |= {"through": tuple(paths)} | ({"order": "F"} if layout_of(plain(x)) == "F" else {})
    return scatter(*parts, shape=shape_of(x), ranks=tuple(map(len, indices)), **known)


_FLOAT, _ARRAYS, _zeros = np.dtype(np.float64), frozenset([np.ndarray, np.float64]), np.zeros
_PLACES = frozenset([slice, int, type(None), type(Ellipsis)])
_INDICES = _PLACES | {np.ndarray}


def _is_simple(piece: Any, index: tuple[Any, ...]) -> bool:
    """True for plain numbers in double precision at an index without repeated places."""
    if type(piece) is not float and not (type(piece) in _ARRAYS and piece.dtype is _FLOAT):
        return False
    return _PLACES.issuperset(map(type, index)) or (_INDICES.issuperset(map(type, index)) and not repeats(index))


def sparse(x: Array, dy: Cotangent, index: tuple[Any, ...], path: Path = ()) -> Scatter:
    """Return the cotangent of `x` that is `dy` at an index of the view at the end of a path, and zero elsewhere."""
    return Scatter(assemble, x, dy, index, path)


# -- reading


def _array(x: Array, others: Any) -> Any:
    """Return the array as a tensor, where only the index was one."""
    return tensors.to_tensor(x, tensors.device_of((x, *others)))


def _getitem(x: Array, *index: Any, through: Path = ()) -> Any:
    return follow(x, through)[index]


def _getitem_tensor(x: Array, *index: Any, through: Path = ()) -> Any:
    return tensor_index.read(follow(_array(x, index), through), index)


def _getitem_cotangent(dy: Cotangent, _y: Array, x: Array, *index: Any, through: Path = ()) -> Any:
    return sparse(x, dy, index, through)


getitem = define("getitem", _getitem, (_getitem_cotangent, *(None,) * MAX_INDEX), memory=VIEW, tangent=linear_in(0),
                 torch=_getitem_tensor, batch=read_members, spec=types.read)
# by a traced mask, whose values decide the shape
getitem_masked = define("getitem_masked", getitem.impl, getitem.rule, tangent=linear_in(0),
                        torch=getitem.lower["torch"], batch=read_members, memory=MOVED,
                        spec=types.opaque("values decide how many there are", dynamic=True))


def is_mask(part: Any) -> bool:
    """True for a traced bool or array of bools."""
    value = part
    while hasattr(type(value), "_tracer"):
        value = value._val
    return value is not part and (isinstance(value, bool) or getattr(dtype_of(value), "kind", "") == "b")


def read(x: Array, index: tuple[Any, ...], through: Path = ()) -> Any:
    """Return `x[index]`, or that part of the view at the end of a path, by the op for such an index."""
    op = getitem_masked if any(map(is_mask, index)) else getitem
    return op(x, *index, **({"through": through} if through else {}))


def _take_cotangent(dy: Cotangent, _y: Array, x: Array, indices: Array, axis: int = 0) -> Any:
    return sparse(x, dy, (slice(None),) * (axis % len(shape_of(x))) + (indices,))


def positions_along(shape: tuple[int, ...], indices: Array, axis: int) -> tuple[Any, ...]:
    """Return the index that reads `indices` along one axis and every position of the others.

    Raises AxisError for an axis that the shape lacks, and ValueError for indices with another number of axes.
    """
    ndim = len(shape)
    axis = normalize_axis_index(axis, ndim)
    if len(shape_of(indices)) != ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    return tuple(indices if i == axis else np.arange(n).reshape([-1 if k == i else 1 for k in range(ndim)])
                 for i, n in enumerate(shape))


take = define("take", lambda x, indices, axis=0: np.take(x, indices, axis=axis), (_take_cotangent, None),
              effects=RAISES,
              tangent=linear_in(0), batch=take_members,
              torch=lambda x, indices, axis=0: tensor_index.read(_array(x, (indices,)),
                                                                 (slice(None),) * (axis % x.ndim) + (indices,)),
                                                                 memory=MOVED, spec=types.taken)


def _take_along(x: Any, indices: Any, axis: int = -1) -> Any:
    n, indices = x.shape[axis], indices.to(torch.int64)
    shape = [max(pair) for pair in zip(x.shape, indices.shape)]
    shape[axis] = indices.shape[axis]
    # gather requires it; take_along_dim wraps indices that are out of range
    from_front = torch.where(indices < 0, indices + n, indices)
    return torch.gather(x.expand([n if i == axis % x.ndim else m for i, m in enumerate(shape)]), axis,
                        from_front.expand(shape))


take_along_axis = define("take_along_axis", lambda x, indices, axis=-1: np.take_along_axis(x, indices, axis=axis), (
    lambda dy, _y, x, indices, axis=-1: sparse(x, dy, positions_along(shape_of(x), indices, axis)), None),
    effects=RAISES, tangent=linear_in(0), torch=_take_along, batch=batching.along_both, memory=MOVED,
    spec=types.taken_along)
