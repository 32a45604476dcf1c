"""results: what a tape returns lies in memory of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import broadcast_to, copy, diagonal, pack
from tapegrad.passes.walk import Walk, own
from tapegrad.rules import Op
from tapegrad.tape import Call, Constant, Input, Operation, Tape


def own_results(tape: Tape, before: Tape) -> Tape:
    """Return a tape that returns copies of the arrays that were in memory of their own `before` the passes, and now are not.

    A pass may have found that a result is an argument, a view of one, or the same array as another result: whoever gets them may write to them.
    """
    shared = [part for part, was in zip(_parts(tape), _parts(before)) if _lies(part, tape) and not _lies(was, before)]
    if not shared:
        return tape
    walk = Walk(tape)
    result = tape.result
    copies: dict[Operation, Operation] = {}  # that the tape makes anyway, and keeps to itself
    for op in tape.ops:
        if op is result and is_pack(op):
            walk.keep(op, tuple(_own(walk, arg, copies) if arg in shared else walk.bind(arg) for arg in op.args))
        else:
            walk.keep(op)
            if isinstance(op, Call) and op.fn is copy and op.kwargs.get("order") == "C" and op.args[0] in shared and _stays_here(op, tape):
                copies[op.args[0]] = walk.at[op]
    if not is_pack(result) and result is not None:
        walk.at[result] = _own(walk, result, copies)
    return walk.done()


def _own(walk: Walk, op: Operation, copies: dict[Operation, Operation]) -> Operation:
    return copies.pop(op, None) or walk.make(op, copy, walk.bind(op))


def _stays_here(op: Operation, tape: Tape) -> bool:
    """True for an array that the tape does not return, and that no function but tapegrad's own is given, which might keep it or write to it."""
    return all(op not in other.args or (isinstance(other, Call) and own(other.fn) and other.fn is not pack) for other in tape.ops)


def is_pack(op: Any) -> bool:
    """True for the call that nests a tape's results."""
    return isinstance(op, Call) and op.fn is pack


def _parts(tape: Tape) -> tuple[Any, ...]:
    return tape.result.args if is_pack(tape.result) else (tape.result,)  # type: ignore[union-attr]


def _lies(part: Any, tape: Tape) -> bool:
    """True for an array in the memory of an argument, of a constant, or of another part of the result, and for one that nobody can write to."""
    if not isinstance(part, Operation) or type(part.val) is not np.ndarray:
        return False
    root, locked = _root(part)
    return locked or isinstance(root, (Input, Constant)) or [_root(other)[0] for other in _parts(tape)].count(root) > 1


def _root(op: Any) -> tuple[Any, bool]:
    """Return whose memory an operation's value may lie in, and whether it is a view that cannot be written to."""
    locked = False
    while isinstance(op, Call) and type(op.fn) is Op and op.fn.view and isinstance(op.args[0], Operation):
        locked |= op.fn is broadcast_to or op.fn is diagonal
        op = op.args[0]
    return op, locked
