"""Sides: the reverse sweep of a tape, and the forward operation that each of its operations belongs to."""

from __future__ import annotations

from typing import Any

from tapegrad.ops import pack, whole_of
from tapegrad.show.line import reverse_start
from tapegrad.tape.origin import BESIDE
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tapegrad.transforms.rewrite import placed
from tapegrad.tree.signature import ValueAndGradients


class Sides:
    """The division of a tape into a forward and a reverse half.

    `begin` is the number of the first operation of the reverse sweep (beyond the last operation if there is none),
    `value` the value of the function, `gradients` the inputs whose gradient an operation is.
    """

    __slots__ = ("begin", "end", "gradients", "tape", "value")

    def __init__(self, tape: Tape) -> None:
        self.tape, self.value = tape, tape.result
        self.end: Operation | None = None  # packs value and gradients into the result
        self.gradients: dict[Operation, list[Input]] = {}
        parts = _value_and_gradients(tape)
        if parts is not None:
            self.end, self.value = tape.result, parts[0] if isinstance(parts[0], Operation) else None
            for part, x in zip(parts[1:], placed(tape)):
                if isinstance(part, Operation):
                    self.gradients.setdefault(part, []).append(x)
        self.begin = reverse_start(tape) + 1 if parts is not None else len(tape) + 1

    def reverse(self, op: Operation) -> bool:
        """Return whether an operation belongs to the reverse sweep."""
        return op.id >= self.begin and op is not self.value

    def partner(self, op: Operation) -> Operation | None:
        """Return the forward operation beside which a reverse operation stands, None if its origin does not name one.
        """
        if op in self.gradients:
            return self.gradients[op][0]
        if op.purpose == "seed":
            return self.value
        triple: Operation | None = whole_of(op.fn)
        if triple is not None:
            return triple  # `op` calls its pullback
        number = op.origin.of if op.origin is not None and op.purpose in BESIDE else 0
        return self.tape[number] if 0 < number < self.begin else None


def _value_and_gradients(tape: Tape) -> tuple[Any, ...] | None:
    """Return the parts of a gradient tape's result, None for any other tape."""
    end = tape.result
    if not isinstance(end, Call) or end.purpose != "result":
        return None
    if end.fn is pack and isinstance(end.kwargs.get("into"), ValueAndGradients):
        return end.args
    return end.args if end.fn is not pack and any(op.purpose == "seed" for op in tape) else None
