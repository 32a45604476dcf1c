"""torch's reads and writes by index tensors and masks: gather, scatter, index_select, masked_select, take."""

from __future__ import annotations

from typing import Any

import torch

from tapegrad import ops
from tapegrad.frontends.common import static
from tapegrad.frontends.torch.common import brought, one_dtype_of, result_type, tensors_only
from tapegrad.frontends.torch.generic import whole
from tapegrad.frontends.torch.reduce import is_kind
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.frontends.torch.shape import axis_of, ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.index import assemble, positions_along
from tapegrad.ops.shape import along
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Call
from tapegrad.trace.views import peek


def is_index(x: Array, rank: int | None = None) -> bool:
    """True for a tensor of integers, with `rank` axes if given."""
    return is_kind(x, "i") and rank in (None, ndim(x))


def within(x: Array, shape: tuple[int, ...], but: int | None = None) -> Any:
    """Return the leading part of `x` of a shape; along the axis `but`, all of it."""
    have = shape_of(x)
    index = tuple(slice(None) if i == but or n == have[i] else slice(n) for i, n in enumerate(shape))
    return x if all(part == slice(None) for part in index) else ops.read(x, index)


# -- reading


@torch_means("gather", "Tensor.gather")
def gather(input: Array, dim: Axis, index: Any, *, sparse_grad: bool = False) -> Any:
    if not is_index(index) or ndim(index) != ndim(input) or not ndim(input) or 0 in shape_of(index):
        return whole("gather", input, dim, index, sparse_grad=sparse_grad)
    at = axis_of(input, dim)
    return ops.take_along_axis(within(input, shape_of(index), at), index, axis=at)


@torch_means("take_along_dim", "Tensor.take_along_dim")
def take_along_dim(input: Array, indices: Array, dim: Axis = None) -> Any:
    if not is_index(indices) or (dim is not None and ndim(indices) != ndim(input)) or not ndim(input):
        return whole("take_along_dim", input, indices, dim)
    if dim is None:
        return ops.take_along_axis(ops.reshape(input, (-1,)), ops.reshape(indices, (-1,)), axis=0)
    return ops.take_along_axis(input, indices, axis=axis_of(input, dim))


@torch_means("index_select", "Tensor.index_select")
def index_select(input: Array, dim: Axis, index: Any) -> Any:
    if not is_index(index) or ndim(index) > 1 or not ndim(input):
        return whole("index_select", input, dim, index)
    return ops.take(input, index if ndim(index) else ops.reshape(index, (1,)), axis=axis_of(input, dim))


@torch_means("take", "Tensor.take")
def take(input: Array, index: Any) -> Any:
    return ops.take(ops.reshape(input, (-1,)), index) if is_index(index) else whole("take", input, index)


@torch_means("masked_select", "Tensor.masked_select")
def masked_select(input: Array, mask: Array) -> Any:
    if not is_kind(mask, "b"):
        return whole("masked_select", input, mask)
    if shape_of(input) != shape_of(mask):
        shape = tuple(torch.broadcast_shapes(shape_of(input), shape_of(mask)))
        input, mask = (x if shape_of(x) == shape else ops.broadcast_to(x, shape) for x in (input, mask))
    return ops.read(input, (mask,))


@torch_means("nonzero", "Tensor.nonzero", constant=True)
def nonzero(input: Array, *, as_tuple: bool = False) -> Any:
    if not ndim(input):
        return whole("nonzero", input, as_tuple=as_tuple)
    found = ops.nonzero(input)
    return found if as_tuple else ops.stack(*found, axis=1)


torch_means("argwhere", "Tensor.argwhere", constant=True)(nonzero)

# -- functions that add to, or overwrite, a copy


@torch_means("index_add", "Tensor.index_add")
def index_add(input: Array, dim: Axis, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    if (not is_index(index, 1) or not one_dtype_of(input, source) or not is_kind(input, "fc") or not ndim(input)
        or ndim(source) != ndim(input)):
        return whole("index_add", input, dim, index, source, alpha=alpha)
    piece = source if type(alpha) in (int, float) and alpha == 1 else ops.multiply(source,
                                                                                   brought(alpha, plain(source).dtype))
    return ops.add(input, assemble(input, [piece], [along(axis_of(input, dim), index)]))


@torch_means("index_fill", "Tensor.index_fill")
def index_fill(input: Array, dim: Axis, index: Any, value: Array) -> Any:
    if (not is_index(index, 1) or not ndim(input) or len(shape_of(value))
        or result_type(input, value) is not plain(input).dtype):
        return whole("index_fill", input, dim, index, value)
    return ops.setitem(input, brought(value, plain(input).dtype), *along(axis_of(input, dim), index))


@torch_means("scatter_add", "Tensor.scatter_add")
def scatter_add(input: Array, dim: Axis, index: Any, src: Array) -> Any:
    if not _scatters(input, index, src) or not is_kind(input, "fc"):
        return whole("scatter_add", input, dim, index, src)
    shape, at = shape_of(index), axis_of(input, dim)
    rows = _rows(index, at, input)
    where = positions_along(shape, index, at) if rows is None else along(at, rows)
    return ops.add(input, assemble(input, [within(src, shape)], [where]))


def _rows(index: Any, at: int, input: Array) -> Any:
    """Return the positions along an axis that an index was broadcast from, if it selects whole rows; else None."""
    op = peek(index) if isinstance(index, Traced) else None
    if (not isinstance(op, Call) or op.fn is not ops.broadcast_to
        or len(shape := shape_of(op.args[0].val)) != ndim(input)):
        return None
    if any((n, m) != (1, k) for i, (n, m, k) in enumerate(zip(shape, shape_of(index), shape_of(input))) if i != at):
        return None
    return ops.reshape(index._tracer.proxy(op.args[0], op.args[0].val, index._tracer), (-1,))


def _scatters(input: Array, index: Any, *src: Any) -> bool:
    ranks = {ndim(x) for x in (input, index, *src)}
    return (is_index(index) and one_dtype_of(input, *src) and len(ranks) == 1 and ndim(input) > 0
            and 0 not in shape_of(index))


@torch_means("scatter", "Tensor.scatter")
def scatter(input: Any, dim: Any, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None) -> Any:
    """Write one number at positions. Other forms are recorded whole: if several are written to one position, torch does
    not define which stays, and distributes the gradient in its own way.
    """
    value = src if value is None else value
    known = {} if reduce is None else {"reduce": reduce}
    if (known or tensors_only(value) or not _scatters(input, index)
        or result_type(input, value) is not plain(input).dtype):
        return whole("scatter", input, dim, index, value, **known)
    return ops.setitem(input, brought(value, plain(input).dtype),
                       *positions_along(shape_of(index), index, axis_of(input, dim)))


@torch_means("select_scatter", "Tensor.select_scatter")
def select_scatter(input: Array, src: Array, dim: Axis, index: Any) -> Any:
    return _over(input, src, along(axis_of(input, dim), static(index)))


@torch_means("slice_scatter", "Tensor.slice_scatter")
def slice_scatter(input: Array, src: Array, dim: Axis = 0, start: Any = None, end: Any = None, step: Any = 1) -> Any:
    return _over(input, src, along(axis_of(input, dim), slice(static(start), static(end), static(step))))


def _over(x: Array, part: Any, index: tuple[Any, ...]) -> Any:
    """Return `x` with a part overwritten by one of the same shape."""
    wanted = plain(x)[index].shape
    if shape_of(part) != tuple(wanted):
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = "
                           f"{list(shape_of(part))}, slice size = {list(wanted)}")
    return ops.setitem(x, part, *index)


@torch_means("index_put", "Tensor.index_put")
def index_put(input: Array, indices: Array, values: Array, accumulate: bool = False) -> Any:
    if (not accumulate or not one_dtype_of(input, values) or not is_kind(input, "fc")
        or not all(is_kind(part, "i") for part in indices)):
        return whole("index_put", input, indices, values, accumulate)
    return ops.add(input, assemble(input, [values], [tuple(indices)]))
