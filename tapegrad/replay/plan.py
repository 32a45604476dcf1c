"""plan: where each array of a tape lies in memory, known before it runs.

Shapes are known, so every intermediate array gets a place in a buffer that is kept between calls, and buffers are shared by what does
not live at the same time (linear-scan register allocation: Poletto and Sarkar 1999, with bytes for registers). A result lies in memory
of its own, since the caller keeps it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops import scatter, setitem
from tapegrad.passes.liveness import last_uses
from tapegrad.rules import OPS, Op
from tapegrad.tape import Call, Operation, Tape, operands, value_of

ALIGN = 64  # bytes, a cache line
ROOMY = 2  # a buffer is used for what is at least its size by this factor


class Storage:
    """One piece of memory that operations share: views of an array, and what is written into it in place."""

    __slots__ = ("end", "free", "nbytes", "owned", "slot", "taken")

    def __init__(self, owned: bool, free: bool, nbytes: int = 0) -> None:
        self.nbytes = nbytes
        self.owned = owned  # this tape alone writes to it
        self.free = free  # it may lie in a buffer: its operation can write where it is told to, and nobody keeps it
        self.end = 0  # the last operation that uses it
        self.slot: int | None = None
        self.taken = False  # another has its slot, from the operation on with which it ends


class Plan:
    """Which storage each array lies in, which writes are made in place, how large the buffers are, in bytes, and which
    shapes a replay may find different, since values decide them (`x[x > 0]`).
    """

    def __init__(self) -> None:
        self.varies: set[Operation] = set()
        self.storage: dict[Operation, Storage] = {}
        self.in_place: set[Operation] = set()
        self.sizes: list[int] = []

    def slot(self, op: Operation) -> int | None:
        """Return the number of the buffer that an operation's value lies in, None where it has memory of its own."""
        storage = self.storage.get(op)
        return None if storage is None else storage.slot


def is_array(val: Any) -> bool:
    """True for an array with at least one axis: what a buffer can hold."""
    return type(val) is np.ndarray and val.ndim > 0


def shares(op: Call) -> list[Operation]:
    """Return the arguments whose memory an operation's value lies in, or may."""
    arrays = [arg for arg in operands(op) if isinstance(arg.val, np.ndarray)]
    if type(op.fn) is not Op or OPS.get(op.fn.__name__) is not op.fn:
        return arrays  # a user's function may return what it was given
    if op.fn.view and not any(isinstance(part, list) or is_array(value_of(part)) for part in op.args[1:]):
        return arrays[:1]  # its value on the tape may be a copy, and this not be one
    return [arg for arg in arrays if np.may_share_memory(op.val, arg.val)] if isinstance(op.val, np.ndarray) else []


def make_plan(tape: Tape, writes: Callable[[Call], bool], elementwise: Callable[[Call], bool], buffers: bool = True) -> Plan:
    """Plan the memory of a tape that has its values: `writes` tells which calls take an `out`, `elementwise` which of them may
    write over their arguments.
    """
    plan, dead = Plan(), last_uses(tape)
    last = {tape.ops[number - 1]: position for position, numbers in enumerate(dead) for number in numbers}
    assert tape.result is not None
    kept = {tape.result, *operands(tape.result)}
    plan.varies = varying(tape)
    _share_storages(tape, plan, lambda op: op not in plan.varies and writes(op), buffers)
    for op in tape.ops:
        storage = plan.storage.get(op)
        if storage is not None:
            storage.end = max(storage.end, len(tape.ops) + 1 if op in kept else last.get(op, op.id))
            storage.free = storage.free and op not in kept
    _write_in_place(tape, plan)
    if buffers:
        _allocate(tape, plan, elementwise)
    return plan


def varying(tape: Tape) -> set[Operation]:
    """Return the arrays whose shape depends on values, and those computed from them."""
    found: set[Operation] = set()
    for op in tape.ops:
        if isinstance(op, Call) and not isinstance(op.val, (float, int, complex, np.generic)):
            known = type(op.fn) is Op and OPS.get(op.fn.__name__) is op.fn
            sources = op.args[:1] if op.fn is setitem else () if op.fn is scatter else operands(op)
            if not known or op.fn.dynamic or any(arg in found for arg in sources if isinstance(arg, Operation)):
                found.add(op)
    return found


def _share_storages(tape: Tape, plan: Plan, writes: Callable[[Call], bool], buffers: bool) -> None:
    for op in tape.ops:
        if not isinstance(op, Call):
            if isinstance(op.val, np.ndarray):
                plan.storage[op] = Storage(owned=False, free=False)
            continue
        known = type(op.fn) is Op and OPS.get(op.fn.__name__) is op.fn
        if not known:
            for arg in operands(op):
                if arg in plan.storage:
                    plan.storage[arg].free = False  # a user's function may keep what it is given
        if not isinstance(op.val, np.ndarray):
            continue
        of = [plan.storage[arg] for arg in shares(op) if arg in plan.storage]
        if not of:
            free = buffers and is_array(op.val) and op.val.size > 0 and (writes(op) or (op.fn is setitem and op not in plan.varies))
            plan.storage[op] = Storage(known, free, op.val.nbytes)
        elif len(of) == 1:
            plan.storage[op] = of[0]
        else:
            for storage in of:
                storage.free = storage.owned = False
            plan.storage[op] = of[0]


def _write_in_place(tape: Tape, plan: Plan) -> None:
    """Let `setitem` write into the array it is given where nothing uses that any more."""
    merged: dict[Storage, Storage] = {}

    def find(storage: Storage) -> Storage:
        while storage in merged:
            storage = merged[storage]
        return storage
    for op in tape.ops:
        if not (isinstance(op, Call) and op.fn is setitem and isinstance(op.args[0], Operation) and isinstance(op.args[0].val, np.ndarray)):
            continue
        old, new = find(plan.storage[op.args[0]]), find(plan.storage[op])
        x = op.args[0].val
        alike = x.shape == op.val.shape and x.dtype == op.val.dtype and x.nbytes == old.nbytes and 0 not in x.strides  # no stretched view
        others = [arg for arg in op.args[1:] if isinstance(arg, Operation) and arg in plan.storage]
        if old.owned and old.end <= op.id and alike and old is not new and all(find(plan.storage[arg]) is not old for arg in others):
            plan.in_place.add(op)
            merged[new] = old
            old.end, old.free = max(old.end, new.end), old.free and new.free
    for op, storage in plan.storage.items():
        plan.storage[op] = find(storage)


def _allocate(tape: Tape, plan: Plan, elementwise: Callable[[Call], bool]) -> None:
    """Give each free storage a slot, the best fit among those whose content is dead."""
    free: dict[int, list[int]] = defaultdict(list)  # by size
    ends: dict[int, list[Storage]] = defaultdict(list)
    for op in tape.ops:
        storage = plan.storage.get(op)
        new = storage is not None and storage.free and storage.slot is None
        if new:
            assert storage is not None and isinstance(op, Call)
            over = _written_over(op, plan) if elementwise(op) else None
            if over is not None:
                storage.slot, over.taken = over.slot, True
            else:
                storage.slot = _take(free, plan, -(-op.val.nbytes // ALIGN) * ALIGN)
            ends[storage.end].append(storage)
        for ended in ends.pop(op.id, ()):
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
    for arg in operands(op):
        storage = plan.storage.get(arg)
        if storage is None or storage.slot is None or storage.end != op.id:
            continue
        users = [other for other in operands(op) if plan.storage.get(other) is storage]
        alike = (arg.val.shape, arg.val.dtype, arg.val.strides) == (op.val.shape, op.val.dtype, op.val.strides)
        if alike and arg.val.nbytes == storage.nbytes and all(other is arg for other in users):
            return storage
    return None
