"""Batching rules for ops that change shapes or create arrays."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.batching import Members, moved
from tapegrad.rules.op import OPS


def permuted(members: Members, x: Any, axes: Any = None) -> Any:
    """Batch `permute_dims`."""
    ndim = members.ndim(0)
    return members.op.run(x, axes=(0, *(range(ndim, 0, -1) if axes is None else moved(tuple(axes), ndim))))


def broadcast(members: Members, x: Array, shape: Any) -> Any:
    """Batch `broadcast_to`."""
    return (
        members.op.run(members.aligned(0, x, len(members.result) - 1), members.result)
        if members.only(0)
        else NotImplemented
    )


def rolled(members: Members, x: Array, shift: Any, axis: Axis = None) -> Any:
    """Batch `roll`."""
    if not members.only(0) or not members.ndim(0):
        return NotImplemented
    if axis is not None:
        return members.op.run(x, shift, axis=moved(axis, members.ndim(0)))
    flat = OPS["reshape"](x, (members.size, math.prod(members.shape(0))))
    return OPS["reshape"](
        members.op.run(flat, sum(shift) if isinstance(shift, tuple) else shift, axis=1), members.result
    )


def tiled(members: Members, x: Array, reps: Any) -> Any:
    """Batch `tile`."""
    if not members.only(0):
        return NotImplemented
    counts = reps if isinstance(reps, tuple) else (reps,)
    ndim = max(members.ndim(0), len(counts))
    return members.op.run(members.aligned(0, x, ndim), (*(1,) * (ndim + 1 - len(counts)), *counts))


def padded(members: Members, x: Array, widths: Any, *value: Any) -> Any:
    """Batch `pad`."""
    return members.op.run(x, ((0, 0), *widths), *value) if members.only(0) else NotImplemented


def like(members: Members, x: Array, **how: Any) -> Any:
    """Batch an op that creates an array like another."""
    return NotImplemented if how.get("shape") is not None else members.op.run(x, **how)


def filled(members: Members, shape: Any, value: Array, **how: Any) -> Any:
    """Batch `full`."""
    if not members.only(1):
        return NotImplemented
    made = OPS["copy"](OPS["broadcast_to"](members.aligned(1, value, len(members.result) - 1), members.result))
    return made


def filled_like(members: Members, x: Array, fill_value: Array, **how: Any) -> Any:
    """Batch `full_like`."""
    if how.get("shape") is not None:
        return NotImplemented
    value = members.aligned(1, fill_value, members.ndim(0)) if len(members.batched) > 1 else fill_value
    return members.op.run(members.full(0, x), value, **how)


def kept(members: Members, x: Array, to: Any) -> Any:
    """Batch an op that converts a number to another kind: the batched array has the right dtype already."""
    return x


def valued(members: Members, x: Array, value: Array) -> Any:
    """Batch an op that returns its second argument in the type of the first."""
    return value
