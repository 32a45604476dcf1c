"""loops: a loop on a tape as a loop of native code.

Carried values are in registers. Values kept for the backward sweep form one row a run, in one block of memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.groups import StackedResults, Taken
from tapegrad.compile.native.arrays import is_computed, operand, part_of, stored
from tapegrad.compile.native.callbacks import call_back
from tapegrad.compile.native.elementwise import stretched
from tapegrad.compile.native.function import CARRIERS, LOWERINGS, Function
from tapegrad.compile.native.memory import apart, copy
from tapegrad.compile.native.small import required_kind
from tapegrad.compile.native.table import ROWS, VECTORS
from tapegrad.compile.native.values import (
    ELEMENTS,
    FLOATS,
    Array,
    Elements,
    Number,
    Object,
    Results,
    Rows,
    Unlowered,
    Value,
    dense,
    element_kind,
    is_few,
    is_small,
    itemsize,
    kind_of,
    number_kind,
)
from tapegrad.compile.native.vectors import vectors_of
from tapegrad.ops.loop import Loop, is_loop, range_of
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Input, Operation, operands

MOST = 1 << 12  # bytes of separate values that a loop iterates over: each is stored separately
OFTEN = 1 << 25  # scalar operations between checks for signals: a tenth of a second at most


def lower_loop(f: Function, op: Call) -> Results:
    """Emit a loop whose body is native code."""
    loop: Loop = op.fn
    steps, given, listed, carried = loop.parts()
    _, outer, sequences, firsts = loop.parted([*([None] * len(steps)), *op.args])
    tables = [step_values(f, values) for values in loop.steps]
    searched = indexed(loop)
    for x, arg in zip(given, outer):
        f.env[x] = stored(f, arg) if x in searched else bound(f, x, arg)
        if isinstance(whole := f.env.get(arg), Object):
            f.cached("object", x, partial(Object, *whole))
    rows = [kept(f, arg, x) for arg, x in zip(sequences, listed)]
    for each in loop.body.ops:
        if type(each) is Constant and is_long(each.spec):
            f.array(each)
    f.note_users(loop.body)
    long = {x: buffer(f, x, arg, op) for x, arg in zip(carried, firsts) if is_long(x.spec) or x in searched}
    short = [x for x in carried if x not in long]
    start = [registers(f, arg, x.spec) for x, arg in zip(carried, firsts) if x not in long]
    offsets, size = offsets_of(loop.results[len(carried):])
    memory = f.memory(loop.count * size)
    early = mathematics(f, loop, dict(zip(listed, rows)), given)

    def body(counter: str, now: list[str]) -> list[str]:
        if not f.depth - 1:
            listen(f, counter, loop)
        run = f.op(f"sub i64 {loop.count - 1}, {counter}") if loop.reverse else counter
        for x, table in zip(steps, tables):
            f.env[x] = table(run)
        for x, row in zip(listed, rows):
            f.env[x] = read_row(f, row, run)
        for made, table in early.items():
            kind = required_kind(made.spec)
            f.env[made] = Number(f.load(kind, f.at(table, f.times(run, itemsize(kind)))), kind)
        texts = iter(now)
        for x, array in long.items():
            f.env[x] = array
            f.adopt(x)
        for x in short:
            f.env[x] = rebuilt(x.spec, [next(texts) for _ in range(x.spec.size if x.spec.is_array else 1)])
        place = f.at(memory.name, f.times(run, size)) if size else ""
        places = [(part, f.at(place, offset)) for part, offset in zip(loop.results[len(carried):], offsets)]
        f.homes |= {part: row_of(spec_of(part), place, memory) for part, place in places if is_long(spec_of(part))}
        for each in loop.body.ops[1:]:
            if each is not loop.body.result and not isinstance(each, Input):
                written(f, each)
        for part, place in places:
            keep(f, part, place)
        found = [text for x, new in zip(carried, loop.results) if x not in long
                 for text in texts_of(registers(f, new, x.spec))]
        hand_on(f, [(long[x], operand(f, new)) for x, new in zip(carried, loop.results) if x in long])
        return found
    first = [(ELEMENTS[required_kind(x.spec)].register, text)
             for x, value in zip(short, start) for text in texts_of(value)]
    depth, runs = f.depth, f.runs
    f.depth, f.runs = depth + 1, runs * loop.count
    try:
        last = iter(f.loop(loop.count, first, body))
    finally:
        f.depth, f.runs = depth, runs
    f.gained += runs * loop.count  # each run saves an iteration of the interpreter
    for array in long.values():  # only the results own it now
        f.forget(array.owner)
    ended: dict[Any, Value] = {x: rebuilt(x.spec, [next(last) for _ in texts_of(value)])
                               for x, value in zip(short, start)}
    ends = [(long | ended)[x] for x in carried]
    kept_rows = []
    for part, offset in zip(loop.results[len(carried):], offsets):
        spec = spec_of(part)
        shape = spec.shape if spec.is_array else None
        kept_rows.append(Rows(memory.name, size, offset, shape, required_kind(spec), memory))
    return Results((*ends, *kept_rows))


def written(f: Function, op: Operation) -> None:
    """Emit an operation of a loop's body; as a call into Python if it has no native code."""
    try:
        f.operation(op)
    except Unlowered:
        call_back(f, op)


def mathematics(f: Function, loop: Loop, rows: dict[Input, Rows], given: Sequence[Input]) -> dict[Operation, str]:
    """Compute mathematical functions that do not depend on carried values before the loop, vectorised over runs; return
    the addresses of their tables.
    """
    free: set[Operation] = {x for x, row in rows.items() if row.shape is None and row.kind in FLOATS}
    free |= {x for x in given if number_kind(x.spec) in FLOATS}
    heavy, needed = list[Call](), list[Call]()
    for op in loop.body.ops:
        if type(op) is Call and op.fn in ROWS and number_kind(op.spec) in FLOATS \
                and op.fn not in (ops.divide, ops.pow) and free.issuperset(operands(op)) \
                and not free.isdisjoint(operands(op)):
            free.add(op)
            needed.append(op)
            if op.fn.__name__ in VECTORS:
                heavy.append(op)
    lanes = f.target.lanes._replace(batch=True)
    if not heavy or not lanes.library or loop.count < 2 * lanes.width or f.lanes.batch:
        return {}
    v = vectors_of(f, lanes)
    tables: dict[Operation, str] = {op: f.memory(itemsize(required_kind(op.spec)) * loop.count).name for op in heavy}
    spread: dict[Operation, str] = {x: v.splat(f.number(x).ir, required_kind(x.spec)) for x in given if x in free}
    outside: dict[Operation, Value] = {x: f.env[x] for x in spread}

    def some(k: str, count: int) -> None:
        with f.computing(lanes):
            for x, row in rows.items():
                if x in free:
                    at = f.at(f.at(row.base, f.times(k, row.step)), row.offset)
                    f.env[x] = Number(v.load(row.kind, at, row.step, count), row.kind)
            for call in needed:
                f.lower(call)
            for op, table in tables.items():
                found, step = f.env[op], itemsize(required_kind(op.spec))
                assert isinstance(found, Number)
                v.store(found.kind, f.at(table, f.times(k, step)), step, found.ir, count)
    for x, text in spread.items():
        f.env[x] = Number(text, required_kind(x.spec))
    v.each(loop.count, some)
    for each in (*needed, *rows):
        f.env.pop(each, None)
    f.env.update(outside)
    return tables


def listen(f: Function, counter: str, loop: Loop) -> None:
    """Bail out of a long loop if a signal has arrived, such as Ctrl-C; checked about ten times a second."""
    work = sum(max(op.spec.size, 1) * (op.fn.count if is_loop(op) else 1)
               for op in loop.body.ops if isinstance(op, Call))
    if loop.count * work < OFTEN or not f.signals:
        return
    every = 1 << max(int(math.log2(max(OFTEN / work, 1))), 0)
    ask, go_on = f.fresh("ask"), f.fresh("ok")
    due = f.op(f"icmp eq i64 0, {f.op(f'and i64 {counter}, {every - 1}')}")
    f.put(f"br i1 {due}, label {ask}, label {go_on}")
    f.begin(ask)
    quiet = f.op(f"icmp eq i32 0, {f.op('call i32 @PyErr_CheckSignals()')}")
    f.put(f"br i1 {quiet}, label {go_on}, label %no")
    f.begin(go_on)


def indexed(loop: Loop) -> set[Operation]:
    """Return the arrays that a loop reads or writes at computed indices: they must be in memory."""
    found: set[Operation] = set()
    for op in reversed(loop.body.ops):
        if op.fn in (ops.getitem, ops.setitem) and isinstance(op.args[0], Operation) and (
                op in found or any(map(is_computed, op.args[1 + (op.fn is ops.setitem):]))):
            found.add(op.args[0])
    return {x for x in found if type(x) is Input and x.spec.is_array}


def step_values(f: Function, values: Sequence[Any]) -> Any:
    """Return a function from the run to its step value: a constant, a counter, or an entry of a table."""
    kind = number_kind(spec_of(values[0]))
    if kind not in ("f", "i") or any(type(x) is not type(values[0]) for x in values) or (
            kind == "i" and max(map(abs, values)) > 1 << 53):
        raise Unlowered("a loop's steps of unsupported types")
    steps = range_of(values)
    if steps is not None:
        def counted(run: str) -> Number:
            text = f.plus(f.times(run, steps.step), str(steps.start))
            f.ranges[text] = min(steps), max(steps)
            return Number(text, "i")
        return counted
    table = f.constants(kind, values)
    return lambda run: Number(f.load(kind, f.at(table, f.times(run, 8))), kind)


def bound(f: Function, x: Input, arg: Any) -> Value:
    """Return the native value of an input that is the same for all runs."""
    if number_kind(spec_of(arg)):
        return f.number(arg)
    return f.elements(arg) if is_small(spec_of(arg)) else f.array(arg)


def kept(f: Function, arg: Any, x: Operation) -> Rows:
    """Return a loop's input sequence as rows: those kept by another loop, or separate values stored in memory."""
    if isinstance(arg, Operation) and arg.fn is ops.pack and arg in f.pending and len(f.users[arg]) == 1:
        parts, (shape, kind) = arg.args, (x.spec.shape if x.spec.is_array else None, required_kind(x.spec))
        if any(spec_of(part).is_array != x.spec.is_array or spec_of(part).shape != x.spec.shape
               or kind_of(spec_of(part)) != kind for part in parts):
            raise Unlowered("values of several dtypes")
        _, step = offsets_of([x])
        if all(type(part) is Constant for part in parts):
            table = np.zeros((len(parts), step // itemsize(kind)), ELEMENTS[kind].dtype)
            table[:, :x.spec.size if x.spec.is_array else 1] = [np.ravel(part.val) for part in parts]
            f.fetch(arg)
            return Rows(f.table(table).data, step, 0, shape, kind, None)
        if len(parts) * step > MOST:
            return gathered(f, f.boxed(arg), len(parts), shape, kind)
        memory = f.memory(len(parts) * step)
        for number, part in enumerate(parts):
            keep(f, part, f.at(memory.name, number * step))
        f.fetch(arg)
        return Rows(memory.name, step, 0, shape, kind, memory)
    found = f.value(arg)
    if isinstance(found, Object) and not f.depth:
        return gathered(f, found, len(spec_of(arg).parts), x.spec.shape if x.spec.is_array else None,
                        required_kind(x.spec))
    if not isinstance(found, Rows):
        raise Unlowered("a Python sequence")
    return found


def gathered(f: Function, x: Object, count: int, shape: tuple[int, ...] | None, kind: str) -> Rows:
    """Return the items of a Python tuple as rows of an array."""
    lies = f.opened(f.invoked(np.array, [x.ir]), (count, *(shape or ())), kind)
    return Rows(lies.data, lies.strides[0], 0, shape, kind, lies.owner)


def registers(f: Function, arg: Any, x: Spec) -> Number | Elements:
    """Return a value in registers, broadcast and converted to a spec."""
    kind, found = required_kind(x), f.elements(arg)
    texts = stretched(found, x.shape if x.is_array else found.shape)
    if found.kind != kind and kind not in FLOATS:
        raise Unlowered("a value whose dtype changes in the loop")
    texts = [f.convert(text, found.kind, kind) for text in texts]
    return rebuilt(x, texts)


def rebuilt(x: Spec, texts: Sequence[str]) -> Number | Elements:
    """Return the value of a spec that consists of these registers."""
    return Elements(tuple(texts), x.shape, required_kind(x)) if x.is_array else Number(texts[0], required_kind(x))


def texts_of(x: Number | Elements) -> Sequence[str]:
    """Return the registers of a value."""
    return x.parts if isinstance(x, Elements) else [x.ir]


def offsets_of(parts: Sequence[Any]) -> tuple[list[int], int]:
    """Return the offset of each kept value in a row, and the size of a row, in bytes."""
    offsets, size = [], 0
    for part in parts:
        offsets.append(size)
        nbytes = itemsize(required_kind(spec_of(part))) * (spec_of(part).size if spec_of(part).is_array else 1)
        size += -(-nbytes // 8) * 8
    return offsets, size


def is_long(x: Spec) -> bool:
    """Return whether an array is carried or kept in memory."""
    return element_kind(x) is not None and not is_small(x)


def buffer(f: Function, x: Input, arg: Any, loop: Call) -> Array:
    """Return memory for a carried array, with its initial value: the value's own memory if nothing else needs it."""
    first = stored(f, arg)
    if first.strides == dense(x.spec.shape, x.spec.itemsize) and first.kind == required_kind(x.spec) \
            and isinstance(arg, Operation) and f.is_last(loop, arg, first) \
            and sum(getattr(f.env.get(y), "owner", None) is first.owner for y in operands(loop)) == 1:
        f.forget(first.owner)
        return first
    block = f.memory(x.spec.nbytes)
    found = Array(block.name, x.spec.shape, dense(x.spec.shape, x.spec.itemsize), block, required_kind(x.spec))
    copy(f, found, first)
    return found


def hand_on(f: Function, pairs: Sequence[tuple[Array, Any]]) -> None:
    """Store the carried arrays for the next run, through a copy if one overwrites the memory of another's new value."""
    moved = [(to, new) for to, new in pairs
             if not isinstance(new, Array) or new.data != to.data or new.strides != to.strides]
    taken = [to.owner for to, _ in moved]
    for number, (to, new) in enumerate(moved):
        if isinstance(new, Array) and any(new.owner is owner for owner in taken):
            moved[number] = to, apart(f, new)
    for to, new in moved:
        copy(f, to, new)


def row_of(x: Spec, place: str, owner: Any) -> Array:
    """Return the memory in a row for an array that is kept there."""
    return Array(place, x.shape, dense(x.shape, x.itemsize), owner, required_kind(x))


def keep(f: Function, part: Any, place: str) -> None:
    """Store a value in a row, unless it was computed there."""
    spec = spec_of(part)
    if is_long(spec):
        new = f.array(part)
        if new.data != place:
            copy(f, row_of(spec, place, None), new)
        return
    x = registers(f, part, spec)
    for number, text in enumerate(texts_of(x)):
        f.store(x.kind, text, f.at(place, itemsize(x.kind) * number))


def read_row(f: Function, row: Rows, run: str) -> Value:
    """Load a run's value."""
    place = f.at(f.at(row.base, f.times(run, row.step)), row.offset)
    if row.shape is not None and not is_few(row.shape):
        return Array(place, row.shape, dense(row.shape, itemsize(row.kind)), row.owner, row.kind)
    texts = [f.load(row.kind, f.at(place, itemsize(row.kind) * number)) for number in range(math.prod(row.shape or ()))]
    return Number(texts[0], row.kind) if row.shape is None else Elements(tuple(texts), row.shape, row.kind)


def lower_getfield(f: Function, op: Call) -> Value:
    """Return one result of a loop."""
    x, key = op.args
    if not isinstance(x, Operation) or x in f.pending or type(key) is not int or not isinstance(
            found := f.value(x), (Rows, Results)):
        raise Unlowered("a Python tuple")
    if isinstance(found, Results):
        alone = sum(user.args == op.args for user in f.users.get(x, ())) == 1
        if alone and isinstance(found.parts[key], Array) and is_loop(x) and op not in f.plan.objects:
            f.adopt(op)
        return found.parts[key]  # type: ignore[no-any-return]
    return read_row(f, found, str(key % len(x.spec.parts)))


def lower_collected(f: Function, op: Call) -> Value:
    """Emit an array of all values that a loop has kept in its rows, between other values."""
    whole, *others = op.args
    rows = f.value(whole)
    if not isinstance(rows, Rows) or rows.kind != element_kind(op.spec):
        raise Unlowered("a Python tuple")
    made, before, count = f.place(op), op.fn.before, op.fn.count
    shape, step = rows.shape or (), made.strides[0]
    inner = dense(shape, itemsize(rows.kind))
    copy(f, Array(f.at(made.data, step * before), (count, *shape), made.strides, made.owner, made.kind),
         Array(f.at(rows.base, rows.offset), (count, *shape), (rows.step, *inner), rows.owner, rows.kind))
    for k, x in enumerate(others):
        copy(f, part_of(f, made, (k if k < before else k + count,)), operand(f, x))
    return f.loaded(made) if is_small(op.spec) else made


def lower_taken(f: Function, op: Call) -> Value:
    """Return rows of an array, as a loop's input sequence, by address."""
    x = stored(f, op.args[0])
    if x.strides[1:] != dense(x.shape[1:], itemsize(x.kind)):
        raise Unlowered("rows that are not contiguous")
    return Rows(x.data, x.strides[0], op.fn.start * x.strides[0], x.shape[1:] or None, x.kind, x.owner)


CARRIERS[Loop] = lower_loop
CARRIERS[StackedResults], CARRIERS[Taken] = lower_collected, lower_taken
LOWERINGS[ops.getfield] = lower_getfield
