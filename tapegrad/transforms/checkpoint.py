"""checkpoint: the pullback of a checkpoint recomputes its body and sweeps over the recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, Absorbing, dense
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import holds_tensor
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.random import draw
from tapegrad.ops.structure import pack
from tapegrad.replay.interpreter import Interpretation, Run
from tapegrad.rules.activity import activity
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import Op, tracer_of
from tapegrad.tape.origin import set_origin
from tapegrad.tape.tape import Call, Tape, value_of
from tapegrad.transforms.primitivize import as_recorded
from tapegrad.transforms.reverse import sweep


def pulled(checkpoint: Checkpoint, y: Any, values: Sequence[Any], dy: Any) -> tuple[Any, ...]:
    """Return the cotangents of a checkpoint's arguments from those of its results; the sweep frees passed values."""
    y, values, dy = unwrap(y), unwrap(tuple(values)), unwrap(dy)
    tape = again(checkpoint, y, values)
    result: Any = tape.result
    dys = [ZERO if part is None else dense(part) for part in dy]
    active = activity(tape, range(1, len(values) + 1))
    cot = sweep(tape, result.kwargs["into"].mirror(dys), active, last=True)
    found = [ZERO if cot[x.id] is None else dense(cot[x.id]) for x in tape.inputs[1:]]
    return of_kind(values, found)


def of_kind(values: Sequence[Any], dxs: Sequence[Any]) -> tuple[Any, ...]:
    """Return cotangents in a pullback's form: wrapped as arrays if any of them, or of the values, is a tensor."""
    tensors = holds_tensor((*values, *[dx for dx in dxs if not isinstance(dx, Absorbing)]))
    return tuple(wrap(dxs) if tensors else dxs)


def again(checkpoint: Checkpoint, y: Any, values: Sequence[Any]) -> Tape:
    """Return a copy of a checkpoint's body with the values that it computes for some arguments, for which it returned
    `y`.

    The calls are recorded if there are proxies among the arguments.
    """
    return _valued(checkpoint.drawn(y), values)


def _valued(tape: Tape, values: Sequence[Any]) -> Tape:
    run = (Run(tape, (None, *values), redraw=False) if tracer_of(values) is None
           else _Recorded(tape, (None, *values)))
    found: list[Any] = []
    with np.errstate(all="ignore"):  # NumPy issued its warnings in the first run
        for op in run:
            found.append(run.values[op.id])
    for op, val in zip(tape.ops, found):
        op.val = val
    return tape


class _Recorded(Interpretation):
    """Runs a body on proxies: recorded calls get the lines of the body, and pullbacks stay on the body."""

    def run(self, op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
        if fn is draw:
            return op.val
        tracer = tracer_of(given)
        mark = 0 if tracer is None else len(tracer.tape.ops)
        if isinstance(fn, Checkpoint) and fn.drawing:  # its random numbers are drawn already
            val: Any = tuple(map(value_of, _valued(fn.drawn(op.val), given).result.args))
            op.pb = fn.pullback(val, tuple(given), {})
        elif isinstance(fn, Op) and type(fn.rule) is Rrule:
            val, op.pb = fn.forward(*given, **op.kwargs)
        else:
            val = fn.impl(*given, **op.kwargs) if fn is pack else fn.run(*given, **op.kwargs)
        as_recorded(val, op)
        if tracer is not None:
            set_origin(tracer.tape.ops[mark:], op)
        return val
