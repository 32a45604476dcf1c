"""torch's functions that read parts of tensors and rearrange elements; its views are views on the tape."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.frontends.common import static
from tapegrad.frontends.numpy.index import index_parts
from tapegrad.frontends.torch.common import brought
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.shape import along
from tapegrad.trace import views


def spread(first: Any, rest: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape or axes, given as one sequence or as separate numbers."""
    sizes = first if isinstance(first, (tuple, list)) and not rest else (first, *rest)
    return tuple(map(static, sizes))


def ndim(x: Array) -> int:
    """Return the number of axes of a tensor; its shape is guarded."""
    return len(shape_of(x))


def axis_of(x: Any, dim: Any, extra: int = 0) -> int:
    """Return a nonnegative axis; raise IndexError as torch does."""
    n, dim = max(ndim(x) + extra, 1), static(dim)
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return int(dim % n)


@torch_means("Tensor.__getitem__")
def getitem(x: Array, index: Any) -> Any:
    return ops.read(x, places(index))


def places(index: Any) -> tuple[Any, ...]:
    """Return the parts of an index; raise IndexError, in torch's words, for a number that is not an integer."""
    for part in (parts := index_parts(index)):
        if isinstance(value := plain(part), (float, complex, np.inexact)):
            torch.empty(1)[value]
    return parts


# -- the same elements in another shape


@torch_means("Tensor.view")
def view(x: Any, *shape: Any, **given: Any) -> Any:
    first = (shape or tuple(given.values()))[0]
    if not isinstance(first, torch.dtype):
        views.laid(x).view(spread(first, shape[1:]))  # raises if the strides do not allow it
    return reshape(x, *shape, **given)


@torch_means("Tensor.view_as")
def view_as(x: Array, other: Array) -> Any:
    return view(x, tuple(shape_of(other)))


@torch_means("Tensor.reshape")
def reshape(x: Array, *shape: Any, **given: Any) -> Any:
    if isinstance(first := (shape or tuple(given.values()))[0], torch.dtype):
        return _view_as_dtype(x, first)
    return ops.reshape(x, spread(first, shape[1:]))


def _view_as_dtype(x: Any, dtype: torch.dtype) -> Any:
    return generic(x._tracer, torch.Tensor.view, (x, dtype), {})


torch_means("reshape")(lambda input, shape: reshape(input, shape))


@torch_means("Tensor.contiguous")
def contiguous(x: Any, memory_format: Any = torch.contiguous_format) -> Any:
    """Return the tensor itself if it is contiguous in the program's memory, else a copy."""
    if views.laid(x).is_contiguous(memory_format=memory_format):
        return x
    return x.clone(memory_format=memory_format)


@torch_means("Tensor.reshape_as")
def reshape_as(x: Array, other: Array) -> Any:
    return ops.reshape(x, tuple(shape_of(other)))


@torch_means("flatten", "Tensor.flatten")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    shape = shape_of(input)
    if not shape:
        return ops.reshape(input, (1,))
    start, end = axis_of(input, start_dim), axis_of(input, end_dim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    return input if start == end else ops.reshape(input,
                                                  (*shape[:start], math.prod(shape[start:end + 1]), *shape[end + 1:]))


@torch_means("ravel", "Tensor.ravel")
def ravel(input: Array) -> Any:
    return ops.reshape(input, (-1,))


@torch_means("unflatten", "Tensor.unflatten")
def unflatten(input: Array, dim: Axis, sizes: Any) -> Any:
    shape, at = shape_of(input), axis_of(input, dim)
    sizes = spread(sizes, ())
    if -1 in sizes:
        rest = math.prod(n for n in sizes if n != -1)
        sizes = tuple(shape[at] // rest if n == -1 else n for n in sizes)
    return ops.reshape(input, (*shape[:at], *sizes, *shape[at + 1:]))


# -- permuted axes, new axes, and axes of length 1


@torch_means("permute", "Tensor.permute")
def permute(input: Array, *dims: Any, **given: Any) -> Any:
    first = (dims or tuple(given.values()))[0]
    return ops.permute_dims(input, axes=spread(first, dims[1:]))


@torch_means("transpose", "swapaxes", "swapdims", "Tensor.transpose", "Tensor.swapaxes", "Tensor.swapdims")
def transpose(input: Array, dim0: Any, dim1: Any) -> Any:
    a, b = axis_of(input, dim0), axis_of(input, dim1)
    axes = list(range(ndim(input)))
    if a != b:  # equal axes give another tensor of the same memory
        axes[a], axes[b] = b, a
    return ops.permute_dims(input, axes=tuple(axes))


@torch_means("t", "Tensor.t")
def t(input: Array) -> Any:
    if ndim(input) > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {ndim(input)}D")
    return ops.permute_dims(input)


torch_means("Tensor.T")(ops.permute_dims)
torch_means("Tensor.mT")(lambda x: transpose(x, -2, -1))


@torch_means("movedim", "moveaxis", "Tensor.movedim", "Tensor.moveaxis")
def movedim(input: Array, source: Any, destination: Any) -> Any:
    sources = [axis_of(input, dim) for dim in (source if isinstance(source, (tuple, list)) else [source])]
    places = [axis_of(input, dim) for dim in (destination if isinstance(destination, (tuple, list)) else [destination])]
    axes = [a for a in range(ndim(input)) if a not in sources]
    for place, a in sorted(zip(places, sources)):
        axes.insert(place, a)
    return ops.permute_dims(input, axes=tuple(axes))


@torch_means("unsqueeze", "Tensor.unsqueeze")
def unsqueeze(input: Array, dim: Axis) -> Any:
    return ops.expand_dims(input, axis=axis_of(input, dim, extra=1))


@torch_means("squeeze", "Tensor.squeeze")
def squeeze(input: Array, dim: Axis = None) -> Any:
    shape = shape_of(input)
    wanted = range(len(shape)) if dim is None else [axis_of(input, a)
                                                    for a in (dim if isinstance(dim, (tuple, list)) else [dim])]
    axes = tuple(a for a in wanted if shape and shape[a] == 1)
    return ops.squeeze(input, axis=axes) if axes else ops.reshape(input, shape)


@torch_means("broadcast_to", "Tensor.broadcast_to", "Tensor.expand")
def expand(input: Array, *size: Any, **given: Any) -> Any:
    first = (size or tuple(value for key, value in given.items() if key != "implicit"))[0]
    wanted, shape = spread(first, size[1:]), shape_of(input)
    extra = len(wanted) - len(shape)
    full = tuple(shape[i - extra] if n == -1 else n for i, n in enumerate(wanted))
    return ops.broadcast_to(input, full)


@torch_means("Tensor.expand_as")
def expand_as(x: Array, other: Array) -> Any:
    return ops.broadcast_to(x, tuple(shape_of(other)))


# -- parts along an axis


@torch_means("select", "Tensor.select")
def select(input: Array, dim: Axis, index: Any) -> Any:
    return getitem(input, along(axis_of(input, dim), index))


@torch_means("narrow", "Tensor.narrow")
def narrow(input: Array, dim: Axis, start: Any, length: Any) -> Any:
    start = static(start)
    start += shape_of(input)[axis_of(input, dim)] if start < 0 else 0
    return getitem(input, along(axis_of(input, dim), slice(start, start + static(length))))


@torch_means("unbind", "Tensor.unbind")
def unbind(input: Array, dim: Axis = 0) -> Any:
    at = axis_of(input, dim)
    return tuple(getitem(input, along(at, i)) for i in range(shape_of(input)[at]))


@torch_means("split", "Tensor.split", "split_with_sizes", "Tensor.split_with_sizes")
def split(tensor: Array, split_size_or_sections: Any = None, dim: Axis = 0, *, split_size: Any = None,
          split_sizes: Any = None) -> Any:
    at = axis_of(tensor, dim)
    sizes = next(part for part in (split_size_or_sections, split_size, split_sizes) if part is not None)
    length = shape_of(tensor)[at]
    if isinstance(sizes, (tuple, list)):
        sizes = [static(n) for n in sizes]
        if sum(sizes) != length:
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {length}, but got "
                               f"split_sizes={sizes}")
    else:
        step = static(sizes)
        sizes = [min(step, length - start) for start in range(0, length, step)] if length else [0]
    ends = list(itertools.accumulate(sizes, initial=0))
    return tuple(getitem(tensor, along(at, slice(a, b))) for a, b in itertools.pairwise(ends))


@torch_means("chunk", "Tensor.chunk")
def chunk(input: Any, chunks: int, dim: Any = 0) -> Any:
    length, n = shape_of(input)[axis_of(input, dim)], static(chunks)
    return split(input, -(-length // n) if length else [0] * n, dim)


@torch_means("diagonal", "Tensor.diagonal")
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return ops.diagonal(movedim(input, (dim1, dim2), (-2, -1)), offset=static(offset))


# -- several tensors


@torch_means("stack")
def stack(tensors: Any, dim: Axis = 0) -> Any:
    parts = one_dtype(tensors)
    return ops.stack(*parts, axis=axis_of(parts[0], dim, extra=1))


@torch_means("cat", "concat", "concatenate")
def cat(tensors: Any, dim: Axis = 0, *, axis: Axis = None) -> Any:
    parts = one_dtype(tensors)
    if len({ndim(part) for part in parts}) > 1:  # torch skips empty 1-d tensors
        parts = [part for part in parts if shape_of(part) != (0,)]
    return ops.concat(*parts, axis=axis_of(parts[0], dim if axis is None else axis))


def one_dtype(tensors: Any) -> list[Any]:
    """Return tensors in the widest of their dtypes; here 0-d tensors count fully."""
    dtype = plain(tensors[0]).dtype
    for part in tensors:
        dtype = torch.promote_types(dtype, plain(part).dtype)
    return [brought(part, dtype) for part in tensors]

