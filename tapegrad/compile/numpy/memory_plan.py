"""memory_plan: where each array of a tape lies in memory, known before it runs.

Shapes are known, so every intermediate array gets a place in a buffer that is kept between calls, and buffers are
shared by what does not live at the same time (linear-scan register allocation: Poletto and Sarkar 1999, with bytes for
registers). A result lies in memory of its own, since the caller keeps it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

from tapegrad.compile.numpy.call_facts import gathers, goes_along, is_tall
from tapegrad.compile.numpy.call_source import How, how
from tapegrad.ops import getfield, getitem, reshape, scatter, setitem, where
from tapegrad.ops.fused import Fused, fields_of
from tapegrad.ops.loop import is_loop
from tapegrad.optimise.result_memory import parts_of
from tapegrad.rules.facts import ANY
from tapegrad.rules.op import Op
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Operation, Tape, operands
from tapegrad.transforms.walk import own

ALIGN = 64  # bytes, a cache line
ROOMY = 2  # a buffer is used for what is at least its size by this factor


class Storage:
    """One piece of memory that operations share: views of an array, and what is written into it in place."""

    __slots__ = ("end", "free", "nbytes", "owned", "slot", "taken", "turned")

    def __init__(self, owned: bool, free: bool, nbytes: int = 0) -> None:
        self.nbytes = nbytes
        self.owned = owned  # this tape alone writes to it
        self.free = free  # it may lie in a buffer: its operation can write where it is told to, and nobody keeps it
        self.end = 0  # the last operation that uses it
        self.slot: int | None = None
        self.turned = False  # column by column in memory, where NumPy's own array goes row by row
        self.taken = False  # another has its slot, from the operation on with which it ends


class Plan:
    """Which storage each array lies in, which writes are made in place, how large the buffers are, in bytes, and which
    shapes a replay may find different, since values decide them (`x[x > 0]`).
    """

    def __init__(self) -> None:
        self.varies: set[Operation] = set()
        self.storage: dict[Operation, Storage] = {}
        # of values that are no arrays, what the arrays in them lie in, or may
        self.holds: dict[Operation, list[Storage]] = {}
        self.locked: set[Operation] = set()  # views that may only be read
        self.in_place: set[Operation] = set()
        self.fields: dict[Operation, list[Call]] = defaultdict(list)  # by a group's call, what takes its results out
        self.sizes: list[int] = []
        self._how: dict[Operation, How] = {}

    def how(self, op: Call) -> How:
        """Return how a call is written."""
        found = self._how.get(op)
        if found is None:
            found = self._how[op] = how(op)
        return found

    def turned(self) -> set[Operation]:
        """Return the tables that lie, or may lie, column by column where they lay row by row
        when the tape was recorded.
        """
        found: set[Operation] = set()
        for op, storage in self.storage.items():  # in the order of the tape
            if storage.turned or (storage.slot is None and op.spec.ndim > 1
                                  and any(arg in found for arg in operands(op))):
                found.add(op)
        return found

    def slot(self, op: Operation) -> int | None:
        """Return the number of the buffer that an operation's value lies in, None where it has memory of its own."""
        storage = self.storage.get(op)
        return None if storage is None else storage.slot


def is_known(fn: Callable[..., Any]) -> bool:
    """True for a function that keeps nothing of what it is given; a user's may."""
    return isinstance(fn, Fused) or own(fn) or (type(fn) is Op and fn.effects.closed)


def make_plan(tape: Tape, buffers: bool = True, owned: Collection[Operation] = (),
              varies: Collection[Operation] = ()) -> Plan:
    """Plan the memory of a tape; without `buffers`, only which arrays share memory, and what is written in place.

    Inputs that are `owned` may be written to; values decide the shape of those that `varies` names.
    """
    plan, last = Plan(), _last(tape)
    assert tape.result is not None
    kept = {tape.result, *operands(tape.result), *parts_of(tape)}
    plan.varies = varying(tape, varies)
    for op in tape.ops:
        if type(op) is Call and op.fn is getfield and fields_of(op) is not None:
            plan.fields[op.args[0]].append(op)
    _share_storages(tape, plan, buffers, owned)
    for op, storage in chain(plan.storage.items(),
                             ((op, storage) for op, found in plan.holds.items() for storage in found)):
        end = last[op.id]
        if op in kept:
            end, storage.free = len(tape.ops) + 1, False
        if end > storage.end:
            storage.end = end
    _write_in_place(tape, plan)
    if buffers:
        turns = not any(step.op is reshape for op in tape.ops if type(op) is Call and op.kwargs for step in _steps(op))
        along = _going_along(tape, plan)
        _allocate(tape, plan,
                  lambda op: turns and is_tall(op.spec) and (op.spec.ndim == 2 or plan.storage[op] in along) and (
            plan.how(op).ufunc is not None or gathers(op) or op.fn in (scatter, where)))
    return plan


def _last(tape: Tape) -> list[int]:
    """Return, by position, the last operation that uses each; itself, where none does."""
    last = list(range(len(tape.ops) + 1))
    for op in tape.ops:
        for arg in op.args:
            if isinstance(arg, Operation):
                last[arg.id] = op.id
        if type(op) is Call and isinstance(op.fn, Operation):
            last[op.fn.id] = op.id
    return last


def _going_along(tape: Tape, plan: Plan) -> set[Storage]:
    """Return the storages of arrays with more than two axes that nothing uses which would be slower
    where they lie column by column.
    """
    found = {plan.storage[op] for op in tape.ops if op in plan.storage and op.spec.ndim > 2}
    for op in tape.ops:
        if not goes_along(op):
            found.difference_update([plan.storage[arg] for arg in operands(op) if arg in plan.storage])
    return found


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
    if type(op.fn) is Op and op.fn.memory.blank and not any(isinstance(arg, Operation) for arg in op.args):
        return False  # torch.zeros and its kin: their arguments say how large it is
    sources = op.args[:1] if op.fn is setitem else () if op.fn is scatter else operands(op)
    return (not known or getattr(op.fn, "dynamic", False)
            or any(arg in found for arg in sources if isinstance(arg, Operation)))


def _is_number(x: Spec) -> bool:
    return x.is_scalar or (isinstance(x.type, type) and issubclass(x.type, (float, int, complex)))


def _share_storages(tape: Tape, plan: Plan, buffers: bool, owned: Collection[Operation]) -> None:
    for op in tape.ops:
        if not isinstance(op, Call):
            if op.spec.is_memory:
                plan.storage[op] = Storage(op in owned, False, op.spec.nbytes)
            continue
        y = op.spec
        if y.is_array and plan.how(op).ufunc is not None:  # most calls: a new array
            free = buffers and plan.how(op).writes and y.size > 0 and op not in plan.varies
            plan.storage[op] = Storage(True, free, y.nbytes)
            continue
        of = _aliased(op, plan)
        # a user's function may keep what it is given; a loop collect it
        if is_loop(op) or not is_known(op.fn):
            of = [*of, Storage(False, False)]  # what another run, a sweep or the function itself may read again
            for storage in of:
                storage.free = storage.owned = False
        if not y.is_memory:
            if not _is_number(y):
                plan.holds[op] = of
            continue
        if not of:
            free = (buffers and y.has_axes and y.size > 0 and op not in plan.varies
                    and (op.fn is setitem or plan.how(op).writes))
            plan.storage[op] = Storage(True, free, y.nbytes)
        else:
            plan.storage[op] = of[0]
            if len(of) > 1:
                for storage in of:
                    storage.free = storage.owned = False


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
    if (type(op.fn) is Op and op.fn.memory.readonly) or (aliases != ANY and not plan.locked.isdisjoint(found)):
        plan.locked.add(op)
    return [storage for x in found for storage in _held(x, plan)]


def _write_in_place(tape: Tape, plan: Plan) -> None:
    """Let `setitem` write into the array it is given where nothing uses that any more."""
    merged: dict[Storage, Storage] = {}

    def find(storage: Storage) -> Storage:
        while storage in merged:
            storage = merged[storage]
        return storage
    for op in tape.ops:
        if not (isinstance(op, Call) and op.fn is setitem and isinstance(op.args[0], Operation)
                and op.args[0].spec.is_memory):
            continue
        old, new = find(plan.storage[op.args[0]]), find(plan.storage[op])
        x, y = op.args[0].spec, op.spec
        alike = x.shape == y.shape and x.dtype == y.dtype and x.nbytes == old.nbytes and op.args[0] not in plan.locked \
            and x.layout == y.layout  # else what is a view of the result, written to later, may be a copy
        others = [arg for arg in op.args[1:] if isinstance(arg, Operation) and arg in plan.storage]
        if (old.owned and new.owned and old.end <= op.id and alike and old is not new
            and all(find(plan.storage[arg]) is not old for arg in others)):
            plan.in_place.add(op)
            merged[new] = old
            old.end, old.free = max(old.end, new.end), old.free and new.free
    for op, storage in plan.storage.items() if merged else ():
        plan.storage[op] = find(storage)


def _steps(op: Call) -> list[Any]:
    """Return the steps of the paths that a call goes through: a reshape of what lies otherwise would be
    a copy, and a write lost.
    """
    through = op.kwargs.get("through", ())
    return [step for part in through
            for step in (part if isinstance(part, tuple) and not hasattr(part, "op") else (part,))]


def _allocate(tape: Tape, plan: Plan, turned: Callable[[Call], bool]) -> None:
    """Give each free storage a slot, the best fit among those whose content is dead."""
    free: dict[int, list[int]] = defaultdict(list)  # by size
    ends: dict[int, list[Storage]] = defaultdict(list)
    for place in tape.ops:
        # what a group's call writes is there when it begins, not where it is taken out
        for op in plan.fields.get(place) or (place,):
            storage = plan.storage.get(op)
            if storage is None or not storage.free or storage.slot is not None:
                continue
            assert isinstance(op, Call)
            storage.turned = turned(op)
            over = _written_over(op, plan) if plan.how(op).ufunc is not None else None
            if over is not None:
                storage.slot, over.taken = over.slot, True
            else:
                storage.slot = _take(free, plan, -(-op.spec.nbytes // ALIGN) * ALIGN)
            ends[storage.end].append(storage)
        for ended in ends.pop(place.id, ()):
            if not ended.taken:
                assert ended.slot is not None
                free[plan.sizes[ended.slot]].append(ended.slot)


def _take(free: dict[int, list[int]], plan: Plan, size: int) -> int:
    fits = [known for known, slots in free.items() if slots and size <= known <= ROOMY * size]
    if fits:
        return free[min(fits)].pop()
    plan.sizes.append(size)
    return len(plan.sizes) - 1


def _written_over(op: Call, plan: Plan) -> Storage | None:
    """Return the storage of an argument that ends with this call, and lies as the result is to lie."""
    y = op.spec
    for arg in op.args:
        storage = plan.storage.get(arg) if isinstance(arg, Operation) else None
        if storage is None or storage.slot is None or storage.end != op.id:
            continue
        x = arg.spec
        alike = x.shape == y.shape and x.dtype == y.dtype and x.strides == y.strides
        if alike and x.nbytes == storage.nbytes and storage.turned == plan.storage[op].turned \
                and not any(other is not arg and isinstance(other, Operation) and plan.storage.get(other) is storage
                            for other in op.args):
            return storage
    return None
