"""rewrite: replaces calls by triples."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tapegrad.ops.structure import getfield, whole_of
from tapegrad.replay.interpreter import fill
from tapegrad.rules.activity import activity
from tapegrad.rules.user import is_triple, op_of, rrule
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.subtape import needed
from tapegrad.tape.tape import Call, Input, Operation, Tape, append_copy, value_of
from tapegrad.transforms.unroll import unroll


def rewrite(tape: Tape, wrt: Collection[int] | None = None) -> Tape:
    """Return a tape on which each call that a gradient passes is a triple: `rrule(fn, *args)`, its value, its pullback.

    `wrt` are the positions in `tape.inputs` to differentiate by (see `differentiated`). Calls that do not depend on
    these, or on which the result does not depend, stay as they are (activity analysis). Raises MissingRule for an
    active call without a rule. The function does not run again: its value, and a pullback kept while recording, are
    taken from the tape. Values that a saved tape lacks are computed first, and loops unrolled.
    """
    check_is_tape(tape, "rewrite")
    tape = unroll(fill(tape))
    active, passed = activity(tape, wrt), needed(tape)
    new = tape.blank()
    at: dict[Operation, Operation] = {}

    for op in tape:
        if not (isinstance(op, Call) and active[op.id] and passed[op.id]):
            append_copy(new, op, at)
            continue
        pb = op.pb if op.pb is not None else pullback_of(op)
        args = [at[arg] if isinstance(arg, Operation) else arg for arg in op.args]
        rr = new.push(Call(rrule, (op.fn, *args), op.kwargs, (op.val, pb)).at(op))
        at[op] = new.push(Call(getfield, (rr, 0), None, op.val).at(op))
        new.push(Call(getfield, (rr, 1), None, pb).at(op))
    new.result = None if tape.result is None else at[tape.result]
    return new


def placed(tape: Tape) -> list[Input]:
    """Return the inputs for which a gradient tape's result has a part, None for one held constant, in its order."""
    size = None if tape.structure is None else sum(part.size for part in tape.structure.parts) + 1
    return tape.inputs[1:size]


def pullback_of(op: Call, last: bool = False) -> Any:
    """Return the pullback of a call, whose value it is the `last` to read; raise MissingRule if there is none."""
    fn = op_of(getattr(op.fn, "last", op.fn) if last else op.fn)
    # finding a line takes time
    return fn.pullback(op.val, tuple(map(value_of, op.args)), op.kwargs, None if fn.has_rule else op.where)


def is_pullback(op: Operation) -> bool:
    """True for an operation that holds the pullback of a triple; a tape calls no other operations."""
    return is_triple(whole_of(op)) and type(op.args[1]) is int and op.args[1] == 1
