"""entry: the native function of a tape: argument checks, operations, and results.

Its `self` is the tuple of the objects that the code uses; the first is the fallback, the straight-line function that is
called if native code bails out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tapegrad.compile.native.arrays
import tapegrad.compile.native.batches
import tapegrad.compile.native.loops
import tapegrad.compile.native.memory
import tapegrad.compile.native.products
import tapegrad.compile.native.scans
import tapegrad.compile.native.small  # noqa: F401  (each fills the table of lowerings)
from tapegrad import ops
from tapegrad.compile.argument_source import FromAttributes, Nest, Nested, nest_of_result
from tapegrad.compile.groups import ungrouped
from tapegrad.compile.native.arguments import Arguments, shows_its_dict
from tapegrad.compile.native.draws import DrawFunction, Rest, held, raises, set_back
from tapegrad.compile.native.function import Function
from tapegrad.compile.native.guards import Guards
from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.native.machine import Code, machine, python_function
from tapegrad.compile.native.plan import ALIGN, Plan, Refused
from tapegrad.compile.native.prelude import OWN, PYTHON, TROUBLE, UNDERFLOW
from tapegrad.compile.native.values import Array, Elements, Number, Object, number_kind
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.numbers.cotangents import conform
from tapegrad.optimise.early_draws import early
from tapegrad.replay.random_state import sources_of
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Input, Operation, Tape
from tapegrad.tree.attributes import HEAP
from tapegrad.tree.signature import ValueAndGradients

STACK = 1 << 14  # bytes of a function's memory that lie on the stack, at most

LEFT = object()
"""The value that a function without fallback returns when native code bails out."""


class NotWorthwhile(Exception):
    """More calls of a tape would stay in Python than become machine code."""


class Entry:
    """Emits the function of one tape; it checks the `guards` first, if there are any."""

    def __init__(self, tape: Tape, plan: Plan, guards: Guards | None) -> None:
        self.tape, self.guards, self.f = tape, guards, Function(tape, plan, machine().target)
        self.f.objects.place(object())  # placeholder for the fallback
        self.f.objects.place(LEFT)
        self.f.objects.place(Exception)  # see `tapegrad_leave`
        self.undo: tuple[Any, Any] | None = None  # see `draw` and `hold`
        self.returned: set[Operation] = set()  # new arrays already returned once, which need a copy if returned again
        self.write()

    def write(self) -> None:
        f, leaves = self.f, self.tape.inputs[1:]
        f.put("call void @tapegrad_quiet()")
        if self.guards is not None:
            table = f.op(f"load ptr, ptr {f.at(f.object(self.guards.table), LAYOUT.data)}")
            f.require(f.op(f"call i1 @tapegrad_fresh(ptr {table}, ptr {f.object(self.guards.ask)})"))
        f.env[self.tape.inputs[0]] = Object(f.object(None), None)
        arguments = Arguments(f, self.tape)
        for number, x in enumerate(leaves):
            self.leaf(x, arguments.found[number], arguments)
        arguments.compare()
        drawn = early(self.tape, raises)
        if not drawn:
            self.hold()
        parts, into = ops.unpacked(self.tape.result)
        for op in self.tape.ops:
            if drawn and op is drawn[0]:
                self.draw(drawn)
            if (op is not self.tape.result or into is None) and op not in drawn:
                f.operation(op)
        f.compute()
        if f.pending:  # guards too, which have no users
            f.flush()
        inputs = [None, *leaves] if isinstance(into, ValueAndGradients) else [None] * len(parts)
        made = [self.part(part, x) for part, x in zip(parts, inputs)]
        told = f.op("call i32 @tapegrad_flags()")
        f.require(f.op(f"icmp eq i32 0, {f.op(f'and i32 {told}, {TROUBLE}')}"))
        self.underflow(f.op(f"or i32 {told}, {f.op('load i32, ptr %lost')}"))
        answer = self.nested(0 if into is None else nest_of_result(into, len(parts)), made)
        f.put(f"call void @Py_IncRef(ptr {answer})")
        f.put("call void @tapegrad_put_away(ptr %heap)")
        f.put(f"call void @tapegrad_release(ptr %slots, i64 {f.slots})")
        f.put(f"ret ptr {answer}")

    def draw(self, draws: Sequence[Operation]) -> None:
        """Emit all draws. `undo` becomes the slot of their results and the object that continues after bailing out."""
        f = self.f
        if f.pending:  # a guard must fail before anything is drawn
            f.flush()
        for op in draws:
            f.put_off(op)
        found, made = f.flush(partial(DrawFunction, sources=sources_of(self.tape)))
        self.undo = found.owner, Rest(self.tape, draws, made)

    def hold(self) -> None:
        """Save the states of the generators drawn from. `undo` becomes their slot and their restoring function."""
        f, sources = self.f, sources_of(self.tape)
        if sources:
            found = f.invoked(held, [f.boxed(x).ir if isinstance(x, Operation) else f.object(x) for x in sources])
            self.undo = found.owner, set_back

    def underflow(self, told: str) -> None:
        """On underflow, check in Python that NumPy ignores it."""
        f = self.f
        small, go_on = f.fresh("small"), f.fresh("ok")
        none = f.op(f"icmp eq i32 0, {f.op(f'and i32 {told}, {UNDERFLOW}')}")
        f.put(f"br i1 {none}, label {go_on}, label {small}")
        f.begin(small)
        found = f.held(f.op(f"call ptr @PyObject_CallNoArgs(ptr {f.object(ignores_underflow)})"))
        f.require(f.op(f"icmp eq ptr {found.ir}, {f.object(True)}"))
        f.put(f"br label {go_on}")
        f.begin(go_on)

    def leaf(self, x: Input, pointer: str, arguments: Arguments) -> None:
        """Check the type of an argument, and bind its value."""
        f, kind = self.f, type(x.val) if not hasattr(x.val, "spec") else x.spec.type
        if x.spec.is_array:
            f.check_array(pointer, x.spec.dtype, x.spec.shape)
            self.check_layout(pointer, x)
        elif number_kind(x.spec) is not None:
            f.env[x] = f.unboxed(pointer, kind)
            if pointer in arguments.direct:
                f.cache["object", x] = Object(pointer, None)
            return
        else:
            f.require_type(pointer, kind)
        arguments.hold(pointer)
        f.env[x] = Object(pointer, None)

    def check_layout(self, pointer: str, x: Input) -> None:
        """Bail out unless an array of several axes has the recorded layout, on which the layout of results depends."""
        f, spec = self.f, x.spec
        if spec.ndim < 2 or spec.strides is None or not spec.size:
            return
        flags = spec.sample().flags
        wanted = flags.c_contiguous * 1 + flags.f_contiguous * 2
        found = f.op(f"and i32 3, {f.op(f'load i32, ptr {f.at(pointer, LAYOUT.flags)}')}")
        f.require(f.op(f"icmp eq i32 {found}, {wanted}"))
        if not wanted:
            steps = f.op(f"load ptr, ptr {f.at(pointer, LAYOUT.strides)}")
            for axis, step in enumerate(spec.strides):
                f.require(f.op(f"icmp eq i64 {step}, {f.op(f'load i64, ptr {f.at(steps, 8 * axis)}')}"))

    def part(self, part: Any, x: Input | None) -> str:
        """Return a new reference, held in a slot, to a part of the result; a gradient gets its input's type."""
        f, kind = self.f, spec_of(part).type
        if x is not None:
            kind = (float if x.spec.type in (float, int, bool) else np.float64 if x.spec.type is np.float64
                    else kind if same(part, x) else None)
        if part is None:
            return f.object(None)
        if not isinstance(part, Operation):
            if number_kind(spec_of(part)) is not None and kind is not None:
                return f.object(kind(part))
            return self.passed(f.object(part), x)
        value = f.value(part)
        if isinstance(value, Number) and kind is not None:
            return f.box(value, kind).ir
        if isinstance(value, Elements) and kind is np.ndarray:
            return f.box(value, kind, spec_of(part)).ir
        if isinstance(value, Array) and part not in f.views:
            made = f.boxed(part).ir
            if part not in self.returned and (x is None or kind is np.ndarray):
                self.returned.add(part)
                return made
        elif isinstance(value, Array):  # a view, which Python computes again
            del f.env[part]
            f.pending[part] = None
        return self.passed(f.boxed(part).ir, x)

    def passed(self, pointer: str, x: Input | None) -> str:
        """Convert a result in Python: to memory of its own, and for a gradient to its input's type."""
        f = self.f
        fn = own if x is None else Conformed(x.spec.sample() if x.spec.has_sample else x.val)
        return f.invoked(fn, [pointer]).ir

    def nested(self, nest: Nest, made: list[str]) -> str:
        """Return a nest of parts, held in a slot like them."""
        f = self.f
        if not isinstance(nest, Nested):
            return f.object(None) if nest is None else made[nest]
        parts = [self.nested(part, made) for part in nest.parts]
        if nest.make is dict:
            found = self.table(nest.keys, parts)
        elif type(nest.make) is FromAttributes and is_plain(nest.make.cls):
            found = f.held(f.op(f"call ptr @PyType_GenericNew(ptr {f.object(nest.make.cls)}, ptr null, ptr null)")).ir
            table = self.table(nest.make.names, parts)
            put = f.op(f"call i32 @PyObject_GenericSetAttr(ptr {found}, ptr {f.object('__dict__')}, ptr {table})")
            f.require(f.op(f"icmp eq i32 {put}, 0"))
        elif nest.make is list:
            found = self.sequence("List", parts)
        elif nest.make is tuple:
            found = self.sequence("Tuple", parts)
        elif isinstance(nest.make, type):  # a named tuple class
            found = self.made(tuple.__new__, [f.object(nest.make), self.sequence("Tuple", parts)])
        else:
            found = self.made(nest.make, parts)
        return found

    def sequence(self, kind: str, parts: list[str]) -> str:
        """Return a list or a tuple of parts."""
        f = self.f
        found = f.held(f.op(f"call ptr @Py{kind}_New(i64 {len(parts)})")).ir
        for number, part in enumerate(parts):
            f.put(f"call void @Py_IncRef(ptr {part})")
            f.put(f"call i32 @Py{kind}_SetItem(ptr {found}, i64 {number}, ptr {part})")
        return found

    def made(self, make: Any, parts: list[str]) -> str:
        """Return the result of calling a function on parts."""
        f = self.f
        for number, part in enumerate(parts):
            f.put(f"store ptr {part}, ptr {f.at('%scratch', 8 * number)}")
        f.most = max(f.most, len(parts))
        return f.held(f.op(f"call ptr @PyObject_Vectorcall(ptr {f.object(make)}, ptr %scratch, i64 {len(parts)}, "
                           "ptr null)")).ir

    def table(self, keys: Sequence[Any], parts: list[str]) -> str:
        """Return a dict of parts, as a copy of a dict with these keys, which has room for them."""
        f = self.f
        table = f.held(f.op(f"call ptr @PyDict_Copy(ptr {f.object(dict.fromkeys(keys))})")).ir
        for key, part in zip(keys, parts):
            put = f.op(f"call i32 @PyDict_SetItem(ptr {table}, ptr {f.object(key)}, ptr {part})")
            f.require(f.op(f"icmp eq i32 {put}, 0"))
        return table

    def text(self) -> str:
        """Return the LLVM module."""
        f = self.f
        size, places = f.arena()
        arena = [f"  %heap = call ptr @tapegrad_memory(i64 {size + ALIGN})", "  %nothing = icmp eq ptr %heap, null",
                 "  br i1 %nothing, label %no, label %begun", "begun:",
                 f"  %arena = getelementptr i8, ptr %heap, i64 {ALIGN}"]
        if size <= STACK:
            arena = ["  %heap = bitcast ptr null to ptr", f"  %arena = alloca i8, i64 {size}, align {ALIGN}"]
        return "\n".join([
            PYTHON, OWN, *f.declared, "",
            "define ptr @native(ptr %self, ptr %args, i64 %count, ptr %names) alignstack(64) {", "entry:",
            f"  %slots = alloca [{max(f.slots, 1)} x ptr], align 16",
            f"  %scratch = alloca [{f.most} x i64], align 16",
            "  %unused = alloca [16 x i64], align 128",
            f"  call void @llvm.memset.p0.i64(ptr %slots, i8 0, i64 {8 * max(f.slots, 1)}, i1 false)",
            "  %lost = alloca i32, align 4  ; what NumPy forgets when it is called: that numbers were too small",
            "  store i32 0, ptr %lost",
            *f.stacked, *arena, "  br label %start", "start:", *places, *f.lines,
            "no:", "  call void @tapegrad_put_away(ptr %heap)", *self.left(),
            f"  call void @tapegrad_release(ptr %slots, i64 {f.slots})",
            "  %answer = call ptr @tapegrad_leave(ptr %self, ptr %args, i64 %count, ptr %names, ptr %after, "
            "ptr %drawn)",
            "  ret ptr %answer", "}"])

    def left(self) -> list[str]:
        """Return the lines that take the drawn numbers from their slot and load the object that continues."""
        if self.undo is None:
            return ["  %after = bitcast ptr null to ptr", "  %drawn = bitcast ptr null to ptr"]
        slot, after = self.undo
        place = LAYOUT.item + 8 * self.f.objects.place(after)
        return [f"  %after_at = getelementptr i8, ptr %self, i64 {place}", "  %after = load ptr, ptr %after_at",
                f"  %drawn_at = getelementptr ptr, ptr %slots, i64 {slot}", "  %drawn = load ptr, ptr %drawn_at",
                "  store ptr null, ptr %drawn_at"]


class _Plain:
    """A class whose objects hold nothing but attributes."""


def is_plain(cls: type) -> bool:
    """Return whether creating an object of a class only allocates memory."""
    return (shows_its_dict(cls) and not getattr(cls, "__abstractmethods__", None)
            and (cls.__basicsize__, cls.__itemsize__) == (_Plain.__basicsize__, _Plain.__itemsize__)
            and all(base is object or base.__flags__ & HEAP for base in cls.__mro__))


class Conformed:
    """Converts a cotangent to an input's type."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __call__(self, dx: Any) -> Any:
        found = conform(dx, self.x)
        return own(found) if found is dx else found


def own(x: Any) -> Any:
    """Return a copy of an array, other values unchanged."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def same(part: Any, x: Input) -> bool:
    """Return whether a cotangent is an array with its input's shape and dtype."""
    of, given = x.spec, spec_of(part)
    return of.is_array and given.is_array and of.shape == given.shape and of.dtype == given.dtype


def ignores_underflow() -> bool:
    """Return whether NumPy ignores underflow."""
    return np.geterr()["under"] == "ignore"


class Compiled(NamedTuple):
    """The machine code of a tape, and the objects that it uses."""

    name: str
    code: Code
    guards: Guards | None
    objects: tuple[Any, ...]

    def function(self, fallback: Any) -> Any:
        """Return it as a function; `fallback` makes the calls on which it bails out, or `LEFT` is returned."""
        return python_function(self.name, self.code.address("native"), (fallback, *self.objects[1:], self.code))

    def alone(self, conditions: Sequence[Callable[[], bool]]) -> Any:
        """Return it as a function without fallback, with further conditions; None if it has no guards to extend."""
        if not conditions:
            return self.function(LEFT)
        if self.guards is None:
            return None
        guards = Guards(self.guards.fresh, conditions)
        new = {id(self.guards.table): guards.table, id(self.guards.ask): guards.ask}
        return self._replace(objects=tuple([new.get(id(x), x) for x in self.objects])).function(LEFT)


def compile_native(tape: Tape, fresh: Any) -> Compiled:
    """Return the machine code of a tape; `fresh` is the freshness check.

    Raises NotWorthwhile for a tape of which little would become machine code.
    """
    plan = Plan(ops.unpacked(tape.result)[0])
    guards = None if fresh is None else Guards(fresh)
    while True:
        plan.settled = True
        try:
            entry = Entry(tape, plan, guards)
            if plan.settled:
                break
        except Refused as err:
            plan.refused.add(err.args[0])
    if entry.f.gained <= entry.f.left:
        raise NotWorthwhile
    text = entry.text()  # this adds to the objects
    items = [compile_tape(ungrouped(x), checks=False) if isinstance(x, Tape) else x.compiled()
             if isinstance(x, DrawFunction) else x for x in entry.f.objects.items]
    return Compiled(tape.name, Code(text), guards, tuple(items))
