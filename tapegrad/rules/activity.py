"""activity: which operations depend on what a tape is differentiated by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.rules.op import Op
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands
from tapegrad.tree.flatten import is_generator

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
            if getattr(op.fn, "differentiable", True):  # type: ignore[attr-defined]
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
    function captured, but for what is not wanted, and for what a module holds constant; on a tape made by hand, all.
    """
    if tape.structure is None:
        return range(1, len(tape.inputs))
    return {index + 1 for part in tape.structure.asked if part is not None
            for index in range(part.start, part.start + part.size) if index not in part.held}


def has_gradient(val: Any) -> bool:
    """False for what has no gradient although it is a leaf: a bool, a random generator."""
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


def sources(op: Operation) -> Iterator[Operation]:
    """Yield the operations that a gradient of one flows to, itself first: inputs that have one, and calls."""
    stack, seen = [op], {op}
    while stack:
        top = stack.pop()
        if not isinstance(top, Input) or has_gradient(top.val):
            yield top
        new = [used for used in _flowing(top) if used not in seen]
        seen.update(new)
        stack += new


def _flowing(op: Operation) -> list[Operation]:
    """Return the operations that a gradient of `op` would flow to. From what became an integer, none does to what has
    digits behind the point.
    """
    if type(op) is Call and not getattr(op.fn, "differentiable", True):
        return []
    given = operands(op) if type(op) is not Call or type(op.fn) is not Op else [
        x for i, x in enumerate(op.args) if isinstance(x, Operation) and not nothing_flows(op.fn, i)]
    return given if not _is_whole(op.val) else [x for x in given if not _has_digits(x.val)]


def _is_whole(val: Any) -> bool:
    return isinstance(val, int) or getattr(dtype_of(val), "kind", "") in ("b", "i", "u")


def _has_digits(val: Any) -> bool:
    return isinstance(val, (float, complex)) or getattr(dtype_of(val), "kind", "") in ("f", "c")
