"""activity: which operations depend on what a tape is differentiated by."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import dtype_of
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tapegrad.tree.flatten import is_generator


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


def differentiated(tape: Tape) -> Collection[int]:
    """Return the positions in `tape.inputs` to differentiate by: those of the positional arguments, and of what the function captured, but
    for what is not wanted, and for what a module holds constant; on a tape made by hand, all.
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
