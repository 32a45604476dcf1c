"""facts: what an op says of itself, each fact one value.

`rule` says how a cotangent is pulled through a call, `tangent` how a tangent is pushed through it, `memory` in whose
memory the result lies, and `effects` what a call does besides computing. The families of `rules.types` say of what type
the result is, `rules.batching` what a batch of calls is, and `Op.lower` what runs on a backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.errors import Location

Partial = Callable[..., Any]
"""`(dy, y, *args, **kwargs) -> dx`, before `project` undoes broadcasting."""


# -- how a cotangent is pulled through


class Partials(NamedTuple):
    """One partial for each positional argument, None where nothing flows; or one function `(i, dy, y, *args, **kwargs)`
    for an op of any number of arguments.

    Parameters of a partial that begin with an underscore are not read: see residuals. `pointwise` partials multiply by
    the conjugate of a derivative, element by element, which the tangent and a batch of calls make use of. `direct` ones
    take tensors as they are: they call ops, and use arithmetic that means of one dtype what it means of arrays.

    >>> from tapegrad import ops
    >>> ops.multiply.rule.pointwise, ops.matmul.rule.pointwise
    (True, False)
    """

    each: tuple[Partial | None, ...] | Partial
    direct: bool = False
    pointwise: bool = False


def pointwise(*partials: Partial | None, direct: bool = False) -> Partials:
    """Return the rule of an op of elements: each partial multiplies by a derivative."""
    return Partials(partials, direct, True)


def direct(*partials: Partial | None) -> Partials:
    """Return the rule by partials that take tensors as they are."""
    return Partials(partials, True)


class Joint(NamedTuple):
    """A rule that makes the pullback from the value: `(y, *args, **kwargs) -> pullback`, for cotangents that are
    computed together.
    """

    make: Callable[..., Any]


class Rrule:  # what looks for the lists that a rule reads by name follows no tuple of tapegrad's
    """A rule that returns the value and the pullback, as a user writes it; `where` it was registered."""

    def __init__(self, apply: Callable[..., Any], where: Location | None = None) -> None:
        self.apply, self.where = apply, where

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the value and the pullback of a call."""
        y, pullback = self.apply(*args, **kwargs)
        return y, pullback


class LocallyConstant:
    """The rule of a result that is locally constant, or no number that one can differentiate."""

    __slots__ = ()


CONSTANT = LocallyConstant()

Rule = Partials | Joint | Rrule | LocallyConstant


# -- how a tangent is pushed through. Where nothing is said, by the derivative, or by the pullback, transposed


class Linear(NamedTuple):
    """An op is its own tangent: in some arguments taken together, or in `each` alone. Without `places`, in all."""

    places: tuple[int, ...] | None = None
    each: bool = False


def linear_in(*places: int) -> Linear:
    """Return that an op is linear in some of its arguments, taken together.

    >>> from tapegrad import ops
    >>> ops.sum.tangent == linear_in(0), ops.matmul.tangent == EACH
    (True, True)
    """
    return Linear(places)


LINEAR = Linear()
EACH = Linear(each=True)


class Frule:
    """A user's rule: it returns the value, and a function from tangents to that of the value."""

    def __init__(self, apply: Callable[..., Any], where: Location) -> None:
        self.apply, self.where = apply, where

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Return the value and the pushforward of a call."""
        y, pushforward = self.apply(*args, **kwargs)
        return y, pushforward


def where_of(rule: Any) -> Location | None:
    """Return where the program registered a rule."""
    return rule.where if type(rule) in (Rrule, Frule) else None


Push = Callable[..., Any]
"""`(tangents, y, *args, **kwargs) -> tangent`; NotImplemented where the pullback is to be transposed."""
Tangent = Linear | Frule | Push


# -- in whose memory the result lies, with NumPy's arrays


class ResultMemory(NamedTuple):
    """In whose memory a result lies: `of` an argument, by its number, of ANY, or of None.

    A `readonly` result may not be written to. One that has `moved` holds numbers of its arguments as they are, or 0.
    What is `blank` is made to be written to: no rule reads it. What is `written` is argument 0 after a write to it, in
    which a replay writes in place where nobody else reads it; its pullback takes an Accumulator as it is.
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
    """Return that a result may be a view of an argument."""
    return ResultMemory(argument, readonly, moved=True)


VIEW, READONLY_VIEW = view_of(0), view_of(0, readonly=True)


# -- what a call does besides computing


class Effects(NamedTuple):
    """What a call does besides computing its value.

    It `raises` for some numbers. It `draws` random numbers: whatever becomes of them, the generator moves on. Its torch
    implementation may run torch's own `autograd`: nothing looks into it. It runs a function of the program's, which may
    take `nested` structures that hold traced values, and `lends` what it returns: it may keep that, or return what it
    was given (True, or so many of its results). A `closed` one is a kernel of torch's that keeps nothing of what it is
    given, and of whose result shapes alone decide the shape.
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
CLOSED = Effects(closed=True)
