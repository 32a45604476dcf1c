"""facts: what tapegrad knows about an op, one value per fact.

`rule` pulls a cotangent back through a call, `tangent` pushes a tangent forward, `memory` describes aliasing of the
result, and `effects` lists side effects. Result types are in `rules.types`, batching is in `rules.batching`, and
`Op.lower` holds a backend's implementation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.errors import Location

Partial = Callable[..., Any]
"""`(dy, y, *args, **kwargs) -> dx`, before `project` undoes broadcasting."""


# -- pulling a cotangent back


class Partials(NamedTuple):
    """One partial per positional argument, None if no gradient flows to it; for a variadic op one function
    `(i, dy, y, *args, **kwargs)`.

    A leading underscore marks a parameter that the partial does not use and that is not kept as a residual.
    `pointwise`: each partial multiplies elementwise by the conjugate of a derivative, which forward mode and batching
    use. `direct`: the partials accept tensors; they call ops and use arithmetic that is the same for tensors of one
    dtype as for arrays.

    >>> from tapegrad import ops
    >>> ops.multiply.rule.pointwise, ops.matmul.rule.pointwise
    (True, False)
    """

    each: tuple[Partial | None, ...] | Partial
    direct: bool = False
    pointwise: bool = False


def pointwise(*partials: Partial | None, direct: bool = False) -> Partials:
    """Return the rule of an elementwise op, given by pointwise partials."""
    return Partials(partials, direct, True)


def direct(*partials: Partial | None) -> Partials:
    """Return a rule whose partials accept tensors."""
    return Partials(partials, True)


class Joint(NamedTuple):
    """A rule `(y, *args, **kwargs) -> pullback` whose pullback computes all cotangents together."""

    make: Callable[..., Any]


class Rrule:  # not a NamedTuple, since the search for lists that a rule reads by name does not follow tapegrad's tuples
    """A rule as users write it: it returns the value and the pullback. `where` is the place of its registration."""

    def __init__(self, apply: Callable[..., Any], where: Location | None = None) -> None:
        self.apply, self.where = apply, where

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        y, pullback = self.apply(*args, **kwargs)
        return y, pullback


class LocallyConstant:
    """The rule of a result that is locally constant or not a differentiable number."""

    __slots__ = ()


CONSTANT = LocallyConstant()

Rule = Partials | Joint | Rrule | LocallyConstant


# -- pushing a tangent forward. Without a tangent rule: by the derivative, or by transposing the pullback


class Linear(NamedTuple):
    """The op is its own tangent: linear in the arguments at `places` (default: all) jointly, or in `each` alone."""

    places: tuple[int, ...] | None = None
    each: bool = False


def linear_in(*places: int) -> Linear:
    """Return the fact that an op is jointly linear in the arguments at `places`.

    >>> from tapegrad import ops
    >>> ops.sum.tangent == linear_in(0), ops.matmul.tangent == EACH
    (True, True)
    """
    return Linear(places)


LINEAR = Linear()
EACH = Linear(each=True)


class Frule:
    """A user's forward rule: it returns the value and a function from tangents to the value's tangent."""

    def __init__(self, apply: Callable[..., Any], where: Location) -> None:
        self.apply, self.where = apply, where

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        y, pushforward = self.apply(*args, **kwargs)
        return y, pushforward


def where_of(rule: Any) -> Location | None:
    """Return the place where the program registered a rule, None for another rule."""
    return rule.where if type(rule) in (Rrule, Frule) else None


Push = Callable[..., Any]
"""`(tangents, y, *args, **kwargs) -> tangent`, or NotImplemented to have the pullback transposed instead."""
Tangent = Linear | Frule | Push


# -- aliasing of the result, for NumPy arrays


class ResultMemory(NamedTuple):
    """The aliasing of a result. `of`: the position of the argument whose memory it may share, ANY, or None.

    readonly: the result may not be written to. moved: the result consists of elements of the arguments, or 0. blank:
    the result is made to be overwritten, and no rule reads it. written: the result is argument 0 after a write; a
    replay writes in place if nothing else reads the argument, and the pullback accepts an Accumulator.
    """

    of: int | None = None
    readonly: bool = False
    moved: bool = False
    blank: bool = False
    written: bool = False


ANY = -1
FRESH = ResultMemory()
MOVED = ResultMemory(moved=True)
BLANK = ResultMemory(blank=True)
WRITTEN = ResultMemory(moved=True, written=True)
SHARED = ResultMemory(ANY)


def view_of(argument: int, readonly: bool = False) -> ResultMemory:
    """Return the fact that a result may be a view of an argument."""
    return ResultMemory(argument, readonly, moved=True)


VIEW, READONLY_VIEW = view_of(0), view_of(0, readonly=True)


# -- side effects of a call


class Effects(NamedTuple):
    """The side effects of a call.

    raises: it raises for some values. draws: it draws random numbers, so it advances a generator even if its result is
    unused. autograd: its torch implementation may run torch's own autograd, and is opaque to tapegrad. nested: its
    arguments may be nested structures that hold traced values, because it runs a function of the program. lends: the
    number of results that may alias an argument or be kept by the callee (True: all); these are copied. closed: a torch
    kernel that keeps none of its arguments and whose result shapes depend on argument shapes alone.
    """

    raises: bool = False
    draws: bool = False
    autograd: bool = False
    nested: bool = False
    lends: int = False
    closed: bool = False


PURE = Effects()
RAISES = Effects(raises=True)
DRAWS = Effects(draws=True)
AUTOGRAD = Effects(autograd=True)
NESTED = Effects(nested=True)
LENDS = Effects(lends=True)
PROGRAM = Effects(nested=True, lends=True)
