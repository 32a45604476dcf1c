"""rewrite: calls to triples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import dtype_of
from tapegrad.ops.structure import getfield
from tapegrad.rules.registry import op_of, rrule
from tapegrad.tape.tape import Call, Input, Operation, Tape, copy_op, operands, value_of
from tapegrad.tree.flatten import is_generator


def rewrite(tape: Tape, wrt: Collection[int] | None = None) -> Tape:
    """Return a tape on which each call that a gradient must pass is a triple: `rrule(fn, *args)`, its value, its pullback.

    `wrt` are the positions in `tape.inputs` to differentiate by (see `differentiated`). Calls that do not depend on one, or
    that the result does not depend on, stay as they are (activity analysis). Raises MissingRule for an active call without a rule.
    The function is not run again: its value, and a pullback kept while recording, are taken from the tape. Values that it was
    saved without are computed first, and loops unrolled.
    """
    from tapegrad.replay.interpreter import fill
    from tapegrad.transforms.unroll import unroll
    tape = unroll(fill(tape))
    active, needed = activity(tape, wrt), leading(tape.ops, [tape.result])
    new = tape.blank()
    at: dict[Operation, Operation] = {}

    def bind(arg: Any) -> Any:
        return at[arg] if isinstance(arg, Operation) else arg

    for op in tape:
        if not (isinstance(op, Call) and active[op.id] and needed[op.id]):
            at[op] = new.push(copy_op(op, bind))
            continue
        pb = op.pb if op.pb is not None else pullback_of(op)
        rr = new.push(Call(rrule, (op.fn, *map(bind, op.args)), op.kwargs, (op.val, pb)).at(op))
        at[op] = new.push(Call(getfield, (rr, 0), None, op.val).at(op))
        new.push(Call(getfield, (rr, 1), None, pb).at(op))
    new.result = None if tape.result is None else at[tape.result]
    return new


def differentiated(tape: Tape) -> Collection[int]:
    """Return the positions in `tape.inputs` to differentiate by: those of the positional arguments, and of what the function captured, but
    for what is not wanted, and for what a module holds constant; on a tape made by hand, all.
    """
    if tape.structure is None:
        return range(1, len(tape.inputs))
    return {index + 1 for part in tape.structure.asked if part is not None
            for index in range(part.start, part.start + part.size) if index not in part.held}


def placed(tape: Tape) -> list[Input]:
    """Return the inputs that the result of a gradient tape has a part for, in its order: None for what is held constant."""
    size = None if tape.structure is None else sum(part.size for part in tape.structure.parts) + 1
    return tape.inputs[1:size]


def activity(tape: Tape, wrt: Collection[int] | None = None) -> bytearray:
    """Return, by position, which operations depend on an input to differentiate by.

    A call depends on an input through an argument that its op is differentiable by; an integer or bool that only
    steers the program leads nowhere.
    """
    depends = bytearray(len(tape.ops) + 1)
    wrt = differentiated(tape) if wrt is None else wrt
    inputs = 0
    for op in tape.ops:
        kind = type(op)
        if kind is Call:
            if getattr(op.fn, "differentiable", True):  # type: ignore[attr-defined]
                for arg in op.args:
                    if isinstance(arg, Operation) and depends[arg.id]:
                        depends[op.id] = 1
                        break
        elif kind is Input:
            depends[op.id] = inputs in wrt and has_gradient(op.val)
            inputs += 1
    return depends


def leading(ops: Sequence[Operation], results: Iterable[Any]) -> bytearray:
    """Return, by position, which of a tape's operations the results among them depend on."""
    leads = bytearray(len(ops) + 1)
    for result in results:
        if isinstance(result, Operation):
            leads[result.id] = 1
    for op in reversed(ops):
        if leads[op.id]:
            for used in operands(op):
                leads[used.id] = 1
    return leads


def has_gradient(val: Any) -> bool:
    """False for what has no gradient although it is a leaf: a bool, a random generator."""
    if type(val) is np.ndarray:
        return bool(val.dtype.kind != "b")
    return not (isinstance(val, bool) or getattr(dtype_of(val), "kind", "") == "b" or is_generator(val))


def pullback_of(op: Call) -> Any:
    """Return the pullback of a call that has its value; raise MissingRule, naming the user's line, if there is none."""
    fn = op_of(op.fn)
    return fn.pullback(op.val, tuple(map(value_of, op.args)), op.kwargs, None if fn.has_rule else op.where)  # to find a line takes its time
