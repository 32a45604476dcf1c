"""save: writes a tape into a file."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import os
import secrets
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tapegrad.errors import TapeFormatError
from tapegrad.numbers.cotangents import Accumulator, NoTangent, Scatter, ZeroTangent
from tapegrad.numbers.formatting import name_of, plain, type_name
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.tensors import is_tensor
from tapegrad.numbers.view_path import Step
from tapegrad.ops import draw
from tapegrad.ops.loop import Loop
from tapegrad.ops.solver import Solver
from tapegrad.ops.steps import Steps
from tapegrad.rules.op import OPS, Cotangents, JointPullback, Op, Pullback
from tapegrad.rules.registry import FRONTEND_OPS
from tapegrad.store import torch_values
from tapegrad.store.format import (
    ALIGNMENT,
    DRAWS,
    ERRORS,
    GENERATORS,
    GLOBAL,
    KINDS,
    MAGIC,
    MODULES,
    OWN,
    SCALARS,
    TYPES,
    VERSION,
    foreign,
    foreign_name,
    handed_name,
    printable,
    results,
)
from tapegrad.tape.raised import Raised
from tapegrad.tape.spec import Absent
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.trace.collector import collector
from tapegrad.transforms.primitivize import singly
from tapegrad.transforms.rewrite import is_pullback
from tapegrad.tree.argnums import ALL
from tapegrad.tree.flatten import Structure
from tapegrad.tree.modules import Module
from tapegrad.tree.nodes import Bound, Closure, Container, Extended, Fresh, Item, Leaf, Partial, Static, Subclassed, Way
from tapegrad.tree.signature import Recorded, Signature, ValueAndGradients


class Unsaved(Exception):
    """Raised for a value that a file cannot hold; the message names it, and what to do."""


def save(tape: Tape, path: str | os.PathLike[str], values: bool = True) -> None:
    """Write a tape to a file, completely or not at all: the old file stays until the new one is complete."""
    content = to_bytes(tape, values)
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(beside, "xb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def to_bytes(tape: Tape, values: bool = True, handed: dict[str, Any] | None = None) -> list[bytes]:
    """Return the pieces of a tape's file; objects that `load` must be given are added to `handed`."""
    tape = singly(tape.check())
    writer = Writer(values)
    writer.handed = {} if handed is None else handed
    with collector:
        text = json.dumps(writer.tape(tape), separators=(",", ":"), allow_nan=False).encode() + b"\n"
    digest = hashlib.sha256(text)
    for piece in writer.pieces:
        digest.update(piece)
    head = f"{MAGIC} {VERSION} {len(text)} {writer.size} {digest.hexdigest()}\n"
    return [head.encode(), text, *writer.pieces]


class Writer:
    """Builds a file from one tape: the columns, and the tables that they refer to."""

    def __init__(self, values: bool) -> None:
        self.keep = values
        self.pieces: list[bytes] = []
        self.size = 0
        self.arrays: list[Any] = []
        self.nodes: list[Any] = []
        self.structures: list[Any] = []
        self.signatures: list[Any] = []
        self.places: list[Any] = []
        self.functions: list[Any] = []
        self.loops: list[Any] = []
        self.numbers: dict[Any, int] = {}  # positions in the tables
        self.handed: dict[str, Any] = {}  # objects that `load` must be given, by name
        self.alive: list[Any] = []  # so that ids are not reused

    def tape(self, tape: Tape) -> dict[str, Any]:
        """Return the columns of a tape, and the tables."""
        try:
            signature = None if tape.structure is None else self.signature(tape.structure)
        except Unsaved as err:
            raise TapeFormatError(f"the arguments of {tape.name} hold {err}", None, _ADVICE) from None
        return {
            **{"name": "", "result": 0, "signature": signature}, **self.rows(tape), "places": self.places,
            "functions": self.functions,
            **({"loops": self.loops} if self.loops else {}),
            "arrays": self.arrays, "nodes": self.nodes, "structures": self.structures, "signatures": self.signatures,
        }

    def rows(self, tape: Tape) -> dict[str, Any]:
        """Return the columns of a tape, or of a loop's body."""
        names = ("at", "notes", "values", "labels", "calls", "args", "kwargs", "facts")
        columns: dict[str, Any] = {name: [] for name in names}
        for op in tape.ops:
            try:
                self.operation(op, columns)
            except Unsaved as err:
                raise TapeFormatError(f"`{op!r}` cannot be saved: it holds {err}", op.where, _ADVICE) from None
            except RecursionError:
                raise TapeFormatError(f"{op.name} cannot be saved: its content is nested too deep", op.where,
                                      _ADVICE) from None
        return {
            "name": printable(tape.name), "result": tape.result.id,
            "kinds": "".join(KINDS[op.kind] for op in tape.ops), **columns,
        }

    def operation(self, op: Operation, columns: dict[str, Any]) -> None:
        """Append the entries of an operation."""
        columns["at"].append(self.place(op))
        columns["notes"].append(printable(op.note))
        if isinstance(op, Call):
            columns["calls"].append(self.callee(op))
            columns["args"].append([self.argument(arg) for arg in op.args])
            if op.kwargs:
                columns["kwargs"].append([op.id, *([key, self.value(arg)] for key, arg in op.kwargs.items())])
            columns["values"].append(self.known(op.val, self.keep or op.fn is draw))
        elif isinstance(op, Guard):
            columns["args"].append([self.argument(arg) for arg in op.args])
            columns["facts"].append([op.fact, self.value(op.expected)])
            columns["values"].append(None)
        elif isinstance(op, Input) and op.id == 1 and op.val is not None:
            columns["labels"].append(printable(op.label))
            columns["values"].append(self.function(op.val))
        elif isinstance(op, (Input, Constant)):
            if isinstance(op, Input):
                columns["labels"].append(printable(op.label))
            columns["values"].append(self.known(op.val, False) if type(op.val) is Absent else self.value(plain(op.val)))
        else:
            raise Unsaved(f"an operation of the kind {op.kind!r}")

    def place(self, op: Operation) -> int:
        """Return the number of an operation's line, -1 if it has none."""
        if op.code is None:
            return -1
        key = ("place", id(op.code), op.lasti)
        if key not in self.numbers:
            self.alive.append(op.code)
            where = op.where
            assert where is not None
            first = getattr(op.code, "co_firstlineno", where.line)
            row = [printable(where.file), first, printable(where.function), where.line, printable(where.source)]
            known = ("line", *row)
            if known not in self.numbers:
                self.places.append(row)
            self.numbers[key] = self.numbers.setdefault(known, len(self.places) - 1)
        return self.numbers[key]

    def callee(self, op: Call) -> int:
        """Return the number of a call's function, or minus the variable that holds the pullback it calls."""
        fn = op.fn
        if isinstance(fn, Operation):
            if not is_pullback(fn):
                raise Unsaved(f"a call of {fn.name}, which is not a pullback")
            return -fn.id
        key = ("function", id(fn))
        if key not in self.numbers:
            self.alive.append(fn)
            nested = isinstance(fn, Subtape) and not fn.returns_more
            written = self.loop(fn) if type(fn) is Loop else self.subtape(fn) if nested else self.callable(fn)
            self.numbers[key] = len(self.functions)  # after the functions of a loop's body
            self.functions.append(written)
        if fn is draw and op.kwargs.get("method") not in DRAWS and not torch_values.is_source(op.args[0]):
            raise Unsaved("a draw by an unknown method")
        return self.numbers[key]

    def loop(self, loop: Loop) -> Any:
        """Return the reference to a loop, which stands with its body after the loops in it."""
        row = {"count": loop.count, "sizes": loop.sizes[1:], "reverse": loop.reverse,
               "steps": [[self.value(x) for x in values] for values in loop.steps], **self.rows(loop.body)}
        self.loops.append(row)
        return ["loop", len(self.loops) - 1]

    def subtape(self, fn: Subtape) -> Any:
        """Return the reference to another subtape, which stands among the loops with count 0."""
        if Subtape.kinds.get(fn.kind) is not type(fn):
            raise Unsaved(f"{getattr(fn, '__name__', fn.noun)}, a {fn.noun} of a kind that the format does not support")
        sizes = (len(fn.body.inputs) - 1, 0, 0)
        fields = [self.value(x) for x in fn.fields]
        self.loops.append({"count": 0, "sizes": sizes, "reverse": False, "steps": [], "kind": fn.kind, "fields": fields,
                           **self.rows(fn.body)})
        return ["loop", len(self.loops) - 1]

    # -- values

    def argument(self, x: Any) -> Any:
        """Return the JSON of an argument: a variable is its number."""
        return x.id if isinstance(x, Operation) else self.value(plain(x))

    def known(self, x: Any, arrays: bool) -> Any:
        """Return the JSON of a call's value, or of its type if no more is kept."""
        x = plain(x)
        kind = type(x)
        if kind is tuple or kind is list:
            return [kind.__name__, *(self.known(part, arrays) for part in x)]
        if kind is dict:
            return ["dict", *([self.value(key), self.known(part, arrays)] for key, part in x.items())]
        if kind is Absent:
            return ["unknown", str(x.spec), len(x)]
        if kind not in _TRANSIENT and (arrays or not (isinstance(x, np.ndarray) or hasattr(kind, "_fields"))):
            try:
                return self.value(x)
            except Unsaved:
                pass
        return ["unknown", printable(type_name(x)), len(x) if isinstance(x, (tuple, Cotangents)) else 0]

    def value(self, x: Any) -> Any:
        """Return the JSON of a value; raise Unsaved for one that the format does not know."""
        kind = type(x)
        if kind is float:
            return x if math.isfinite(x) else ["float", repr(x)]
        if x is None or kind is bool or kind is str:
            return x
        if kind in _WRITE:
            return _WRITE[kind](self, x)
        if isinstance(x, np.generic) and kind.__name__ in SCALARS:
            return ["np", kind.__name__,
                    *([x.tobytes().hex()] if isinstance(x.item(), np.generic) else [self.value(x.item())])]
        if isinstance(x, np.dtype) and x.kind in "biufc":
            return ["dtype", x.str]
        if is_generator(x):
            return self.generator(x)
        if (of_torch := torch_values.written(x)) is not None:
            return of_torch
        if is_tensor(x):
            return ["tensor", self.array(x.detach().cpu().resolve_conj().numpy())[1]]
        if isinstance(x, ModuleType) and x.__name__ in MODULES:
            return ["module", x.__name__]
        if isinstance(x, enum.Enum):
            return ["enum", self.given(kind), x.name]
        if isinstance(x, tuple) and hasattr(x, "_fields"):
            return ["named", ["result", kind.__name__] if results().get(kind.__name__) is kind else self.callable(kind),
                    *map(self.value, x)]
        if callable(x):
            return self.callable(x)
        raise Unsaved(f"{_described(x)}, which the format does not support")

    def integer(self, x: int) -> Any:
        return ["int", x if abs(x) < 2**63 else hex(x)]

    def array(self, x: Any) -> Any:
        """Return the reference to an array, whose bytes are written once."""
        if x.dtype.kind not in "biufc":
            raise Unsaved(f"an array of {x.dtype}, which the format does not support")
        if ("array", id(x)) not in self.numbers:
            # in memory order
            axes = [] if x.flags.c_contiguous else sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
            data = (x.transpose(axes) if axes else x).tobytes()
            self.numbers["array", id(x)] = len(self.arrays)
            self.alive.append(x)
            self.arrays.append([x.dtype.str, list(x.shape), axes, self.size])
            self.pieces += [data, b"\0" * (-len(data) % ALIGNMENT)]
            self.size += len(data) + len(self.pieces[-1])
        return ["array", self.numbers["array", id(x)]]

    def generator(self, x: Any) -> Any:
        """Return the JSON of a random generator: its kind without its state, which every draw changes."""
        if x is GLOBAL:
            return ["global generator"]
        bits = type(x.bit_generator if hasattr(x, "bit_generator") else x._bit_generator).__name__
        if bits not in GENERATORS:
            raise Unsaved(f"a random generator with the bit generator {bits}, which the format does not support")
        return ["generator", type(x).__name__, bits]

    def callable(self, x: Any) -> Any:
        """Return the JSON of a function or class: a name of tapegrad's or of a library's, else one that `load` must be
        given.
        """
        name = getattr(x, "__name__", "")
        if isinstance(x, Steps) or type(x.__dict__.get("of") if isinstance(x, Op) else None) is Steps:
            raise Unsaved(f"{name}, a loop that keeps states")
        if isinstance(x, Op) and FRONTEND_OPS.get(name) is x:
            return ["torch op", name]
        if isinstance(x, Op) and (function := torch_values.written_op(x)) is not None:
            return function
        if isinstance(x, Op) and type(x) is not Op:
            raise Unsaved(f"{name}, recorded as one operation, but not a function of torch"
                          if "torch" in type(x).__module__ else f"{name}, which has a tape of its own")
        if isinstance(x, Op) and isinstance(getattr(x.impl, "__self__", None), Solver):
            raise Unsaved(f"{name}, a solver that calls the program's functions")
        if isinstance(x, Op):
            return ["op", name] if OPS.get(name) is x else ["given", self.given(x)]
        if isinstance(x, type):
            for tag, table in (("type", TYPES), ("scalar", SCALARS), ("error", ERRORS)):
                if table.get(name) is x:
                    return [tag, name]
            return ["given", self.given(x)]
        own = next((key for key, fn in OWN.items() if fn is x), None)
        if own is not None:
            return ["own", own]
        if isinstance(getattr(x, "__self__", None), Op):
            return ["run", self.callable(x.__self__)]
        if x.__hash__ is not None and name:
            known = foreign_name(x)
            if foreign(known).get(known) is x:
                return ["foreign", known]
        if not name or not hasattr(x, "__qualname__"):
            raise Unsaved(f"{_described(x)}, which has no name")
        return ["given", self.given(x)]

    def given(self, x: Any) -> str:
        """Return the name of a function, class or object that `load` must be given, and note it."""
        name = handed_name(x)
        if name.startswith("tapegrad.") and "<" in name:  # a reader cannot name or give it
            raise Unsaved(f"{getattr(x, '__name__', name)}, which tapegrad made during the trace")
        self.handed[name] = x
        return name

    def function(self, x: Any) -> Any:
        """Return the JSON of the tape's function: its name and its type."""
        if isinstance(x, Recorded):
            return ["function", x.__name__, x._type_name, x.__name__]
        name = handed_name(x) if callable(x) else type(x).__name__
        return ["function", printable(name_of(x)), printable(type_name(x)), printable(name)]

    # -- nesting

    def structure(self, x: Structure, bare: bool = False) -> int:
        """Return the number of a structure; of a `bare` one, a function's, only the captured values are kept."""
        key = ("structure", id(x))
        if key not in self.numbers:
            self.numbers[key] = len(self.structures)
            self.alive.append(x)
            order = parts_first(x.spec if x.size or not bare else Static(None))
            places = {id(node): len(self.nodes) + i for i, node in enumerate(order)}
            self.nodes += [self.node(node, places, x.start, bare) for node in order]
            self.structures.append([places[id(order[-1])], x.size])
        return self.numbers[key]

    def node(self, node: Any, places: dict[int, int], start: int, bare: bool) -> list[Any]:
        """Return the JSON of one part: its kind, whether it has leaves, its children's numbers, and its other
        parameters.
        """
        if isinstance(node, Leaf):
            return ["leaf", node.index - start]
        if isinstance(node, Static):
            return (["fresh", self.value(node.value)] if isinstance(node, Fresh) and not bare
                    else ["static", None if bare else self.value(node.value)])
        if isinstance(node, Module):
            raise Unsaved("a torch.nn.Module")
        children = [places[id(child)] for child in node.children]
        if isinstance(node, Container):
            if bare and node.type not in (dict, list, OrderedDict, defaultdict):
                return ["tuple", node.leafy, children]
            kind, extra, children = self.container(node, children)
            return [kind, node.leafy, children, *extra]
        bound = isinstance(node, Way) or (isinstance(node, Partial) and len(children) > 3)
        if bound and not bare:
            raise Unsaved(f"an argument of type {node.cls.__name__}, which refers to others or has attributes")
        if isinstance(node, (Bound, Partial)) and not bound:
            return ["bound" if isinstance(node, Bound) else "partial", node.leafy, children]
        names = [["item", self.value(name.key)] if type(name) is Item else name for name in node.names]
        if bare:
            return ["captured", node.leafy, children, names,
                    None if bound or isinstance(node, Closure) else handed_name(node.cls)]
        if isinstance(node, Closure):
            return ["closure", node.leafy, children, names, self.callable(node.prototype)]
        kind = "array" if isinstance(node, Subclassed) else "extended" if isinstance(node, Extended) else "instance"
        return [kind, node.leafy, children, names, self.callable(node.cls)]

    def container(self, node: Container, children: list[int]) -> tuple[str, list[Any], list[int]]:
        """Return the kind of a container, its other parameters, and its children in the container's own order."""
        example: Any = node.make(node.metadata, tuple(range(len(children))))  # type: ignore[arg-type]
        if node.type in (tuple, list):
            return node.type.__name__, [], children
        if node.type in (dict, OrderedDict, defaultdict):
            extra = [[self.value(key) for key in example], self.value(getattr(example, "default_factory", None))]
            return node.type.__name__, extra, [children[i] for i in example.values()]
        if node.type is deque:
            return "deque", [self.value(example.maxlen)], children
        if isinstance(example, tuple) and hasattr(example, "_fields"):
            return "named", [["result", node.type.__name__] if results().get(node.type.__name__) is node.type
                             else self.callable(node.type)], children
        raise Unsaved(f"a {node.type.__name__}, which is registered with optree but not supported by the format")

    def signature(self, x: Signature) -> int:
        """Return the number of a signature."""
        key = ("signature", id(x))
        if key not in self.numbers:
            self.alive.append(x)
            row = [self.structure(x.function, bare=True), [self.structure(part) for part in x.args],
                   [[name, self.structure(part)] for name, part in x.kwargs.items()]]
            if x.wanted != ALL or x.shared:
                row.append([list(x.wanted.argnums) if isinstance(x.wanted.argnums, tuple) else x.wanted.argnums,
                            x.wanted.captured])
            if x.shared:
                row.append([list(pair) for pair in x.shared])
            self.numbers[key] = len(self.signatures)
            self.signatures.append(row)
        return self.numbers[key]


def parts_first(root: Any) -> list[Any]:
    """Return the parts of a nesting, each once and after its children, except for references back to a containing part.
    """
    order: list[Any] = []
    seen, stack = set(), [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack += [(child, False) for child in reversed(getattr(node, "children", []))]
    return order


def _described(x: Any) -> str:
    if torch_values.is_source(x):
        return "a torch.Generator, or a state that the program has set"
    name = type(x).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


_TRANSIENT = (Pullback, JointPullback, Cotangents, Scatter, Accumulator)  # computed again by every replay
_ADVICE = ("use numbers, arrays and named functions in the program, and pass the functions to tg.load(path, "
           "primitives={...})")

_WRITE: dict[Any, Callable[[Writer, Any], Any]] = {
    int: Writer.integer,
    complex: lambda w, x: ["complex", w.value(x.real), w.value(x.imag)],
    bytes: lambda w, x: ["bytes", x.hex()],
    bytearray: lambda w, x: ["bytearray", x.hex()],
    type(...): lambda w, x: ["..."],
    slice: lambda w, x: ["slice", w.value(x.start), w.value(x.stop), w.value(x.step)],
    range: lambda w, x: ["range", w.value(x.start), w.value(x.stop), w.value(x.step)],
    tuple: lambda w, x: ["tuple", *map(w.value, x)],
    list: lambda w, x: ["list", *map(w.value, x)],
    set: lambda w, x: ["set", *map(w.value, x)],
    frozenset: lambda w, x: ["frozenset", *map(w.value, x)],
    dict: lambda w, x: ["dict", *([w.value(key), w.value(part)] for key, part in x.items())],
    Fraction: lambda w, x: ["Fraction", w.value(x.numerator), w.value(x.denominator)],
    Decimal: lambda w, x: ["Decimal", str(x)],
    np.ndarray: Writer.array,
    ZeroTangent: lambda w, x: ["ZeroTangent"],
    NoTangent: lambda w, x: ["NoTangent"],
    Step: lambda w, x: ["step", w.callable(x.op), [w.value(arg) for arg in x.args],
                        [[key, w.value(arg)] for key, arg in x.kwargs.items()]],
    Raised: lambda w, x: ["raised", w.callable(x.fn), w.callable(x.error),
                          *([list(map(list, x.settings)), x.never] if x.settings else [])],
    Structure: lambda w, x: ["structure", w.structure(x)],
    ValueAndGradients: lambda w, x: ["gradients", w.signature(x.signature), x.shapes],
}
