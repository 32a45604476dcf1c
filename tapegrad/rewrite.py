"""rewrite: calls to triples."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tapegrad.ops.structure import getfield
from tapegrad.rules import Op, Pullback, missing_rule, rrule
from tapegrad.tape import Call, Input, Operation, Tape, copy_op, value_of


def rewrite(tape: Tape, wrt: Collection[Operation] | None = None) -> Tape:
    """Return a tape on which each call that a gradient must pass is a triple: `rrule(fn, *args)`, its value, its pullback.

    `wrt` are the inputs to differentiate by, all of them unless given. Calls that do not depend on one, or that
    the result does not depend on, stay as they are (activity analysis). Raises MissingRule for an active call without a rule.
    The function is not run again: its value, and a pullback kept while recording, are taken from the tape.
    """
    active = activity(tape, wrt)
    new = tape.blank()
    at: dict[Operation, Operation] = {}

    def bind(arg: Any) -> Any:
        return at[arg] if isinstance(arg, Operation) else arg

    for op in tape:
        if not (isinstance(op, Call) and active[op.id]):
            at[op] = new.push(copy_op(op, bind))
            continue
        pb = op.pb if op.pb is not None else pullback_of(op)
        rr = new.push(Call(rrule, (op.fn, *map(bind, op.args)), op.kwargs, (op.val, pb)).at(op))
        at[op] = new.push(Call(getfield, (rr, 0), None, op.val).at(op))
        new.push(Call(getfield, (rr, 1), None, pb).at(op))
    new.result = None if tape.result is None else at[tape.result]
    return new


def activity(tape: Tape, wrt: Collection[Operation] | None = None) -> bytearray:
    """Return, by position, which operations depend on a differentiable input and lead to the result.

    A call depends on an input through an argument that its op is differentiable by; an integer or bool that only
    steers the program leads nowhere.
    """
    depends = bytearray(len(tape.ops) + 1)
    for op in tape.ops:
        kind = type(op)
        if kind is Call:
            if getattr(op.fn, "differentiable", True):  # type: ignore[attr-defined]
                for arg in op.args:
                    if isinstance(arg, Operation) and depends[arg.id]:
                        depends[op.id] = 1
                        break
        elif kind is Input:
            depends[op.id] = op.id > 1 and (wrt is None or op in wrt) and not is_bool(op.val)
    return depends


def is_bool(val: Any) -> bool:
    """True for what has no gradient although it is a leaf."""
    return isinstance(val, bool) or getattr(getattr(val, "dtype", None), "kind", "") == "b"


def pullback_of(op: Call) -> Any:
    """Return the pullback of a call that has its value; raise MissingRule, naming the user's line, if there is none."""
    fn = op.fn
    args = tuple(map(value_of, op.args))
    if isinstance(fn, Op):
        if fn.rr is not None:
            return fn.rr(*args, **op.kwargs)[1]
        if fn.partials is not None:
            return Pullback(fn, op.val, args, op.kwargs)
        raise missing_rule(fn, args, op.where)
    return rrule(fn, *args, **op.kwargs)[1]
