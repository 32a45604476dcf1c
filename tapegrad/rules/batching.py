"""batching: rules that compute a whole batch of calls of an op by one call.

A rule is a function `(members, *args, **kwargs) -> value`. A batched argument has the batch as axis 0, before the axes
of one member, and so has the value. A rule returns NotImplemented for a call that it cannot batch; then the op is
called once per member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import OPS, Op

Rule = Callable[..., Any]


class Members:
    """The call as made for one member of a batch, with which arguments are batched and the number of members."""

    __slots__ = ("args", "batched", "op", "size", "y")

    def __init__(self, op: Op, size: int, args: Sequence[Any], batched: Sequence[bool], y: Array) -> None:
        self.op, self.size, self.args, self.batched, self.y = op, size, args, batched, y

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of argument `i` for one member."""
        return tuple(getattr(plain(self.args[i]), "shape", ()))

    def ndim(self, i: int) -> int:
        """Return the number of axes of argument `i` for one member."""
        return len(self.shape(i))

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the value for all members."""
        return (self.size, *getattr(plain(self.y), "shape", ()))

    def only(self, i: int) -> bool:
        """True if argument `i` alone is batched."""
        return all(batched == (k == i) for k, batched in enumerate(self.batched))

    def aligned(self, i: int, x: Array, ndim: int) -> Any:
        """Return argument `i`, reshaped to broadcast against arguments that have `ndim` axes for one member."""
        shape = self.shape(i)
        if not self.batched[i] or len(shape) >= ndim:
            return x
        return OPS["reshape"](x, (self.size, *(1,) * (ndim - len(shape)), *shape))

    def full(self, i: int, x: Array, ndim: int = 0) -> Any:
        """Return argument `i` for each member, with at least `ndim` axes."""
        if self.batched[i]:
            return self.aligned(i, x, ndim)
        shape = self.shape(i)
        return OPS["broadcast_to"](x, (self.size, *(1,) * (ndim - len(shape)), *shape))

    def fronted(self, i: int, x: Array, ndim: int) -> Any:
        """Return argument `i` with the batch axis, of length 1 if the argument is shared, and `ndim` further axes."""
        shape = self.shape(i)
        if self.batched[i] or not shape:
            return self.aligned(i, x, ndim)
        return OPS["reshape"](x, (1, *(1,) * (ndim - len(shape)), *shape))

    def single(self, i: int, x: Array) -> Any:
        """Return argument `i` with the batch axis, of length 1 if the argument is shared."""
        return x if self.batched[i] else OPS["reshape"](x, (1, *self.shape(i)))


def rule_of(op: Any) -> Rule | None:
    """Return the batching rule of an op, None if the op is called once per member."""
    if not isinstance(op, Op):
        return None
    if op.batch is not None:
        return op.batch or None
    return elementwise if op.pointwise or (op.is_ufunc and getattr(op.impl, "signature", None) is None) else None


# -- the commonest rules


def elementwise(members: Members, *args: Any, **kwargs: Any) -> Any:
    """Batch an elementwise function: its arguments broadcast."""
    ndim = max(map(members.ndim, range(len(args))), default=0)
    return members.op.run(*[members.aligned(i, x, ndim) for i, x in enumerate(args)], **kwargs)


def of_first(members: Members, x: Array, *rest: Any, **kwargs: Any) -> Any:
    """Batch an op that is elementwise in its first argument and shares the others."""
    return members.op.run(x, *rest, **kwargs) if members.only(0) else NotImplemented


def of_second(members: Members, a: Array, x: Array, *rest: Any, **kwargs: Any) -> Any:
    """Batch an op that is elementwise in its second argument and shares the others."""
    return members.op.run(a, x, *rest, **kwargs) if members.only(1) else NotImplemented


def moved(axis: Any, ndim: int) -> Any:
    """Return an axis, or a tuple of axes, shifted by the batch axis in front."""
    if isinstance(axis, tuple):
        return tuple([moved(each, ndim) for each in axis])
    return axis % ndim + 1


def along(default: Any = -1, of_all: str = "flat", arrays: int = 1) -> Rule:
    """Return the rule of an op along an axis of its first argument, or of its first `arrays` arguments, which
    broadcast.

    `of_all` says what `axis=None` does: reduce "all" axes, or work on the "flat" array; the result of the latter gets
    the shape it has for one member.
    """

    def rule(members: Members, *args: Any, axis: Axis = default, **kwargs: Any) -> Any:
        count = min(arrays, len(args))
        xs, rest = args[:count], args[count:]
        if any(members.batched[count:]):
            return NotImplemented
        ndim = max(map(members.ndim, range(count)))
        if not ndim:
            if axis is not None:
                return NotImplemented
            columns = [OPS["reshape"](x, (members.size if members.batched[i] else 1, 1)) for i, x in enumerate(xs)]
            return members.op.run(
                *columns, *rest, axis=1, **{**kwargs, "keepdims": False} if "keepdims" in kwargs else kwargs
            )
        xs = tuple([members.fronted(i, x, ndim) for i, x in enumerate(xs)])
        if axis is None and of_all == "all":
            return members.op.run(*xs, *rest, axis=tuple(range(1, ndim + 1)), **kwargs)
        if axis is None:
            if count > 1:
                return NotImplemented
            flat = members.op.run(
                OPS["reshape"](xs[0], (members.size, math.prod(members.shape(0)))), *rest, axis=1, **kwargs
            )
            return OPS["reshape"](flat, members.result)
        return members.op.run(*xs, *rest, axis=moved(axis, ndim), **kwargs)

    rule.along = default, arrays  # type: ignore[attr-defined]  # read by the analysis of element dependence
    return rule


def along_both(members: Members, a: Array, b: Array, axis: int = -1, **kwargs: Any) -> Any:
    """Batch an op along an axis of two arrays of equal rank."""
    ndim = members.ndim(0)
    if not ndim or members.ndim(1) != ndim:
        return NotImplemented
    return members.op.run(members.single(0, a), members.single(1, b), axis=moved(axis, ndim), **kwargs)


def stacked(*cores: int) -> Rule:
    """Return the rule of an op that works on the last `cores[i]` axes of argument `i` and accepts stacks of them."""

    def rule(members: Members, *args: Any, **kwargs: Any) -> Any:
        above = [members.ndim(i) - core for i, core in zip(range(len(args)), cores)]
        if any(members.batched[len(cores) :]) or min(above) < 0:
            return NotImplemented
        ndim = max(above)
        return members.op.run(
            *[members.aligned(i, x, ndim + cores[i]) if i < len(cores) else x for i, x in enumerate(args)], **kwargs
        )

    rule.cores = cores  # type: ignore[attr-defined]
    return rule


def same_shape(members: Members, x: Array, *rest: Any, **kwargs: Any) -> Any:
    """Batch a reshaping of the first argument; the new shape is that of one member's value."""
    return OPS["reshape"](x, members.result) if members.only(0) else NotImplemented


def joined(members: Members, *xs: Any, axis: int = 0) -> Any:
    """Batch the concatenation of arrays."""
    ndim = len(members.result) - 1
    return members.op.run(*[members.full(i, x) for i, x in enumerate(xs)], axis=moved(axis, ndim))
