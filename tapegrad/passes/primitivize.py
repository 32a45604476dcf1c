"""primitivize: play a tape on proxies, so that everything but primitive calls dissolves."""

from __future__ import annotations

import re
from typing import Any

from tapegrad import proxy
from tapegrad.context import DEFAULT, Context, Tracer
from tapegrad.interpose import interposition
from tapegrad.ops import pack
from tapegrad.rules import Op, Traced
from tapegrad.tape import Call, Constant, Guard, Input, Operation, Tape, copy_op
from tapegrad.trace import collector, put_result


def primitivize(tape: Tape, ctx: Context | None = None) -> Tape:
    """Return a flat tape of primitive calls: rules, pullbacks and non-primitive functions are traced through.

    Lines and notes of the operations pass to what they dissolve into. The result is specialised to the shapes that
    the rules read, and guards them.
    """
    ctx = ctx or DEFAULT
    new = tape.blank()
    tracer = Tracer(new, ctx, proxy.make)
    values: dict[Operation, Any] = {}
    leave = interposition.enter(tracer, {}, ())
    with collector:
        try:
            for op in tape:
                start = len(new)
                values[op] = _play(op, new, tracer, ctx, values)
                for made in new.ops[start:]:
                    made.at(op)
                    made.note = made.note or _renumber(op.note, tape, values)
            put_result(new, tracer, values[tape.result])  # type: ignore[index]
        finally:
            tracer.close()
            leave()
    return new


def _renumber(note: str, tape: Tape, values: dict[Operation, Any]) -> str:
    """Return a note that speaks of the new tape's variables, or "" where one of them has dissolved."""
    parts = re.split(r"%(\d+)", note)
    for i in range(1, len(parts), 2):
        stands_for = values.get(tape[int(parts[i])])
        if not isinstance(stands_for, Traced):
            return ""
        parts[i] = stands_for._op.name
    return "".join(parts)


def _play(op: Operation, new: Tape, tracer: Tracer, ctx: Context, values: dict[Operation, Any]) -> Any:
    if isinstance(op, Input):
        made = new.push(copy_op(op, lambda arg: arg))
        return op.val if made.id == 1 else proxy.make(made, op.val, tracer)
    if isinstance(op, Constant):
        return op.val
    if isinstance(op, Guard):
        subject = values[op.args[0]]
        if isinstance(subject, Traced):
            tracer.guard(subject._op, op.fact, op.expected)
        return None
    if not isinstance(op, Call):
        raise TypeError(f"no way to play a {op.kind}")
    fn = values[op.fn] if isinstance(op.fn, Operation) else op.fn
    args = [values[arg] if isinstance(arg, Operation) else arg for arg in op.args]
    if fn is pack or (isinstance(fn, Op) and fn.loose and not ctx.is_primitive(fn.impl)):
        return fn.impl(*args, **op.kwargs)
    return fn.run(*args, **op.kwargs) if isinstance(fn, Op) else fn(*args, **op.kwargs)
