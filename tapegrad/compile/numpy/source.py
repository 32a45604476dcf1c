"""source: a tape as straight-line Python that calls NumPy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.argument_source import nested_result
from tapegrad.compile.numpy.call_source import (
    BINARY,
    SHAPED,
    SPELLINGS,
    UNARY,
    Site,
    comment,
    has_path_text,
    index_text,
    is_integer,
    path_text,
    to_python,
    ufunc_of,
)
from tapegrad.compile.numpy.memory_plan import Plan, Storage, make_plan
from tapegrad.compile.source_names import Names, Spelled
from tapegrad.errors import Location
from tapegrad.optimise.result_memory import packs_of
from tapegrad.replay.facts import FACTS
from tapegrad.replay.random_state import sources_of
from tapegrad.rules.op import Op
from tapegrad.rules.types.layout import copied
from tapegrad.show.line import Places
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, operands
from tapegrad.trace.guards import FIXED
from tapegrad.transforms.walk import count_uses
from tapegrad.tree.signature import ValueAndGradients

COMPARISONS = frozenset(["<", "<=", ">", ">=", "==", "!="])
INTEGRAL = frozenset(["int", "floor", "ceil", "trunc", "round"])
LONGEST = 90  # characters of an expression that is still written into another


class Source(NamedTuple):
    """A function's text, and what it refers to by name.

    `body` are the lines from the leaves of the arguments to the result. `sources` are the names of the random
    generators that are drawn from, `wheres` the program's lines that comments name.
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
    """How to write, the names and the guards of one function: of a tape and of its loops' bodies."""

    def __init__(self, miss: str, names: Names) -> None:
        self.miss, self.names = miss, names
        self.places = Places()
        self.wheres: dict[str, Location] = {}  # of the lines that name the program's
        self.guards: list[Guard] = []


def write_source(tape: Tape, miss: str = "miss", spelled: Spelled = lambda value: None) -> Source:
    """Write a tape whose operations have specs.

    `miss` names what makes the error of a guard from its number. `spelled` gives the expression that stands for a
    function or type (`np.exp`), or None for a name.
    """
    return Writer(tape, Shared(miss, Names(spelled))).write()


SUBTAPES: dict[type, Callable[[Writer, Call], None]] = {}
"""How the call of an op that carries a subtape is written, by the op's type: filled by the modules that
write a tape as this one does.
"""


class Writer:
    """Writes one tape, operation by operation."""

    def __init__(self, tape: Tape, shared: Shared, owned: Collection[Operation] = (),
                 varies: Collection[Operation] = ()) -> None:
        self.tape, self.shared, self.names = tape, shared, shared.names
        self.plan: Plan = make_plan(tape, owned, varies)
        self.packs = packs_of(tape)
        self.uses = count_uses(tape)
        self.expr: dict[Operation, str] = {}
        self.pending: set[Operation] = set()  # expressions that will be written into what uses them
        self.body: list[str] = []
        self.loops: dict[Operation, list[str]] = {}  # what names the results of a loop
        self.given: set[Storage] = set()  # what lies in the result already
        self.dead = last_uses(tape)
        self.holders: Counter[str] = Counter()  # how many values, not used up yet, a name of an array stands for
        self.where: Location | None = None

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

    def text(self, value: Any) -> str:
        """Write what stands among a call's arguments."""
        if isinstance(value, Operation):
            return self.use(value)
        if value is None or type(value) in (bool, int, str) or value is Ellipsis:
            return repr(value)
        if type(value) is float:
            return repr(value) if math.isfinite(value) else self.names.bind(value,
                                                                            "inf" if math.isinf(value) else "nan")
        if type(value) is tuple:
            return f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        if type(value) is list:
            return f"[{', '.join(map(self.text, value))}]"
        if type(value) is slice:
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, np.dtype) and value == np.dtype(value.type):
            value = value.type
        return self.names.bind(value)

    def use(self, op: Operation) -> str:
        """Return the text by which an operation's value is used."""
        if op in self.pending:
            self.pending.discard(op)
            return f"({self.expr[op]})"
        return self.expr[op]

    def statement(self, op: Operation, text: str) -> None:
        """Append a statement, below the user's line that it comes from."""
        where = self.shared.places.line(op)
        if where is not None and where is not self.where:
            self.where, line = where, comment(where)
            self.shared.wheres[line] = where
            self.body.append(line)
        self.body.append(text)

    def operand(self, arg: Any) -> str:
        """Return the text of an argument beside an operator."""
        text = self.text(arg)
        return f"({text})" if text.startswith("-") else text

    def bare(self, arg: Any) -> str:
        """Return the text of an argument that stands between parentheses or commas."""
        inline = isinstance(arg, Operation) and arg in self.pending
        text = self.text(arg)
        return text[1:-1] if inline else text

    def named(self, op: Call, text: str) -> None:
        """Give an expression a name."""
        name = self.names.fresh(f"v{op.id}")
        self.statement(op, f"{name} = {text}")
        self.lies_in(op, name)

    def lies_in(self, op: Call, name: str) -> None:
        """Note by which name a value is used: a new one, or that of the memory it lies in."""
        self.expr[op] = name
        if name in self.holders or op not in self.plan.in_place:  # else an input's, which stays
            self.holders[name] += op.spec.has_axes

    def forget(self, op: Operation) -> None:
        """Delete the names of arrays that an operation used last: their memory is used again at once."""
        gone = []
        for number in self.dead[op.id]:
            name = self.expr.get(self.tape.ops[number - 1], "")
            if name in self.holders and self.tape.ops[number - 1].spec.has_axes:
                self.holders[name] -= 1
                gone += [name] * (not self.holders[name])
        if gone:
            self.body.append(f"del {', '.join(gone)}")

    # -- operations

    def operation(self, op: Operation) -> None:
        """Write one line of the tape, or give what needs none a name."""
        if isinstance(op, Guard):
            self.guard(op)
        elif isinstance(op, Call):
            self.call(op)
        elif isinstance(op, Input):
            self.expr[op] = self.names.fresh(op.label or "f") if op.id > 1 else "None"
        else:
            self.expr[op] = self.text(op.val)

    def call(self, op: Call) -> None:
        """Write a call."""
        if op.fn is ops.pack:
            given = op in self.packs
            self.named(op, self.packed(op) if given else nested_result(
                op.kwargs["into"], list(map(self.bare, op.args)), self.names.bind))
        elif type(op.fn) in SUBTAPES:
            SUBTAPES[type(op.fn)](self, op)
        elif op.args and op.args[0] in self.loops:
            self.expr[op] = self.loops[op.args[0]][op.args[1]]
        elif not (self.scalar(op) or (op.fn is ops.setitem and self.setitem(op)) or (
                op.fn is ops.scatter and self.scatter(op))):
            self.array(op)

    def scalar(self, op: Call) -> bool:
        """Write a call of numbers as an expression, into what uses it where that is one; return False for another call.
        """
        if op.kwargs or op.spec.is_memory or type(op.fn) is not Op or any(arg.spec.is_memory for arg in operands(op)):
            return False
        operator = BINARY.get(op.fn) if len(op.args) == 2 else UNARY.get(op.fn)
        if operator is not None:
            args = list(map(self.operand, op.args))
            self.inline(op, f"{args[0]} {operator} {args[1]}" if len(args) == 2 else f"{operator}{args[0]}")
        elif op.fn.scalar is not None and op.spec.is_pythonic:
            name = self.names.bind(op.fn.scalar, f"math_{op.fn.scalar.__name__}")
            self.inline(op, f"{name}({', '.join(map(self.bare, op.args))})")
        else:
            return False
        return True

    def inline(self, op: Call, text: str) -> None:
        """Keep an expression for its only use, or give it a name."""
        if self.uses[op.id] != 1 or len(text) > LONGEST or op is self.tape.result:
            self.named(op, text)
        else:
            self.expr[op] = text
            self.pending.add(op)

    def array(self, op: Call) -> None:
        """Write a call as a statement that gives its value a name, or makes it in memory that it takes over."""
        over, ufunc = self.plan.in_place.get(op), ufunc_of(op)
        if over is not None and ufunc is not None:
            name, args = self.use(over), list(map(self.bare, op.args))
            augmented = op.args[0] is over and op.fn in BINARY and BINARY[op.fn] not in COMPARISONS
            self.statement(op, f"{name} {BINARY[op.fn]}= {args[1]}" if augmented else
                           f"{self.names.bind(ufunc)}({', '.join([*args[:ufunc.nin], f'out={name}'])})")
            self.lies_in(op, name)
            return
        if len(op.args) == 2 and not op.kwargs and op.fn in BINARY:
            self.named(op, f"{self.operand(op.args[0])} {BINARY[op.fn]} {self.operand(op.args[1])}")
            return
        args, row = list(map(self.bare, op.args)), SPELLINGS.get(op.fn)
        if row is None or not row[0](op) or ((op.fn in SHAPED or "through" in op.kwargs) and self.varies(op)):
            row = None  # which writes a shape down
        if row is not None:
            text = row[1](Site(self, op, args))
        elif ufunc is not None and (op.spec.has_axes or not op.spec.is_pythonic):
            text = f"{self.names.bind(ufunc)}({', '.join(args[:ufunc.nin])})"
        else:
            text = self.generic(op, args)
        self.named(op, text)

    def varies(self, op: Call) -> bool:
        """True where values decide the shape of a call's value, or of what that is computed from."""
        return op in self.plan.varies or any(arg in self.plan.varies for arg in op.args if isinstance(arg, Operation))

    def generic(self, op: Call, args: list[str]) -> str:
        """Write a call of the op's own implementation."""
        fn = op.fn.read if isinstance(op.fn, Op) else op.fn
        kwargs = [f"{key}={self.text(value)}" for key, value in op.kwargs.items()]
        name = (self.use(op.fn) if isinstance(op.fn, Operation)
                else self.names.bind(fn, getattr(op.fn, "__name__", "fn")))
        text = f"{name}({', '.join(args + kwargs)})"
        # Python's numbers were recorded: what NumPy returns of them becomes one again
        scalar = isinstance(op.fn, Op) and op.spec.is_pythonic and not any(spec_of(x).is_numpy for x in op.args)
        return f"{self.names.bind(to_python)}({text})" if scalar else text

    def setitem(self, op: Call) -> bool:
        """Write into the array itself where nothing uses what was in it, else into a copy. Return False for a
        write that has no short text.
        """
        x, value, *index = op.args
        if not (isinstance(x, Operation) and x.spec.has_axes):
            return False
        path, in_place, order = op.kwargs.get("through", ()), op in self.plan.in_place, "K"
        name = self.use(x) if in_place else self.names.fresh(f"v{op.id}")
        like: Spec | None = op.spec
        # a view of what lies so, and of another a copy, into which a write would be lost
        if any(step.op is ops.reshape for step in path):
            order = op.spec.order
            like = copied(op.spec.dtype, op.spec, order) if order in ("C", "F") else None
        target = None if like is None else path_text(self.text, name, like, path)
        if target is None:
            return False
        texts = list(map(self.bare, index))
        if not in_place:
            self.statement(op, f"{name} = {self.use(x)}.copy({order!r})")
        elif order != "K":
            self.statement(op, f"{name} = {self.names.bind(np.asarray)}({name}, None, {order!r})")
        self.statement(op, f"{target}[{index_text(self.text, index, texts)}] = {self.bare(value)}")
        self.lies_in(op, name)
        return True

    def scatter(self, op: Call) -> bool:
        """Add pieces into zeros: the first is written, the others are added in place. Return False for a scatter that
        has no short text.
        """
        ranks, at = op.kwargs["ranks"], 0
        paths = op.kwargs.get("through", ((),) * len(ranks))
        if not op.spec.has_axes or op.kwargs.get("order", "C") != "C" or may_repeat(op) or not all(
                has_path_text(op.spec, path) for path in paths):
            return False
        name, like = self.names.fresh(f"v{op.id}"), copied(op.spec.dtype, op.spec, "C")
        self.statement(op, f"{name} = {self.names.bind(np.zeros)}({self.text(op.spec.shape)}, "
                           f"{self.text(op.spec.dtype)})")
        for rank, path in zip(ranks, paths):
            piece, index = op.args[at], op.args[at + 1: at + 1 + rank]
            text, sign = index_text(self.text, index, list(map(self.bare, index))), "+=" if at else "="
            at += 1 + rank
            self.statement(op, f"{path_text(self.text, name, like, path)}[{text}] {sign} {self.bare(piece)}")
        self.lies_in(op, name)
        return True

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
            self.statement(op, f"if str({self.names.bind(FACTS['dtype'], 'fact_dtype')}({self.bare(subject)})) != "
                               f"{str(op.expected)!r}: {miss}")
        else:
            fact = self.names.bind(FACTS[op.fact], f"fact_{op.fact}")
            # a program can tell 0.0 from -0.0
            signed = type(op.expected) is complex or (type(op.expected) is float and not op.expected)
            found = f"{fact}({self.bare(subject)})"
            if op.fact in INTEGRAL:
                self.statement(op, f"if not {self.names.bind(is_integer)}({fact}, {self.bare(subject)}, "
                                   f"{self.text(op.expected)}): {miss}")
                return
            self.statement(op, f"if str({found}) != {str(op.expected)!r}: {miss}" if signed
                           else f"if {found} != {self.text(op.expected)}: {miss}")

    def packed(self, op: Operation) -> str:
        """Write the nesting of the result around its parts."""
        into = op.kwargs["into"]
        if not isinstance(into, ValueAndGradients):
            return nested_result(into, list(map(self.finished, op.args)), self.names.bind)
        parts = [self.gradient(dx, x) for dx, x in zip(op.args[1:], self.tape.inputs[1:])]
        return nested_result(into, [self.finished(op.args[0]), *parts], self.names.bind)

    def finished(self, op: Any) -> str:
        """Write a result: in memory of its own."""
        text = self.bare(op)
        if not isinstance(op, Operation):
            return text
        storage = self.plan.storage.get(op)
        if storage is not None and (not storage.owned or storage in self.given or op in self.plan.locked):
            return f"{text}.copy('K')"
        if storage is not None:
            self.given.add(storage)
        return text

    def gradient(self, dx: Any, x: Input) -> str:
        """Write an input's gradient, with the input's type, shape and dtype."""
        of, given = x.spec, spec_of(dx)
        if dx is None or given.type is type(None) or (of.type is float and given.type is float):
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


def may_repeat(op: Call) -> bool:
    """True for a scatter by an array that may name a place twice: a plain `x[index] += piece` would add one of them."""
    at = 0
    for rank in op.kwargs["ranks"]:
        index = op.args[at + 1: at + 1 + rank]
        at += 1 + rank
        if any(_names_places(part) for part in index):
            if "through" in op.kwargs or any(isinstance(part, Operation) and not isinstance(part, Constant)
                                             for part in index):
                return True
            known = tuple(part.val if isinstance(part, Operation) else part for part in index)
            places = np.arange(op.spec.size).reshape(op.spec.shape)[known]
            if np.unique(places).size < places.size:
                return True
    return False


def _names_places(part: Any) -> bool:
    """True for an array of integers, or a list of them, in an index."""
    x = spec_of(np.asarray(part) if type(part) is list else part)
    return x.is_memory and x.kind != "b"
