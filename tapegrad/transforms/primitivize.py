"""primitivize: plays a tape on proxies, which dissolves everything into primitive calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.formatting import is_python
from tapegrad.ops import default_rng, draw, nest_result, pack
from tapegrad.ops.each import Each
from tapegrad.replay.interpreter import Interpretation, fill
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.user import is_triple
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.origin import set_origin
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, copy_op, has_value, value_of
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT, Context
from tapegrad.trace.interposition import original
from tapegrad.trace.number_systems import check_precision
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.recording import recording
from tapegrad.trace.results import put_result
from tapegrad.transforms.primal_copy import guard_type
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.walk import moved
from tapegrad.tree.signature import ValueAndGradients


def primitivize(tape: Tape, ctx: Context | None = None) -> Tape:
    """Return a flat tape of primitive calls: rules, pullbacks and non-primitive functions are traced through.

    The primitive calls keep the lines and origins of the operations that they come from. The result is specialised to
    the shapes that the rules read, and guards them. Loops are unrolled.
    """
    check_is_tape(tape, "primitivize")
    tape = unroll(tape)
    new = tape.blank()
    tracer = Tracer(new, ctx or DEFAULT, proxy.make)
    at: list[Any] = [None] * (len(tape) + 1)
    with recording(tracer):
        player, mark = _Player(tape, tracer), 0
        for op in player:
            made = player.values[op.id]
            if isinstance(made, Traced) and not isinstance(op, Guard):
                at[op.id] = made._op
                as_recorded(made, op)
            set_origin(new.ops[mark:], op, moved(op.origin, at))
            mark = len(new.ops)
        _put_result(new, tracer, tape.result, player.values)
    return new


def flattened(tape: Tape) -> Tape:
    """Return a tape of primitive calls of known types: triples and pullbacks are dissolved, missing values computed."""
    if is_flat(tape.check()) and all(op.spec.is_complete for op in tape.ops if not has_value(op)):
        return tape
    filled = fill(tape)
    return filled if is_flat(filled) else primitivize(filled)


def singly(tape: Tape) -> Tape:
    """Return a tape on which loops over the members of a batch are replaced by their calls."""
    return primitivize(fill(tape)) if any(type(op.fn) is Each for op in tape.ops) else tape


def is_flat(tape: Tape) -> bool:
    """True for a tape without triples and calls of pullbacks."""
    return not any(is_triple(op) or isinstance(op.fn, Operation) for op in tape.ops)


def _put_result(new: Tape, tracer: Tracer, result: Operation, values: list[Any]) -> None:
    """Set the result of the new tape; that of a gradient tape still checks that its seed fits."""
    start = len(new)
    into = result.kwargs.get("into")
    if not isinstance(into, ValueAndGradients):
        put_result(new, tracer, values[result.id])
    else:
        found = [values[arg.id] if isinstance(arg, Operation) else arg for arg in result.args]
        nest_result(new, [tracer.lift(tracer.pack(x, original=original)) for x in found], into)
    set_origin(new.ops[start:], result)  # not the line that called primitivize


def as_recorded(made: Any, op: Operation) -> None:
    """Restore the Python number of a call that was recorded as math's function, not NumPy's, and guard its type."""
    call = made._op if isinstance(made, Traced) and isinstance(op, Call) else None
    if type(call) is not Call:
        return
    if op.spec.is_python and isinstance(made._val, np.generic) and isinstance(call.fn, Op):
        given, scalar = [*map(value_of, call.args)], call.fn.scalar
        if all(is_python(x) or (scalar is not None and type(x) is np.float64) for x in given):
            call.val = made._val = made._val.item()
        elif scalar is not None and not call.kwargs and all(is_python(x) or isinstance(x, np.floating) for x in given):
            call.val = made._val = scalar(*given)  # more precise than NumPy's for a float32
    guard_type(call, made._tracer)


class _Player(Interpretation):
    """Plays a tape on proxies of a tracer, on whose tape it puts the inputs."""

    def __init__(self, tape: Tape, tracer: Tracer) -> None:
        super().__init__(tape, map(self.input, tape.inputs))
        self.tracer = tracer

    def input(self, op: Input) -> Any:
        """Return the proxy that replaces an input; `%1`, the function, stays as it is."""
        made = self.tracer.tape.push(copy_op(op, lambda arg: arg))
        return op.val if made.id == 1 else proxy.make(made, op.val, self.tracer)

    def verify(self, guard: Guard, value: Any) -> None:
        check_precision(guard)
        tracer = self.tracer
        if guard.fact in ("raises", "apart"):  # facts about several values
            value = tracer.pack(value)
        if guard.args[0].id == 1:
            tracer.guard(tracer.tape.ops[0], guard.fact, guard.expected)
        elif isinstance(value, Traced):
            tracer.guard(value._op, guard.fact, guard.expected)

    def run(self, op: Call, fn: Any, given: list[Any], dead: list[int]) -> Any:
        if fn is draw or fn is default_rng:
            # a replay draws again, though no argument is traced
            return self.tracer.record(fn, tuple(given), op.kwargs, op.val)
        if fn is pack or type(fn) is Each or (isinstance(fn, Op) and fn.loose
                                              and not self.tracer.ctx.is_primitive(fn.impl)):
            return fn.impl(*given, **op.kwargs)
        return (fn.run if isinstance(fn, Op) else fn)(*given, **op.kwargs)
