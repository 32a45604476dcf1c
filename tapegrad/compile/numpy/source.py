"""source: a tape as straight-line Python that calls NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.argument_source import nested_result
from tapegrad.compile.numpy.call_facts import FLOATING, UFUNCS, is_elementwise, is_narrow, reads_float
from tapegrad.compile.numpy.call_source import BINARY, SHAPED, UNARY, to_python, write_sum_of_products, write_ufunc
from tapegrad.compile.numpy.storage_names import Site, Texts
from tapegrad.compile.numpy.writer import Shared
from tapegrad.compile.source_names import Names, Spelled
from tapegrad.errors import Location
from tapegrad.ops.fused import Fused, fields_of
from tapegrad.replay.facts import FACTS
from tapegrad.replay.random_state import sources_of
from tapegrad.rules.facts import Rrule
from tapegrad.rules.op import Op
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands
from tapegrad.trace.guards import FIXED
from tapegrad.tree.signature import ValueAndGradients

OFTEN, MANY = 3, 48  # a read from a list takes a third of one from an array, and making it as long as as many reads
STRETCHED = 4  # times that an argument is used, from which on a copy of it pays that lies as the result does
LONGEST = 90  # characters of an expression that is still written into another


class Source(NamedTuple):
    """A function's text, and what it refers to by name.

    `body` are the lines from the leaves of the arguments to the result, `setup` those that make the kept buffers,
    `kept` their names. `floats` says that NumPy's numbers were computed as Python's, which raise where NumPy's give nan
    or inf. `sources` are the names of the random generators that are drawn from, `wheres` the program's lines that
    comments name.
    """

    body: list[str]
    result: str
    setup: list[str]
    kept: list[str]
    leaves: list[str]
    names: dict[str, Any]
    bind: Callable[..., str]
    guards: list[Guard]
    floats: bool
    sources: tuple[str, ...] = ()
    wheres: Mapping[str, Location] = {}

    def making(self, make: str) -> list[str]:
        """Return the lines of the function that makes the kept buffers."""
        return [f"def {make}():", *(f"    {line}" for line in self.setup), f"    return {self.all_kept}"]

    def taking(self, make: str, pool: str) -> list[str]:
        """Return the lines that take buffers which no other call has, or make them; nothing where none are kept.

        A list's pop and append are atomic: each of several threads, or of nested calls, has buffers of its own.
        """
        if not self.kept:
            return []
        return ["try:", f"    kept = {pool}.pop()", "except IndexError:", f"    kept = {make}()",
                f"{self.all_kept} = kept"]

    @property
    def all_kept(self) -> str:
        """The names of the kept buffers, as a tuple."""
        return ", ".join(self.kept) + ("," if len(self.kept) == 1 else "")


def write_source(tape: Tape, buffers: bool = True, floats: bool = True, miss: str = "miss",
                 spelled: Spelled = lambda value: None) -> Source:
    """Write a tape whose operations have specs; with `buffers`, intermediate arrays are computed into memory that is
    kept, else with operators.

    With `floats`, NumPy's float64 numbers are computed as Python's where that means the same but for errors. `miss`
    names what makes the error of a guard from its number. `spelled` gives the expression that stands for a function or
    type (`np.exp`), or None for a name.
    """
    return Writer(tape, Shared(buffers, floats, miss, Names(spelled))).write()


SUBTAPES: dict[type, Callable[[Writer, Call], None]] = {}
"""How the call of an op that carries a subtape is written, by the op's type: filled by the modules that
write a tape as this one does.
"""


class Writer(Texts):
    """Writes one tape, operation by operation."""

    def write(self) -> Source:
        result = ""
        for op in self.tape.ops:
            if op is self.tape.result and isinstance(op, Call) and op.fn is ops.pack:
                result = self.packed(op)
            else:
                self.operation(op)
        assert self.tape.result is not None
        result = result or self.finished(self.tape.result)
        leaves, names, shared = [self.expr[x] for x in self.tape.inputs[1:]], self.names, self.shared
        sources = tuple([self.text(x) for x in sources_of(self.tape)])
        return Source(self.body, result, self.setup, list(self.kept), leaves, names.objects, names.bind, shared.guards,
                      shared.floats, sources, shared.wheres)

    def operation(self, op: Operation) -> None:
        """Write one line of the tape, or give what needs none a name."""
        if isinstance(op, Guard):
            self.guard(op)
        elif isinstance(op, Call):
            self.call(op)
        else:
            if isinstance(op, Input):
                self.expr[op] = self.names.fresh(op.label or "f") if op.id > 1 else "None"
            else:
                self.expr[op] = self.text(op.val)
            self.float.update([op] if op.spec.type is float else [])

    # -- calls

    def call(self, op: Call) -> None:
        if op.spec.is_array and type(op.fn) is Op and op.fn in UFUNCS:  # most calls
            self.array(op)
            return
        if op.fn is ops.pack:
            given = op in self.packs
            self.named(op, self.packed(op) if given else nested_result(
                op.kwargs["into"], list(map(self.strong, op.args)), self.names.bind))
            return
        if type(op.fn) in SUBTAPES:
            SUBTAPES[type(op.fn)](self, op)
            return
        if op.args and op.args[0] in self.loops:
            self.expr[op] = self.loops[op.args[0]][op.args[1]]
            self.float.update([op] if self.expr[op] in self.shared.floating else [])
            return
        if self.scalar(op):
            return
        if op.fn is ops.setitem and isinstance(op.args[0], Operation) and op.args[0].spec.has_axes and self.setitem(op):
            return
        if op.fn is ops.scatter and self.plan.how(op).writes:
            self.scatter(op)
        elif isinstance(op.fn, Fused):
            self.fused(op, op.fn)
        elif fields_of(op) is not None and self.plan.slot(op) is not None:
            self.expr[op] = self.buffer(op)  # the group's call has written it there
        else:
            self.array(op)

    def scalar(self, op: Call) -> bool:
        """Write a call of Python's numbers as an expression, into what uses it where that is one;
        return False for another call.
        """
        if op.kwargs or any(arg.spec.is_memory for arg in operands(op)) or op.spec.is_memory or type(op.fn) is not Op:
            return False
        operator = BINARY.get(op.fn) if len(op.args) == 2 else UNARY.get(op.fn)
        floats = self.allowed and op.spec.type is np.float64 and all(self.is_float(arg) for arg in op.args)
        if operator is not None and (op.fn in FLOATING or op.spec.is_python or not floats):
            self.float.update([op] if op.spec.type is float or (floats and op.fn in FLOATING) else [])
            self.shared.floats = self.shared.floats or (floats and op.fn in FLOATING)
            stay = op.spec.is_python or (floats and op.fn in FLOATING) or not self.must_be_strong(op)
            args = [self.operand(arg) if stay or not self.is_weak(arg) else self.strong(arg) for arg in op.args]
            self.inline(op, f"{args[0]} {operator} {args[1]}" if len(args) == 2 else f"{operator}{args[0]}")
            return True
        if op.fn.scalar is not None and type(op.fn.rule) is not Rrule and (self.is_pythonic(op) or floats):
            self.float.update([op] if op.spec.type is float or floats else [])
            self.shared.floats = self.shared.floats or floats
            name = self.names.bind(op.fn.scalar, f"math_{op.fn.scalar.__name__}")
            self.inline(op, f"{name}({', '.join(self.bare(arg) for arg in op.args)})")
            return True
        return False

    def must_be_strong(self, op: Call) -> bool:
        """True where a Python float would make something else of a call of numbers: of less precision,
        or a bool that counts as 1.
        """
        if any(map(is_narrow, op.args)):
            return True
        numpys = [arg for arg in op.args if spec_of(arg).is_scalar and not self.is_weak(arg)]
        return not numpys and not 0 < self.uses[op.id] == self.asked[op]

    def is_float(self, arg: Any) -> bool:
        """True for what is a Python float here, or a Python int."""
        return arg in self.float if isinstance(arg, Operation) else type(arg) in (float, int)

    def inline(self, op: Call, text: str) -> None:
        """Keep an expression for its only use, or give it a name."""
        if self.uses[op.id] != 1 or len(text) > LONGEST or op is self.tape.result:
            self.named(op, text)
        else:
            self.expr[op] = text
            self.pending.add(op)

    def array(self, op: Call) -> None:
        """Write a call as a statement that gives its value a name, or puts it into a buffer."""
        if not self.buffers and len(op.args) == 2 and not op.kwargs and op.fn in BINARY:
            self.named(op, f"{self.operand(op.args[0])} {BINARY[op.fn]} {self.operand(op.args[1])}")
            return
        row, ufunc, writes = self.plan.how(op)
        out = self.out(op) if writes else ""
        write = self.strong if (row is None and ufunc is None) or any(map(is_narrow, op.args)) else self.bare
        args = [self.along(op, arg) or write(arg) for arg in op.args]
        site = Site(self, op, args, out)
        if (op.fn in SHAPED or "through" in op.kwargs) and self.varies(op):
            row = None  # which writes a shape down
        if self.reads_often(op):
            text = f"{self.listed(op)}[{args[1]}]"
        elif op.fn is ops.vdot and op.spec.type is np.float64 and self.turned_alike(op):
            text = write_sum_of_products(site)  # vdot goes row by row, and would copy both
        elif row is not None:
            text = row[2](site)
        elif ufunc is not None and (op.spec.has_axes or not self.is_pythonic(op)):
            text = write_ufunc(site, ufunc)
        else:
            text = self.generic(op, args)
        if out:
            self.statement(op, text)
            self.expr[op] = out
            return
        if self.allowed and reads_float(op):
            self.float.add(op)
            self.shared.floats = True
        self.named(op, text)

    def varies(self, op: Call) -> bool:
        """True where values decide the shape of a call's value, or of what that is computed from."""
        return op in self.plan.varies or any(arg in self.plan.varies for arg in op.args if isinstance(arg, Operation))

    def reads_often(self, op: Call) -> bool:
        """True for a read of an element of an argument (x,) of which so many are read that a
        list of them all is faster.
        """
        x = op.args[0] if op.args else None
        return (isinstance(x, Input) and reads_float(op) and x.spec.ndim == 1
                and self.reads[x] * OFTEN >= max(x.spec.size, MANY))

    def listed(self, op: Call) -> str:
        x = op.args[0]
        if x not in self.lists:
            self.lists[x] = name = self.names.fresh(f"{self.expr[x]}_list")
            self.statement(op, f"{name} = {self.expr[x]}.tolist()")
        return self.lists[x]

    def turned_alike(self, op: Call) -> bool:
        storages = [self.plan.storage.get(arg) for arg in op.args if isinstance(arg, Operation)]
        return len(storages) == 2 and all(x is not None and x.turned
                                          for x in storages) and op.args[0].spec.shape == op.args[1].spec.shape

    def along(self, op: Call, arg: Any) -> str:
        """Return the name of a copy of an argument that lies as the result does, column by column, where it is
        stretched; "" where none pays.
        """
        storage = self.plan.storage.get(op)
        if storage is None or not storage.turned or not is_elementwise(op):
            return ""
        x, y = spec_of(arg), op.spec
        if (not x.has_axes or x.shape[-1] != y.shape[-1] or x.size * STRETCHED > y.size or x.size == x.shape[-1]
            or arg in self.plan.varies):
            return ""
        name = self.copies.get(arg)
        if name is None:
            self.copies[arg] = name = self.names.fresh(f"t{len(self.copies)}")
            shape = (x.shape[-1], *x.shape[:-1])
            self.setup.append(f"{name} = {self.names.bind(np.moveaxis)}({self.names.bind(np.empty)}({shape}, "
                              f"{self.text(x.dtype)}), 0, -1)")
            self.kept[name] = np.moveaxis(np.empty(shape, x.dtype), 0, -1)
            self.statement(op, f"{self.names.bind(np.copyto)}({name}, {self.bare(arg)})")
        return name

    def is_pythonic(self, op: Call) -> bool:
        """True where Python's numbers were recorded: what NumPy returns of them becomes one again."""
        return op.spec.is_pythonic

    def generic(self, op: Call, args: list[str]) -> str:
        """Write a call of the op's own implementation."""
        fn = op.fn.read if isinstance(op.fn, Op) else op.fn
        kwargs = [f"{key}={self.text(value)}" for key, value in op.kwargs.items()]
        name = (self.use(op.fn) if isinstance(op.fn, Operation)
                else self.names.bind(fn, getattr(op.fn, "__name__", "fn")))
        text = f"{name}({', '.join(args + kwargs)})"
        scalar = isinstance(op.fn, Op) and self.is_pythonic(op) and not any(spec_of(x).is_numpy for x in op.args)
        return f"{self.names.bind(to_python)}({text})" if scalar else text

    def named(self, op: Call, text: str) -> None:
        if (view := self.kept_view(op)) is not None:
            self.expr[op] = self.place(text, f"view{len(self.shared.places)}", view)
            return
        self.expr[op] = name = self.names.fresh(f"v{op.id}")
        self.statement(op, f"{name} = {text}")

    def fused(self, op: Call, fn: Fused) -> None:
        """Call a group, and tell it the buffers that its results go into."""
        places = ["None"] * len(fn.results)
        for y in [op] if fn.single else self.plan.fields[op]:
            if self.plan.slot(y) is not None:
                places[0 if fn.single else y.args[1]] = self.buffer(y)
        out = [f"out=({', '.join(places)},)"] if set(places) != {"None"} else []
        text = f"{self.names.bind(fn, 'fused')}({', '.join([*map(self.strong, op.args), *out])})"
        if fn.single and out:
            self.statement(op, text)
            self.expr[op] = places[0]
        else:
            self.named(op, text)

    # -- guards and the result

    def guard(self, op: Guard) -> None:
        """Write a fact that steered the program, unless it follows from the types of the arguments."""
        subject = op.args[0]
        if isinstance(subject, Input) and op.fact in FIXED and subject.spec.type is not tuple:
            return
        self.shared.guards.append(op)
        miss = f"raise {self.shared.miss}({len(self.shared.guards) - 1})"
        if op.fact == "bool":
            self.statement(op, f"if {'not ' if op.expected else ''}{self.use(subject)}: {miss}")
        elif op.fact == "raises":
            self.statement(op, f"if not {self.names.bind(op.expected, 'raised')}.happens({self.use(subject)}): {miss}")
        elif op.fact == "dtype":
            self.statement(op, f"if str({self.names.bind(FACTS['dtype'], 'fact_dtype')}({self.strong(subject)})) != "
                               f"{str(op.expected)!r}: {miss}")
        else:
            fact = self.names.bind(FACTS[op.fact], f"fact_{op.fact}")
            # a program can tell 0.0 from -0.0
            signed = type(op.expected) is complex or (type(op.expected) is float and not op.expected)
            found = f"{fact}({self.strong(subject)})"
            self.statement(op, f"if str({found}) != {str(op.expected)!r}: {miss}" if signed
                           else f"if {found} != {self.text(op.expected)}: {miss}")

    def packed(self, op: Call) -> str:
        """Write the nesting of the result around its parts."""
        into = op.kwargs["into"]
        if not isinstance(into, ValueAndGradients):
            return nested_result(into, list(map(self.finished, op.args)), self.names.bind)
        parts = [self.gradient(dx, x) for dx, x in zip(op.args[1:], self.tape.inputs[1:])]
        return nested_result(into, [self.finished(op.args[0]), *parts], self.names.bind)

    def finished(self, op: Any) -> str:
        """Write a result: in memory of its own, of the type that was recorded, in the order of rows and
        columns that `grad` gives.
        """
        text = self.bare(op)
        if not isinstance(op, Operation):
            return text
        if op in self.float and op.spec.type is np.float64:
            return f"{self.names.bind(np.float64)}({text})"
        storage = self.plan.storage.get(op)
        order = op.spec.order if op in self.turned else "K"
        if storage is not None and (not storage.owned or storage in self.given or op in self.plan.locked):
            return f"{text}.copy({order!r})"
        if storage is not None:
            self.given.add(storage)
        return text if order == "K" else f"{self.names.bind(np.asarray)}({text}, None, {order!r})"

    def gradient(self, dx: Any, x: Input) -> str:
        """Write an input's gradient, with the input's type, shape and dtype."""
        of, given = x.spec, spec_of(dx)
        if dx is None or given.type is type(None) or (of.type is float and isinstance(dx, Operation)
                                                      and dx in self.float):
            return self.bare(dx)
        if of.is_memory and given.is_array and (given.shape, given.dtype) == (of.shape, of.dtype):
            return self.finished(dx)
        if of.is_memory:
            dtype = f", {self.text(of.dtype)}" if of.kind in "fc" else ""
            array, broadcast = self.names.bind(np.array), self.names.bind(np.broadcast_to)
            return f"{array}({broadcast}({self.bare(dx)}, {self.text(of.shape)}){dtype})"
        if of.type in (float, int, complex):
            return f"{'complex' if of.type is complex else 'float'}({self.bare(dx)})"
        if of.is_scalar:
            return f"{self.names.bind(of.dtype.type if of.kind in 'fc' else np.float64)}({self.bare(dx)})"
        return self.bare(dx)
