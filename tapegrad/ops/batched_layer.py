"""Layers for a whole batch: what is shared by all members takes them as more rows, or more images."""

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


def images(members: Members, x: Array, *rest: Any, **how: Any) -> Any:
    """Batch a convolution by weights that are shared: the images of all members are one batch of images."""
    if not members.only(0):
        return NotImplemented
    whole = OPS["reshape"](x, (members.size * members.shape(0)[0], *members.shape(0)[1:]))
    if "shape" in how:
        how["shape"] = (members.size * how["shape"][0], *how["shape"][1:])
    return OPS["reshape"](members.op.run(whole, *rest, **how), members.result)


def _merged(members: Members, i: int, x: Array) -> Any:
    """Return the log-probabilities or targets of all members as those of one batch of images."""
    shape = members.shape(i)
    alone = (
        members.ndim(0 if i < 2 and len(members.args) == 2 else 1) == 1
    )  # one row of classes, without an axis for several
    return OPS["reshape"](
        members.full(i, x), (members.size, *shape) if alone else (members.size * shape[0], *shape[1:])
    )


def nll_loss_members(members: Members, logp: Array, target: Array, ignore: int = -100, reduction: str = "mean") -> Any:
    """Batch `nll_loss`: the losses of all rows, then the mean or the sum of each member's."""
    if members.ndim(0) < 1 or not members.size:
        return NotImplemented
    losses = members.op.run(_merged(members, 0, logp), _merged(members, 1, target), ignore=ignore, reduction="none")
    if reduction == "none":
        return OPS["reshape"](losses, members.result)
    total = OPS["sum"](OPS["reshape"](losses, (members.size, -1)), axis=1)
    return total / _counts(members, 1, target, ignore) if reduction == "mean" else total


def _counts(members: Members, i: int, target: Array, ignore: int) -> Any:
    kept = OPS["not_equal"].run(OPS["reshape"](members.full(i, target), (members.size, -1)), ignore)
    return OPS["sum"](kept, axis=1)


def nll_loss_backward_members(
    members: Members, dy: Cotangent, logp: Array, target: Array, ignore: int = -100, reduction: str = "mean"
) -> Any:
    """Batch `nll_loss_backward`."""
    if members.ndim(1) < 1 or not members.size:
        return NotImplemented
    shape = (members.size, *members.shape(2))
    if reduction == "mean":
        dy = members.full(0, dy) / OPS["maximum"].run(_counts(members, 2, target, ignore), 1)
        share = OPS["reshape"](dy, (members.size, *(1,) * (len(shape) - 1)))
    else:
        share = members.full(0, dy, len(shape) - 1)
    share = OPS["broadcast_to"](share, shape)
    alone = members.ndim(1) == 1
    whole = share if alone else OPS["reshape"](share, (shape[0] * shape[1], *shape[2:]))
    back = members.op.run(
        whole, _merged(members, 1, logp), _merged(members, 2, target), ignore=ignore, reduction="none"
    )
    return OPS["reshape"](back, members.result)
