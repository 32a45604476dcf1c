"""tangent_pass: the tangents of a tape's operations, computed in order."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, Absorbing
from tapegrad.numbers.view_path import assign
from tapegrad.ops import getfield, setitem
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.rules.op import Traced
from tapegrad.rules.user import op_of
from tapegrad.tape.tape import Call, Operation, Tape, value_of
from tapegrad.transforms.checkpoint import again
from tapegrad.transforms.propagation import Propagation
from tapegrad.transforms.tangents import tangent


class Pass(Propagation):
    """The tangents of a tape's operations; unknown ones are zero.

    An array that only this pass holds is written in place: a loop that fills an array costs O(n).
    """

    def __init__(self, tape: Tape, known: dict[int, Any]) -> None:
        super().__init__(tape, known)
        self.owned: set[int] = set()

    def packed(self, op: Call, parts: list[Any]) -> Any:
        self.owned.difference_update(arg.id for arg in op.args if isinstance(arg, Operation))  # the nest holds it now
        return super().packed(op, [ZERO if part is None else part for part in parts])

    def field(self, whole: Any, key: Any) -> Any:
        found = getfield(whole, key) if isinstance(whole, Traced) else super().field(whole, key)
        return None if isinstance(found, Absorbing) else found

    def through(self, op: Call, parts: list[Any]) -> Any:
        if type(op.fn) is Checkpoint:
            return self._inside(op.fn, op, parts)
        fn = op_of(op.fn)
        if not fn.differentiable:
            return None
        if fn is setitem and (made := self._written(op, parts)) is not None:
            return made
        found = tangent(fn, op.val, tuple(map(value_of, op.args)), op.kwargs, parts, op.pb)
        if self.owned and type(found) is np.ndarray and any(np.may_share_memory(found, self.known[arg.id])
                                                            for arg in op.args
                                                            if isinstance(arg, Operation) and arg.id in self.owned):
            found = found.copy(order="K")  # the array that it was read from may be written to
        if fn is setitem and type(found) is np.ndarray:
            self.owned.add(op.id)
        return found

    def _inside(self, checkpoint: Checkpoint, op: Call, ts: list[Any]) -> tuple[Any, ...]:
        """Return the tangents of a checkpoint's results; its body is recomputed with its tangents."""
        tape = again(checkpoint, op.val, list(map(value_of, op.args)))
        inner = Pass(tape, {x.id: t for x, t in zip(tape.inputs[1:], ts) if t is not None})
        deque(inner.over(), 0)
        found = [inner.known.get(part.id) if isinstance(part, Operation) else None
                 for part in tape.result.args]
        return tuple([ZERO if t is None else t for t in found])

    def _written(self, op: Call, ts: list[Any]) -> Any:
        """Write into the tangent of the array in place, if nothing else needs it; None otherwise."""
        x = op.args[0]
        if not isinstance(x, Operation) or x.id not in self.dying or x.id not in self.owned:
            return None
        index = tuple(map(value_of, op.args[2:]))
        value = 0.0 if len(ts) < 2 or ts[1] is None else ts[1]
        if any(isinstance(part, Traced) for part in (value, *index)):
            return None
        self.owned.add(op.id)
        assign(self.known[x.id], value, index, op.kwargs.get("through", ()))
        return self.known[x.id]
