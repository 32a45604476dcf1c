"""activity: the operations that depend on the inputs a tape is differentiated by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError
from tapegrad.numbers.cotangents import dtype_of, kind_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import is_generator
from tapegrad.rules.op import Op
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands

GIVEN_AWAY = frozenset(["float", "complex", "hash", "data"])
"""Facts of guards by which the program took the plain content of a value that was not differentiated while tracing."""


def activity(tape: Tape, wrt: Collection[int] | None = None) -> bytearray:
    """Return, by position, which operations depend on an input to differentiate by.

    A call depends on an input through an argument that its op is differentiable by; an integer or bool that is used
    only for control flow carries no dependence. Raises ConcretizationError if the program took the plain number of a
    value that is to be differentiated now.
    """
    depends = bytearray(len(tape.ops) + 1)
    wrt = differentiated(tape) if wrt is None else wrt
    inputs = 0
    for op in tape.ops:
        kind = type(op)
        if kind is Call:
            if getattr(op.fn, "differentiable", True):
                for arg in op.args:
                    if isinstance(arg, Operation) and depends[arg.id]:
                        depends[op.id] = 1
                        break
        elif kind is Input:
            depends[op.id] = inputs in wrt and has_gradient(op.val)
            inputs += 1
        elif isinstance(op, Guard) and op.fact in GIVEN_AWAY and depends[op.args[0].id]:
            _check_kept(tape, op, wrt)
    return depends


def _check_kept(tape: Tape, guard: Guard, wrt: Collection[int]) -> None:
    x = guard.args[0]
    if not _is_whole(x.val) and not carries_no_gradient(x, wrt):
        raise ConcretizationError(f"{tape.name} uses the plain number of {x.name}, which was not differentiated when "
                                  "the tape was recorded",
                                  guard.where, "record a gradient tape of the function itself, with respect to that "
                                               "value")


def differentiated(tape: Tape) -> Collection[int]:
    """Return the positions in `tape.inputs` to differentiate by: positional arguments and captured values, except those
    that were not requested, that a module holds constant, or whose gradient was given up. On a tape made by hand,
    return all positions.
    """
    if tape.structure is None:
        return range(1, len(tape.inputs))
    given_up = tape.structure.given_up
    return {index + 1 for part in tape.structure.asked if part is not None
            for index in range(part.start, part.start + part.size) if index not in part.held and index not in given_up}


def give_up(levels: Iterable[tuple[Tape, Operation, bool]]) -> bool:
    """Return whether only captured numbers and integers lose their gradient where a program takes an operation's plain
    number. Such inputs are treated as options: they are marked as given up, and their gradient is None.

    `levels` lists the enclosing tapes, each with the operation on it and whether only requested inputs count.
    """
    found: list[tuple[Any, int]] = []
    for tape, op, partly in levels:
        signature, wrt = tape.structure, differentiated(tape) if partly else None
        for x in sources(op):
            if not isinstance(x, Input):
                if carries(x):
                    return False
            elif wrt is None or x.id - 1 in wrt:
                if signature is None or not _is_option(signature.function, x):
                    return False
                found.append((signature, x.id - 2))
    for signature, index in found:
        signature.given_up |= {index}
    return True


def _is_option(function: Any, x: Input) -> bool:
    val = plain(x.val)
    captured = function.start <= x.id - 2 < function.start + function.size
    number = isinstance(val, (float, complex, np.generic)) and _has_digits(val)
    return isinstance(val, (int, np.integer)) or (captured and number)


def has_gradient(val: Any) -> bool:
    """Return False for a leaf without a gradient: a bool, a random generator."""
    if type(val) is float:
        return True
    if type(val) is np.ndarray:
        return bool(val.dtype.kind != "b")
    return not (isinstance(val, bool) or getattr(dtype_of(val), "kind", "") == "b" or is_generator(val))


def nothing_flows(fn: Callable[..., Any], i: int) -> bool:
    """Return True if the op's rule gives argument `i` no cotangent: an index, an order of axes."""
    return type(fn) is Op and isinstance(fn.partials, tuple) and fn.partials[i:i + 1] == (None,)


def carries_no_gradient(op: Operation, wrt: Collection[int] | None = None) -> bool:
    """Return True if no gradient flows from an operation to an input (or to an input at a position in `wrt`): a count,
    an index, a rounded number, constant data.

    It is called only where a plain value is needed, so it searches instead of keeping a table.
    """
    if wrt is None:
        return not any(isinstance(x, Input) for x in sources(op))
    # A call that carries a subtape counts as active: its recorded value may be a mere sample of later ones.
    return not any(x.id - 1 in wrt if isinstance(x, Input) else carries(x) for x in sources(op))


def sources(op: Operation, without: Callable[[Operation], Operation | None] = lambda op: None) -> Iterator[Operation]:
    """Yield the operations that a gradient of `op` flows to, `op` first: inputs that have a gradient, and calls.
    `without` may name one operand of an operation to leave out.
    """
    stack, seen = [op], {op}
    while stack:
        top = stack.pop()
        if not isinstance(top, Input) or has_gradient(top.val):
            yield top
        new = [used for used in _flowing(top) if used not in seen and used is not without(top)]
        seen.update(new)
        stack += new


def _flowing(op: Operation) -> list[Operation]:
    """Return the operands that a gradient of `op` flows to; an integer result passes none to inexact operands."""
    if not getattr(op.fn, "differentiable", True):
        return []
    given = operands(op) if type(op.fn) is not Op else [
        x for i, x in enumerate(op.args) if isinstance(x, Operation) and not nothing_flows(op.fn, i)]
    return given if not _is_whole(op.val) else [x for x in given if not _has_digits(x.val)]


def _is_whole(val: Any) -> bool:
    return isinstance(val, int) or kind_of(val) in ("b", "i", "u")


def _has_digits(val: Any) -> bool:
    return isinstance(val, (float, complex)) or kind_of(val) in ("f", "c", "O")
