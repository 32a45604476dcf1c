"""segment: operations that stay in Python between two stretches of native code, as a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad import ops
from tapegrad.compile.native.plan import Refused
from tapegrad.compile.native.values import Array, Results, Rows
from tapegrad.ops.loop import is_loop, put
from tapegrad.ops.structure import put_results
from tapegrad.tape.spec import absent
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, operands


def segment(tape: Tape, calls: Sequence[Operation] | dict[Operation, None],
            function: Any) -> tuple[Tape, list[Operation], list[Operation]]:
    """Return a tape of some of a tape's operations, its inputs, and the operations whose values it returns.

    Views that native code holds as addresses are computed again on it.
    """
    inside = set(calls)
    todo = list(calls)
    while todo:
        for arg in operands(todo.pop()):
            if arg not in inside and isinstance(function.env.get(arg), (Rows, Results)):
                raise Refused(arg.args[0] if isinstance(function.env[arg], Rows) and arg.fn is ops.getfield else arg)
            if arg not in inside and type(arg) is Call and isinstance(function.env.get(arg), Array) \
                    and ("object", arg) not in function.cache and arg in function.views:
                inside.add(arg)
                todo.append(arg)
    ordered = sorted(inside, key=lambda op: op.id)
    new, at = Tape(None, "segment"), dict[Operation, Any]()
    given = list(dict.fromkeys(arg for op in ordered for arg in operands(op)
                               if arg not in inside and not isinstance(arg, Constant)))
    for x in given:
        at[x] = new.push(Input(absent(x.spec), getattr(x, "label", "") if x.id > 1 else ""))
    for op in ordered:
        for arg in operands(op):
            if isinstance(arg, Constant) and arg not in at:
                put(new, arg, at)
        copied = put(new, op, at)
        if isinstance(op, Call):
            copied.val = absent(op.spec)
    results = {tape.result, *operands(tape.result)} if tape.result is not None else set()
    made: list[Operation] = [
        op for op in ordered if isinstance(op, Call) and op in calls and not is_loop(op)
            and (op in results or any(user not in inside for user in function.users.get(op, ())))]
    put_results(new, [at[op] for op in made])
    return new, given, made
