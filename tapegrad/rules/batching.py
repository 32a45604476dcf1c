"""batching: how one call of an op stands for a whole batch of its calls.

A rule is a function `(members, *args, **kwargs) -> value`: a batched argument has the batch as axis 0, before the axes
that it has for one member, and so has the value. A rule that does not serve a call returns NotImplemented: then there
is one call for each member.
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
    """A call as it was made for one member of a batch, which of its arguments are batched, and how many there are."""

    __slots__ = ("args", "batched", "op", "size", "y")

    def __init__(self, op: Op, size: int, args: Sequence[Any], batched: Sequence[bool], y: Array) -> None:
        self.op, self.size, self.args, self.batched, self.y = op, size, args, batched, y

    def shape(self, i: int) -> tuple[int, ...]:
        """Return the shape that argument `i` has for one member."""
        return tuple(getattr(plain(self.args[i]), "shape", ()))

    def ndim(self, i: int) -> int:
        """Return how many axes argument `i` has for one member."""
        return len(self.shape(i))

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the value for all members."""
        return (self.size, *getattr(plain(self.y), "shape", ()))

    def only(self, i: int) -> bool:
        """True if argument `i` alone is batched."""
        return all(batched == (k == i) for k, batched in enumerate(self.batched))

    def aligned(self, i: int, x: Array, ndim: int) -> Any:
        """Return argument `i` so that it broadcasts against others which have `ndim` axes for one member."""
        shape = self.shape(i)
        if not self.batched[i] or len(shape) >= ndim:
            return x
        return OPS["reshape"](x, (self.size, *(1,) * (ndim - len(shape)), *shape))

    def full(self, i: int, x: Array, ndim: int = 0) -> Any:
        """Return argument `i` for each member, with `ndim` axes or more."""
        if self.batched[i]:
            return self.aligned(i, x, ndim)
        shape = self.shape(i)
        return OPS["broadcast_to"](x, (self.size, *(1,) * (ndim - len(shape)), *shape))

    def fronted(self, i: int, x: Array, ndim: int) -> Any:
        """Return argument `i` with the axis of the batch, of length 1 if it is shared, and `ndim` others."""
        shape = self.shape(i)
        if self.batched[i] or not shape:
            return self.aligned(i, x, ndim)
        return OPS["reshape"](x, (1, *(1,) * (ndim - len(shape)), *shape))

    def single(self, i: int, x: Array) -> Any:
        """Return argument `i` with an axis 0, of length 1 where it is the same for all members."""
        return x if self.batched[i] else OPS["reshape"](x, (1, *self.shape(i)))


def rule_of(op: Any) -> Rule | None:
    """Return the rule by which an op is batched, None if it is called for each member."""
    if not isinstance(op, Op):
        return None
    if op.batch is not None:
        return op.batch or None
    return elementwise if op.pointwise or (op.is_ufunc and getattr(op.impl, "signature", None) is None) else None


# -- the commonest rules


def elementwise(members: Members, *args: Any, **kwargs: Any) -> Any:
    """Batch a function of numbers: arguments broadcast."""
    ndim = max(map(members.ndim, range(len(args))), default=0)
    return members.op.run(*[members.aligned(i, x, ndim) for i, x in enumerate(args)], **kwargs)


def of_first(members: Members, x: Array, *rest: Any, **kwargs: Any) -> Any:
    """Batch what takes its first argument number by number, by others that are the same for all members."""
    return members.op.run(x, *rest, **kwargs) if members.only(0) else NotImplemented


def of_second(members: Members, a: Array, x: Array, *rest: Any, **kwargs: Any) -> Any:
    """Batch what takes its second argument number by number."""
    return members.op.run(a, x, *rest, **kwargs) if members.only(1) else NotImplemented


def moved(axis: Any, ndim: int) -> Any:
    """Return for an axis, or several, which they are behind that of the batch."""
    if isinstance(axis, tuple):
        return tuple([moved(each, ndim) for each in axis])
    return axis % ndim + 1


def along(default: Any = -1, of_all: str = "flat", arrays: int = 1) -> Rule:
    """Return the rule of what goes along an axis, of its first argument or of several that broadcast.

    Without an axis it is of `all` axes, or of the array made `flat`, and then the value is given the shape that it has
    for one member.
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

    rule.along = default, arrays  # type: ignore[attr-defined]  # for what asks which numbers the value depends on
    return rule


def along_both(members: Members, a: Array, b: Array, axis: int = -1, **kwargs: Any) -> Any:
    """Batch what goes along an axis of two arrays with as many axes each."""
    ndim = members.ndim(0)
    if not ndim or members.ndim(1) != ndim:
        return NotImplemented
    return members.op.run(members.single(0, a), members.single(1, b), axis=moved(axis, ndim), **kwargs)


def stacked(*cores: int) -> Rule:
    """Return the rule of what is of the last axes of its arguments, so many of each, and takes stacks of them."""

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
    """Batch what gives the numbers of its first argument another shape, which the value of one member tells."""
    return OPS["reshape"](x, members.result) if members.only(0) else NotImplemented


def joined(members: Members, *xs: Any, axis: int = 0) -> Any:
    """Batch what puts arrays side by side."""
    ndim = len(members.result) - 1
    return members.op.run(*[members.full(i, x) for i, x in enumerate(xs)], axis=moved(axis, ndim))
