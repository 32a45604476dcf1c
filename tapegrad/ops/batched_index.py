"""Batching rules for reading and writing parts: where the axis of the batch goes among those of an index, and back.

NumPy puts the axes of integer arrays in their place if these are adjacent, and in front if something is between them. A
batched index is an integer array; if the array is batched too, the members' numbers are an index beside it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.view_path import Path, follow
from tapegrad.rules.batching import Members, rule_of
from tapegrad.rules.op import OPS, Traced
from tapegrad.rules.types import spec_of_call
from tapegrad.rules.types.indexing import place as place_of
from tapegrad.rules.types.layout import array
from tapegrad.tape.spec import UNKNOWN, absent, spec_of


class Place(NamedTuple):
    """An index of the whole batch, and the permutation that brings the batch to the front of what is read, or None."""

    parts: tuple[Any, ...]
    order: tuple[int, ...] | None

    def read(self, y: Array) -> Any:
        """Move the members of what was read to the front."""
        return y if self.order is None else OPS["permute_dims"](y, axes=self.order)

    def to_write(self, value: Array) -> Any:
        """Permute what is to be written to the order of the index."""
        return value if self.order is None else OPS["permute_dims"](value, axes=tuple(np.argsort(self.order).tolist()))


def located(
    shape: tuple[int, ...],
    index: Sequence[Any],
    members: Sequence[Any],
    flags: Sequence[bool],
    size: int,
    batched: bool,
) -> Place | None:
    """Return the place of an index for all members, in an array with this shape for one; None where no rule applies.

    `members` are the parts of the index for one member, `flags` marks the batched parts, `batched` tells whether the
    array is batched.
    """
    parts: list[tuple[Any, Any, bool]] = []  # for all members, for one, and whether it is batched
    for part, one, flag in zip(index, map(plain, members), flags):
        kind = getattr(getattr(one, "dtype", None), "kind", "") or str(getattr(one, "dtype", ""))
        if isinstance(one, (bool, np.bool_)) or (kind in ("b", "torch.bool") and (flag or isinstance(part, Traced))):
            return None  # the values of a mask decide the shape
        if kind in ("b", "torch.bool"):
            parts += [(axis, axis, False) for axis in np.nonzero(np.asarray(one))]
        else:
            parts.append((part, one, flag))
    taken = sum(one is not None and one is not Ellipsis for _, one, _ in parts)
    missing = [(slice(None), slice(None), False)] * (len(shape) - taken)
    at = next((i for i, (_, one, _) in enumerate(parts) if one is Ellipsis), len(parts))
    parts[at : at + 1] = missing
    arrays = [i for i, (_, one, _) in enumerate(parts) if getattr(one, "shape", ())]
    numbers = [i for i, (_, one, _) in enumerate(parts) if not isinstance(one, slice) and one is not None]
    if not arrays and not any(flag for *_, flag in parts):
        return Place((slice(None), *[part for part, *_ in parts]), None)
    near = numbers[-1] - numbers[0] + 1 == len(numbers)  # adjacent
    extent = max(len(getattr(parts[i][1], "shape", ())) for i in numbers)
    before = numbers[0]  # the axes in front: all are slices and new axes
    rest = len(parts) - len(numbers)
    if not any(flag for *_, flag in parts):
        order = None if near else (extent, *range(extent), *range(extent + 1, extent + 1 + rest))
        return Place((slice(None), *[part for part, *_ in parts]), order)
    spread = [_spread(part, one, flag, extent, size) for part, one, flag in parts]
    if not batched:
        order = (before, *range(before), *range(before + 1, 1 + extent + rest)) if near and before else None
        return Place(tuple(spread), order)
    count = np.arange(size).reshape(size, *(1,) * extent)
    order = None
    if near and before and arrays:
        order = (
            0,
            *range(1 + extent, 1 + extent + before),
            *range(1, 1 + extent),
            *range(1 + extent + before, 1 + extent + rest),
        )
    return Place((count, *spread), order)


def _spread(part: Any, one: Any, flag: bool, extent: int, size: int) -> Any:
    """Reshape a batched part of an index to broadcast against arrays with so many axes."""
    shape = tuple(getattr(one, "shape", ()))
    return OPS["reshape"](part, (size, *(1,) * (extent - len(shape)), *shape)) if flag else part


def _followed(members: Members, x: Array, through: Path) -> tuple[Any, Any, bool] | None:
    """Return the view that a path leads to, for all members and for one, and whether it is batched."""
    one, batched = absent(spec_of(plain(members.args[0]))), members.batched[0]
    for step in through:
        rule, flags = rule_of(step.op), (batched, *(False,) * len(step.args))
        made = absent(spec_of_call(step.op, (one, *step.args), step.kwargs))
        if made is UNKNOWN:
            return None
        call = Members(step.op, members.size, (one, *step.args), flags, made)
        x = (
            step.op.run(x, *step.args, **step.kwargs)
            if not batched
            else NotImplemented
            if rule is None
            else rule(call, x, *step.args, **step.kwargs)
        )
        if x is NotImplemented:
            return None
        one = made
    return x, one, batched


def read_members(members: Members, x: Array, *index: Any, through: Path = ()) -> Any:
    """Batch `getitem`."""
    found = _followed(members, x, through)
    if found is None:
        return NotImplemented
    x, one, batched = found
    place = located(tuple(one.shape), index, members.args[1:], members.batched[1:], members.size, batched)
    return NotImplemented if place is None else place.read(members.op.run(x, *place.parts))


def take_members(members: Members, x: Array, indices: Array, axis: int = 0) -> Any:
    """Batch `take`."""
    ndim = members.ndim(0)
    if not ndim:
        return NotImplemented
    if members.only(0):
        return members.op.run(x, indices, axis=axis % ndim + 1)
    index = (*[slice(None)] * (axis % ndim), indices)
    flags = (*[False] * (axis % ndim), members.batched[1])
    place = located(members.shape(0), index, (*index[:-1], members.args[1]), flags, members.size, members.batched[0])
    return NotImplemented if place is None else place.read(OPS["getitem"].run(x, *place.parts))


def item_members(members: Members, x: Array, *index: Any) -> Any:
    """Batch `item`: with a flat index, with one per axis, or with none for an array of one element."""
    if not members.only(0):
        return NotImplemented
    if len(index) == 1 and members.ndim(0) != 1:
        return OPS["reshape"](x, (members.size, -1))[:, index[0]] if members.size else NotImplemented
    return OPS["getitem"].run(x, slice(None), *index) if index else OPS["reshape"](x, (members.size,))


def places(shape: tuple[int, ...], index: tuple[Any, ...], through: Path) -> Any:
    """Return the flat positions that an index of a view selects; None for complex parts and traced indices."""
    if any(step.op.__name__ in ("real", "imag") for step in through) or any(isinstance(part, Traced) for part in index):
        return None
    return follow(np.arange(int(np.prod(shape))).reshape(shape), through)[index]


def write_members(members: Members, x: Array, value: Array, *index: Any, through: Path = ()) -> Any:
    """Batch `setitem`."""
    whole, shape, size = members.full(0, x), members.shape(0), members.size
    parts, flags = members.args[2:], members.batched[2:]
    mask: Any = plain(parts[0]) if len(parts) == 1 else None
    is_mask = flags == (True,) and not through and str(getattr(mask, "dtype", "")) in ("bool", "torch.bool")
    if is_mask and mask.shape == shape and not members.ndim(1):
        kept = OPS["where"](index[0], members.aligned(1, value, len(shape)), whole)
        return (
            OPS["astype"](kept, dtype=plain(x).dtype)
            if plain(kept).dtype != plain(x).dtype and not hasattr(plain(x), "numel")
            else kept
        )
    found = _writing(shape, index, parts, flags, size, through)
    if found is None:
        return NotImplemented
    place, target, flat = found
    into = OPS["reshape"](whole, (size, int(np.prod(shape)))) if flat else whole
    made = members.op.run(into, _value(members, 1, value, place, target), *place.parts)
    return OPS["reshape"](made, members.result) if flat else made


def _writing(
    shape: tuple[int, ...],
    index: tuple[Any, ...],
    parts: Sequence[Any],
    flags: Sequence[bool],
    size: int,
    through: Path,
) -> Any:
    """Return the place of an index of a view, the shape there for one member, and whether it is in the flat array."""
    if through:
        at = None if any(flags) else places(shape, index, through)
        return None if at is None else (Place((slice(None), at), None), np.shape(at), True)
    place = located(shape, index, parts, flags, size, True)
    if place is None:
        return None
    ones = tuple([np.asarray(one) if hasattr(one, "numel") else one for one in map(plain, parts)])
    target = place_of(array(np.dtype(float), shape), ones)
    return place, target.shape, False


def _value(members: Members, i: int, value: Array, place: Place, target: tuple[int, ...]) -> Any:
    """Return the value to be written or added at a place, with the shape `target` for one member."""
    if not members.ndim(i) and not members.batched[i]:
        return value
    if members.ndim(i) > len(target):  # NumPy drops leading axes of length 1
        return OPS["reshape"](
            members.full(i, value), (members.size, *members.shape(i)[members.ndim(i) - len(target) :])
        )
    if place.order is None:
        return members.aligned(i, value, len(target))
    return place.to_write(OPS["broadcast_to"](members.aligned(i, value, len(target)), (members.size, *target)))


def scatter_members(
    members: Members,
    *parts: Any,
    shape: tuple[int, ...],
    ranks: tuple[int, ...],
    through: tuple[Path, ...] = (),
    dtype: Any = None,
    order: Any = "C",
) -> Any:
    """Batch `scatter`."""
    new: list[Any] = []
    at, size, flat = 0, members.size, any(through)
    for rank, path in zip(ranks, through or ((),) * len(ranks)):
        index, inner = parts[at + 1 : at + 1 + rank], slice(at + 1, at + 1 + rank)
        if flat and not path and any(members.batched[inner]):
            return NotImplemented
        found = _writing(shape, index, members.args[inner], members.batched[inner], size, path)
        if found is None:
            return NotImplemented
        place, target, _ = found
        if flat and not path:  # one flat array of zeros serves all pieces
            numbers = places(shape, index, ())
            if numbers is None:
                return NotImplemented
            place = Place((slice(None), numbers), None)
        piece = _value(members, at, parts[at], place, target)
        new.append((piece, place.parts))
        at += 1 + rank
    whole = (size, reduce(operator.mul, shape, 1)) if flat else (size, *shape)
    how = {} if dtype is None else {"dtype": dtype}
    made = members.op.run(
        *[part for piece, index in new for part in (piece, *index)],
        shape=whole,
        ranks=tuple([len(index) for _, index in new]),
        **how,
    )
    return OPS["reshape"](made, members.result) if flat else made
