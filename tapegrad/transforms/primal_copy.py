"""primal_copy: copies a primal tape onto the flat tape of its gradient, as proxies that the reverse sweep reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.ops import pack, whole_of
from tapegrad.ops.loop import is_loop, taken
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import Op, Traced
from tapegrad.tape.liveness import leading
from tapegrad.tape.origin import set_origin
from tapegrad.tape.spec import UNKNOWN
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, copy_op, value_of
from tapegrad.trace.guards import number_kind
from tapegrad.trace.number_systems import check_precision
from tapegrad.trace.recorder import Tracer
from tapegrad.transforms.walk import typed_by_value


def guard_type(op: Call, tracer: Tracer) -> None:
    """Guard the type of a call's value where it depends on values: a power that becomes complex needs another sweep."""
    if typed_by_value(whole_of(op) or op):
        if type(op.val) is np.ndarray:
            tracer.guard(op, "dtype", op.val.dtype)
        elif type(op.val) is not tuple:
            tracer.guard(op, "kind", number_kind(op.val))


class ScalarTracer(Tracer):
    """Records a rule's `cos(x)` of a Python float as `math.cos`, as the sweep of `grad` computes it."""

    __slots__ = ()

    def record(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], val: Any = UNKNOWN) -> Any:
        if val is UNKNOWN and op.scalar is not None and not kwargs:
            given = [arg._val if isinstance(arg, Traced) else arg for arg in args]
            if all(type(x) is float or type(x) is np.float64 for x in given):
                val = op(*given)
        return super().record(op, args, kwargs, val)


def _taken(tape: Tape, results: Sequence[Any]) -> dict[Operation, set[int]]:
    """Return for each loop the numbers of its results on which `results` depend."""
    if not any(map(is_loop, tape.ops)):
        return {}
    leads = leading(tape.ops, results)
    found = taken(op for op in tape.ops if leads[op.id])
    found.update((op, set(range(len(op.fn.results)))) for op in results if is_loop(op))
    return found


def copy_primal(tape: Tape, new: Tape, tracer: Tracer, trace_loop: Callable[..., Any],
                results: Sequence[Any] | None = None, then: Callable[[Operation], None] | None = None) -> Tape:
    """Copy the primal calls onto the flat tape; return the tape that the sweep reads, whose values are proxies of them.

    `trace_loop` records a loop, given the numbers of those results on which `results`, by default the tape's result,
    depend; it returns the loop's results and its pullback. `then` is called with each operation of the returned tape
    once it is copied; what it records follows the copy.
    """
    shadow = tape.blank()
    wanted = _taken(tape, [tape.result] if results is None else results)
    flat: dict[Operation, Operation | None] = {}
    shadow_of: dict[Operation, Operation] = {}

    def bind(arg: Any) -> Any:
        return flat[arg] if isinstance(arg, Operation) else arg

    def bind_proxy(arg: Any) -> Any:
        return shadow_of[arg] if isinstance(arg, Operation) else arg

    def copied(op: Operation) -> None:
        seen: Any
        shadow_of[op] = seen = copy_op(op, bind_proxy)
        shadow.ops.append(seen)
        known = None not in [flat[arg] for arg in op.args if isinstance(arg, Operation)]
        if isinstance(op, Call) and ((isinstance(op.fn, Op) and type(op.fn.rule) is Rrule) or is_loop(op) or not known):
            mark = len(new.ops)
            args = [arg.val if isinstance(arg, Operation) else arg for arg in seen.args]
            if is_loop(op):
                seen.val, seen.pb = trace_loop(op, args, tracer, wanted[op])
            # a user's rule: its calls are traced, and its pullback's
            elif op.pb is not None or type(op.fn.rule) is Rrule:
                seen.val, seen.pb = op.fn.forward(*args, **op.kwargs)
            else:
                seen.val = op.fn.run(*args, **op.kwargs)
            set_origin(new.ops[mark:], op)
            flat[op] = seen.val._op if isinstance(seen.val, Traced) and seen.val._tracer is tracer else None
            return
        flat[op] = made = copy_op(op, bind)
        new.ops.append(made)
        made.id = len(new.ops)
        if isinstance(made, Constant):
            tracer.constants[id(made.val)] = (made.val, made)
        elif isinstance(op, Guard):
            check_precision(op)
            tracer.guarded.add((made.args[0].id, op.fact))
            if op.fact == "apart" and not all(isinstance(arg, Input) for arg in op.args[0].args):
                # a user's function may return its argument or a copy, depending on the layout
                tracer.guard_layout()
            return
        if isinstance(made, Call):
            mark = len(new.ops)
            guard_type(made, tracer)
            set_origin(new.ops[mark:], op)
            tracer.dynamic = tracer.dynamic or getattr(made.fn, "dynamic", False)
        if op.fn is pack:
            seen.val = pack.impl(*map(value_of, seen.args), **op.kwargs)
        elif made.id > 1:
            mark = len(new.ops)
            seen.val = tracer.fields(made, (None,))  # no views: rules write to nothing
            if type(op.val) is tuple:
                set_origin(new.ops[mark:], op)

    for op in tape.ops:
        copied(op)
        if then is not None:
            then(shadow_of[op])
    shadow.result = shadow_of[tape.result]
    return shadow
