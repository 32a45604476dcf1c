"""tangent_pass: the tangents of a tape's operations, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.numbers.cotangents import ZERO, Absorbing
from tapegrad.numbers.view_path import assign
from tapegrad.ops import getfield, pack, setitem
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.rules.op import Traced
from tapegrad.rules.user import op_of
from tapegrad.tape.error_context import failed
from tapegrad.tape.tape import Call, Operation, Tape, value_of
from tapegrad.transforms.checkpoint import again
from tapegrad.transforms.tangents import tangent
from tapegrad.tree.flatten import Structure


class Pass:
    """What the tangents of a tape's operations are, while a pass goes over it: `known` by position, those that
    nothing is known of are zero.

    An array that it alone holds is written in place: a loop that fills one costs O(n).
    """

    def __init__(self, tape: Tape, known: dict[int, Any]) -> None:
        self.tape, self.known = tape, known
        self.owned: dict[int, Any] = {}
        self.dying: Sequence[int] = ()  # what no operation after this one uses

    def step(self, op: Operation) -> None:
        """Find the tangent of an operation from those before it."""
        if type(op) is not Call or op.id in self.known or not any(isinstance(arg, Operation) and arg.id in self.known
                                                                  for arg in op.args):
            return  # that of a loop was known when it was copied
        known = self.known
        ts = [known.get(arg.id) if isinstance(arg, Operation) else None for arg in op.args]
        if op.fn is pack:
            into = op.kwargs["into"]
            for arg in op.args:
                self.owned.pop(getattr(arg, "id", 0), None)  # the nest holds it
            parts = [ZERO if t is None else t for t in ts]
            found = into.mirror(parts) if isinstance(into, Structure) else tuple(parts)
        elif op.fn is getfield:
            key = op.args[1]
            whole: Any = ts[0]
            found = (whole.get(key) if isinstance(whole, dict) else getfield(whole, key) if isinstance(whole, Traced)
                     else whole[key])
            found = None if isinstance(found, Absorbing) else found
        else:
            found = self._of_call(op, ts)
        if found is not None:
            known[op.id] = found

    def _of_call(self, op: Call, ts: list[Any]) -> Any:
        if type(op.fn) is Checkpoint:
            return self._inside(op.fn, op, ts)
        fn = op_of(op.fn)
        if not fn.differentiable:
            return None
        try:
            if fn is setitem and (made := self._written(op, ts)) is not None:
                return made
            found = tangent(fn, op.val, tuple(map(value_of, op.args)), op.kwargs, ts, op.pb)
        except TapeError as err:  # refused by a rule: the line is that of the call
            raise type(err)(err.what, op.where or err.where, err.try_) from err.__cause__
        except Exception as err:
            raise failed(self.tape, op, err) from err
        if self.owned and type(found) is np.ndarray and any(np.may_share_memory(found, self.owned[arg.id])
                                                            for arg in op.args
                                                            if isinstance(arg, Operation) and arg.id in self.owned):
            found = found.copy(order="K")  # what it was read from may be written to
        if fn is setitem and type(found) is np.ndarray:
            self.owned[op.id] = found
        return found

    def _inside(self, checkpoint: Checkpoint, op: Call, ts: list[Any]) -> tuple[Any, ...]:
        """Return the tangents of a checkpoint's results: its body is computed again, beside the tangents in it."""
        tape = again(checkpoint, op.val, list(map(value_of, op.args)))
        inner = Pass(tape, {x.id: t for x, t in zip(tape.inputs[1:], ts) if t is not None})
        for each in tape.ops:
            if each is not tape.result:
                inner.step(each)
        found = [inner.known.get(part.id) if isinstance(part, Operation) else None
                 for part in tape.result.args]  # type: ignore[union-attr]
        return tuple([ZERO if t is None else t for t in found])

    def _written(self, op: Call, ts: list[Any]) -> Any:
        """Write into the tangent of an array that nothing else needs, where that is so."""
        x = op.args[0]
        if not isinstance(x, Operation) or x.id not in self.dying or x.id not in self.owned:
            return None
        index = tuple(map(value_of, op.args[2:]))
        value = 0.0 if len(ts) < 2 or ts[1] is None else ts[1]
        if any(isinstance(part, Traced) for part in (value, *index)):
            return None
        array = self.owned.pop(x.id)
        assign(array, value, index, op.kwargs.get("through", ()))
        self.owned[op.id] = array
        return array
