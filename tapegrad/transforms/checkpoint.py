"""checkpoint: the pullback of a checkpoint computes its body again, and sweeps over that."""

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
from tapegrad.replay.interpreter import Run
from tapegrad.rules.activity import activity
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import Op, Traced, tracer_of
from tapegrad.tape.origin import set_origin
from tapegrad.tape.tape import Call, Input, Tape, value_of
from tapegrad.transforms.primal_copy import guard_type
from tapegrad.transforms.primitivize import as_recorded
from tapegrad.transforms.reverse import sweep


def pulled(checkpoint: Checkpoint, y: Any, values: Sequence[Any], dy: Any) -> tuple[Any, ...]:
    """Return the cotangents of a checkpoint's arguments from those of its results; what the sweep
    passed is freed at once.
    """
    y, values, dy = unwrap(y), unwrap(tuple(values)), unwrap(dy)
    tape = again(checkpoint, y, values)
    result: Any = tape.result
    dys = [ZERO if part is None else dense(part) for part in dy]
    active = activity(tape, range(1, len(values) + 1))
    if not active[result.id]:
        return (ZERO,) * len(values)
    cot = sweep(tape, result.kwargs["into"].mirror(dys), active, last=True)
    found = [ZERO if cot[x.id] is None else dense(cot[x.id]) for x in tape.inputs[1:]]
    return of_kind(values, found)


def of_kind(values: Sequence[Any], dxs: Sequence[Any]) -> tuple[Any, ...]:
    """Return cotangents as a pullback gives them: as arrays where there is a tensor among them or the values."""
    tensors = holds_tensor((*values, *[dx for dx in dxs if not isinstance(dx, Absorbing)]))
    return tuple(wrap(dxs) if tensors else dxs)


Checkpoint.puller = staticmethod(pulled)


def again(checkpoint: Checkpoint, y: Any, values: Sequence[Any]) -> Tape:
    """Return a copy of a checkpoint's body with the values that it has for some arguments, for which it
    returned `y`.

    With proxies among the arguments its calls are recorded.
    """
    tape = checkpoint.drawn(y)
    if tracer_of(values) is not None:
        return _traced(tape, values)
    run = Run(tape, (None, *values), redraw=False)
    found: list[Any] = []
    with np.errstate(all="ignore"):  # what NumPy had to say of them it has said
        for op in run:
            found.append(run.values[op.id])
    for op, val in zip(tape.ops, found):
        op.val = val
    return tape


def _traced(tape: Tape, values: Sequence[Any]) -> Tape:
    given = iter((None, *values))
    for op in tape.ops:
        if isinstance(op, Input):
            op.val = next(given)
        elif isinstance(op, Call) and op.fn is not draw:
            _run(op)
    return tape


def _run(op: Call) -> None:
    """Give a call of a body the value that it has of the values of its arguments, and the line
    to what is recorded of it.
    """
    fn, args = op.fn, list(map(value_of, op.args))
    tracer = tracer_of(args)
    mark = 0 if tracer is None else len(tracer.tape.ops)
    if isinstance(fn, Checkpoint) and fn.drawing:  # it draws nothing more
        val: Any = tuple(map(value_of, _traced(fn.drawn(op.val), args).result.args))  # type: ignore[union-attr]
        op.pb = fn.pullback(val, tuple(args), {})
    elif isinstance(fn, Op) and type(fn.rule) is Rrule:
        val, op.pb = fn.forward(*args, **op.kwargs)
    else:
        val = fn.impl(*args, **op.kwargs) if fn is pack else fn.run(*args, **op.kwargs)
    if isinstance(val, Traced):
        as_recorded(val, op)
        if type(val._op) is Call:
            guard_type(val._op, val._tracer)
    op.val = val
    if tracer is not None:
        set_origin(tracer.tape.ops[mark:], op)
