"""dce: dead code elimination."""

from __future__ import annotations

from typing import Any

from tapegrad.ops.loop import Loop, steps_of
from tapegrad.optimise.memory import root, writes, written
from tapegrad.replay.raising import may_end_replay, varying_shapes
from tapegrad.rules.op import draws
from tapegrad.rules.user import is_triple
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, operands
from tapegrad.transforms.walk import Walk, own


def dce(tape: Tape) -> Tape:
    """Return a tape of the operations that its result and its guards need.

    Inputs stay, as do random draws (they advance the stream), calls of user functions (they may have side effects) and
    calls that may raise (the program may catch the error and take another path). A write stays if its memory is used.
    """
    alive = bytearray(len(tape.ops) + 1)
    changed, touched = written(tape), set()
    if tape.result is not None:
        alive[tape.result.id] = 1
        touched.add(root(tape.result))
    varying, steps = varying_shapes(tape), steps_of(tape)
    for op in reversed(tape.ops):
        if alive[op.id] or not _may_go(op) or may_end_replay(op, varying, steps) or not touched.isdisjoint(writes(op)):
            alive[op.id] = 1
            for used in operands(op):
                alive[used.id] = 1
                if changed:
                    touched.add(root(used))
    if alive.count(1) == len(tape.ops):
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        if alive[op.id]:
            walk.keep(op)
    return walk.done()


def _may_go(op: Operation) -> bool:
    if isinstance(op, Constant):
        return True
    return isinstance(op, Call) and _harmless(op)


def _harmless(op: Call) -> bool:
    """Return whether a call only returns a value: it calls a tapegrad op, one of its rules, or a pullback from a rule.
    """
    fn: Any = op.fn
    if draws(fn) or (op.args and draws(op.args[0])):
        return False
    if isinstance(fn, Operation):
        return True
    if type(fn) is Loop:
        return all(_may_go(inner) for inner in fn.body.ops if type(inner) is not Input)
    if own(fn):
        return True
    named = op.args[0] if is_triple(op) else fn
    return own(named) or (named is fn and getattr(fn, "__module__", "").startswith("tapegrad.")
                          and not hasattr(fn, "__wrapped__"))
