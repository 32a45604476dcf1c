"""c_export: exports a tape as one C function that needs no Python.

The operations are lowered to the instructions of native code (see `function`), which are printed as C. They compute on
numbers, and on arrays at the addresses that the caller passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tapegrad.compile.native.entry  # noqa: F401  (its imports fill the table of lowerings)
from tapegrad import ops
from tapegrad.compile.backend import with_inlined_checkpoints, with_reusable_states
from tapegrad.compile.native.batches import grouped
from tapegrad.compile.native.c_text import SCALARS, CText, NoC
from tapegrad.compile.native.emit import Lanes
from tapegrad.compile.native.function import Function
from tapegrad.compile.native.memory import copy
from tapegrad.compile.native.plan import ALIGN, Plan, Target
from tapegrad.compile.native.table import VECTORS
from tapegrad.compile.native.values import (
    COMPLEX,
    ELEMENTS,
    INEXACT,
    Array,
    Number,
    Unlowered,
    Value,
    dense,
    element_kind,
    itemsize,
    kind_of,
    number_kind,
)
from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import ZeroTangent, conform
from tapegrad.numbers.formatting import count_of
from tapegrad.optimise.roll import roll
from tapegrad.tape.c_source import CSource
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape
from tapegrad.transforms.primitivize import flattened
from tapegrad.tree.signature import ValueAndGradients

TARGET = Target(Lanes(), True)
"""The target for C: no vectors, since C compilers vectorise the loops."""
_OWN = re.compile(r"(v|c|k|m|loop|done|ok|ask|stack|table)\d+(_next)?|arena|no|start")  # names in the generated C code
_WORDS = frozenset(re.findall(r"\w+", """auto break case char const continue default do double else enum extern float
    for goto if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned
    void volatile while value fabs fabsf sqrt sqrtf copysign floor ceil trunc rint isnan memcpy memset free
    aligned_alloc NULL NAN INFINITY INT64_C int64_t int32_t uint64_t uint32_t uint8_t asm typeof linux unix
    math_errhandling""")) | VECTORS
_FUNCTIONS = re.compile(r"""_[A-Z_]\w*|main|size_t|wchar_t|\w*alloc|qsort|bsearch|s?rand|exit|abort|atexit|system|getenv
    |(ll?)?(abs|div|round|rint)|str(len|n?cpy|n?cat|n?cmp|coll|xfrm|r?chr|c?spn|pbrk|str|tok|error|dup|to\w+)
    |mem(move|cmp|chr)|ato[fil]+|is(nan|inf|normal|finite|greater|less|unordered)\w*|signbit|fpclassify
    |([jy][01n]|(l|t)?gamma|fmod|remainder|nan|fdim|fma|fmax|fmin|frexp|ldexp|modf|nextafter|remquo|logb)[fl]?|scalb\w*
    |ilogb|nearbyint|drem|significand|finite|div_t""", re.VERBOSE)
"""Names of the C library that no exported function may have."""
_MACRO = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|[A-Z]{5,}")  # a name that a header may define as a macro


class Parameter(NamedTuple):
    """A parameter of the function: its name, element kind and spec, and whether the function writes to it."""

    name: str
    kind: str
    spec: Spec
    result: bool = False

    @property
    def declaration(self) -> str:
        """The declaration in C."""
        element = SCALARS[ELEMENTS[ELEMENTS[self.kind].part or self.kind].stored]
        if self.spec.is_array or self.result or self.kind in COMPLEX:
            return f"{'' if self.result else 'const '}{element} *{self.name}"
        return f"{element} {self.name}"

    def __str__(self) -> str:
        what = "number" if not self.spec.is_array else f"array {'x'.join(map(str, self.spec.shape)) or 'of one number'}"
        pairs = ", each a pair of real and imaginary part" if self.kind in COMPLEX else ""
        return f"{self.name}: {'result, ' if self.result else ''}{ELEMENTS[self.kind].dtype} {what}{pairs}"


class Standalone(Function):
    """Emits the operations of a tape without Python objects. Raises ArgumentError for an operation that needs one."""

    signals = threads = False

    def object(self, x: Any) -> str:
        raise Unlowered("a call of Python")

    def integers(self, table: Any) -> str:
        return self.constants("i", np.asarray(table).ravel().tolist())

    def flush(self, make: Any = None) -> Any:
        op = next((op for op in self.pending if op.fn is not ops.pack), next(iter(self.pending)))
        name = op.fact if isinstance(op, Guard) else getattr(op.fn, "__name__", str(op.fn))
        raise ArgumentError(f"{self.tape.name} cannot be written in C: {name} of these arguments is computed by NumPy",
                            op.where, "tape.to_python()")

    def value(self, x: Any) -> Value:
        if isinstance(x, Constant) and x not in self.env and x.spec.is_array and x.spec.size:
            self.env[x] = self.table(x.val)
            self._undo.append(lambda: self.env.pop(x))
        return super().value(x)

    def table(self, x: Any) -> Array:
        """Return a constant array."""
        kind = element_kind(spec_of(x))
        if kind is None or kind in COMPLEX:
            raise Unlowered("a constant of an unsupported type")
        return Array(self.constants(kind, np.ravel(x).tolist()), x.shape, dense(x.shape, itemsize(kind)), None, kind)


def to_c(tape: Tape, name: str = "") -> CSource:
    """Return a tape as a C function; see `Tape.to_c`."""
    name = name or (tape.name if tape.name.isidentifier() else "function")
    if not name.isidentifier() or not name.isascii() or name in _WORDS or _FUNCTIONS.fullmatch(name) \
            or _MACRO.fullmatch(name):
        raise ArgumentError(f"{name!r} cannot be the name of a C function", None, 'tape.to_c(name="gradient")')
    tape.check()
    best = grouped(with_reusable_states(with_inlined_checkpoints(roll(flattened(tape)))))
    f = Standalone(best, Plan(), TARGET)
    f.env[best.inputs[0]] = Number("0", "i")
    taken = set(_WORDS)
    given = [_given(f, x, named(x.label or "x", taken)) for x in best.inputs[1:]]
    parts, into = ops.unpacked(best.result)
    opened = set[Operation]()
    found = list(_results(best, parts, into, taken, opened))
    for op in best.ops:
        if (op is not best.result or into is None) and op not in opened:
            f.operation(op)
    if any(isinstance(op, Guard) for op in f.pending):
        f.flush()
    for parameter, part in found:
        _write(f, best, parameter, part)
    size, places = f.arena()
    try:
        text = CText(f, places)
    except NoC as err:
        raise ArgumentError(f"{tape.name} cannot be written in C: {err}", None, "tape.to_python()") from None
    return _written(name, tape, [*given, *[parameter for parameter, _ in found]], text, size)


def named(label: str, taken: set[str]) -> str:
    """Return a unique C name for an argument or a result."""
    name = re.sub(r"\W+", "_", label, flags=re.ASCII).strip("_") or "x"
    while not taken.isdisjoint((name, f"{name}_at")) or _OWN.fullmatch(name) or _MACRO.fullmatch(name) \
            or name[0].isdigit():
        name = f"{name}_" if not name[0].isdigit() else f"x{name}"
    taken |= {name, f"{name}_at"}
    return name


def _given(f: Function, x: Input, name: str) -> Parameter:
    """Bind an input of the tape to a C parameter, which is returned."""
    kind = kind_of(x.spec)
    if kind is None:
        raise ArgumentError(f"{f.tape.name} cannot be written in C: its argument {x.label} is a {x.spec.type}", None,
                            "arrays and numbers")
    if x.spec.is_array:
        f.env[x] = Array(f"%{name}_at", x.spec.shape, dense(x.spec.shape, itemsize(kind)), None, kind)
    else:
        f.env[x] = Number(f.load(kind, f"%{name}_at") if kind in COMPLEX else
                          f.op(f"trunc i8 %{name} to i1") if kind == "b" else f"%{name}", kind)
    return Parameter(name, kind, x.spec)


def _results(tape: Tape, parts: Any, into: Any, taken: set[str], opened: set[Operation]
             ) -> Iterator[tuple[Parameter, Any]]:
    """Yield the result parameters, each with the value to write to it. A pack is written part by part, and a `conform`
    by its argument with the input's type: these calls are added to `opened` and not computed.
    """
    inputs: list[Any] = [None, *tape.inputs[1:]] if isinstance(into, ValueAndGradients) else [None] * len(parts)
    taken.discard("value")
    for number, (part, x) in enumerate(zip(parts, inputs)):
        label = f"d_{x.label}" if x is not None else "value" if isinstance(into, ValueAndGradients) or len(parts) == 1 \
            else f"value_{number}"
        yield from _leaves(part, label, None if x is None else x.spec, taken, opened)


def _leaves(part: Any, label: str, like: Spec | None, taken: set[str], opened: set[Operation]
            ) -> Iterator[tuple[Parameter, Any]]:
    if isinstance(part, Call) and part.fn in (ops.pack, conform):
        opened.add(part)
        if part.fn is conform:
            yield from _leaves(part.args[0], label, like or part.spec, taken, opened)
        for number, each in enumerate(part.args if part.fn is ops.pack else ()):
            yield from _leaves(each, f"{label}_{number}", None, taken, opened)
    elif part is not None:
        spec = spec_of(part)
        if like is not None:
            spec = like if kind_of(like) in INEXACT else Spec(float) if number_kind(like) else spec
        kind = kind_of(spec)
        if kind is None:
            raise ArgumentError(f"a result of type {spec.type} cannot be written in C", None, "arrays and numbers")
        yield Parameter(named(label, taken), kind, spec, True), part


def _write(f: Standalone, tape: Tape, parameter: Parameter, part: Any) -> None:
    """Write a result to the memory of its parameter."""
    spec = parameter.spec
    if isinstance(part, ZeroTangent):
        part = 0.0
    shape = spec.shape if spec.is_array else ()
    to = Array(f"%{parameter.name}_at", shape, dense(shape, itemsize(parameter.kind)), None, parameter.kind)
    try:
        value = (f.number(part) if number_kind(spec_of(part)) is not None
                 else f.table(part) if isinstance(part, np.ndarray) else f.value(part))
        copy(f, to, value)  # type: ignore[arg-type]
    except Unlowered as err:
        raise ArgumentError(f"the result {parameter.name} of {tape.name} cannot be written in C: {err}",
                            getattr(part, "where", None), "tape.to_python()") from None


def _written(name: str, tape: Tape, parameters: list[Parameter], text: CText, size: int) -> CSource:
    """Return the C source and its header."""
    declared = ", ".join(parameter.declaration for parameter in parameters) or "void"
    of = tape.name.replace("*/", "")
    told = [f"{name}: {count_of(len(tape), 'operation')} of a tape of {of}", "",
            *map(str, parameters), "",
            "Arrays lie row by row. Returns 0; and 1, with no result written, where the program would take another",
            "path than the one that was recorded, or where there is no memory."]
    comment = "\n".join(["/*", *[f" * {line}".rstrip() for line in told], " */"])
    header = "\n".join([f"#ifndef {name.upper()}_H", f"#define {name.upper()}_H", "", "#include <stdint.h>", "",
                        "#ifdef __cplusplus", 'extern "C" {', "#endif", "", comment, f"int {name}({declared});", "",
                        "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])
    used = set(re.findall(r"\w+", " ".join(text.lines)))
    pointers = [f"char *{p.name}_at = (char *){p.name};" for p in parameters if f"{p.name}_at" in used]
    arena = [f"char *arena = aligned_alloc({ALIGN}, {size});", "if (arena == NULL) return 1;"] if size else []
    free = ["free(arena);"] if size else []
    body = [*pointers, *text.locals, *arena, *text.lines, *free, "return 0;",
            *(["no: ;", *free, "return 1;"] if "no" in used else [])]
    source = "\n".join(["#include <math.h>", "#include <stdint.h>", "#include <stdlib.h>", "#include <string.h>",
                        "", *text.types.values(), *text.helpers, *text.tables, *([""] if text.tables else []), comment,
                        f"int {name}({declared}) {{", *[f"    {line}" for line in body], "}", ""])
    return CSource(name, source, header)
