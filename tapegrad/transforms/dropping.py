"""dropping: large values that are given up, of which the spec stays: all that passes and the writer look at."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import pack
from tapegrad.rules.op import memory_of
from tapegrad.tape.tape import Call, Operation, Tape, drop, operands
from tapegrad.trace.value_retention import LARGE, Held


def drop_large(tape: Tape, size: int) -> None:
    """Drop the values of a tape's calls of so many bytes and more, and the nests of them."""
    large = {op for op in tape.ops if _is_large(op, size)}
    for op in [op for op in tape.ops if op in large
               or (op.fn is pack and not large.isdisjoint(operands(op)))]:
        drop(op)


class Dropping:
    """Drops the large values of a tape that is being recorded, as soon as nothing but the tape holds them."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = Held()

    def watch(self, op: Operation) -> None:
        """Drop the value of an operation, where it is large, once nobody else holds it."""
        if _is_large(op, LARGE):
            self.held.ops.append(op)
            for free in self.held.let_go():
                drop(free)


def _is_large(op: Operation, size: int) -> bool:
    """True for a call of a value of so many bytes. What makes an array for writing keeps it: passes look at its number,
    and views of it at its operation.
    """
    if not (type(op.val) is np.ndarray and op.val.nbytes >= size and type(op) is Call) or op.val.dtype == object:
        return False
    root: Any = op
    while memory_of(root.fn).of == 0 and isinstance(root.args[0], Operation):
        root = root.args[0]
    return not (memory_of(root.fn).blank or memory_of(root.fn).written)
