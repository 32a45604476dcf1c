"""Is this tape well-formed?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tapegrad.errors import MalformedTape, TapeError
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Operation, Tape, Variable, operands

if TYPE_CHECKING:
    from tapegrad.ops.loop import Loop

NEIGHBOURS = 2  # operations shown on each side of a fault


def check(tape: Tape) -> Tape:
    """Return the tape, or raise MalformedTape that shows the fault between its neighbours.

    Well-formed: numbered from 1 without gaps, `%1` an input, every variable bound to an earlier operation of
    this tape, and a result. Of a loop, the body is well-formed, too, and takes and hands on what the loop does.
    """
    from tapegrad.ops.loop import is_loop
    for position, op in enumerate(tape.ops, 1):
        if op.id != position:
            raise _fault(tape, position, f"the operation at position {position} is numbered {op.id}")
        for arg in [*operands(op), *(arg for arg in op.args if type(arg) is Variable)]:
            if not isinstance(arg, Operation):
                raise _fault(tape, position, f"{arg.name} is a free variable")
            if arg not in tape:
                raise _fault(tape, position, f"{arg.name} (`{arg!r}`) is a foreign variable: it stands on another tape, or was deleted")
            if arg.id >= position:
                raise _fault(tape, position, f"{arg.name} is used before its definition")
        if is_loop(op):
            _check_loop(tape, op)  # type: ignore[arg-type]
    if tape.result is None:
        raise _fault(tape, len(tape.ops), "the tape has no result (set tape.result)")
    if tape.result not in tape:
        raise _fault(tape, len(tape.ops), f"the result {tape.result.name} is a foreign variable")
    return tape


def _check_loop(tape: Tape, op: Call) -> None:
    """Raise MalformedTape where a loop does not fit its body, or the body is not well-formed."""
    loop: Loop = op.fn
    try:
        check(loop.body)
    except TapeError as err:
        raise _fault(tape, op.id, f"in the body of {op.name}, {err.what.removeprefix('malformed tape: ')}") from None
    for what in _misfits(op, loop):
        raise _fault(tape, op.id, f"{op.name} is a loop {what}")


def _misfits(op: Call, loop: Loop) -> Iterator[str]:
    """Yield what does not fit."""
    from tapegrad.ops import pack
    steps, given, listed, carried = loop.sizes
    inputs, result = loop.body.inputs[1:], loop.body.result
    if len(inputs) != sum(loop.sizes):
        yield f"whose body has {len(inputs)} inputs, where there are {sum(loop.sizes)}: steps, given, listed and carried"
    if len(op.args) != given + listed + carried or op.kwargs:
        yield f"of {given + listed + carried} arguments, and is given {len(op.args) + len(op.kwargs)}"
    if loop.count < 1 or any(len(values) != loop.count for values in loop.steps):
        yield f"of {loop.count} runs, and has steps for {', '.join(str(len(values)) for values in loop.steps) or 'none'}"
    if not isinstance(result, Call) or result.fn is not pack or len(result.args) < carried:
        yield f"whose body does not return a tuple of the {carried} values that it hands on"
        return
    for part in op.args[given:given + listed]:
        if isinstance(part, Operation) and part.spec.type in (tuple, list) and len(part.spec.parts) != loop.count:
            yield f"of {loop.count} runs, and {part.name} has {len(part.spec.parts)} elements"
    for x, new in zip(inputs[steps + given + listed:], result.args):
        was, now = (_kind(spec_of(y)) for y in (x, new))
        if was and now and was != now:
            yield f"whose body hands on {now} for {x.name}, which is {was}"


def _kind(x: Spec) -> str:
    """Return what an array must be in all runs; numbers are one kind. Of what nothing is known it is ""."""
    return "" if isinstance(x.type, str) else str(x) if x.shape else "a number"


def _fault(tape: Tape, position: int, what: str) -> MalformedTape:
    first = max(position - NEIGHBOURS, 1)
    lines = [f"malformed tape: {what}"]
    for number, op in enumerate(tape.ops[first - 1: position + NEIGHBOURS], first):
        lines.append(f"  {'>' if number == position else ' '} {op!r}")
    where = tape.ops[position - 1].where if tape.ops else None
    return MalformedTape("\n".join(lines), where)
