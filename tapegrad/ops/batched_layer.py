"""Layers for a whole batch: what is shared by all members takes them as more rows."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.rules.batching import Members
from tapegrad.rules.op import OPS


def linear_members(members: Members, x: Any, w: Any, b: Any = None) -> Any:
    """Batch `linear`."""
    if members.only(0):
        return members.op.run(x, w) if b is None else members.op.run(x, w, b)
    if members.ndim(1) != 2:
        return NotImplemented
    last = OPS["permute_dims"](w, axes=(0, 2, 1) if members.batched[1] else (1, 0))
    call = Members(OPS["matmul"], members.size, (members.args[0], members.args[1].T), members.batched[:2], members.y)
    y = OPS["matmul"].batch(call, x, last) if any(members.batched[:2]) else OPS["matmul"].run(x, last)
    return y if b is None else OPS["add"].run(y, members.aligned(2, b, len(members.result) - 1))


def linear_weight_members(members: Members, dy: Cotangent, x: Array) -> Any:
    """Batch `linear_weight`: a product for each member."""
    rows = [
        OPS["reshape"](members.full(i, part), (members.size, math.prod(members.shape(i)[:-1]), members.shape(i)[-1]))
        for i, part in enumerate((dy, x))
    ]
    return OPS["matmul"].run(OPS["permute_dims"](rows[0], axes=(0, 2, 1)), rows[1])
