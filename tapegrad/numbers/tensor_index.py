"""tensor_index: NumPy's indexing on tensors: read, write, add.

torch has no negative steps, applies an integer before the index arrays beside it where NumPy broadcasts them together,
and leaves open which of several values written to one place stays; in NumPy the last one does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Array
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import cast, is_tensor, to_tensor


def parts_of(index: Any, device: Any) -> list[Any]:
    """Return the parts of an index in torch's form: integers as int, or as 0-d int64 tensors if they are on the device;
    arrays as int64 or bool tensors.
    """
    parts = [_part(part, device) for part in (index if isinstance(index, tuple) else (index,))]
    if not any(is_tensor(part) and part.ndim for part in parts):
        return parts
    whole = any(is_tensor(part) and part.dtype is not torch.bool for part in parts)
    return [torch.full((1,), part, device=device) if type(part) is int and whole
            else part.reshape(1) if is_tensor(part) and not part.ndim else part for part in parts]


def _part(part: Any, device: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, (bool, np.bool_)):
        return part if part is None or part is Ellipsis else bool(part)
    if isinstance(part, slice):
        return slice(*(None if bound is None else int(bound) for bound in (part.start, part.stop, part.step)))
    if isinstance(part, (int, np.integer)):
        return int(part)
    if not is_tensor(part):
        part = to_tensor(np.asarray(part, None if len(np.shape(part)) and np.size(part) else np.intp), device)
    if part.dtype is torch.bool:
        return part.to(device)
    if part.is_floating_point() or part.is_complex():
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return part.to(device=device, dtype=torch.int64)


def _consumes(part: Any) -> int:
    return 0 if part is None or type(part) is bool else part.ndim if is_tensor(part) and part.dtype is torch.bool else 1


def has_negative_step(parts: Sequence[Any]) -> bool:
    """True if an index reads an axis backwards."""
    return any(isinstance(part, slice) and (part.step or 1) < 0 for part in parts)


def _turned(x: Any, parts: list[Any]) -> tuple[Any, list[Any]]:
    """Return a tensor flipped along the axes that are read backwards, and the index that then reads it forwards."""
    if not has_negative_step(parts):
        return x, parts
    rest = x.ndim - sum(_consumes(part) for part in parts if part is not Ellipsis)
    axis, flipped, found = 0, [], []
    for part in parts:
        if isinstance(part, slice) and (part.step or 1) < 0:
            n = x.shape[axis]
            forth = range(n)[part]
            flipped.append(axis)
            found.append(slice(n - 1 - forth.start, n - 1 - forth.stop, -forth.step) if len(forth) else slice(0, 0))
        else:
            found.append(part)
        axis += rest if part is Ellipsis else _consumes(part)
    return x.flip(flipped), found


def read(x: Any, index: tuple[Any, ...]) -> Any:
    """Return `x[index]`, a view if torch has one."""
    x, parts = _turned(x, parts_of(index, x.device))
    if selects(parts):
        return torch.ops.aten.index(*_selected(x, parts))
    rows = _rows(x, parts)
    if rows is not None:
        axis, at = rows
        return x.index_select(axis, at.reshape(-1)).reshape(*x.shape[:axis], *at.shape, *x.shape[axis + 1:])
    extra = _hidden_gap(x, parts)
    if extra is None:
        return x[tuple(parts)]
    return x[tuple(None if part is Ellipsis else part for part in parts)].squeeze(extra)


def selects(parts: list[Any]) -> bool:
    """True if an index has integers on the device and no arrays; torch would synchronize for them."""
    return any(is_tensor(part) and not part.ndim and part.dtype is not torch.bool for part in parts)


def _selected(x: Any, parts: list[Any]) -> tuple[Any, list[Any]]:
    """Return the part that the rest of such an index reads (a view if possible), with the axes that the integers select
    moved to the front, and the integers.
    """
    axis, axes = 0, []
    rest = x.ndim - sum(_consumes(part) for part in parts if part is not Ellipsis)
    for part in parts:
        if is_tensor(part):
            axes.append(axis)
        axis += rest if part is Ellipsis else type(part) is not int
    x = x[tuple(slice(None) if is_tensor(part) else part for part in parts)]
    return x.permute(*axes, *(i for i in range(x.ndim) if i not in axes)), [part for part in parts if is_tensor(part)]


def _rows(x: Any, parts: list[Any]) -> tuple[int, Any] | None:
    """Return the axis along which an index takes whole rows by one integer tensor, and that tensor with non-negative
    positions: torch has functions for this case that are several times as fast. None for other indices.
    """
    arrays = [axis for axis, part in enumerate(parts) if type(part) is not slice or part != slice(None)]
    if len(arrays) != 1 or not is_tensor(at := parts[arrays[0]]) or at.dtype is torch.bool or not x.ndim >= len(parts):
        return None
    return arrays[0], torch.where(at < 0, at + x.shape[arrays[0]], at)


def _hidden_gap(x: Array, parts: list[Any]) -> int | None:
    """Return the position of the axis that None in place of the ellipsis would add, if the ellipsis stands between two
    index arrays and spans no axis; else None.

    For NumPy such an ellipsis separates the arrays, so that their axes come first; torch ignores it.
    """
    arrays = [i for i, part in enumerate(parts) if is_tensor(part)]
    at = next((i for i, part in enumerate(parts) if part is Ellipsis), None)
    if (at is None or len(arrays) < 2 or not arrays[0] < at < arrays[-1]
        or x.ndim > sum(_consumes(part) for part in parts if part is not Ellipsis)):
        return None
    first = max(1 if parts[i].dtype is torch.bool else parts[i].ndim for i in arrays)
    return first + sum(part is None or isinstance(part, slice) for part in parts[:at])


def places(shape: tuple[int, ...], index: tuple[Any, ...], device: Any) -> Any:
    """Return the flat positions that an index selects in an array of this shape."""
    return read(torch.arange(math.prod(shape), device=device).reshape(shape), index)


def is_basic(parts: list[Any]) -> bool:
    """True if an index repeats no place and torch writes as NumPy does: one mask at most, no arrays, no negative steps.
    """
    arrays = [part for part in parts if is_tensor(part)]
    return not has_negative_step(parts) and len(arrays) < 2 and all(part.dtype is torch.bool for part in arrays)


def is_view(parts: list[Any]) -> bool:
    """True if indexing by these parts gives a view: no arrays, no bools, no negative steps."""
    return all(part is None or part is Ellipsis or type(part) is int
               or (isinstance(part, slice) and (part.step or 1) > 0) for part in parts)


def write(x: Any, value: Any, index: tuple[Any, ...]) -> None:
    """Do `x[index] = value` in place; at a repeated place the last value stays. An overflow raises as in torch."""
    parts = parts_of(index, x.device)
    if type(value) in (int, float, complex):
        torch.empty((), dtype=x.dtype).fill_(value)
    if is_basic(parts):
        x[tuple(parts)] = cast(value, x)
    elif selects(parts) and not has_negative_step(parts):
        part, at = _selected(x, parts)
        part.index_put_(at, _fitted(cast(value, x), part.shape[len(at):]))
    else:
        write_at(x, cast(value, x), places(tuple(x.shape), tuple(parts), x.device))


def write_at(x: Any, value: Any, at: Any) -> None:
    """Write values to flat positions, in place; the last one stays."""
    value = _fitted(value, at.shape)
    flat = at.reshape(-1)
    if flat.numel():
        x[unraveled(flat, tuple(x.shape))] = value.reshape(-1)[last_of(flat, x.numel())[flat]]


def unraveled(flat: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the multi-index of flat positions. torch.unravel_index copies the shape to the device."""
    found = []
    for n in reversed(shape):
        found.append(flat % max(n, 1))
        flat = flat.div(max(n, 1), rounding_mode="floor")
    return tuple(found[::-1])


def last_of(flat: Any, size: int) -> Any:
    """Return, for each of `size` places, the index of the last entry of `flat` that names it, -1 if none does."""
    order = torch.arange(flat.numel(), device=flat.device)
    return torch.full((size,), -1, device=flat.device).scatter_reduce_(0, flat, order, "amax")


def add_at(x: Any, piece: Any, index: tuple[Any, ...], numbers: Any = None) -> None:
    """Add at an index in place, once per repetition of a place. `numbers` holds the flat positions of x, if known."""
    parts = parts_of(index, x.device)
    piece = cast(piece, x)
    if is_view(parts):
        part = x[tuple(parts)]
        part += _fitted(piece, part.shape)
    elif is_basic(parts):
        x[tuple(parts)] += _fitted(piece, x[tuple(parts)].shape)
    elif selects(parts) and not has_negative_step(parts):
        part, at = _selected(x, parts)
        part.index_put_(at, _fitted(piece, part.shape[len(at):]), accumulate=True)
    elif (rows := _rows(x, parts)) is not None:
        axis, at = rows
        piece = _fitted(piece, (*x.shape[:axis], *at.shape, *x.shape[axis + 1:]))
        x.index_add_(axis, at.reshape(-1), piece.reshape(*x.shape[:axis], at.numel(), *x.shape[axis + 1:]))
    else:
        at = places(tuple(x.shape), tuple(parts), x.device) if numbers is None else read(numbers, tuple(parts))
        flat = _fitted(piece, at.shape).reshape(-1)
        if x.is_contiguous():
            x.view(-1).index_add_(0, at.reshape(-1), flat)
        else:
            x.index_put_(unraveled(at.reshape(-1), tuple(x.shape)), flat, accumulate=True)


def _fitted(value: Any, shape: Any) -> Any:
    """Broadcast a value to the shape of its place, dropping surplus leading axes of length 1 as NumPy does."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value[0]
    return value if value.shape == shape else value.broadcast_to(shape)
