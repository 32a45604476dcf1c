"""load: reads a tape from a file, which may be damaged or malicious."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.errors import Listing, TapeError, TapeFormatError
from tapegrad.numbers.cotangents import ZERO, NoTangent
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.view_path import Step
from tapegrad.ops import getfield
from tapegrad.ops.loop import Loop
from tapegrad.replay.facts import FACTS
from tapegrad.rules.activity import GIVEN_AWAY, give_up
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.user import op_of, rrule
from tapegrad.store import torch_values
from tapegrad.store.checks import check_call, count, fail, no_constant, no_key_twice, text
from tapegrad.store.format import (
    DTYPE,
    ERRORS,
    GENERATORS,
    GLOBAL,
    MAGIC,
    MAX_RUNS,
    MODULES,
    OWN,
    SCALARS,
    TYPES,
    VERSION,
    foreign,
    handed_name,
    results,
    spread,
)
from tapegrad.store.nest import Nest
from tapegrad.tape.check import check
from tapegrad.tape.raised import Raised
from tapegrad.tape.spec import Absent, absent, parsed
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.trace.collector import collector
from tapegrad.transforms.rewrite import is_pullback
from tapegrad.tree.argnums import wanted
from tapegrad.tree.flatten import Structure, flatten
from tapegrad.tree.signature import Recorded, Signature, ValueAndGradients

Given = Mapping[str, Any] | Iterable[Any]
CALLED = ("op", "torch op", "torch function", "own", "foreign")  # tags of functions
# of np.errstate, and whether the program's own warning filters raise
_KINDS, _WAYS = frozenset([*np.geterr(), "warnings"]), {"ignore", "warn", "raise", "call", "print", "log"}
_DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, MemoryError,
           ImportError)


def load(path: str | os.PathLike[str], primitives: Given = ()) -> Tape:
    """Read a tape that `tape.save` wrote. No code comes from the file.

    The program's functions and classes that the file names (primitives, functions passed as arguments, classes of
    structured arguments) must be given in `primitives`: by name, or as a collection. The traced function itself is not
    needed: without it, a replay uses the captured values as they were when the tape was saved. Raises TapeFormatError
    for a file that is damaged or no tape, and for one that names something not given.

    >>> import tempfile, tapegrad as tg
    >>> value, tape = tg.trace(lambda a, b: a * b, 2.0, 3.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tape.save(folder + "/product.tape")
    ...     again = tg.load(folder + "/product.tape")
    >>> again.play(4.0, 5.0)
    20.0
    """
    return from_bytes(Path(path).read_bytes(), primitives, os.fspath(path))


def from_bytes(content: bytes, primitives: Given = (), name: str = "the file") -> Tape:
    """Return the tape in the bytes of a file."""
    try:
        text, arrays = _opened(content)
        with collector:
            columns = json.loads(text, object_pairs_hook=no_key_twice, parse_constant=no_constant)
            return Reader(columns, arrays, primitives, len(text)).tape()
    except TapeFormatError as err:
        raise TapeFormatError(f"{name}: {err.what}", err.where, err.try_) from None
    except (*_DAMAGE, TapeError) as err:
        raise TapeFormatError(f"{name} is not a saved tape, or is damaged: {type(err).__name__}: {err}") from None


def _opened(content: bytes) -> tuple[bytes, memoryview]:
    """Return the JSON and the arrays; raise TapeFormatError unless both are complete."""
    end = content.find(b"\n", 0, 200)
    head = re.fullmatch(rb"%b (\d{1,9}) (\d{1,15}) (\d{1,15}) ([0-9a-f]{64})" % MAGIC.encode(), content[:max(end, 0)])
    if head is None:
        fail(f"this is not a saved tape: it does not begin with {MAGIC}")
    version, size, rest = map(int, head.groups()[:3])
    if version != VERSION:
        fail(f"a tape of format {version}, but this version of tapegrad reads format {VERSION}",
             "use the version of tapegrad that wrote it, or a newer one")
    body = memoryview(content)[end + 1:]
    if len(body) != size + rest:
        fail(f"the file is damaged: it holds {len(body)} bytes after its first line, and should hold {size + rest}")
    if hashlib.sha256(body).hexdigest().encode() != head[4]:
        fail("the file is damaged: its contents do not have the checksum that its first line states")
    return bytes(body[:size]), body[size:]


class Reader:
    """Builds a tape from the columns of a file."""

    def __init__(self, columns: Any, arrays: memoryview, given: Given, size: int) -> None:
        if type(columns) is not dict:
            fail("the JSON is not an object")
        self.columns, self.bytes, self.size = columns, arrays, size
        self.given = dict(given) if isinstance(given, Mapping) else {handed_name(x): x for x in given}
        self.dtypes: dict[str, Any] = {}
        self.listings: dict[tuple[str, int, str], Listing] = {}
        self.arrays = [self.stored(*row) for row in self.column("arrays")]
        self.nest = Nest(self, self.column("nodes"), self.column("structures"))
        self.ops: list[Operation] = []  # of the tape, or of the loop's body that is being read
        self.functions: list[Any] = []  # those read so far: a loop's body calls earlier ones

    def column(self, name: str, length: int | None = None) -> list[Any]:
        """Return a column; refuse one of another `length`."""
        found = self.columns.get(name)
        if type(found) is not list or (length is not None and len(found) != length):
            fail(f"the column {name!r} is missing, or its length differs from the others")
        return found  # type: ignore[no-any-return]

    def tape(self) -> Tape:
        """Return the tape, checked."""
        tape = Tape.__new__(Tape)
        tape.ops, tape._result, tape.structure = self.ops, None, None
        tape.name = text(self.columns["name"])
        self.signatures = [self.signature(*row) for row in self.column("signatures")]
        self.places = [self.place(*row) for row in self.column("places")]
        for row in self.column("functions"):
            is_loop = type(row) is list and row[:1] == ["loop"]
            self.functions.append(self.loop(row[1]) if is_loop else self.function(row))
        self.operations()
        if self.columns["signature"] is not None:
            tape.structure = self.signatures[count(self.columns["signature"], len(self.signatures))]
            self.capture(tape)
        tape.result = self.variable(count(self.columns["result"]))
        return check(tape)

    def operations(self) -> None:
        """Make the operations, each from its entries in the columns; the first is an input."""
        kinds = self.columns["kinds"]
        if type(kinds) is not str or set(kinds) - set("icfg"):
            fail("an operation of an unknown kind")
        n = len(kinds)
        at, notes, values = self.column("at", n), self.column("notes", n), self.column("values", n)
        labels, facts = iter(self.column("labels", kinds.count("i"))), iter(self.column("facts", kinds.count("g")))
        calls = iter(self.column("calls", kinds.count("f")))
        args = iter(self.column("args", kinds.count("f") + kinds.count("g")))
        kwargs = {count(position, n + 1): self.keywords(pairs) for position, *pairs in self.column("kwargs")}
        for position, (kind, line, note, value) in enumerate(zip(kinds, at, notes, values), 1):
            op: Operation
            if kind == "f":
                op = self.call(next(calls), next(args), kwargs.pop(position, None))
                op.val = self.value(value)
            elif kind == "g":
                op = self.guard(next(args), *next(facts))
            elif kind == "i":
                op = Input(self.value(value), text(next(labels)))
            else:
                op = Constant(self.value(value))
            op.id = position
            if note:
                op.note = text(note)
            if line != -1:
                op.code, op.lasti = self.places[count(line, len(self.places))]
            self.ops.append(op)
        if kwargs:
            fail("keyword arguments of an operation that is not a call")
        if not self.ops or not isinstance(self.ops[0], Input):
            fail("%1 is not an input")

    def loop(self, number: Any) -> Any:
        """Return a loop with its body, which calls only earlier loops; the tape's check verifies that they fit."""
        rows = self.column("loops")
        row = rows[count(number, len(rows))]
        if type(row) is not dict:
            fail("a loop is not an object")
        body = Tape.__new__(Tape)
        body.ops, body._result, body.structure, body.name = [], None, None, text(row["name"])
        outer = self.columns, self.ops
        self.columns, self.ops = row, body.ops
        self.operations()
        body.result = self.variable(count(row["result"]))
        steps = [tuple(map(self.value, values)) for values in self.column("steps")]
        self.columns, self.ops = outer
        given, listed, carried = map(count, row["sizes"])
        runs = count(row["count"])
        if type(row["reverse"]) is not bool or (runs > len(steps[0]) if steps else runs > MAX_RUNS):
            fail("a loop with too many runs or an invalid direction")
        if runs:
            return Loop(body, runs, steps, given, listed, carried, row["reverse"])
        make = Subtape.kinds[text(row.get("kind", "checkpoint"))]
        return make(body, *map(self.value, row.get("fields", [row.get("noun", "checkpoint")])))

    def place(self, file: Any, first: Any, function: Any, line: Any, source: Any) -> tuple[Listing, int]:
        """Return the listing of a function, and one of its lines."""
        key = text(file), count(first), text(function)
        found = self.listings.setdefault(key, Listing(*key))
        found.lines[count(line)] = text(source)
        return found, line

    def variable(self, number: int) -> Operation:
        """Return an earlier operation, by number."""
        if not 1 <= number <= len(self.ops):
            fail(f"%{number} is used before it is defined, or is never defined")
        return self.ops[number - 1]

    def argument(self, x: Any) -> Any:
        """Return an argument: an integer is the number of a variable."""
        return self.variable(x) if type(x) is int else self.value(x)

    def call(self, callee: Any, args: Any, kwargs: dict[str, Any] | None) -> Call:
        """Return a call without its value; refuse one that no tape records."""
        given = tuple([self.variable(x) if type(x) is int else self.value(x) for x in args])
        if type(callee) is int and callee < 0:
            op = Call(self.variable(-callee), given, kwargs)
            if not is_pullback(op.fn):
                fail(f"a call of %{-callee}, which is not a pullback")
            return op
        fn = self.functions[count(callee, len(self.functions))]
        op = Call(fn, given, kwargs)
        if fn is rrule and (len(given) < 2 or not isinstance(given[0], Op)):
            fail("rrule without an op and its arguments")
        if fn is getfield and len(given) == 2 and type(given[1]) is int:
            count(given[1], self.size)  # printing lists every field up to it
        check_call(*((given[0], given[1:]) if fn is rrule else (fn, given)), op.kwargs)
        return op

    def keywords(self, pairs: Any) -> dict[str, Any]:
        """Return keyword arguments."""
        found = {text(key): self.value(value) for key, value in pairs}
        if len(found) != len(pairs):
            fail("a keyword argument is given twice")
        return found

    def guard(self, args: Any, fact: Any, expected: Any) -> Guard:
        """Return a guard."""
        (arg,) = args
        if fact != "raises" and fact not in FACTS:
            fail(f"a guard of an unknown fact, {fact!r}")
        wanted = self.value(expected)
        if (fact == "raises") is not isinstance(wanted, Raised):
            fail(f"a guard of {fact} that expects {wanted!r}")
        return Guard(self.variable(count(arg)), fact, wanted)

    # -- values

    def value(self, x: Any) -> Any:
        """Return a value."""
        kind = type(x)
        if kind is float or x is None or kind is bool or kind is str:
            return x
        if kind is not list or not x or type(x[0]) is not str or x[0] not in _READ:
            fail(f"{str(x)[:40]} in place of a value")
        return _READ[x[0]](self, *x[1:])

    def integer(self, x: Any) -> int:
        if type(x) is str and re.fullmatch(r"-?0x[0-9a-f]+", x):
            return int(x, 16)
        if type(x) is not int:
            fail(f"{x!r} in place of an integer")
        return x

    def number(self, name: Any, x: Any) -> Any:
        """Return a NumPy number."""
        cls = SCALARS[name]
        if type(x) is str:
            return np.frombuffer(bytes.fromhex(x), cls, 1)[0]
        found = self.value(x)
        if type(found) not in (bool, int, float, complex):
            fail(f"{x!r} in place of a number")
        return cls(found)

    def stored(self, dtype: Any, shape: Any, axes: Any, start: Any) -> Any:
        """Return a copy of an array whose bytes are in the file."""
        kind = self.dtype(dtype)
        total = math.prod([count(n) for n in shape[:64]])
        if (len(shape) > 64 or count(start) + total * kind.itemsize > len(self.bytes)
            or (axes and sorted(axes) != list(range(len(shape))))):
            fail(f"an array of {dtype} and shape {str(shape)[:40]} is not in the file")
        flat = np.frombuffer(self.bytes, kind, total, start).copy() if total else np.empty(0, kind)
        if not axes:
            return flat.reshape(shape)
        return flat.reshape([shape[i] for i in axes]).transpose(np.argsort(axes))

    def dtype(self, name: Any) -> Any:
        """Return a dtype of numbers, by name."""
        if name not in self.dtypes:
            if type(name) is not str or not re.fullmatch(DTYPE, name):
                fail(f"{name!r} in place of a numeric dtype")
            self.dtypes[name] = np.dtype(name)
        return self.dtypes[name]

    def generator(self, kind: Any, bits: Any) -> Any:
        """Return a random generator, freshly seeded."""
        if kind not in ("Generator", "RandomState"):
            fail(f"a random generator of the unknown kind {kind!r}")
        return getattr(np.random, kind)(GENERATORS[bits]())

    def tensor(self, number: Any) -> Any:
        return torch.from_numpy(self.arrays[count(number, len(self.arrays))])

    def unknown(self, name: Any, length: Any) -> Absent:
        return absent(parsed(text(name), count(length, self.size)))

    # -- functions and classes

    def function(self, row: Any) -> Any:
        """Return a callable; a user's own function is represented by its op."""
        found = self.value(row)
        if type(row) is list and row[0] == "given":
            return op_of(found)
        if not callable(found) or isinstance(found, (type, Recorded)) or row[0] not in CALLED:
            fail(f"{str(row)[:40]} in place of a function")
        return found

    def handed(self, name: Any, wanted: type | None = None) -> Any:
        """Return the given function or class that a name refers to, or raise."""
        found = self.among_given(name)
        if found is None:
            short = name.rpartition(":")[2].rpartition(".")[2]
            fail(f"the tape uses {name}, which was not passed",
                 f"tg.load(path, primitives={{{name!r}: {short.strip('<>') or 'fn'}}})")
        if not callable(found) or (wanted is not None and not isinstance(found, wanted)):
            fail(f"{found!r} was passed for {name}, which is a {'class' if wanted is type else 'function'}")
        return found

    def among_given(self, name: Any) -> Any:
        """Return the object given under a name (`module:qualified.name` or its end), or None."""
        short = text(name).rpartition(":")[2]
        return next((self.given[key] for key in (name, short, short.rpartition(".")[2]) if key in self.given), None)

    def cls(self, row: Any) -> Any:
        """Return a class."""
        found = self.handed(row[1], type) if row[0] == "given" else self.value(row)
        if not isinstance(found, type):
            fail(f"{str(row)[:40]} in place of a class")
        return found

    def named(self, row: Any, *parts: Any) -> Any:
        """Return a named tuple."""
        cls = self.cls(row)
        if not issubclass(cls, tuple) or len(parts) != len(cls._fields):  # type: ignore[attr-defined]
            fail(f"{cls.__name__} is not a named tuple of {len(parts)}")
        return tuple.__new__(cls, map(self.value, parts))

    def enum(self, name: Any, member: Any) -> Any:
        return self.handed(name, type)[text(member)]

    def main(self, name: Any, kind: Any, handed: Any) -> Any:
        """Return the function of the tape, or a placeholder if it was not given."""
        found = self.among_given(handed)
        return Recorded(text(name), text(kind)) if found is None else found

    def raised(self, fn: Any, error: Any, settings: Any = None, never: Any = False) -> Raised:
        cls = self.cls(error)
        called = self.value(fn)
        if not issubclass(cls, Exception) or not callable(called) or isinstance(called, type):
            fail("a guard of an error that expects no error")
        given = tuple((text(kind), text(way)) for kind, way in self.keywords(settings or ()).items())
        if (not {kind for kind, _ in given} <= _KINDS or not {way for _, way in given} <= _WAYS
            or type(never) is not bool):
            fail(f"a guard of an error with settings {settings!r}")
        return Raised(called, cls, given, never)

    def run(self, row: Any) -> Any:
        op = self.function(row)
        return op.run

    def step(self, op: Any, args: Any, kwargs: Any) -> Step:
        found = self.function(op)
        if not isinstance(found, Op) or found.aliases != 0:
            fail("a step that does not lead to a view")
        return Step(found, tuple(map(self.value, args)), self.keywords(kwargs))

    # -- nesting

    def signature(self, function: Any, args: Any, kwargs: Any, asked: Any = (None, True),
                  shared: Any = ()) -> Signature:
        """Return the nesting of the inputs, and the gradients wanted; the leaves are numbered through all parts."""
        start = 0
        parts: list[Structure] = []
        for number in (function, *args, *(part for _, part in kwargs)):
            parts.append(self.nest.structure(number, start))
            start += parts[-1].size
        names = [text(name) for name, _ in kwargs]
        if len(set(names)) != len(names):
            fail("a keyword argument is given twice")
        argnums, captured = asked
        found = Signature(None, parts[0], tuple(parts[1: 1 + len(args)]), dict(zip(names, parts[1 + len(args):])),
                          wanted(argnums, bool(captured)).among(len(args)))
        found.shared = tuple([(int(again), int(first)) for again, first in shared])
        return found

    def gradients(self, number: Any, shapes: Any) -> ValueAndGradients:
        """Return the nesting of a gradient tape's result."""
        into = ValueAndGradients(self.signatures[count(number, len(self.signatures))], ())
        into.shapes = [text(shape) for shape in shapes]
        return into

    def capture(self, tape: Tape) -> None:
        """Set the function and the captured values of the signatures: as given, or as they were when saved."""
        signature, inputs = tape.structure, tape.inputs[1:]
        if sum(part.size for part in (*signature.parts, *signature.kwargs.values())) != len(inputs):
            fail("the number of inputs differs from their nesting")
        fn = self.ops[0].val
        captured = signature.function.size
        if type(fn) is Recorded:
            if captured:
                fn.structure, fn.leaves = signature.function, [x.val for x in inputs[:captured]]
            function = fn.structure
        else:
            leaves: list[Any] = []
            function = flatten(fn, "", leaves, [], given=True)
            if len(leaves) != captured:
                fail(f"{tape.name} captures {len(leaves)} numbers and arrays, but {captured} when the tape was saved",
                     "leave it out: a replay then uses the saved captured values")
        for each in self.signatures:
            if each.function.size == captured:
                each.fn, each.function = fn, function
        for op in tape.ops:
            if type(op) is Guard and op.fact in GIVEN_AWAY:
                give_up([(tape, op.args[0], True)])


def _foreign(name: Any) -> Any:
    found = foreign(text(name)).get(name)
    if found is None:
        fail(f"tapegrad has no function {name}")
    return found


def _module(name: Any) -> Any:
    import importlib
    if name not in MODULES:
        fail(f"the module {name!r}")
    return importlib.import_module(name)


_READ: dict[str, Callable[..., Any]] = {
    "int": Reader.integer, "float": lambda r, x: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[x]),
    "complex": lambda r, re, im: complex(r.value(re), r.value(im)), "np": Reader.number,
    "bytes": lambda r, x: bytes.fromhex(x), "bytearray": lambda r, x: bytearray.fromhex(x), "...": lambda r: ...,
    "slice": lambda r, a, b, c: slice(r.value(a), r.value(b), r.value(c)),
    "range": lambda r, *parts: range(*map(r.value, parts)),
    "tuple": lambda r, *xs: tuple(map(r.value, xs)), "list": lambda r, *xs: list(map(r.value, xs)),
    "set": lambda r, *xs: set(spread(map(r.value, xs))),
    "frozenset": lambda r, *xs: frozenset(spread(map(r.value, xs))),
    "dict": lambda r, *pairs: dict(zip(spread(r.value(key) for key, _ in pairs), [r.value(x) for _, x in pairs])),
    "Fraction": lambda r, a, b: Fraction(r.value(a), r.value(b)), "Decimal": lambda r, x: Decimal(text(x)),
    "array": lambda r, i: r.arrays[count(i, len(r.arrays))], "tensor": Reader.tensor, "dtype": Reader.dtype,
    "ZeroTangent": lambda r: ZERO, "NoTangent": lambda r: NoTangent(), "unknown": Reader.unknown,
    "generator": Reader.generator, "global generator": lambda r: GLOBAL, "module": lambda r, x: _module(x),
    "op": lambda r, x: OPS[x], "own": lambda r, x: OWN[x], "foreign": lambda r, x: _foreign(x),
    "given": Reader.handed, "run": Reader.run, "type": lambda r, x: TYPES[x], "scalar": lambda r, x: SCALARS[x],
    "error": lambda r, x: ERRORS[x], "result": lambda r, x: results()[x],
    "enum": Reader.enum, "named": Reader.named, "function": Reader.main, "step": Reader.step, "raised": Reader.raised,
    "structure": lambda r, i: r.nest.structure(i, 0), "gradients": Reader.gradients,
    **{tag: lambda r, *parts, make=make: make(*parts) for tag, make in torch_values.READ.items()},
}
