"""check: verifies that a tape is well-formed."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, MalformedTape, TapeError
from tapegrad.numbers.formatting import brief
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Operation, Tape, Variable

NEIGHBOURS = 2  # operations shown on each side of a fault


def check_is_tape(x: Any, transform: str) -> None:
    """Raise ArgumentError if the argument of a tape transform is not a tape (mostly it is a function)."""
    if not isinstance(x, Tape):
        raise ArgumentError(f"{brief(x)} is not a tape", None, f"tg.{transform}(tg.trace(f, x)[1])")


def check(tape: Tape) -> Tape:
    """Return the tape, or raise MalformedTape showing the faulty operation between its neighbours.

    A well-formed tape is numbered from 1 without gaps, starts with the input `%1`, binds every variable to an earlier
    operation of the same tape, and has a result. The body of a call that carries a subtape (a loop) is well-formed too,
    and its inputs and results match the call's.
    """
    ops = tape.ops
    for position, op in enumerate(ops, 1):
        if op.id != position:
            raise _fault(tape, position, f"the operation at position {position} is numbered {op.id}")
        for arg in (*op.args, op.fn):
            if isinstance(arg, Variable) and not (0 < arg.id < position and ops[arg.id - 1] is arg):
                raise _fault(tape, position, _misuse(tape, arg))
        if carries(op):
            _check_subtape(tape, op)
    if tape.result is None:
        raise _fault(tape, len(tape.ops), "the tape has no result (set tape.result)")
    if tape.result not in tape:
        raise _fault(tape, len(tape.ops), f"the result {tape.result.name} is a foreign variable")
    return tape


def _misuse(tape: Tape, arg: Variable) -> str:
    """Describe the fault of a variable that is not an earlier operation of the tape."""
    if not isinstance(arg, Operation):
        return f"{arg.name} is a free variable"
    if arg not in tape:
        return f"{arg.name} (`{arg!r}`) is a foreign variable: it is on another tape, or was deleted"
    return f"{arg.name} is used before its definition"


def _check_subtape(tape: Tape, op: Call) -> None:
    """Raise MalformedTape if the body of a call's subtape is not well-formed or does not match the call."""
    try:
        check(op.fn.body)
    except TapeError as err:
        raise _fault(tape, op.id, f"in the body of {op.name}, {err.what.removeprefix('malformed tape: ')}") from None
    for what in op.fn.misfits(op):
        raise _fault(tape, op.id, f"{op.name} is a {op.fn.noun} {what}")


def _fault(tape: Tape, position: int, what: str) -> MalformedTape:
    first = max(position - NEIGHBOURS, 1)
    lines = [f"malformed tape: {what}"]
    for number, op in enumerate(tape.ops[first - 1: position + NEIGHBOURS], first):
        lines.append(f"  {'>' if number == position else ' '} {op!r}")
    where = tape.ops[position - 1].where if tape.ops else None
    return MalformedTape("\n".join(lines), where)
