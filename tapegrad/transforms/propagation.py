"""propagation: propagates values, such as tangents, from the inputs of a tape through its operations in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tapegrad.errors import TapeError
from tapegrad.ops import getfield, pack
from tapegrad.rules.activity import nothing_flows
from tapegrad.rules.op import Op
from tapegrad.rules.user import op_of
from tapegrad.tape.error_context import failed
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.subtape import needed
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.tangents import carries
from tapegrad.tree.flatten import Structure


class Propagation:
    """The tangents, power series or patterns of a tape's operations: `known` by position, None for zero.

    A subclass propagates through the call of an op; nests are packed and unpacked here.
    """

    def __init__(self, tape: Tape, known: dict[int, Any]) -> None:
        self.tape, self.known = tape, known
        self.dying: Sequence[int] = ()  # positions of the values that no later operation uses

    def over(self) -> Iterator[Operation]:
        """Propagate to the result and its parts; yield each operation on which these depend."""
        tape, result = self.tape, self.tape.result
        last, leads = last_uses(tape, result.args), needed(tape)
        for op in tape.ops:
            self.dying = last[op.id]
            if leads[op.id]:
                self.step(op)
                yield op
            for dead in self.dying:
                self.known.pop(dead, None)

    def step(self, op: Operation) -> None:
        """Propagate to an operation from its arguments."""
        known = self.known
        if type(op) is not Call or op.id in known:
            return
        parts = [known.get(arg.id) if isinstance(arg, Operation) else None for arg in op.args]
        if all(part is None for part in parts):
            return
        try:
            found = (self.packed(op, parts) if op.fn is pack else self.field(parts[0], op.args[1])
                     if op.fn is getfield else self.through(op, parts))
        except TapeError as err:  # refused by a rule: report the line of the call
            raise type(err)(err.what, op.where or err.where, err.try_) from err.__cause__
        except Exception as err:
            raise failed(self.tape, op, err) from err
        if found is not None:
            known[op.id] = found

    def packed(self, op: Call, parts: list[Any]) -> Any:
        """Return the propagated value of a nest."""
        into = op.kwargs["into"]
        return into.mirror(parts) if isinstance(into, Structure) else tuple(parts)

    def field(self, whole: Any, key: Any) -> Any:
        """Return the propagated value of a part of a nest."""
        return whole.get(key) if isinstance(whole, dict) else whole[key]

    def through(self, op: Call, parts: list[Any]) -> Any:
        """Return the propagated value of a call from those of its arguments."""
        fn = op_of(op.fn)
        parts = [None if nothing_flows(fn, i) else part for i, part in enumerate(parts)]
        if all(part is None for part in parts) or not (fn.differentiable and carries(fn, op.val, op.kwargs)):
            return None
        return self.call(fn, op, parts)

    def call(self, fn: Op, op: Call, parts: list[Any]) -> Any:
        """Return the propagated value of an op's call; `parts` are those of its arguments."""
        raise NotImplementedError
