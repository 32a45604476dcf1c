"""flat_gradient: the gradient of a primal tape as a flat tape, in one step."""

from __future__ import annotations

from typing import Any

from tapegrad.numbers.cotangents import ZERO, conform, dense
from tapegrad.ops import nest_result
from tapegrad.ops.loop import is_loop
from tapegrad.replay.interpreter import fill
from tapegrad.rules.activity import activity, differentiated
from tapegrad.rules.op import Traced
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape, operands
from tapegrad.trace import proxy
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import FIXED
from tapegrad.trace.interposition import original
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.recording import recording
from tapegrad.transforms.loop_gradient import trace_loop
from tapegrad.transforms.loop_types import NoLoop
from tapegrad.transforms.loop_vectorize import vectorized
from tapegrad.transforms.primal_copy import ScalarTracer, copy_primal
from tapegrad.transforms.primitivize import is_flat, primitivize
from tapegrad.transforms.reverse import record_sweep
from tapegrad.transforms.seed import start
from tapegrad.transforms.steps import keeping
from tapegrad.transforms.unroll import unroll
from tapegrad.transforms.value_dropping import ValueDropper
from tapegrad.tree.signature import ValueAndGradients


def flatgrad(tape: Tape, seed: Any = 1, release: bool = False, unrolls: bool = True, slots: int | None = None) -> Tape:
    """Return the flat tape of a primal tape's value and gradient, `primitivize(back(rewrite(tape)))`, without the
    stages between.

    The primal calls are copied with their values, and the sweep of `grad` runs on proxies of them, so that rules record
    their primitive calls directly: one step per call, where the stages take several. Raises what `grad` raises.

    `release` consumes the primal tape and drops large values of both tapes as the sweep passes them, so that memory
    stays within what `grad` takes; the flat tape then serves passes only.

    A loop becomes two: one that keeps residuals of each iteration, and one that sweeps. Where that is impossible,
    because the loop is a sweep's itself or a rule reads values, loops are unrolled first; NoLoop is raised instead
    unless `unrolls`. With `slots` a loop keeps that many of its states instead of residuals of each iteration, and its
    sweep recomputes from those: see `checkpoint_loop`.

    >>> import tapegrad as tg
    >>> value, tape = tg.trace(lambda a, b: a * b, 2.0, 3.0)
    >>> flatgrad(tape).play(4.0, 5.0)
    (20.0, (None, 5.0, 4.0))
    """
    check_is_tape(tape, "flatgrad")
    tape = primitivize(tape) if not is_flat(tape) else tape if release else fill(tape)
    tape = vectorized(tape) if slots is None else keeping(tape, slots)
    try:
        return _flatgrad(tape, seed, release)
    except NoLoop:
        if not unrolls:
            raise
        return _flatgrad(unroll(tape), seed, release)


def _flatgrad(tape: Tape, seed: Any, release: bool) -> Tape:
    new = tape.blank()
    tracer = ScalarTracer(new, DEFAULT, proxy.make)
    with recording(tracer):
        shadow = copy_primal(tape, new, tracer, trace_loop)
        value, dropping = shadow.result.val, ValueDropper()
        if release:
            _give_up(tape, tracer, dropping)
        wrt = differentiated(tape)
        active = activity(tape, wrt)
        result = tape.result

        def passed(op: Call) -> Origin:
            call = op.val._op if isinstance(op.val, Traced) else op
            if release:
                op.val = op.pb = None
                dropping.watch(call)
            return Origin("pullback", call.id)
        primal = len(new.ops)
        cot = record_sweep(shadow, start(result.val, seed), active, new, passed)
        if any(map(is_loop, tape.ops)):
            _check_samples(new, primal)
        tracer.push = new.ops.append  # the values of the result's operations are kept
        mark = len(new.ops)
        found = [ZERO if cot[x.id] is None else cot[x.id] for x in tape.inputs]
        _put_result(tape, new, tracer, value, [dx if k in wrt else None for k, dx in enumerate(found)])
        for made in new.ops[mark:]:
            made.code = None  # belongs to no line of the program
    return new


def _check_samples(tape: Tape, primal: int) -> None:
    """Raise NoLoop where a rule of the sweep has read a value that is computed from a loop's results: those of a
    sweep's loop are samples, also on a tape that is a gradient already.
    """
    samples: set[Operation] = set()
    for op in tape.ops:
        if type(op) is Call and (is_loop(op) or any(arg in samples for arg in operands(op))):
            samples.add(op)
        elif type(op) is Guard and op.id > primal and op.fact not in FIXED and op.args[0] in samples:
            raise NoLoop


def _give_up(tape: Tape, tracer: Tracer, dropping: ValueDropper) -> None:
    """Drop the values of a tape's calls except the result's, and from now on of recorded calls, once unneeded."""
    for op in tape.ops:
        if type(op) is Call and op is not tape.result:
            op.val, op.pb = UNKNOWN, None

    def push(op: Operation) -> None:
        tracer.tape.ops.append(op)
        dropping.watch(op)
    tracer.push = push


def _put_result(tape: Tape, new: Tape, tracer: Tracer, value: Any, cotangents: list[Any]) -> None:
    """Make `(value, (df, *dargs))`, or the requested part of it, the result, as `grad` returns it."""
    result = tape.result
    y = tracer.lift(tracer.pack(value, original=original))
    parts: list[Any] = [y if isinstance(y, Operation) else new.push(Constant(result.val))]
    into = ValueAndGradients(tape.structure, result.val)
    # keyword arguments come last and have no gradient
    for x, dx in zip(tape.inputs[1: into.size + 1], cotangents[1:]):
        if dx is None:  # held constant by a module
            parts.append(None)
            continue
        dx = dense(dx)
        dx = dx if isinstance(dx, Traced) else conform(dx, x.val)
        made = tracer.lift(dx)
        parts.append(made if isinstance(made, Operation) else new.push(Constant(dx)))
    nest_result(new, parts, into)
