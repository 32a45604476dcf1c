"""batches: a group of calls on long arrays as one loop over their rows, several rows at a time.

The code is written for one row, but each register is a vector that holds one value for each of several rows, as many as
fit the processor's vectors. The remaining rows at the end run the same code once more, with the last row repeated;
stores and sums mask the repetitions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad import ops
from tapegrad.compile.groups import Batch, Members, collected, grouped_by
from tapegrad.compile.native import stencils
from tapegrad.compile.native.arrays import in_memory
from tapegrad.compile.native.emit import ONE
from tapegrad.compile.native.function import CARRIERS, Function
from tapegrad.compile.native.memory import fill, place
from tapegrad.compile.native.reductions import folded, identity
from tapegrad.compile.native.rows import Form, Shape, form, is_view, lead_of, row_spec
from tapegrad.compile.native.small import over, required_kind
from tapegrad.compile.native.table import JOINS, ROWS, require_all
from tapegrad.compile.native.values import (
    INEXACT,
    Array,
    Elements,
    Number,
    Results,
    Unlowered,
    Value,
    element_kind,
    number_kind,
)
from tapegrad.compile.native.vectors import Operand, collapsed, vectors_of
from tapegrad.ops.loop import is_loop
from tapegrad.rules.op import Op
from tapegrad.tape.spec import absent, spec_of
from tapegrad.tape.tape import Call, Input, Operation, Tape, operands
from tapegrad.transforms.walk import copy_tape

CHUNK = 1024  # length of the partial sums: one long running sum would lose digits
FOLDS = {fn.__name__: fn for fn in JOINS}


def grouped(tape: Tape) -> Tape:
    """Return a tape on which calls on long arrays, also inside loops, are grouped into batches."""
    new = collected(grouped_by(tape, members(tape)))
    if any(map(is_loop, new.ops)):
        new = copy_tape(new) if new is tape else new
        loops: list[Any] = list(filter(is_loop, new.ops))
        for op in loops:
            body = grouped(op.fn.body)
            op.fn = op.fn if body is op.fn.body else op.fn.with_body(body)
    return new


def members(tape: Tape) -> Members:
    """Return the calls that can run in loops over batches; views of arrays in memory are excluded."""
    forms: dict[Operation, Form] = {}
    shapes: dict[Operation, Shape] = {}
    for op in tape.ops:
        found = form(op)
        if found is not None and not (is_view(op) and not any(x in forms for x in found[1].along)):
            shapes[op], forms[op] = found
    return Members(shapes, lambda arg, op: op in forms and not forms[arg].sink and shapes[op] == shapes[arg]
                   and arg in forms[op].along, lambda op: forms[op].fn is not ops.matmul or bool(forms[op].sink))


# -- one loop


class Sink(NamedTuple):
    """A reduction over the batch: its call and its form, which says how rows are combined."""

    op: Call
    form: Form


def lower_batch(f: Function, op: Call) -> Value:
    """Emit the loop of a group."""
    if f.lanes.batch:
        raise Unlowered("a batch of batches")
    return BatchLoop(f, op).write()


class BatchLoop:
    def __init__(self, f: Function, op: Call) -> None:
        self.f, self.op, self.group = f, op, op.fn
        self.calls: list[Any] = self.group.calls
        found = [form(call) for call in self.calls]
        if any(each is None for each in found):
            raise Unlowered("a call that does not work row by row")
        self.batch: Shape = found[0][0]  # type: ignore[index]
        self.forms: dict[Operation, Form] = {call: each[1] for call, each in zip(self.calls, found) if each}
        given = [x.spec for x in (*self.group.inputs, *self.calls) if x.spec.is_array]
        kinds = [kind for x in (*given, *(each.spec for each in self.forms.values())) if (
            kind := element_kind(x) or number_kind(x)) is not None]
        self.lanes = f.target.lanes.wide(kinds)._replace(batch=True)
        self.v = vectors_of(f, self.lanes)
        self.rows: dict[Operation, Operation] = {}  # the call for one row, by operation
        self.given: dict[tuple[Operation, int], Operation] = {}  # the input for one row, by argument and row rank
        self.users = f.users.get(op, [])

    def write(self) -> Value:
        """Emit the loop and return the values of the group's results."""
        f = self.f
        self.read_arguments()
        outs: list[tuple[Operation, Operand]] = []
        given: list[Any] = []
        self.sinks: list[Sink] = []
        self.stencils = self.find_stencils()
        added = {number for stencil in self.stencils for number, _ in stencil.shifts}
        for number, result in enumerate(self.group.results):
            shape = self.forms[result].spec.shape
            if self.forms[result].sink:
                self.sinks.append(Sink(result, self.forms[result]))
                given.append(None)
            elif number in added:
                given.append(None)
            else:
                made = place(f, self.target(number))
                outs.append((result, Operand.of(made, self.batch, len(shape))))
                given.append(made)
        self.outs = outs
        self.scattered = self.prepare_scatters()
        totals = self.nest()
        stencils.finish(f, self.v, self.stencils, self.batch[-1], totals[len(totals) - self.shifted:])
        for sink in self.sinks:
            number = self.group.results.index(sink.op)
            given[number] = self.scattered[sink.op][0] if sink.form.sink == "scatter" else self.total(sink, totals)
        return given[0] if self.group.single else Results(tuple(given))

    def find_stencils(self) -> list[stencils.Stencil]:
        """Return the scatters that the loop computes instead of their pieces."""
        if len(self.batch) != 1:
            return []
        targets = [None if self.forms[result].sink or self.forms[result].spec.shape else self.target(number)
                   for number, result in enumerate(self.group.results)]
        return stencils.find(self.f, targets, self.batch[0], self.v)

    def target(self, number: int) -> Operation:
        """Return the operation whose value a result is."""
        if self.group.single:
            return self.op
        for user in self.users:
            if ops.whole_of(user) is self.op and user.args[1] == number:
                return user
        raise Unlowered("an unused result")

    def read_arguments(self) -> None:
        """Find the rows of arguments in memory, and load arguments that are the same for all rows into registers."""
        f = self.f
        self.loads: list[tuple[Operation, Operand, Shape]] = []
        self.uniform: list[tuple[Operation, Value]] = []
        self.tables: dict[Operation, Array] = {}  # arrays whose rows are gathered by index
        ways = dict.fromkeys((x, self.rank_of(x, call, self.forms[call]))
                             for call in self.calls for x in operands(call) if isinstance(x, Input))
        values = dict(zip(self.group.inputs, self.op.args))
        for x, rank in ways:
            self.read_argument(f, x, values[x], rank)

    def rank_of(self, x: Operation, call: Call, each: Form) -> int:
        """Return how many axes of an argument belong to a row, -1 if its rows are gathered by index."""
        ndim = x.spec.ndim
        if each.fn is ops.getitem and x is call.args[0] and x not in each.along:
            return -1
        if x in each.along:
            return ndim - len(self.batch)
        return min(ndim, len(each.spec.shape)) if call.fn in ROWS or call.fn is ops.astype else ndim

    def read_argument(self, f: Function, x: Operation, arg: Any, rank: int) -> None:
        row = Input(absent(x.spec if rank < 0 else row_spec(x.spec, lead_of(x, rank)[1])), "")
        self.given[x, rank] = row
        if number_kind(spec_of(arg)) is not None:
            self.uniform.append((row, f.number(arg)))
            return
        if rank == -1:
            self.tables[row] = f.array(arg)
            return
        found = f.value(arg)
        if isinstance(found, Elements):
            lead, _ = lead_of(x, rank)
            if math.prod(lead) == 1:
                inner = found.shape[len(lead):]
                self.uniform.append((row, Elements(found.parts, inner, found.kind) if inner
                                     else Number(found.parts[0], found.kind)))
                return
            array = in_memory(f, found)
        else:
            array = f.array(arg)
        self.loads.append((row, Operand.of(array, self.batch, rank), array.shape[len(array.shape) - rank:]))

    def prepare_scatters(self) -> dict[Operation, tuple[Array, Operand]]:
        """Fill the arrays to which rows are added with zeros."""
        f, found = self.f, {}
        for number, result in enumerate(self.group.results):
            if self.forms[result].sink == "scatter":
                made = f.place(self.target(number))
                fill(f, made)
                cut = len(result.args) - 1
                found[result] = made, Operand.of(made, made.shape[:cut], len(made.shape) - cut)
        return found

    # -- the nest of loops

    def nest(self) -> list[str]:
        """Emit loops over the axes of the batch; return the accumulators of the sinks."""
        operands_ = [load for _, load, _ in self.loads] + [out for _, out in self.outs] + [
            stencil.out for stencil in self.stencils]
        shape, strides = collapsed(self.batch, [x.strides for x in operands_])
        self.steps = [steps[-1] for steps in strides]
        first = [(self.lanes.type(required_kind(sink.form.spec)), text)
                 for sink in self.sinks for text in self.begin(sink)]
        shifted = stencils.zeros(self.v, self.stencils)
        self.shifted, first = len(shifted), first + shifted
        pointers = [x.data for x in operands_]
        for row, value in self.uniform:
            self.f.env[row] = self.spread(value)
        return self.axis(0, shape, strides, pointers, first)

    def begin(self, sink: Sink) -> list[str]:
        """Return the initial accumulators of a sink: two for each element of an inexact sum, the sum and its rounding
        error.
        """
        if sink.form.sink == "scatter":
            return []
        return [self.start(sink)] * (size_of(sink.form) * (2 if loses(sink) else 1))

    def start(self, sink: Sink) -> str:
        """Return the initial value of a sink's accumulators."""
        kind = required_kind(sink.form.spec)
        return self.lanes.constant(identity(FOLDS[sink.form.sink], kind), kind)

    def axis(self, level: int, shape: Sequence[int], strides: Sequence[Sequence[int]], pointers: list[str],
             carried: list[tuple[str, str]]) -> list[str]:
        f, n = self.f, shape[level]
        if level + 1 < len(shape):
            return f.loop(n, carried, lambda k, now: self.axis(
                level + 1, shape, strides, [f.at(p, f.times(k, step[level])) if step[level] else p
                                            for p, step in zip(pointers, strides)],
                [(kind, text) for (kind, _), text in zip(carried, now)]))
        if len(carried) == self.shifted or n <= 2 * CHUNK:
            return self.chunk(pointers, n, carried)
        whole, rest = divmod(n, CHUNK)
        now = f.loop(whole, carried, lambda k, now: self.chunk(
            [f.at(p, f.times(k, CHUNK * step)) if step else p for p, step in zip(pointers, self.steps)], CHUNK,
            [(kind, text) for (kind, _), text in zip(carried, now)]))
        if rest:
            now = self.chunk([f.at(p, whole * CHUNK * step) for p, step in zip(pointers, self.steps)], rest,
                             [(kind, text) for (kind, _), text in zip(carried, now)])
        return now

    def chunk(self, pointers: list[str], n: int, carried: list[tuple[str, str]]) -> list[str]:
        """Emit the innermost loop, and add its sums to the accumulators."""
        f, width = self.f, self.lanes.width
        start = [(self.lanes.type(required_kind(sink.form.spec)), self.start(sink)) for sink in self.sinks
                 if sink.form.sink != "scatter" for _ in range(size_of(sink.form))]
        start += carried[len(carried) - self.shifted:]
        still = {at: [self.v.load_one(x.kind, f.at(p, place)) for place in x.places]
                 for at, ((_, x, _), p) in enumerate(zip(self.loads, pointers)) if not self.steps[at]}
        whole = n // width * width
        now = [text for _, text in start]
        if whole:
            now = f.loop(whole, start, lambda k, now: self.row(pointers, still, k, now, width), width)
        if n % width:
            now = self.row(pointers, still, str(whole), now, n % width)
        with f.computing(self.lanes):
            merged = self.merged(now, [text for _, text in carried])
        return merged + now[len(now) - self.shifted:]

    def merged(self, made: Sequence[str], before: Sequence[str]) -> list[str]:
        """Combine the accumulators of a chunk with those of the chunks before."""
        found, at, place = list[str](), 0, 0
        for sink in self.sinks:
            if sink.form.sink == "scatter":
                continue
            for _ in range(size_of(sink.form)):
                if loses(sink):
                    found += self.two_sum(required_kind(sink.form.spec), before[at], made[place], before[at + 1])
                else:
                    found.append(self.joined(sink, before[at], made[place]))
                at += 2 if loses(sink) else 1
                place += 1
        return found

    def two_sum(self, kind: str, a: str, b: str, lost: str) -> list[str]:
        """Return the sum of two numbers and the accumulated rounding error, by Knuth's TwoSum."""
        def write(fn: Op, x: str, y: str) -> str:
            return ROWS[fn].write(self.f, [x, y], kind)
        whole = write(ops.add, a, b)
        of_b = write(ops.subtract, whole, a)
        of_a = write(ops.subtract, whole, of_b)
        left = write(ops.add, write(ops.subtract, a, of_a), write(ops.subtract, b, of_b))
        return [whole, write(ops.add, lost, left)]

    def joined(self, sink: Sink, a: str, b: str) -> str:
        return folded(self.f, FOLDS[sink.form.sink], required_kind(sink.form.spec))(a, b)

    # -- one vector of rows

    def row(self, pointers: list[str], still: dict[int, list[str]], k: str, now: Sequence[str],
            count: int) -> list[str]:
        """Emit the calls for `count` rows from row k on; return the updated accumulators."""
        f = self.f
        with f.computing(self.lanes):
            for at, (row, x, shape) in enumerate(self.loads):
                texts = still.get(at) or [self.v.load(x.kind, self.element(pointers[at], place, k, self.steps[at]),
                                                      self.steps[at], count) for place in x.places]
                f.env[row] = Elements(tuple(texts), shape, x.kind) if shape else Number(texts[0], x.kind)
            for call in self.calls:
                self.call(call, self.forms[call], count)
            for (result, out), pointer, step in zip(self.outs, pointers[len(self.loads):],
                                                    self.steps[len(self.loads):]):
                for place, text in zip(out.places, self.texts(result)):
                    self.v.store(out.kind, self.element(pointer, place, k, step), step, text, count)
            added = stencils.add(
                f, self.v, self.stencils, [self.element(pointer, 0, k, step) for pointer, step in zip(
                    pointers[len(self.loads) + len(self.outs):], self.steps[len(self.loads) + len(self.outs):])],
                now[len(now) - self.shifted:], lambda number: self.texts(self.group.results[number])[0], count)
            return self.summed(now, count) + added

    def element(self, pointer: str, place: int, k: str, step: int) -> str:
        """Return the address of an element of row k."""
        return self.f.at(self.f.at(pointer, place), self.f.times(k, step))

    def call(self, call: Call, each: Form, count: int) -> None:
        args = tuple([self.row_of(x, call, each) if isinstance(x, Operation) else x for x in each.args])
        row = Call(each.fn, args, each.kwargs, absent(each.spec))
        self.rows[call] = row
        if each.fn is ops.getitem and args[0] in self.tables:
            self.f.env[row] = self.picked(args[0], args[1:])
        else:
            self.f.lower(row)

    def row_of(self, x: Operation, call: Call, each: Form) -> Operation:
        """Return the operation that replaces an argument of a call in the code for one row."""
        return self.given[x, self.rank_of(x, call, each)] if isinstance(x, Input) else self.rows[x]

    def texts(self, result: Operation) -> Sequence[str]:
        value = self.f.env[self.rows[result]]
        return value.parts if isinstance(value, Elements) else [value.ir]  # type: ignore[union-attr]

    def summed(self, now: Sequence[str], count: int) -> list[str]:
        f, found, at = self.f, list[str](), 0
        for sink in self.sinks:
            if sink.form.sink == "scatter":
                self.scatter(sink, count)
                continue
            value = f.env[self.rows[sink.op]]
            kind = required_kind(sink.form.spec)
            for text in self.texts(sink.op):
                text = f.convert(text, value.kind, kind)  # type: ignore[union-attr]
                if count < self.lanes.width:
                    text = f.select(self.v.mask(count), kind, text, self.start(sink))
                found.append(self.joined(sink, now[at], text))
                at += 1
        return found

    def spread(self, value: Value) -> Value:
        """Return a value that is the same for all rows, as vectors."""
        if isinstance(value, Elements):
            return Elements(tuple([self.v.splat(text, value.kind) for text in value.parts]), value.shape, value.kind)
        assert isinstance(value, Number)
        return Number(self.v.splat(value.ir, value.kind), value.kind)

    # -- rows gathered by index

    def places(self, number: str, n: int) -> str:
        """Return row indices as nonnegative ones; bail out if one is out of range."""
        f, t = self.f, self.lanes.type("i")
        from_end = f.op(f"add {t} {number}, {self.lanes.constant(n, 'i')}")
        below = f.op(f"icmp slt {t} {number}, zeroinitializer")
        place = f.op(f"select {self.lanes.type('b')} {below}, {t} {from_end}, {t} {number}")
        fits = f.op(f"icmp ult {t} {place}, {self.lanes.constant(n, 'i')}")
        require_all(f, fits)
        return place

    def offset(self, index: Sequence[Operation], x: Array) -> str:
        """Return the byte offsets of rows that are indexed along the first axes of a table."""
        f, t, found = self.f, self.lanes.type("i"), ""
        for part, n, step in zip(index, x.shape, x.strides):
            number: Any = f.env[part]
            along = f.op(f"mul {t} {self.places(number.ir, n)}, {self.lanes.constant(step, 'i')}")
            found = f.op(f"add {t} {found}, {along}") if found else along
        return found

    def picked(self, table: Operation, index: Sequence[Operation]) -> Value:
        """Gather rows of a table by index."""
        x = self.tables[table]
        rows = self.v.rows(x.data, self.offset(index, x))
        cut = len(index)
        inner = Operand.of(x, x.shape[:cut], len(x.shape) - cut)
        texts = []
        for at in inner.places:
            texts.append(self.v.gather(self.v.behind(rows, at), x.kind))
        return Elements(tuple(texts), x.shape[cut:], x.kind) if x.shape[cut:] else Number(texts[0], x.kind)

    def scatter(self, sink: Sink, count: int) -> None:
        """Add rows at indexed positions, one after the other, since two may have the same index."""
        f = self.f
        made, out = self.scattered[sink.op]
        index = [self.row_of(x, sink.op, sink.form) for x in sink.op.args[1:]]
        offset = self.offset(index, made)
        for lane in range(count):
            at = f.at(made.data, self.v.lane(offset, "i", lane))
            for where, text in zip(out.places, self.texts(sink.op)):
                pointer = f.at(at, where)
                with f.computing(ONE):
                    piece = self.v.lane(text, made.kind, lane)
                    now = ROWS[ops.add].write(f, [f.load(made.kind, pointer), piece], made.kind)
                    f.store(made.kind, now, pointer)

    def total(self, sink: Sink, totals: Sequence[str]) -> Value:
        """Combine the lanes of a sink's accumulators."""
        f, at, kind = self.f, 0, required_kind(sink.form.spec)
        for other in self.sinks:
            if other is sink:
                break
            at += len(self.begin(other))
        found = []
        for _ in range(size_of(sink.form)):
            text = totals[at]
            if loses(sink):
                with f.computing(self.lanes):
                    text = self.joined(sink, text, totals[at + 1])
            at += 2 if loses(sink) else 1
            text = self.v.total(text, kind, lambda a, b: self.joined(sink, a, b))
            if sink.op.fn is ops.mean:
                text = over(f, text, math.prod(spec_of(sink.op.args[0]).shape) // max(size_of(sink.form), 1), kind)
            found.append(text)
        y = sink.op.spec
        return Elements(tuple(found), y.shape, kind) if y.is_array else Number(found[0], kind)


def loses(sink: Sink) -> bool:
    """Return whether a sink is a sum with compensation for rounding errors."""
    return sink.form.sink == "sum" and required_kind(sink.form.spec) in INEXACT


def size_of(each: Form) -> int:
    """Return the number of elements of a row."""
    return math.prod(each.spec.shape)


CARRIERS[Batch] = lower_batch
