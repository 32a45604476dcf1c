"""reverse: the reverse sweep and the accumulation of cotangents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from sys import getrefcount
from types import FunctionType, MethodType
from typing import Any

import numpy as np
from numpy import ndarray

from tapegrad.errors import ArgumentError, ReplayError, TapeError
from tapegrad.numbers.cotangents import (
    ZERO,
    Accumulator,
    Scatter,
    ZeroTangent,
    accumulate,
    conform,
    dense,
    project,
    shape_of,
)
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.kinds import Cotangent
from tapegrad.numbers.systems import has_others
from tapegrad.numbers.tensors import ORDINARY, is_tensor_type
from tapegrad.ops import add, getfield, nest_result, whole_of
from tapegrad.rules.activity import activity, differentiated, has_gradient, nothing_flows
from tapegrad.rules.op import Op, as_numpy
from tapegrad.rules.user import is_triple
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.error_context import failed
from tapegrad.tape.origin import Origin, set_origin
from tapegrad.tape.subtape import exchanges, needed, unused_cotangent
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape, append_copy, value_of
from tapegrad.trace import numpy_warnings
from tapegrad.trace.value_retention import as_scalar_cotangent, is_apart, is_mapped
from tapegrad.transforms.rewrite import placed, pullback_of
from tapegrad.transforms.seed import start
from tapegrad.tree.signature import ValueAndGradients

_FLOATS = frozenset([float, np.float64])
_OPERATIONS = frozenset([Call, Input, Constant])
_LAZY = frozenset([Scatter, Accumulator])
_PLAIN = ORDINARY | {FunctionType, MethodType}  # kinds of values that need no rules of their own
_OWN_SUM = (tuple, dict, Scatter, Accumulator)  # cotangents that `add` cannot take and must not record


def back(tape: Tape, seed: Any = 1) -> Tape:
    """Return the tape of triples with its reverse sweep appended; it returns `(value, (df, *dargs))`.

    The origin of each appended operation names its purpose: `seed`, `pullback of %7`, `d%2`, `accumulate d%2`. Raises
    ArgumentError for a tape on which a call that the gradient passes is no triple.
    """
    check_is_tape(tape, "back")
    _check_triples(tape)
    new = tape.blank()
    at: dict[Operation, Operation] = {}
    for op in tape:
        append_copy(new, op, at)
    y = new.result = at[tape.result]
    pullbacks = {rr: op for op in new.ops if is_triple(rr := whole_of(op))}
    triples = {new[rr.id + 1]: (rr, pb) for rr, pb in pullbacks.items()}  # a triple's value stands right after it
    places = differentiated(tape)
    wrt = {x for k, x in enumerate(new.inputs) if k in places}
    active = bytearray(len(new) + 1)
    primal = new.blank()
    for op in new.ops:
        active[op.id] = op in triples or (op in wrt and has_gradient(op.val))
        primal.ops.append(_primal(new, op, *triples[op]) if op in triples else op)
    primal.result = primal.ops[y.id - 1]
    begun = start(y.val, seed)
    cot = sweep(primal, _Appended(new, new.push(Constant(begun, Origin("seed")))) if active[y.id] else None, active,
                nothing=lambda op: _append(new, unused_cotangent, (op.fn, new[op.id]), Origin("seed", op.id), op))
    _append_result(new, y, wrt, cot)
    return new


def _check_triples(tape: Tape) -> None:
    active, passed = activity(tape), needed(tape)
    for op in tape.ops:
        if type(op) is Call and active[op.id] and passed[op.id] and not is_triple(whole_of(op) or op):
            raise ArgumentError(f"the gradient must pass through {op.name}, a call of {brief(op.fn)}, which has no "
                                "pullback on this tape", op.where, "tg.gradtape(tape), or tg.back(tg.rewrite(tape))")


def _primal(tape: Tape, y: Operation, rr: Call, pb: Operation) -> Call:
    """Return the call of a triple, at the position of its value; its pullback appends to the tape."""
    call: Any = Call(rr.args[0], rr.args[1:], rr.kwargs, y.val)
    call.at(y).id, call.pb = y.id, lambda dy: _append(tape, pb, (dy.op,), Origin("pullback", y.id), rr)
    return call  # type: ignore[no-any-return]


class _Appended:
    """A value of the sweep that `back` records: an operation, and the triple that it belongs to."""

    __slots__ = ("op", "rr", "tape")

    def __init__(self, tape: Tape, op: Operation, rr: Any = None) -> None:
        self.tape, self.op, self.rr = tape, op, rr

    def __getitem__(self, i: int) -> _Appended:
        return _append(self.tape, getfield, (self.op, i), Origin("cotangent", self.rr.args[1 + i].id), self.rr)

    def __add__(self, other: _Appended) -> _Appended:
        fn = accumulate if isinstance(other.op.val, _OWN_SUM) or type(self.op.val) in _LAZY else add
        of = other.op.origin.of  # type: ignore[union-attr]
        return _append(self.tape, fn, (self.op, other.op), Origin("accumulation", of), other.rr)


def _append(tape: Tape, fn: Any, args: tuple[Any, ...], origin: Origin, rr: Call) -> _Appended:
    try:
        val = value_of(fn)(*map(value_of, args))
    except TapeError:
        raise
    except Exception as err:
        raise failed(tape, rr, err, pullback=True) from err
    return _Appended(tape, tape.push(Call(fn, args, None, val, origin).at(rr)), rr)


def _append_result(tape: Tape, y: Operation, wrt: Collection[Input], cot: list[Any]) -> None:
    """Append the gradient of every differentiated input, zeros where none flows, and nest them like the inputs."""
    parts: list[Any] = []
    for x in placed(tape):
        if x not in wrt:
            parts.append(None)
            continue
        dx = ZERO if cot[x.id] is None else cot[x.id].op
        origin = Origin("gradient", 0 if x.label else x.id, x.label)
        parts.append(tape.push(Call(conform, (dx, x), None, conform(value_of(dx), x.val), origin)))
    if tape.structure is not None:
        nest_result(tape, (y, *parts), ValueAndGradients(tape.structure, y.val))
    else:
        val = _flat_result(y.val, *map(value_of, parts))
        tape.result = tape.push(Call(_flat_result, (y, *parts), None, val, Origin("result")))


def _flat_result(y: Any, *dxs: Any) -> Any:
    """Nest the result of a handmade tape, which has no structure."""
    return y, (None, *dxs)


def sweep(tape: Tape, seed: Any, active: bytearray, last: bool = False, save_memory: bool = False,
          passed: Callable[[Call], Any] | None = None,
          nothing: Callable[[Call], Any] = lambda op: unused_cotangent(op.fn, op.val)) -> list[Any]:
    """Run the reverse sweep over a primal tape, and return the cotangents by position.

    The values on the tape determine what a step does. On plain values it computes at once, as for `grad`; on proxies it
    is recorded, see `record_sweep`; and the pullbacks of triples append their calls to the tape that `back` writes.

    Each cotangent is freed when it has been passed on. The `last` sweep of a tape also frees each value that no earlier
    call needs, so that its memory can be reused; `passed(call)` supplies the replacement value. A `save_memory` sweep
    avoids large arrays where it can.
    """
    cot: list[Any] = [None] * (len(tape.ops) + 1)
    op: Any = tape.result
    cot[op.id] = seed if active[op.id] else None
    kinds = {type(op.val) for op in tape.ops} - _PLAIN
    # rules take tensors as arrays, and exact numbers without floats among them: Op.cotangent converts them
    whole = bool(kinds) and (any(map(is_tensor_type, kinds)) or has_others(tape.ops, kinds))
    said = numpy_warnings.begin()
    try:
        for op in reversed(tape.ops):
            if type(op) is not Call:
                continue
            dy = cot[op.id]
            if dy is None and active[op.id] and exchanges(op):
                dy = nothing(op)
            if dy is not None:
                cot[op.id] = None
                fn = op.fn
                if type(dy) in _LAZY and not fn.memory.written:
                    dy = dy.dense()
                if op.pb is None and type(fn) is Op and type(fn.partials) is tuple and not whole:
                    _pass_by_partials(op, dy, active, cot, save_memory)
                else:
                    _pass_by_pullback(op, dy, active, cot, last)
                # kept past the next call: memory freed at once is returned and requested again
                held = op.val if save_memory and not is_mapped(op.val) else None  # noqa: F841
            if last:
                op.val, op.pb = None if passed is None else passed(op), None
    except ReplayError:  # it already names an operation, of the tape that the rule played
        raise
    except TapeError as err:  # refused by a rule: report the line of the call
        raise type(err)(err.what, op.where or err.where, err.try_) from err.__cause__
    except Exception as err:
        raise failed(tape, op, err, pullback=True) from err
    finally:
        numpy_warnings.end(said)
    return cot


numpy_warnings.PLACES[sweep.__code__] = lambda frame: frame.f_locals.get("op")


def record_sweep(tape: Tape, seed: Any, active: bytearray, new: Tape,
                 then: Callable[[Call], Origin | None]) -> list[Any]:
    """Record the sweep over a primal tape of proxies on their `new` tape; return the cotangents by position.

    Recorded operations get the line of the call that they belong to, and the origin `then(call)`.
    """
    mark = len(new.ops)

    def passed(op: Call) -> None:
        nonlocal mark
        made, mark = new.ops[mark:], len(new.ops)
        set_origin(made, op, then(op))
    return sweep(tape, seed, active, last=True, passed=passed)


def _pass_by_pullback(op: Call, dy: Cotangent, active: bytearray, cot: list[Any], last: bool) -> None:
    dxs = (op.pb if op.pb is not None else pullback_of(op, last))(dy)
    for i, arg in enumerate(op.args):
        if type(arg) in _OPERATIONS and active[arg.id] and not nothing_flows(op.fn, i):
            dx = dxs[i]
            if type(dx) is not ZeroTangent:
                cot[arg.id] = dx if cot[arg.id] is None else accumulate(cot[arg.id], dx)


def _pass_by_partials(op: Call, dy: Cotangent, active: bytearray, cot: list[Any], save_memory: bool) -> None:
    """Pass a cotangent through a call by its partials; `save_memory` adds in place and expands no single number."""
    y, args, kwargs = op.val, op.args, op.kwargs
    values = [arg.val if type(arg) in _OPERATIONS else arg for arg in args]
    one = as_scalar_cotangent(dy, op.fn, y, values) if save_memory else dy
    for partial, arg, x in zip(op.fn.partials, args, values):
        if arg is not x and partial is not None and active[arg.id]:  # arg is an operation
            try:
                dx = partial(one, y, *values, **kwargs) if kwargs else partial(one, y, *values)
            except ArithmeticError as err:
                dx = as_numpy(partial, one, y, values, kwargs, err)
            if one is not dy and shape_of(dx) != dy.shape:
                dx = np.broadcast_to(dx, dy.shape)
            if type(dx) is ndarray is type(x):
                if dx.dtype is not x.dtype or dx.shape != x.shape:
                    dx = project(dx, x)
            elif not type(dx) is float is type(x):
                if type(dx) is ZeroTangent:
                    continue
                dx = project(dx, x)
            i = arg.id
            if cot[i] is None:
                cot[i] = dx
            elif not (save_memory and _added_in_place(cot, i, dx)):
                cot[i] = accumulate(cot[i], dx)


def _added_in_place(cot: list[Any], i: int, dx: Cotangent) -> bool:
    """Add to a large cotangent in place if nothing else holds it; return whether that was done."""
    if not (is_apart(cot[i]) and getrefcount(cot[i]) == 2 and _alike(cot[i], dx)):  # the list and this line hold it
        return False
    np.add(cot[i], dx, out=cot[i])
    return True


def taken(cot: list[Any], i: int, x: Any) -> Any:
    """Return the cotangent at position `i` as the gradient of the input `x`, copied if something else holds it."""
    cot[i] = dense(cot[i])
    if type(cot[i]) is np.ndarray and cot[i].base is None and getrefcount(cot[i]) == 2 and _alike(cot[i], x):
        return cot[i]
    return conform(ZERO if cot[i] is None else cot[i], x)


def _alike(a: Any, b: Any) -> bool:
    return (type(b) is np.ndarray
            and bool(a.shape == b.shape and a.dtype == b.dtype and a.dtype != object and a.flags.writeable))
