"""memory_plan: which arrays of a tape share memory, and which writes are made in place: known before it runs."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tapegrad.compile.numpy.call_source import ufunc_of
from tapegrad.ops import getitem, imag, scatter, setitem
from tapegrad.ops.loop import is_loop
from tapegrad.optimise.result_memory import parts_of
from tapegrad.rules.facts import ANY
from tapegrad.rules.op import Op, memory_of
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Operation, Tape, operands
from tapegrad.transforms.walk import own


class Storage:
    """One piece of memory that operations share: views of an array, and what is written into it in place."""

    __slots__ = ("end", "nbytes", "owned")

    def __init__(self, owned: bool, nbytes: int = 0) -> None:
        self.nbytes = nbytes
        self.owned = owned  # this tape alone writes to it
        self.end = 0  # the last operation that uses it, of those met so far


class Plan:
    """Which storage each array lies in, which writes are made in place, and which shapes a replay may find different,
    since values decide them (`x[x > 0]`).
    """

    def __init__(self) -> None:
        self.varies: set[Operation] = set()
        self.storage: dict[Operation, Storage] = {}
        # of values that are no arrays, what the arrays in them lie in, or may
        self.holds: dict[Operation, list[Storage]] = {}
        self.locked: set[Operation] = set()  # views that may only be read
        self.in_place: dict[Operation, Operation] = {}  # into what each such call writes


def is_known(fn: Callable[..., Any]) -> bool:
    """True for a function that keeps nothing of what it is given; a user's may."""
    return own(fn) or (type(fn) is Op and fn.effects.closed)


def make_plan(tape: Tape, owned: Collection[Operation] = (), varies: Collection[Operation] = ()) -> Plan:
    """Plan the memory of a tape.

    Inputs that are `owned` may be written to; values decide the shape of those that `varies` names.
    """
    plan, last = Plan(), _last(tape)
    kept = {tape.result, *operands(tape.result), *parts_of(tape)}
    plan.varies = varying(tape, varies)
    for op in tape.ops:
        _place(op, plan, owned)
        for storage in _held(op, plan):
            storage.end = max(storage.end, len(tape.ops) + 1 if op in kept else last[op.id])
    kept_later = {x for x in owned if not plan.storage[x].owned}
    return make_plan(tape, set(owned) - kept_later, varies) if kept_later else plan


def _last(tape: Tape) -> list[int]:
    """Return, by position, the last operation that uses each; itself, where none does."""
    last = list(range(len(tape.ops) + 1))
    for op in tape.ops:
        for arg in op.args:
            if isinstance(arg, Operation):
                last[arg.id] = op.id
        if isinstance(op.fn, Operation):
            last[op.fn.id] = op.id
    return last


def varying(tape: Tape, given: Collection[Operation] = ()) -> set[Operation]:
    """Return the arrays whose shape depends on values, and those computed from them; those of the
    inputs that are `given` do.
    """
    found: set[Operation] = set(given)
    if not found and not any(type(op) is Call and (not is_known(op.fn) or getattr(op.fn, "dynamic", False))
                             for op in tape.ops):
        return found
    for op in tape.ops:
        if isinstance(op, Call) and is_varying(op, found, is_known(op.fn)):
            found.add(op)
    return found


def is_varying(op: Call, found: set[Operation], known: bool) -> bool:
    """True if numbers may decide the shape of a result, or that of an array that it is computed from; those of a
    function that is `known` do where it is dynamic.
    """
    if _is_number(op.spec):
        return False
    if memory_of(op.fn).blank and not any(isinstance(arg, Operation) for arg in op.args):
        return False  # torch.zeros and its kin: their arguments say how large it is
    sources = op.args[:1] if op.fn is setitem else () if op.fn is scatter else operands(op)
    return (not known or getattr(op.fn, "dynamic", False)
            or any(arg in found for arg in sources if isinstance(arg, Operation)))


def _is_number(x: Spec) -> bool:
    return x.is_scalar or (isinstance(x.type, type) and issubclass(x.type, (float, int, complex)))


def _place(op: Operation, plan: Plan, owned: Collection[Operation]) -> None:
    """Say in which memory a value lies."""
    y = op.spec
    if not isinstance(op, Call):
        if y.is_memory:
            plan.storage[op] = Storage(op in owned, y.nbytes)
        return
    if (over := _writes_over(op, plan)) is not None:
        plan.in_place[op], plan.storage[op] = over, plan.storage[over]
        return
    of = _aliased(op, plan)
    # a user's function may keep what it is given; a loop collect it
    if is_loop(op) or not is_known(op.fn):
        of = [*of, Storage(False)]  # what another run, a sweep or the function itself may read again
        for storage in of:
            storage.owned = False
    if not y.is_memory:
        if not _is_number(y):
            plan.holds[op] = of
    elif not of:
        plan.storage[op] = Storage(True, y.nbytes)
    else:
        plan.storage[op] = of[0]
        for storage in of if len(of) > 1 else ():
            storage.owned = False


def _held(op: Operation, plan: Plan) -> list[Storage]:
    """Return what a value lies in, or the arrays in it do."""
    storage = plan.storage.get(op)
    return [storage] if storage is not None else plan.holds.get(op, [])


def _aliased(op: Call, plan: Plan) -> list[Storage]:
    """Return the storages that a call's value may lie in, as its op says."""
    aliases = getattr(op.fn, "aliases", ANY)
    if aliases is None or (op.fn is getitem and any(isinstance(part, list) or spec_of(part).has_axes
                                                    for part in op.args[1:])):  # read by an array: a copy
        return []
    found = operands(op) if aliases == ANY else [x for x in op.args[aliases:aliases + 1] if isinstance(x, Operation)]
    readonly = memory_of(op.fn).readonly or (op.fn is imag and not spec_of(op.args[0]).is_complex)
    if readonly or (aliases != ANY and not plan.locked.isdisjoint(found)):
        plan.locked.add(op)
    return [storage for x in found for storage in _held(x, plan)]


def _writes_over(op: Call, plan: Plan) -> Operation | None:
    """Return the array that `setitem`, or a ufunc, may write into, as nothing uses it any more; None for another call.
    """
    y, write = op.spec, op.fn is setitem
    if not y.is_memory or not (write or (y.is_array and ufunc_of(op) is not None)):
        return None
    for given in operands(op)[:1] if write else operands(op):
        old = plan.storage.get(given)
        if old is None or not old.owned or old.end > op.id or given in plan.locked:
            continue
        x = given.spec
        if (x.shape, x.dtype, x.layout, x.nbytes) != (y.shape, y.dtype, y.layout, old.nbytes):
            continue  # else what is a view of the result may be a copy
        others = op.args[1:] if write else [arg for arg in op.args if arg is not given]
        if (write or (given not in plan.varies and x.has_axes and x.is_array)) and all(
                plan.storage.get(arg) is not old for arg in others if isinstance(arg, Operation)):
            return given
    return None
