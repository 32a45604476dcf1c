"""value_dropping: drops large values and keeps their specs, which suffice for passes and for writing code."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import pack
from tapegrad.rules.op import memory_of
from tapegrad.tape.tape import Call, Operation, Tape, drop, operands
from tapegrad.trace.value_retention import LARGE, Held


def drop_large(tape: Tape, size: int) -> None:
    """Drop the values of a tape's calls that have `size` bytes or more, and the nests that hold them."""
    large = {op for op in tape.ops if _is_large(op, size)}
    for op in [op for op in tape.ops if op in large
               or (op.fn is pack and not large.isdisjoint(operands(op)))]:
        drop(op)


def keep_shapes(tape: Tape) -> None:
    """Replace the arrays among a tape's inputs by views: the program may assign another shape or dtype to its own."""
    for x in tape.inputs:
        if type(x.val) is np.ndarray:
            x.val = x.val.view()


class ValueDropper:
    """Drops the large values of a tape that is being recorded, as soon as only the tape holds them."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = Held()

    def watch(self, op: Operation) -> None:
        """Drop the value of an operation, if it is large, once nothing else holds it."""
        if _is_large(op, LARGE):
            self.held.ops.append(op)
            for free in self.held.let_go():
                drop(free)


def _is_large(op: Operation, size: int) -> bool:
    """True for a call whose value has `size` bytes or more. Arrays that are created for writing are kept: passes read
    their numbers, and their views refer to their operations.
    """
    if not (type(op.val) is np.ndarray and op.val.nbytes >= size and type(op) is Call) or op.val.dtype == object:
        return False
    root: Any = op
    while memory_of(root.fn).of == 0 and isinstance(root.args[0], Operation):
        root = root.args[0]
    return not (memory_of(root.fn).blank or memory_of(root.fn).written)
