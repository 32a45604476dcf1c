"""user: the public decorators primitive, rrule and frule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar, overload

from tapegrad.errors import DuplicateRule, MissingRule
from tapegrad.numbers.formatting import name_of
from tapegrad.rules.facts import CONSTANT, PROGRAM, Frule, Rrule, where_of
from tapegrad.rules.op import OPS, UNSIZED, Op
from tapegrad.rules.opaque_rule import followed
from tapegrad.rules.readonly import reading
from tapegrad.rules.registry import DISPATCH, REGISTERED, set_dispatch, user_location_of_definition
from tapegrad.tape.tape import Call

F = TypeVar("F", bound=Callable[..., Any])


def primitive(fn: Callable[..., Any]) -> Op:
    """Make a Python function one operation on every tape; give it a rule with `rrule`.

    The function, its rule and its pullback must not write to their arrays; a write raises MutationError.

    >>> import tapegrad as tg
    >>> @tg.primitive
    ... def cube(x):
    ...     return x * x * x
    >>> @tg.rrule(cube)
    ... def _(x):
    ...     return cube(x), lambda dy: (3 * x * x * dy,)
    >>> tg.grad(cube, 2.0)
    (8.0, (None, 12.0))
    """
    # the shape of its result is unknown
    op = Op(name_of(fn), fn, spec=UNSIZED, effects=PROGRAM)
    op.read = reading(fn, op.__name__)
    op.__wrapped__ = fn  # type: ignore[attr-defined]
    op.__module__ = getattr(fn, "__module__", __name__)
    return op


def op_of(fn: Callable[..., Any]) -> Op:
    """Return the op that records calls of `fn`: `fn` itself, the op it is dispatched to, or a new one."""
    if isinstance(fn, Op):
        return fn
    known = DISPATCH.get(fn)
    if isinstance(known, Op):
        return known
    op = primitive(fn)
    op.loose = True
    return op


@overload
def rrule(fn: Callable[..., Any], /) -> Callable[[F], F]: ...
@overload
def rrule(fn: Callable[..., Any], /, first: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]: ...
def rrule(fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Register a reverse rule for `fn` (as a decorator), or, with arguments, apply the rule: (value, pullback).

    The rule takes fn's arguments and returns its value and a pullback; the pullback takes the cotangent of the
    value and returns one cotangent per positional argument, ZeroTangent() where nothing flows (as in ChainRules).
    Raises DuplicateRule, naming both places, if `fn` has a rule.

    >>> import tapegrad as tg
    >>> y, pullback = tg.rrule(tg.ops.multiply, 2.0, 3.0)
    >>> y, list(pullback(1.0))
    (6.0, [3.0, 2.0])
    """
    if args or kwargs:
        return op_of(fn).forward(*args, **kwargs)

    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        op = op_of(fn)
        here = user_location_of_definition()
        if op.has_rule:
            there = where_of(op.rule) or REGISTERED.get(op.__name__) or "tapegrad's own rules"
            raise DuplicateRule(f"{op.__name__} already has a rule, at {there}", here, _instead(op, "rrule"))
        if not isinstance(fn, Op) and DISPATCH.get(fn) is not op:
            REGISTERED.setdefault(fn, here)
            set_dispatch(fn, op)
        op.rule = Rrule(followed(op, reading(rule, f"the rule of {op.__name__}")), here)
        op.effects, op.loose, op.scalar = op.effects._replace(lends=True), False, None  # the user's rule decides
        return rule
    return decorate


def _instead(op: Op, rule: str) -> str:
    """Return the advice for a refused second rule: tapegrad's own rules hold in all programs."""
    if OPS.get(op.__name__) is op:
        return (f"put @tg.primitive on a function of your own that calls {op.__name__}, and @tg.{rule} for that: "
                f"tapegrad's rule of {op.__name__} stays")
    return "keep one of the two; to try another one, define the function again before it"


def is_triple(op: Any) -> TypeGuard[Call]:
    """True for the call `rrule(fn, ...)` on a tape, which returns the value of `fn` and its pullback."""
    return type(op) is Call and op.fn is rrule


@overload
def frule(fn: Callable[..., Any]) -> Callable[[F], F]: ...
@overload
def frule(fn: Callable[..., Any], first: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]: ...
def frule(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Register a forward rule for `fn` (as a decorator), or, with arguments, apply the rule: (value, pushforward).

    The rule takes fn's arguments and returns its value and a pushforward. The pushforward takes a tangent, or None, for
    each positional argument and returns the tangent of the value. Without a forward rule, tangents are computed from
    the reverse rule, which must be traceable. Raises DuplicateRule, naming both places, if `fn` has a forward rule or
    needs none.

    >>> import tapegrad as tg
    >>> @tg.primitive
    ... def cube(x):
    ...     return x * x * x
    >>> @tg.frule(cube)
    ... def _(x):
    ...     return cube(x), lambda dx: 3 * x * x * dx
    >>> tg.jvp(cube, (2.0,), (1.0,))
    (8.0, 12.0)
    """
    if args or kwargs:
        op = op_of(fn)
        if type(op.tangent) is not Frule:
            raise MissingRule(f"{op.__name__} has no forward rule", None, f"@tg.frule({op.__name__})")
        return op.tangent(*args, **kwargs)

    def decorate(rule: Callable[..., Any]) -> Callable[..., Any]:
        op, here = op_of(fn), user_location_of_definition()
        if op.tangent is not None or op.pointwise:
            there = where_of(op.tangent) or REGISTERED.get(op.__name__)
            raise DuplicateRule(f"{op.__name__} already has a tangent, at {there}", here, _instead(op, "frule"))
        if not isinstance(fn, Op) and (known := DISPATCH.get(fn)) is not op:
            if known is not None:
                raise DuplicateRule(f"{op.__name__} is recorded as the functions that it calls, which have tangents",
                                    here,
                                    "write a rule for a function of your own that calls it")
            REGISTERED.setdefault(fn, here)
            set_dispatch(fn, op)
        op.tangent, op.loose = Frule(reading(rule, f"the forward rule of {op.__name__}"), here), False
        op.rule = None if op.rule is CONSTANT else op.rule
        return rule
    return decorate
