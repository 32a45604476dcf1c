"""torch's functions that rearrange elements: flips, rolls, repetitions, joins and splits; and coordinate grids."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from tapegrad import ops
from tapegrad.frontends.common import static
from tapegrad.frontends.torch.common import tensors_only
from tapegrad.frontends.torch.generic import whole
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.frontends.torch.shape import axis_of, cat, getitem, ndim, spread, transpose
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.shape import along

# -- one tensor, each element once. torch's flip is a copy, NumPy's a view


@torch_means("flip", "Tensor.flip")
def flip(input: Array, *dims: Any, **given: Any) -> Any:
    axes = tuple(axis_of(input, a) for a in spread((dims or tuple(given.values()))[0], dims[1:]))
    if len(set(axes)) < len(axes):
        return whole("flip", input, axes)
    return ops.copy(ops.flip(input, axis=axes) if axes and ndim(input) else input)


def _flipped(name: str, axis: int, at_least: int) -> None:
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Array) -> Any:
        return flip(input, axis) if ndim(input) >= at_least else whole(name, input)


_flipped("flipud", 0, 1)
_flipped("fliplr", 1, 2)


@torch_means("rot90", "Tensor.rot90")
def rot90(input: Array, k: int = 1, dims: Any = (0, 1)) -> Any:
    a, b = (axis_of(input, i) for i in dims) if len(dims) == 2 and ndim(input) > 1 else (0, 0)
    if a == b:
        return whole("rot90", input, k, dims)
    turns = static(k) % 4
    if turns in (0, 2):
        return flip(input, a, b) if turns else ops.copy(input)
    return flip(transpose(input, a, b), a) if turns == 1 else transpose(flip(input, a), a, b)


@torch_means("roll", "Tensor.roll")
def roll(input: Array, shifts: Any, dims: Any = None) -> Any:
    shifts = spread(shifts, ()) if isinstance(shifts, (tuple, list)) else (static(shifts),)
    axes = () if dims is None else tuple(axis_of(input, a)
                                         for a in (dims if isinstance(dims, (tuple, list)) else [dims]))
    if (axes and len(axes) != len(shifts)) or (not axes and len(shifts) != 1) or not ndim(input):
        return whole("roll", input, shifts, axes)
    return ops.roll(input, shifts, axis=axes) if axes else ops.roll(input, shifts[0])


# -- one tensor, elements repeated


@torch_means("Tensor.repeat")
def repeat(self: Any, *repeats: Any, **given: Any) -> Any:
    counts = spread((repeats or tuple(given.values()))[0], repeats[1:])
    return (ops.tile(self, counts) if len(counts) >= ndim(self) and 0 not in counts
            else whole("Tensor.repeat", self, counts))


@torch_means("tile", "Tensor.tile")
def tile(input: Array, *dims: Any, **given: Any) -> Any:
    counts = spread((dims or tuple(given.values()))[0], dims[1:])
    return ops.tile(input, counts) if 0 not in counts else whole("tile", input, counts)


@torch_means("repeat_interleave", "Tensor.repeat_interleave")
def repeat_interleave(input: Array, repeats: Any = None, dim: Axis = None, *, output_size: Any = None) -> Any:
    repeats = static(repeats) if isinstance(plain(repeats), int) else repeats
    if type(repeats) is not int or repeats < 1 or not ndim(input):
        given = {} if output_size is None else {"output_size": output_size}
        return whole("repeat_interleave", input, **given) if repeats is None else whole("repeat_interleave", input,
                                                                                        repeats, dim, **given)
    return (ops.repeat(ops.reshape(input, (-1,)), repeats, axis=0) if dim is None
            else ops.repeat(input, repeats, axis=axis_of(input, dim)))


@torch_means("broadcast_tensors")
def broadcast_tensors(*tensors: Any) -> Any:
    xs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    shape = tuple(torch.broadcast_shapes(*map(shape_of, xs)))
    return tuple(x if shape_of(x) == shape else ops.broadcast_to(x, shape) for x in xs)


@torch_means("meshgrid")
def meshgrid(*tensors: Any, indexing: Any = None) -> Any:
    xs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if indexing not in (None, "ij", "xy") or any(ndim(x) > 1 for x in xs) or not xs:
        return whole("meshgrid", *tensors, indexing=indexing)
    sizes = [shape_of(x)[0] if ndim(x) else 1 for x in xs]
    swapped = indexing == "xy" and len(xs) > 1
    order = [1, 0, *range(2, len(xs))] if swapped else list(range(len(xs)))
    shape = tuple(sizes[i] for i in order)
    return tuple(ops.broadcast_to(ops.reshape(x, tuple(-1 if k == i else 1 for k in order)), shape)
                 for i, x in enumerate(xs))


# -- several tensors


def _at_least(rank: int) -> Callable[..., Any]:
    @torch_means(f"atleast_{rank}d")
    def meaning(*tensors: Any) -> Any:
        xs = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
        found = tuple(_widened(x, rank) for x in xs)
        return found[0] if len(tensors) == 1 and xs is tensors else found
    return meaning


def _widened(x: Array, rank: int) -> Any:
    shape = shape_of(x)
    if len(shape) >= rank:
        return x
    if rank == 3:
        return ops.reshape(x, {0: (1, 1, 1), 1: (1, *shape, 1)}.get(len(shape), (*shape, 1)))
    return ops.reshape(x, (1,) * (rank - len(shape)) + shape)


at_least_1d, at_least_2d, at_least_3d = map(_at_least, (1, 2, 3))

torch_means("hstack")(lambda tensors: cat(at_least_1d(tensors),
                                          min(1, max(ndim(x) for x in tensors) - 1) if any(map(ndim, tensors)) else 0))
torch_means("vstack", "row_stack")(lambda tensors: cat(at_least_2d(tensors), 0))
torch_means("dstack")(lambda tensors: cat(at_least_3d(tensors), 2))
torch_means("column_stack")(lambda tensors: cat([x if ndim(x) > 1 else ops.reshape(x, (-1, 1)) for x in tensors], 1))

# -- splitting


@torch_means("tensor_split", "Tensor.tensor_split")
def tensor_split(input: Array, indices_or_sections: Any, dim: Axis = 0) -> Any:
    if tensors_only(indices_or_sections):
        parts = plain(indices_or_sections)
        indices_or_sections = static(indices_or_sections) if not parts.ndim else [static(part)
                                                                                  for part in indices_or_sections]
    at = axis_of(input, dim)
    length = shape_of(input)[at]
    if isinstance(indices_or_sections, (tuple, list)):
        bounds = [None, *map(static, indices_or_sections), None]
    else:
        sections = static(indices_or_sections)
        if sections < 1:
            return whole("tensor_split", input, sections, dim)
        bounds = [0, *itertools.accumulate(length // sections + (i < length % sections) for i in range(sections))]
    return tuple(getitem(input, along(at, slice(a, b))) for a, b in itertools.pairwise(bounds))


def _split_along(name: str, axis: int, at_least: int) -> None:
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Array, *parts: Any, **given: Any) -> Any:
        first = (parts or tuple(given.values()))[0]
        at = 0 if name == "hsplit" and ndim(input) == 1 else axis
        if ndim(input) < at_least or (type(first) is int and (first < 1 or shape_of(input)[at] % first)):
            return whole(name, input, *parts, **given)
        return tensor_split(input, parts if len(parts) > 1 else first, at)


_split_along("hsplit", 1, 1)
_split_along("vsplit", 0, 2)
_split_along("dsplit", 2, 3)

