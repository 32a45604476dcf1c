"""flatgrad: a primal tape's gradient as a flat tape, in one step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad import proxy
from tapegrad.back import start, sweep
from tapegrad.context import DEFAULT, Tracer
from tapegrad.interpose import interposition
from tapegrad.ops import pack
from tapegrad.passes.blank import Dropping
from tapegrad.passes.primitivize import is_flat, primitivize
from tapegrad.rewrite import activity, differentiated
from tapegrad.rules import Op, Traced
from tapegrad.tangent import ZERO, conform, dense
from tapegrad.tape import UNKNOWN, Call, Constant, Guard, Operation, Tape, copy_op, value_of
from tapegrad.trace import collector
from tapegrad.tree import ValueAndGradients


def flatgrad(tape: Tape, seed: Any = 1, release: bool = False) -> Tape:
    """Return the flat tape of a primal tape's value and gradient: `primitivize(back(rewrite(tape)))` without the stages between.

    The primal calls are copied with their values, and the sweep that `grad` makes runs on proxies of them, so that rules record
    the primitive calls they consist of: one step per call, where the stages take several. Raises what `grad` raises.

    `release` gives up the primal tape, and large values of both as the sweep passes them, so that no more memory is in use than `grad` takes;
    what is then on the flat tape is of use to the passes, once it is `typed`, and to nobody else.

    >>> import tapegrad as tg
    >>> value, tape = tg.trace(lambda a, b: a * b, 2.0, 3.0)
    >>> flatgrad(tape).play(4.0, 5.0)
    (20.0, (None, 5.0, 4.0))
    """
    tape = tape if is_flat(tape) else primitivize(tape)
    new = tape.blank()
    tracer = _Scalars(new, DEFAULT, proxy.make)
    leave = interposition.enter(tracer, {}, ())
    with collector:
        try:
            shadow = _copy_primal(tape, new, tracer)
            assert shadow.result is not None
            value, dropping = shadow.result.val, Dropping()
            if release:
                _give_up(tape, tracer, dropping)
            wrt = differentiated(tape)
            active = activity(tape, wrt)
            result = tape.result
            assert result is not None
            begun = start(result.val, seed)

            def backwards(ops: list[Operation]) -> Iterator[Operation]:
                for op in reversed(ops):
                    mark = len(new.ops)
                    yield op
                    note = f"pullback of {op.name}"
                    for made in new.ops[mark:]:
                        made.code, made.lasti, made.note = op.code, op.lasti, note
                    if release and type(op) is Call:
                        passed = op.val._op if isinstance(op.val, Traced) else op
                        op.val = op.pb = None
                        dropping.watch(passed)
            cot = sweep(shadow, begun if active[result.id] else None, active, order=backwards)
            tracer.push = new.ops.append  # what the result is made of stays
            mark = len(new.ops)
            found = [ZERO if cot[x.id] is None else cot[x.id] for x in tape.inputs]
            _put_result(tape, new, tracer, value, [dx if k in wrt else None for k, dx in enumerate(found)])
            for made in new.ops[mark:]:
                made.code = None  # no line of the program's
        finally:
            tracer.close()
            leave()
    return new


class _Scalars(Tracer):
    """Records a rule's `cos(x)` of a Python number as `math.cos` of it, as the sweep of `grad` computes it."""

    __slots__ = ()

    def record(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any = UNKNOWN) -> Any:
        if val is UNKNOWN and op.scalar is not None and not kwargs:
            given = [arg._val if isinstance(arg, Traced) else arg for arg in args]
            if all(type(x) is float or type(x) is np.float64 for x in given):
                val = op(*given)
        return super().record(op, args, kwargs, val)


def _copy_primal(tape: Tape, new: Tape, tracer: Tracer) -> Tape:
    """Copy the primal calls onto the flat tape; return the tape that the sweep reads, whose values are proxies of them."""
    shadow = tape.blank()
    flat: dict[Operation, Operation | None] = {}
    ghost: dict[Operation, Operation] = {}

    def bind(arg: Any) -> Any:
        return flat[arg] if isinstance(arg, Operation) else arg

    def haunt(arg: Any) -> Any:
        return ghost[arg] if isinstance(arg, Operation) else arg

    for op in tape.ops:
        ghost[op] = seen = copy_op(op, haunt)
        shadow.ops.append(seen)
        known = None not in [flat[arg] for arg in op.args if isinstance(arg, Operation)]
        if isinstance(op, Call) and ((isinstance(op.fn, Op) and op.fn.rr is not None) or not known):
            mark = len(new.ops)
            args = [arg.val if isinstance(arg, Operation) else arg for arg in seen.args]
            if op.pb is not None or op.fn.rr is not None:  # a user's rule: its own calls are traced, and its pullback's
                seen.val, seen.pb = op.fn.forward(*args, **op.kwargs)  # type: ignore[attr-defined]
            else:
                seen.val = op.fn.run(*args, **op.kwargs)
            for made in new.ops[mark:]:
                made.at(op)
            flat[op] = seen.val._op if isinstance(seen.val, Traced) and seen.val._tracer is tracer else None
            continue
        flat[op] = made = copy_op(op, bind)
        new.ops.append(made)
        made.id = len(new.ops)
        if isinstance(made, Constant):
            tracer.constants[id(made.val)] = (made.val, made)
        elif isinstance(op, Guard):
            tracer.guarded.add((made.args[0].id, op.fact))
            continue
        if isinstance(op, Call):
            tracer.dynamic = tracer.dynamic or getattr(op.fn, "dynamic", False)
        if isinstance(op, Call) and op.fn is pack:
            seen.val = pack.impl(*map(value_of, seen.args), **op.kwargs)
        elif made.id > 1:
            seen.val = tracer.fields(made, (None,))  # no view of another: rules write to nothing
    shadow.result = ghost[tape.result]  # type: ignore[index]
    return shadow


def _give_up(tape: Tape, tracer: Tracer, dropping: Dropping) -> None:
    """Drop the values of a tape's calls, but that of its result, which is asked for, and from now on those recorded, when they are not needed."""
    for op in tape.ops:
        if type(op) is Call and op is not tape.result:
            op.val, op.pb = UNKNOWN, None

    def push(op: Operation) -> None:
        tracer.tape.ops.append(op)
        dropping.watch(op)
    tracer.push = push


def _put_result(tape: Tape, new: Tape, tracer: Tracer, value: Any, cotangents: list[Any]) -> None:
    """Make (value, (df, *dargs)) the result, as `grad` returns it."""
    result = tape.result
    assert result is not None and tape.structure is not None
    y = tracer.lift(value if isinstance(value, Traced) else tracer.pack(value))
    parts: list[Any] = [y if isinstance(y, Operation) else new.push(Constant(result.val))]
    into = ValueAndGradients(tape.structure, result.val)
    for x, dx in zip(tape.inputs[1: into.size + 1], cotangents[1:]):  # keyword arguments come last, and have no gradient
        if dx is None:  # held constant by a module
            parts.append(None)
            continue
        dx = dense(dx)
        dx = dx if isinstance(dx, Traced) else conform(dx, x.val)
        made = tracer.lift(dx)
        parts.append(made if isinstance(made, Operation) else new.push(Constant(dx)))
    new.result = new.push(Call(pack, tuple(parts), {"into": into}, into.build(list(map(value_of, parts))), note="result"))
