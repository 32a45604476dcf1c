"""dropping: large values that are given up, of which the spec stays: all that passes and the writer look at."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy as np

from tapegrad.ops import pack, setitem
from tapegrad.rules.registry import Op
from tapegrad.tape.tape import Call, Operation, Tape, drop, operands
from tapegrad.trace.value_retention import LARGE


def drop_large(tape: Tape) -> None:
    """Drop the large values of a tape's calls, and the nests of them."""
    for op in [op for op in tape.ops if _is_large(op) or (type(op) is Call and op.fn is pack and any(map(_is_large, operands(op))))]:
        drop(op)


class Dropping:
    """Drops the large values of a tape that is being recorded, as soon as nothing but the tape holds them.

    The proxies of a value hold it, and so does the sweep while it needs the value: so a count of references tells. All are
    looked at again when there are a sixteenth more of them, which takes time linear in their number.
    """

    __slots__ = ("held", "limit")

    def __init__(self) -> None:
        self.held: list[Operation] = []
        self.limit = 1

    def watch(self, op: Operation) -> None:
        """Drop the value of an operation, where it is large, once nobody else holds it."""
        if not _is_large(op):
            return
        self.held.append(op)
        if len(self.held) >= self.limit:
            held = []
            for op in self.held:
                if getrefcount(op.val) > 2:  # what the operation and this call hold
                    held.append(op)
                else:
                    drop(op)
            self.held, self.limit = held, len(held) + len(held) // 16 + 1


def _is_large(op: Operation) -> bool:
    """True for a call of a large value. What makes an array for writing keeps it: passes look at its number, and views of it at its operation."""
    if not (type(op.val) is np.ndarray and op.val.nbytes >= LARGE and type(op) is Call) or op.val.dtype == object:
        return False
    root: Any = op
    while type(root) is Call and type(root.fn) is Op and root.fn.view and isinstance(root.args[0], Operation):
        root = root.args[0]
    return not (type(root) is Call and type(root.fn) is Op and (root.fn.owns or root.fn is setitem))
