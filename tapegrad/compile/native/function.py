"""function: the native code of a tape's operations, and the choice of those that stay in Python.

A call without native code is deferred until one of its values is needed. All operations deferred by then become one
Python function, written like the straight-line code. If a guard fails, such a function raises or a number overflows,
native code bails out: it jumps to the block `%no`, which repeats the whole call in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.compile.groups import Batch, calls_of
from tapegrad.compile.native.emit import Emitter, Mark, literal
from tapegrad.compile.native.jobs import Job, write_jobs
from tapegrad.compile.native.layouts import LAYOUT
from tapegrad.compile.native.plan import Block, Objects, Plan, Target, placed
from tapegrad.compile.native.segment import segment
from tapegrad.compile.native.values import (
    COMPLEX,
    ELEMENTS,
    INEXACT,
    KINDS,
    TABLE,
    Array,
    Elements,
    Number,
    Object,
    Results,
    Rows,
    Unlowered,
    Value,
    constant_kind,
    dense,
    element_kind,
    is_small,
    itemsize,
    kind_of,
    natural,
    number_kind,
)
from tapegrad.numbers.parallel import COUNT
from tapegrad.ops.loop import is_loop
from tapegrad.replay.raising import may_end_replay
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, operands
from tapegrad.trace.guards import FIXED

LONGEST = 30_000  # lines of a function, which LLVM compiles in a second; further calls stay in Python


class Function(Emitter):
    """Emits the operations of one tape."""

    signals = True  # whether long loops check for signals
    threads = True  # whether products may run in parallel

    def __init__(self, tape: Tape, plan: Plan, target: Target) -> None:
        super().__init__()
        self.tape, self.plan, self.target, self.objects = tape, plan, target, Objects()
        self.blocks: list[Block] = []
        self.own: set[Operation] = set()  # operations whose values lie in memory allocated for them
        self.views: set[Operation] = set()  # operations whose values are views of others' memory
        self.now: Any = None  # the call being emitted
        self._touched: set[Block] = set()  # by the operation being emitted
        self.env: dict[Operation, Value] = {}
        self.pending: dict[Operation, None] = {}  # deferred calls and guards
        self.jobs: list[Job] = []  # products deferred to run in parallel with others
        self.homes: dict[Any, Array] = {}  # memory in a loop's rows for arrays that it keeps
        self.cache: dict[tuple[str, Any], Any] = {}
        self.ranges: dict[str, tuple[int, int]] = {}  # bounds of an integer in a register
        self.depth, self.runs = 0, 1  # enclosing loops, and how often the emitted code runs
        self.gained = 0  # native calls, counted for all runs, without those that only move elements
        self.left = 0  # calls that stay in Python
        self.most = 1  # maximal number of arguments of a call into Python
        self._undo: list[Callable[[], Any]] = []
        self.users: dict[Operation, list[Operation]] = {}
        self.note_users(tape)

    def note_users(self, tape: Tape) -> None:
        """Record the users of each operation; a loop's body is added when the loop is emitted."""
        for op in tape.ops:
            for arg in operands(op):
                self.users.setdefault(arg, []).append(op)

    def operation(self, op: Operation) -> None:
        """Emit one operation of the tape, or defer it."""
        if op in self.pending or op in self.env or isinstance(op, (Input, Constant)):
            return
        if not self.may_wait(op):
            self.compute()
        mark, undo, gained = self.mark(), len(self._undo), self.gained
        try:
            if isinstance(op, Guard):
                self.guard(op)
            else:
                self.lower(op)
                self.gained += self.runs * calls_of(op)
        except Unlowered:
            self.take_back(mark, undo)
            self.gained = gained
            self.put_off(op)
        if not self.depth and not self.jobs:
            self.end_uses()

    def end_uses(self) -> None:
        """Extend the lifetimes of the blocks touched by the last operation to the current line."""
        for block in self._touched:
            block.end = len(self.lines)
        self._touched.clear()

    def may_wait(self, op: Operation) -> bool:
        """Return whether products may stay deferred beyond an operation: it uses none and writes to new memory."""
        return (op.fn in WAITING or type(op.fn) is Batch) and not any(
            x in self.pending or any(getattr(self.env.get(x), "owner", None) is job.made.owner for job in self.jobs)
            for x in operands(op))

    def compute(self) -> None:
        """Emit the deferred products, on several threads where that pays off."""
        if self.jobs:
            jobs, self.jobs = self.jobs, []
            write_jobs(self, jobs, self.object(COUNT))
            self.end_uses()

    def lower(self, op: Operation) -> None:
        """Emit native code for a call. Raises Unlowered if it has none."""
        assert isinstance(op, Call)
        self.now = op
        if op in self.plan.refused or len(self.lines) > LONGEST:
            raise Unlowered("a value used by Python code, or too long a program")
        if type(op.fn) in CARRIERS:
            self.env[op] = CARRIERS[type(op.fn)](self, op)
            return
        write = LOWERINGS.get(op.fn)
        if write is None:
            raise Unlowered(getattr(op.fn, "__name__", "a function"))
        self.env[op] = made = write(self, op)
        if isinstance(made, Number) and op not in self.users and may_end_replay(op):  # LLVM would drop it
            self.put(f"store volatile {self.lanes.type(made.kind)} {made.ir}, ptr %unused")

    def put_off(self, op: Operation) -> None:
        """Defer a call or a guard to Python; for a loop also the calls that read its results."""
        if self.depth:
            raise Unlowered("a call of Python in a loop")
        self.pending[op] = None
        self.left += isinstance(op, Call)
        if is_loop(op):
            self.pending.update(dict.fromkeys(self.users.get(op, ())))

    def fetch(self, op: Operation) -> None:
        """Cancel the deferral of a call whose only user does not need its value."""
        del self.pending[op]
        self.left -= 1

        def again() -> None:
            self.pending[op] = None
            self.left += 1
        self._undo.append(again)

    def undone(self) -> int:
        """Return the length of the undo list."""
        return len(self._undo)

    def take_back(self, mark: Mark, undo: int) -> None:
        """Drop everything emitted since a mark."""
        self.back_to(mark)
        while len(self._undo) > undo:
            self._undo.pop()()

    # -- values

    def value(self, x: Any) -> Value:
        """Return the native value of an argument."""
        if not isinstance(x, Operation):
            kind = constant_kind(x)
            if kind is not None:
                return Number(self.lanes.constant(x, kind), kind)
            if isinstance(x, np.ndarray) and (kind := element_kind(spec_of(x))) and x.size <= TABLE:
                return Elements(tuple([self.lanes.constant(y, kind) for y in x.ravel().tolist()]), x.shape, kind)
            raise Unlowered("a constant of an unsupported type")
        if x in self.pending:
            self.flush()
        if x not in self.env:
            if not isinstance(x, Constant):
                raise Unlowered(x.name)
            if is_small(x.spec) or constant_kind(x.val) is not None:
                return self.value(x.val)
            self.env[x] = Object(self.object(x.val), None)
            self._undo.append(lambda: self.env.pop(x))
        found = self.env[x]
        for part in found.parts if isinstance(found, Results) else (found,):
            if isinstance(part, (Array, Rows)) and isinstance(part.owner, Block):
                self._touched.add(part.owner)
        return found

    def number(self, x: Any) -> Number:
        """Return a number. Raises Unlowered for another value."""
        if number_kind(spec_of(x)) is None:
            raise Unlowered("a value that is not a number")
        found = self.value(x)
        if isinstance(found, Object):
            pointer = found.ir
            found = self.cached("number", x, lambda: self.unboxed(pointer, spec_of(x).type))
        if not isinstance(found, Number):
            raise Unlowered("a value that is not a number")
        return found

    def elements(self, x: Any) -> Elements:
        """Return a small array, or a number as one without axes."""
        spec = spec_of(x)
        if number_kind(spec) is not None:
            number = self.number(x)
            return Elements((number.ir,), (), number.kind)
        found = self.value(x)
        if isinstance(found, Elements):
            return found
        if isinstance(found, Number):
            return Elements((found.ir,), (), found.kind)
        if not is_small(spec):
            raise Unlowered("an array that is not small")
        return self.cached("elements", x, lambda: self.loaded(self.array(x)))  # type: ignore[no-any-return]

    def array(self, x: Any) -> Array:
        """Return an array in memory, of a kind that native code supports."""
        kind = element_kind(spec_of(x))
        if kind is None:
            raise Unlowered("an array of an unsupported dtype")
        found = self.value(x)
        if isinstance(found, Object):
            return self.cached("array", x, lambda: self.opened(found, spec_of(x).shape, kind))  # type: ignore[no-any-return]
        if not isinstance(found, Array):
            raise Unlowered("a value that is not in memory")
        return found

    def cached(self, what: str, x: Any, make: Callable[[], Any]) -> Any:
        """Return `make()`, called once for each operation and purpose `what`."""
        key = (what, x)
        if key not in self.cache:
            self.cache[key] = make()
            self._undo.append(lambda: self.cache.pop(key))
        return self.cache[key]

    def loaded(self, x: Array) -> Elements:
        """Load the elements of an array."""
        if self.lanes.batch:
            raise Unlowered("an array in memory within a batch")
        places = [sum(i * step for i, step in zip(index, x.strides)) for index in np.ndindex(*x.shape)]
        return Elements(tuple([self.load(x.kind, self.at(x.data, place)) for place in places]), x.shape, x.kind)

    # -- Python objects

    def object(self, x: Any) -> str:
        """Return a pointer to an object that the function is created with."""
        return self.item("%self", self.objects.place(x))

    def item(self, pointer: str, number: int) -> str:
        """Return an item of a tuple."""
        return self.op(f"load ptr, ptr {self.at(pointer, LAYOUT.item + 8 * number)}")

    def integers(self, table: Any) -> str:
        """Return the address of a table of integers, which may be long."""
        return self.op(f"load ptr, ptr {self.at(self.object(np.ascontiguousarray(table, np.int64)), LAYOUT.data)}")

    def require_type(self, pointer: str, kind: type) -> None:
        """Bail out unless an object is of exactly this type."""
        found = self.op(f"load ptr, ptr {self.at(pointer, LAYOUT.type)}")
        self.require(self.op(f"icmp eq ptr {found}, {self.object(kind)}"))

    def slot(self) -> tuple[int, str]:
        """Allocate a slot for an object; return its number and address."""
        self.slots += 1
        return self.slots - 1, self.op(f"getelementptr ptr, ptr %slots, i64 {self.slots - 1}")

    def held(self, pointer: str) -> Object:
        """Store a new reference in a slot; bail out if it is null."""
        number, address = self.slot()
        self.require(self.op(f"call i1 @tapegrad_hold(ptr {address}, ptr {pointer})"))
        return Object(pointer, number)

    def unboxed(self, pointer: str, kind: type) -> Number:
        """Unbox a number of exactly this type."""
        if kind in (bool, np.bool_):
            truth = self.op(f"icmp eq ptr {pointer}, {self.object(kind(True))}")
            lie = self.op(f"icmp eq ptr {pointer}, {self.object(kind(False))}")
            self.require(self.op(f"or i1 {truth}, {lie}"))
            return Number(truth, "b")
        self.require_type(pointer, kind)
        if kind is not int:
            found: Any = number_kind(Spec(kind))
            return Number(self.load(found, self.at(pointer, LAYOUT.float)), found)
        number = self.op(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {pointer}, ptr %scratch)")
        self.require(self.op(f"icmp eq i32 0, {self.op('load i32, ptr %scratch')}"))
        return Number(number, "i")

    def opened(self, x: Object, shape: tuple[int, ...], kind: str) -> Array:
        """Return the elements of an object that is an array of this shape."""
        self.check_array(x.ir, ELEMENTS[kind].dtype, shape)
        number, address = self.slot()
        data = self.op(f"call ptr @tapegrad_elements(ptr {x.ir}, ptr {address})")
        self.require(self.op(f"icmp ne ptr {data}, null"))
        return Array(data, shape, dense(shape, itemsize(kind)), number, kind)

    def table(self, x: Any) -> Array:
        """Return the elements of an array that the function is created with."""
        return self.opened(Object(self.object(x), None), x.shape, KINDS[x.dtype])

    def check_array(self, pointer: str, dtype: Any, shape: tuple[int, ...]) -> None:
        """Bail out unless an object is an array of this dtype and shape."""
        table = self.constants("i", shape or (0,))
        self.require(self.op(f"call i1 @tapegrad_is_array(ptr {pointer}, ptr {self.object(np.ndarray)}, "
                             f"ptr {self.object(dtype)}, i32 {len(shape)}, ptr {table})"))

    def new_array(self, shape: tuple[int, ...], kind: str,
                  strides: tuple[int, ...] | None = None) -> tuple[Object, str]:
        """Return a new array, in C order unless strides are given, and the address of its elements."""
        table = self.constants("i", shape or (0,))
        steps = "null" if strides is None or not shape else self.constants("i", strides)
        made = self.held(self.op(
            f"call ptr @PyArray_New(ptr {self.object(np.ndarray)}, i32 {len(shape)}, ptr {table}, "
            f"i32 {ELEMENTS[kind].dtype.num}, ptr {steps}, ptr null, i32 0, i32 0, ptr null)"))
        return made, self.op(f"load ptr, ptr {self.at(made.ir, LAYOUT.data)}")

    # -- the function's memory

    def memory(self, size: int) -> Block:
        """Allocate `size` bytes."""
        block = Block(self.fresh("m"), max(size, 1), len(self.lines))
        self.blocks.append(block)
        self._touched.add(block)
        self._undo += [lambda: self.blocks.remove(block), lambda: self._touched.discard(block)]
        return block

    def place(self, op: Operation) -> Array:
        """Return memory for the array that an operation returns."""
        spec, kind = op.spec, element_kind(op.spec)
        if kind is None:
            raise Unlowered("an array of an unsupported dtype")
        strides = natural(spec)
        self.own.add(op)
        self._undo.append(lambda: self.own.discard(op))
        if op in self.homes and self.homes[op].strides == strides:
            return self.homes[op]
        if op in self.plan.objects and not self.depth:
            given = None if strides == dense(spec.shape, spec.itemsize) else strides
            made, data = self.new_array(spec.shape, kind, given)
            self.cached("object", op, lambda: made)
            return Array(data, spec.shape, strides, made.owner, kind)
        block = self.memory(spec.nbytes)
        return Array(block.name, spec.shape, strides, block, kind)

    def adopt(self, op: Operation) -> None:
        """Note that an operation's value took over the memory of its first argument."""
        self.own.add(op)
        self._undo.append(lambda: self.own.discard(op))

    def stand_for(self, op: Operation, new: Array) -> None:
        """Replace the value of an operation, a view, by an array in separate memory."""
        before, views = self.env[op], self.views
        self.env[op], self.views = new, views - {op}
        self._undo += [lambda: self.env.update({op: before}), lambda: setattr(self, "views", views)]

    def forget(self, owner: Any) -> None:
        """Drop the values that lie in some memory: they have been used for the last time."""
        gone = {x: found for x, found in self.env.items() if isinstance(found, Array) and found.owner is owner}
        for x in gone:
            del self.env[x]
        self._undo.append(lambda: self.env.update(gone))

    def is_last(self, op: Operation, x: Operation, memory: Array) -> bool:
        """Return whether a call may overwrite its first argument: nothing else reads that memory afterwards."""
        return self.may_write(op, x, memory) and not self.needed_after(op, memory)

    def may_write(self, op: Operation, x: Operation, memory: Array) -> bool:
        """Return whether a call may overwrite its first argument once nothing else reads that memory."""
        return x in self.own and isinstance(memory.owner, Block) and (op not in self.plan.objects or self.depth > 0) \
            and not any(type(found) is Rows and found.owner is memory.owner for found in self.env.values())

    def needed_after(self, op: Operation, memory: Array) -> list[Operation]:
        """Return the operations in some memory that are used after a call, not by that call alone."""
        return [y for y, found in self.env.items() if isinstance(found, Array) and found.owner is memory.owner
                and any(user is not op and (user not in self.env or user.id > op.id) for user in self.users.get(y, ()))]

    def arena(self) -> tuple[int, list[str]]:
        """Return the size of the function's memory, and the lines that define the address of each block."""
        self.end_uses()  # uses by the results
        return placed(self.blocks), [f"  {block.name} = getelementptr i8, ptr %arena, i64 {block.offset}"
                                     for block in self.blocks]

    def boxed(self, x: Operation) -> Object:
        """Return an operation's value as an object of the recorded type."""
        found = self.value(x)
        if isinstance(found, Object):
            return found
        if isinstance(found, Array) and x in self.own and ("object", x) not in self.cache:
            self.plan.objects.add(x)  # for the next attempt
            self.plan.settled = False
            return Object("null", None)
        return self.cached("object", x, lambda: self.box(found, x.spec.type, x.spec))  # type: ignore[no-any-return]

    def box(self, x: Value, kind: Any, like: Spec | None = None) -> Object:
        """Convert a value to an object; an array gets the layout of a spec."""
        if isinstance(x, Number):
            return self.held(self._number_object(x, kind))
        if isinstance(x, Elements):
            steps = dense(x.shape, itemsize(x.kind))
            if like is not None and like.shape == x.shape and like.dtype == ELEMENTS[x.kind].dtype:
                steps = natural(like)
            made, data = self.new_array(x.shape, x.kind, None if steps == dense(x.shape, itemsize(x.kind))
                                        else steps)
            for index, part in zip(np.ndindex(*x.shape), x.parts):
                self.store(x.kind, part, self.at(data, sum(i * step for i, step in zip(index, steps))))
            return made
        if isinstance(x, Array) and x.strides == dense(x.shape, itemsize(x.kind)):
            made, data = self.new_array(x.shape, x.kind)
            nbytes = x.size * itemsize(x.kind)
            self.put(f"call void @llvm.memcpy.p0.p0.i64(ptr {data}, ptr {x.data}, i64 {nbytes}, i1 false)")
            return made
        raise Unlowered("a value that has no Python object")

    def _number_object(self, x: Number, kind: Any) -> str:
        of = number_kind(Spec(kind)) if kind is not None else None
        if of is None or (x.kind in COMPLEX and of not in COMPLEX) or (of != x.kind and of not in INEXACT):
            raise Unlowered("a number of an unsupported type")
        text = self.convert(x.ir, x.kind, of)
        if of == "b":
            found = self.op(f"select i1 {text}, ptr {self.object(kind(True))}, ptr {self.object(kind(False))}")
            self.put(f"call void @Py_IncRef(ptr {found})")
            return found
        if kind is float:
            return self.op(f"call ptr @PyFloat_FromDouble(double {text})")
        if kind is int:
            return self.op(f"call ptr @PyLong_FromLongLong(i64 {text})")
        if kind is complex:
            real, imag = self.parts(text, of)
            return self.op(f"call ptr @PyComplex_FromDoubles(double {real}, double {imag})")
        self.most = max(self.most, 2)
        self.store(of, text, "%scratch")
        return self.op(f"call ptr @PyArray_Scalar(ptr %scratch, ptr {self.object(ELEMENTS[of].dtype)}, ptr null)")

    # -- guards

    def guard(self, op: Guard) -> None:
        """Emit a guard on a number; a guard on the type of a native value always holds."""
        subject = op.args[0]
        if op.fact in FIXED and (kind_of(subject.spec)) and (
                isinstance(subject, Input) or isinstance(self.value(subject), (Number, Elements, Array))):
            return
        if op.fact == "bool" and number_kind(subject.spec):
            x = self.number(subject)
            holds = self.convert(x.ir, x.kind, "b")
            self.require(holds if op.expected else self.op(f"xor i1 {holds}, true"))
        elif op.fact in ("index", "int") and subject.spec.type is int and type(op.expected) is int:
            self.require(self.op(f"icmp eq i64 {self.number(subject).ir}, {op.expected}"))
        elif op.fact == "int" and number_kind(subject.spec) == "f" and abs(op.expected) < 1 << 53:
            self.declare("declare double @llvm.trunc.f64(double)")
            whole = self.op(f"call double @llvm.trunc.f64(double {self.number(subject).ir})")
            self.require(self.op(f"fcmp oeq double {whole}, {literal(op.expected, 'f')}"))
        else:
            raise Unlowered(op.fact)

    # -- deferred operations

    def flush(self, make: Callable[..., Any] | None = None) -> tuple[Object, list[Operation]]:
        """Emit a call of a Python function for all deferred operations; return its result and the operations whose
        values it contains. `make(tape, inputs)` makes the function from their tape; by default the tape is compiled.
        """
        put_off, self.pending = self.pending, {}
        self._undo.append(lambda: setattr(self, "pending", put_off))
        part, given, made = segment(self.tape, put_off, self)
        found = self.invoked(part if make is None else make(part, given), [self.boxed(x).ir for x in given])
        for number, x in enumerate(made):
            pointer = self.item(found.ir, number)
            self.env[x] = Object(pointer, found.owner)
            self._undo.append(lambda x=x: self.env.pop(x))  # type: ignore[misc]
        return found, made

    def invoked(self, function: Any, arguments: Sequence[str]) -> Object:
        """Return the result of a Python function; bail out if it raises, or after a floating-point error."""
        for number, argument in enumerate(arguments):
            self.put(f"store ptr {argument}, ptr {self.at('%scratch', 8 * number)}")
        self.most = max(self.most, len(arguments))
        before = self.op(f"or i32 {self.op('load i32, ptr %lost')}, {self.op('call i32 @tapegrad_flags()')}")
        self.put(f"store i32 {before}, ptr %lost")  # NumPy clears the flags
        return self.held(self.op(f"call ptr @tapegrad_invoke(ptr {self.object(function)}, ptr %scratch, "
                                 f"i64 {len(arguments)})"))


LOWERINGS: dict[Any, Callable[[Function, Call], Value]] = {}
"""The functions that emit native code for an op's calls, filled by the modules of this package."""
CARRIERS: dict[type, Callable[[Function, Call], Value]] = {}
"""The same for ops that carry a subtape, by their type."""
WAITING: set[Any] = set()
"""Products, and other ops besides batches that may be emitted while products are deferred; filled likewise."""
