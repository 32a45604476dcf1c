"""play: run the operations of a tape on new arguments."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError, GuardError
from tapegrad.rules import Op
from tapegrad.tape import Call, Constant, Guard, Input, Operation, Tape, brief, operands, type_name
from tapegrad.trace import flatten_call

FACTS: dict[str, Callable[[Any], Any]] = {
    "bool": bool, "int": int, "index": operator.index, "hash": hash,
    "floor": lambda x: x.__floor__(), "ceil": lambda x: x.__ceil__(), "trunc": lambda x: x.__trunc__(), "round": lambda x: x.__round__(),
    "shape": lambda x: tuple(getattr(x, "shape", ())), "ndim": lambda x: len(getattr(x, "shape", ())), "dtype": lambda x: getattr(x, "dtype", type(x)),
}


def play(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any], *, debug: bool = False) -> Any:
    """Run a tape; each value is dropped after its last use.

    Raises ArgumentError for arguments of another structure, GuardError where a guarded value differs.
    """
    if tape.result is None:
        tape.check()
    leaves = iter(bind(tape, args, kwargs))
    values: list[Any] = [None] * (len(tape.ops) + 1)
    dead = last_uses(tape)
    for op in tape.ops:
        if isinstance(op, Call):
            fn = values[op.fn.id] if isinstance(op.fn, Operation) else op.fn
            given = [values[arg.id] if isinstance(arg, Operation) else arg for arg in op.args]
            value = fn.run(*given, **op.kwargs) if isinstance(fn, Op) else fn(*given, **op.kwargs)
        elif isinstance(op, Input):
            value = next(leaves)
        elif isinstance(op, Guard):
            value = values[op.args[0].id]
            verify(op, value)
        else:
            value = op.val
        values[op.id] = value
        if debug:
            note = f"  # {op.note}" if op.note else ""
            print(f"{op!r}" + ("" if isinstance(op, (Guard, Constant)) else f"  ->  {brief(value)} : {type_name(value)}") + note)
        for position in dead[op.id]:
            values[position] = None
    return values[tape.result.id]  # type: ignore[union-attr]


def verify(guard: Guard, value: Any) -> None:
    """Raise GuardError if a fact about a value is no longer what it was."""
    found = FACTS[guard.fact](value)
    same = str(found).removeprefix("torch.") == str(guard.expected) if guard.fact == "dtype" else found == guard.expected
    if not same:
        raise GuardError(f"this tape was recorded where {guard.fact}({guard.args[0].name}) was {guard.expected!r}; now it is {found!r}, "
                         "and the program might take another path", guard.where, "trace the function again with these arguments")


def last_uses(tape: Tape) -> list[list[int]]:
    """Return, by position, the operations whose values are dead after it (liveness, in one backward pass)."""
    dead: list[list[int]] = [[] for _ in range(len(tape.ops) + 1)]
    seen = bytearray(len(tape.ops) + 1)
    seen[tape.result.id] = 1  # type: ignore[union-attr]
    for op in reversed(tape.ops):
        if not seen[op.id]:
            seen[op.id] = 1
            dead[op.id].append(op.id)
        for used in operands(op):
            if not seen[used.id]:
                seen[used.id] = 1
                dead[op.id].append(used.id)
    return dead


def bind(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the inputs' values for a call, the function first; what it captured is read anew."""
    fn = tape.ops[0].val
    if tape.structure is None:
        wanted = len(tape.inputs) - 1
        if len(args) != wanted or kwargs:
            raise ArgumentError(f"this tape takes {wanted} positional argument(s), and got {len(args) + len(kwargs)}")
        return [fn, *args]
    signature, leaves, _ = flatten_call(tape.structure.fn, args, kwargs)
    if signature != tape.structure:
        raise ArgumentError(f"the arguments of {tape.name} are nested otherwise than those it was recorded with: "
                            f"recorded {tape.structure!r}, given {signature!r}", None, "trace the function again with these arguments")
    return [fn, *leaves]
