"""source: writes a tape as straight-line Python that calls NumPy, with one statement for each operation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.argument_source import nested_result
from tapegrad.compile.known_functions import is_known, is_varying
from tapegrad.compile.numpy.call_source import (
    BINARY,
    SPELLINGS,
    UNARY,
    Site,
    comment,
    index_text,
    is_calm,
    is_integer,
    path_text,
    to_python,
    ufunc_of,
)
from tapegrad.compile.numpy.ownership import Ownership
from tapegrad.compile.source_names import Names, Spelled, Texts
from tapegrad.errors import Location
from tapegrad.ops.index import pieces_with_indices
from tapegrad.optimise.result_memory import packs_of
from tapegrad.replay.facts import FACTS
from tapegrad.replay.random_state import sources_of
from tapegrad.rules.op import Op
from tapegrad.rules.types.layout import copied
from tapegrad.show.line import Places
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, operands
from tapegrad.trace.guards import FIXED
from tapegrad.trace.numpy_warnings import silenced
from tapegrad.tree.signature import ValueAndGradients

_errstate = np.errstate  # a trace replaces it
INTEGRAL = frozenset(["int", "floor", "ceil", "trunc", "round"])


class Source(NamedTuple):
    """The text of a function, and the objects that it refers to by name.

    `body` are the lines that compute the result from the leaves of the arguments. `sources` are the names of the random
    generators used, `wheres` the program's locations by the comment lines that name them.
    """

    body: list[str]
    result: str
    leaves: list[str]
    names: dict[str, Any]
    bind: Callable[..., str]
    guards: list[Guard]
    sources: tuple[str, ...] = ()
    wheres: Mapping[str, Location] = {}


class Shared:
    """Options, names and guards shared by the writers of a tape and of the bodies of its loops."""

    def __init__(self, miss: str, names: Names, calm: bool) -> None:
        self.miss, self.names, self.calm = miss, names, calm
        self.places = Places()
        self.wheres: dict[str, Location] = {}  # by the comment line that names the location
        self.guards: list[Guard] = []


def write_source(tape: Tape, miss: str = "miss", spelled: Spelled = lambda value: None, calm: bool = False) -> Source:
    """Write a tape whose operations have specs.

    `miss` is the name of the function that makes a guard's error from its number. `spelled` returns the expression for
    a function or type (`np.exp`), or None to bind a name. If `calm`, NumPy computes where Python's functions may raise.
    """
    return Writer(tape, Shared(miss, Names(spelled), calm)).write()


SUBTAPES: dict[type, Callable[[Writer, Call], None]] = {}
"""Writers of the calls of ops with a subtape, by the op's type; other modules register theirs."""


class Writer(Texts):
    """Writes one tape, operation by operation."""

    def __init__(self, tape: Tape, shared: Shared, owned: Collection[Operation] = ()) -> None:
        self.tape, self.shared, self.names = tape, shared, shared.names
        self.ownership = Ownership(tape, owned)
        self.packs = packs_of(tape)
        self.expr: dict[Operation, str] = {}
        self.body: list[str] = []
        self.loops: dict[Operation, list[str]] = {}  # names of the results of a loop
        self.varies: set[Operation] = set()  # operations with value-dependent shapes
        self.given: set[Operation] = set()  # operations that the result already contains
        self.arrays: dict[Operation, str] = {}  # arrays with a variable of their own, to be deleted
        self.where: Location | None = None
        self.silent: frozenset[str] = frozenset()  # which warnings the block ignores that is open

    def write(self) -> Source:
        result = ""
        for op in self.tape.ops:
            if op is self.tape.result and op.fn is ops.pack:
                result = self.packed(op)
            else:
                self.operation(op)
                self.forget(op)
        result = result or self.finished(self.tape.result)
        leaves, shared = [self.expr[x] for x in self.tape.inputs[1:]], self.shared
        sources = tuple([self.text(x) for x in sources_of(self.tape)])
        return Source(self.body, result, leaves, self.names.objects, self.names.bind, shared.guards, sources,
                      shared.wheres)

    # -- names and texts

    def other(self, x: Any) -> str:
        if isinstance(x, Operation):
            return self.expr[x]
        return self.names.bind(x)

    def statement(self, op: Operation, text: str) -> None:
        """Append a statement, below a comment with the user's line unless that is the last one, and within
        `np.errstate` where the program silences NumPy's warnings.
        """
        silent, where = silenced(op), self.shared.places.line(op)
        if silent != self.silent:
            self.silent = frozenset()
        if where is not None and where is not self.where:
            self.where, line = where, comment(where)
            self.shared.wheres[line] = where
            self.line(line)
        if silent != self.silent:
            ignored = ", ".join(f"{kind}='ignore'" for kind in sorted(silent))
            self.line(f"with {self.names.bind(_errstate)}({ignored}):")
            self.silent = silent
        self.line(text)

    def line(self, text: str) -> None:
        """Append a line to the block that is open."""
        self.body.append(f"    {text}" if self.silent else text)

    def named(self, op: Call, text: str) -> None:
        """Assign an expression to a new variable."""
        name = self.names.fresh(f"v{op.id}")
        self.statement(op, f"{name} = {text}")
        self.called(op, name)

    def called(self, op: Call, name: str) -> None:
        """Note the variable of an operation."""
        self.expr[op] = name
        if op.spec.has_axes:
            self.arrays[op] = name

    def forget(self, op: Operation) -> None:
        """Write the deletion of arrays that an operation used last, so that their memory is reused at once."""
        gone = [self.arrays.pop(x) for number in self.ownership.dead[op.id]
                if (x := self.tape.ops[number - 1]) in self.arrays]
        if gone:
            self.line(f"del {', '.join(gone)}")

    # -- operations

    def operation(self, op: Operation) -> None:
        """Write a call or guard, or note the text of an input or constant."""
        if isinstance(op, Guard):
            self.guard(op)
        elif isinstance(op, Call):
            self.call(op)
        elif isinstance(op, Input):
            self.expr[op] = self.names.fresh(op.label or "f") if op.id > 1 else "None"
        else:
            self.expr[op] = self.text(op.val)

    def call(self, op: Call) -> None:
        """Write a call, and update ownership."""
        if is_varying(op, self.varies, is_known(op.fn)):
            self.varies.add(op)
        if op.fn is ops.pack:
            self.named(op, self.packed(op) if op in self.packs else nested_result(
                op.kwargs["into"], list(map(self.text, op.args)), self.names.bind))
        elif type(op.fn) in SUBTAPES:
            SUBTAPES[type(op.fn)](self, op)
        elif op.args and op.args[0] in self.loops:
            self.expr[op] = self.loops[op.args[0]][op.args[1]]
        elif (op.fn is ops.setitem and self.setitem(op)) or (op.fn is ops.scatter and self.scatter(op)):
            self.ownership.owned.add(op)
            return
        else:
            self.named(op, self.written(op))
        self.ownership.note(op)

    def written(self, op: Call) -> str:
        """Write a call as an expression."""
        args, ufunc = list(map(self.text, op.args)), ufunc_of(op)
        if self.shared.calm and is_calm(op):
            return f"float({self.names.bind(ufunc)}({', '.join(args)}))"
        if not op.kwargs and (len(args) == 2 and op.fn in BINARY):
            return f" {BINARY[op.fn]} ".join(map(self.operand, op.args))
        if not op.kwargs and len(args) == 1 and op.fn in UNARY and not op.spec.is_memory:
            return f"{UNARY[op.fn]}{self.operand(op.args[0])}"
        if type(op.fn) is Op and op.fn.scalar is not None and op.spec.is_pythonic and not op.kwargs and not any(
                arg.spec.is_memory for arg in operands(op)):
            return f"{self.names.bind(op.fn.scalar, f'math_{op.fn.scalar.__name__}')}({', '.join(args)})"
        row, site = SPELLINGS.get(op.fn), Site(op, args, self.text, self.names.bind)
        if row is not None and row[0](op) and not ("through" in op.kwargs and op.args[0] in self.varies):
            return row[1](site)
        if ufunc is not None and (op.spec.has_axes or not op.spec.is_pythonic):
            return f"{self.names.bind(ufunc)}({', '.join(args[:ufunc.nin])})"
        fn = op.fn.read if isinstance(op.fn, Op) else op.fn
        text = site.call(self.expr[op.fn] if isinstance(op.fn, Operation)
                         else self.names.bind(fn, getattr(op.fn, "__name__", "fn")))
        # Python's numbers were recorded: convert NumPy's result to one
        scalar = isinstance(op.fn, Op) and op.spec.is_pythonic and not any(spec_of(x).is_numpy for x in op.args)
        return f"{self.names.bind(to_python)}({text})" if scalar else text

    def setitem(self, op: Call) -> bool:
        """Write a `setitem`, in place if nothing needs the old content, else on a copy. Return False if it has no short
        spelling.
        """
        x, value, *index = op.args
        if not (isinstance(x, Operation) and x.spec.has_axes):
            return False
        path, in_place, order = op.kwargs.get("through", ()), self.ownership.may_write(op), "K"
        name = self.expr[x] if in_place else self.names.fresh(f"v{op.id}")
        like: Spec | None = op.spec
        # with another memory order the reshape would be a copy, and the write lost
        if any(step.op is ops.reshape for step in path):
            order = op.spec.order
            like = copied(op.spec.dtype, op.spec, order) if order in ("C", "F") else None
        target = None if like is None else path_text(self.text, name, like, path)
        if target is None:
            return False
        if not in_place:
            self.statement(op, f"{name} = {self.expr[x]}.copy({order!r})")
        elif order != "K":
            self.statement(op, f"{name} = {self.names.bind(np.asarray)}({name}, None, {order!r})")
        self.statement(op, f"{target}[{index_text(self.text, index)}] = {self.text(value)}")
        if in_place:
            self.arrays.pop(x, None)
        self.called(op, name)
        return True

    def scatter(self, op: Call) -> bool:
        """Write a `scatter` as additions to views of a zero array; the first piece is assigned. Return False for pieces
        without paths, which the implementation adds, and for those without a short spelling.
        """
        ranks, like = op.kwargs["ranks"], copied(op.spec.dtype, op.spec, "C")
        paths, name = op.kwargs.get("through", ()), self.names.fresh(f"v{op.id}")
        views = [path_text(self.text, name, like, path) for path in paths]
        pieces = list(pieces_with_indices(op.args, ranks))
        if not any(paths) or None in views or op.kwargs.get("order", "C") != "C" or any(
                isinstance(part, list) or (spec_of(part).has_axes and spec_of(part).kind != "b")
                for _, index in pieces for part in index):
            return False
        self.statement(op, f"{name} = {self.names.bind(np.zeros)}({self.text(op.spec.shape)}, "
                           f"{self.text(op.spec.dtype)})")
        for number, ((piece, index), view) in enumerate(zip(pieces, views)):
            self.statement(op, f"{view}[{index_text(self.text, index)}] {'+=' if number else '='} {self.text(piece)}")
        self.called(op, name)
        return True

    # -- guards and the result

    def guard(self, op: Guard) -> None:
        """Write the check of a guard, unless it follows from the types of the arguments."""
        subject = op.args[0]
        if isinstance(subject, Input) and op.fact in FIXED and subject.spec.type is not tuple:
            return
        self.shared.guards.append(op)
        miss = f"raise {self.shared.miss}({len(self.shared.guards) - 1})"
        if op.fact == "bool":
            self.statement(op, f"if {'not ' if op.expected else ''}{self.expr[subject]}: {miss}")
        elif op.fact == "raises":
            self.statement(op, f"if not {self.names.bind(op.expected, 'raised')}.happens({self.expr[subject]}): {miss}")
        elif op.fact == "dtype":
            self.statement(op, f"if str({self.names.bind(FACTS['dtype'], 'fact_dtype')}({self.text(subject)})) != "
                               f"{str(op.expected)!r}: {miss}")
        else:
            fact = self.names.bind(FACTS[op.fact], f"fact_{op.fact}")
            # a program can distinguish 0.0 from -0.0, `!=` cannot
            signed = type(op.expected) is complex or (type(op.expected) is float and not op.expected)
            found = f"{fact}({self.text(subject)})"
            if op.fact in INTEGRAL:
                self.statement(op, f"if not {self.names.bind(is_integer)}({fact}, {self.text(subject)}, "
                                   f"{self.text(op.expected)}): {miss}")
                return
            self.statement(op, f"if str({found}) != {str(op.expected)!r}: {miss}" if signed
                           else f"if {found} != {self.text(op.expected)}: {miss}")

    def packed(self, op: Operation) -> str:
        """Write the nested result."""
        into = op.kwargs["into"]
        if not isinstance(into, ValueAndGradients):
            return nested_result(into, list(map(self.finished, op.args)), self.names.bind)
        parts = [self.gradient(dx, x) for dx, x in zip(op.args[1:], self.tape.inputs[1:])]
        return nested_result(into, [self.finished(op.args[0]), *parts], self.names.bind)

    def finished(self, op: Any) -> str:
        """Write a result, copied unless it owns its memory."""
        if isinstance(op, np.dtype):  # `other` writes its class, which is faster as an argument
            return self.names.bind(op)
        text = self.text(op)
        if not isinstance(op, Operation):
            return text
        if op.spec.is_memory and (op not in self.ownership.owned or op in self.given):
            return f"{text}.copy('K')"
        self.given.add(op)
        return text

    def gradient(self, dx: Any, x: Input) -> str:
        """Write an input's gradient, with the input's type, shape and dtype."""
        of, given = x.spec, spec_of(dx)
        if dx is None or given.type is type(None) or (of.type is float and given.type is float):
            return self.text(dx)
        if of.is_memory and given.is_array and (given.shape, given.dtype) == (of.shape, of.dtype):
            return self.finished(dx)
        if of.is_memory:
            dtype = f", {self.text(of.dtype)}" if of.kind in "fc" else ""
            array, broadcast = self.names.bind(np.array), self.names.bind(np.broadcast_to)
            return f"{array}({broadcast}({self.text(dx)}, {self.text(of.shape)}){dtype})"
        if of.type in (float, int, complex):
            return f"{'complex' if of.type is complex else 'float'}({self.text(dx)})"
        if of.is_scalar:
            return f"{self.names.bind(of.dtype.type if of.kind in 'fc' else np.float64)}({self.text(dx)})"
        return self.text(dx)
