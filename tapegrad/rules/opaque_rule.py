"""opaque_rule: a user's rule that cannot be traced, because it calls C, recorded as opaque operations.

A first-order gradient calls the rule; a flat tape then holds one operation for the value and its pullback, and one for
the pullback's call. Only differentiating the pullback would require tracing it, and raises MissingRule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, MissingRule, user_location, where_raised
from tapegrad.numbers.cotangents import SPECIAL, ZERO, Absorbing, conform, dtype_of, shape_of
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensors import duplicate, is_memory
from tapegrad.rules.facts import NESTED, Joint, where_of
from tapegrad.rules.op import UNSIZED, Op, Traced, tracer_of
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import is_leaf, leaves_of


def _pair(op: Op, found: Any) -> Any:
    """Return the result of a rule; raise ArgumentError unless it is a pair of a value and a function."""
    if isinstance(found, (tuple, list)) and len(found) == 2 and callable(found[1]):
        return found
    raise ArgumentError(f"the rule of {op.__name__} returned {brief(found)}, not a pair of the value and the pullback",
                        user_location(), "return y, pullback")


def followed(op: Op, rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a user's rule that is traced call by call for traced arguments, and recorded whole if tracing it fails."""

    @functools.wraps(rule)
    def rr(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        def whole(err: Exception, tracer: Any) -> tuple[Any, Any]:
            with_pullback, pulled, why = _parts(op)
            why[:] = type(err).__name__, str(err).partition("\n")[0], str(where_raised(err))
            y, pb = tracer.record(with_pullback, args, kwargs)
            return y, functools.partial(pulled, pb)

        leaves = leaves_of((args, kwargs))
        tracer = tracer_of(leaves)
        if tracer is None:
            y, pb = _pair(op, rule(*args, **kwargs))
        else:
            undo, clear = tracer.attempt([x for x in leaves if isinstance(x, Traced)]), _refusals(tracer)
            try:
                y, pb = _pair(op, rule(*args, **kwargs))
            except Exception as err:
                undo()
                clear()
                return whole(err, tracer)

        def pullback(dy: Cotangent) -> Any:
            inner = tracer_of(leaves_of(dy)) or tracer
            if inner is None:
                return pb(dy)
            clear = _refusals(inner)
            try:
                return pb(dy)
            except Exception as err:  # its recorded operations are unused
                clear()
                return whole(err, tracer or inner)[1](dy)

        return y, pullback

    return rr


def _refusals(tracer: Any) -> Callable[[], None]:
    """Return a function that discards the refusals raised from now on, by this tracer and by all running ones."""
    known = [(each, each.refusal) for each in {tracer, *running.tracers}]

    def clear() -> None:
        for each, refusal in known:
            each.refusal = refusal

    return clear


class _OfPullback:
    """The unknown tangent or cotangent of a pullback as a value; using it raises MissingRule."""

    __slots__ = ()

    def __add__(self, other: Array) -> _OfPullback:
        return self

    __radd__ = __add__


def _own(y: Any) -> Any:
    """Return a copy of a call's value: the user's function may keep the original and overwrite it at the next call."""
    return tuple(map(_own, y)) if type(y) is tuple else duplicate(y) if is_memory(y) else y


def _contracted(ws: Any, dxs: Any) -> Any:
    """Return the inner product of `ws` and a pullback's results `dxs`."""
    return sum([np.sum(w * dx) for w, dx in zip(ws, dxs) if dx is not None and not isinstance(w, SPECIAL)], 0.0)


@functools.cache
def _parts(op: Op) -> tuple[Op, Op, list[str]]:
    """Return the op of value and pullback, the op that calls such a pullback, and why the rule was not traced."""
    why: list[str] = []

    def with_pullback(*args: Any, **kwargs: Any) -> Any:
        y, pb = op.forward(*args, **kwargs)
        return _own(y), pb

    def pull(pb: Any, dy: Cotangent) -> Any:
        return tuple([conform(dx, x) if is_leaf(x) else None for dx, x in zip(pb(dy), pb.args)])

    def of_value(y: Array, *args: Any, **kwargs: Any) -> Any:
        def back(dy: Cotangent) -> Any:
            if type(dy[1]) is _OfPullback:
                refuse()
            return (ZERO,) * len(args) if isinstance(dy[0], Absorbing) else pulled(y[1], dy[0])

        return back

    def transposed(pb: Any, dy: Cotangent, ws: Any) -> Any:
        """Return the cotangent of `dy` from `ws`, those of the results; unit vectors determine the linear pullback."""
        if not (type(plain(dy)) is float or dtype_of(plain(dy)) == np.float64):
            refuse()
        units = np.eye(np.size(plain(dy))).reshape(-1, *shape_of(dy))
        return np.reshape(np.stack([_contracted(ws, pulled(pb, e)) for e in units]), shape_of(dy))

    def tangent_of_value(ts: Any, _y: Any, *args: Any, **kwargs: Any) -> Any:
        y, pb = both(*args, **kwargs)
        return transposed(pb, y, [ZERO if t is None else t for t in ts]), _OfPullback()

    def tangent(ts: Any, _y: Any, pb: Any, dy: Cotangent) -> Any:
        return pulled(pb, ts[1]) if ts[0] is None else refuse()

    def refuse() -> Any:
        raise MissingRule(
            f"the rule of {op.__name__} must be differentiated, but cannot be traced: {', '.join(why)}",
            where_of(op.rule),
            "write its pullback in NumPy, and make C functions that it calls primitives with a rule of their own: "
            "@tg.primitive, @tg.rrule",
        )

    both = Op(
        f"{op.__name__}_with_pullback", with_pullback, Joint(of_value), spec=UNSIZED, effects=NESTED,
        tangent=tangent_of_value,
    )
    pulled = Op(
        f"{op.__name__}_pullback", pull, Joint(lambda _y, pb, dy: lambda ws: (_OfPullback(), transposed(pb, dy, ws))),
        effects=NESTED, tangent=tangent,
    )
    return both, pulled, why
