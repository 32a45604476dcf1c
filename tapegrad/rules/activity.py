"""activity: which operations depend on what a tape is differentiated by."""

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
"""Facts by which a program has taken numbers themselves, of what was not differentiated when it ran."""


def activity(tape: Tape, wrt: Collection[int] | None = None) -> bytearray:
    """Return, by position, which operations depend on an input to differentiate by.

    A call depends on an input through an argument that its op is differentiable by; an integer or bool that only
    steers the program leads nowhere. Raises ConcretizationError where the program went on by a plain number of what is
    to be differentiated by now.
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
    if not _is_whole(x.val) and not is_inert(x, wrt):
        raise ConcretizationError(f"{tape.name} goes on by the plain number of {x.name}, by which nobody "
                                  "differentiated when it was recorded",
                                  guard.where, "a tape of the function itself, differentiated by that")


def differentiated(tape: Tape) -> Collection[int]:
    """Return the positions in `tape.inputs` to differentiate by: those of the positional arguments, and of what the
    function captured, but for what is not wanted, for what a module holds constant, and for numbers whose gradient was
    given up; on a tape made by hand, all.
    """
    if tape.structure is None:
        return range(1, len(tape.inputs))
    given_up = tape.structure.given_up
    return {index + 1 for part in tape.structure.asked if part is not None
            for index in range(part.start, part.start + part.size) if index not in part.held and index not in given_up}


def give_up(levels: Iterable[tuple[Tape, Operation, bool]]) -> bool:
    """Return whether the gradients that end where a program takes a plain number of an operation, of a tape or of
    several around it, are of captured numbers and of integers alone. Then they are given up: these are options, and
    their gradient is None.

    Each tape comes with whether only what is wanted of it matters.
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
    """False for what has no gradient although it is a leaf: a bool, a random generator."""
    if type(val) is float:
        return True
    if type(val) is np.ndarray:
        return bool(val.dtype.kind != "b")
    return not (isinstance(val, bool) or getattr(dtype_of(val), "kind", "") == "b" or is_generator(val))


def nothing_flows(fn: Callable[..., Any], i: int) -> bool:
    """True if an op's rule says that argument `i` gets no cotangent: an index, an order of axes."""
    return type(fn) is Op and isinstance(fn.partials, tuple) and fn.partials[i:i + 1] == (None,)


def is_inert(op: Operation, wrt: Collection[int] | None = None) -> bool:
    """True for an operation through which no gradient flows to an input, or to those at the positions `wrt`: a count, a
    place, a number that was rounded, data that nobody differentiates by.

    Asked only where a plain value is wanted, so a search is soon enough.
    """
    if wrt is None:
        return not any(isinstance(x, Input) for x in sources(op))
    # what a call makes of a tape of its own may be a sample of what it will be
    return not any(x.id - 1 in wrt if isinstance(x, Input) else carries(x) for x in sources(op))


def sources(op: Operation, without: Callable[[Operation], Operation | None] = lambda op: None) -> Iterator[Operation]:
    """Yield the operations that a gradient of one flows to, itself first: inputs that have one, and calls. Of each
    `without` may name one of its operands, which it does not flow to.
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
    """Return the operations that a gradient of `op` would flow to. From what became an integer, none does to what has
    digits behind the point.
    """
    if not getattr(op.fn, "differentiable", True):
        return []
    given = operands(op) if type(op.fn) is not Op else [
        x for i, x in enumerate(op.args) if isinstance(x, Operation) and not nothing_flows(op.fn, i)]
    return given if not _is_whole(op.val) else [x for x in given if not _has_digits(x.val)]


def _is_whole(val: Any) -> bool:
    return isinstance(val, int) or kind_of(val) in ("b", "i", "u")


def _has_digits(val: Any) -> bool:
    return isinstance(val, (float, complex)) or kind_of(val) in ("f", "c", "O")
