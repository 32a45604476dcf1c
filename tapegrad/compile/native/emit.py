"""emit: the text of one LLVM function, instruction by instruction.

LLVM's textual form is explicit, and the same for all versions of llvmlite. It contains no addresses.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.native.values import COMPLEX, ELEMENTS, FLOATS, TABLE, Unlowered, element_kind, is_small, itemsize
from tapegrad.tape.spec import Spec

Mark = tuple[int, str, int]


class Lanes(NamedTuple):
    """How many numbers are computed at once (1, or the width of a vector), whether a library of vectorised functions is
    available, and whether the code is the body of a batch loop, written once for all rows.
    """

    width: int = 1
    library: bool = False
    batch: bool = False

    def type(self, kind: str) -> str:
        """Return the LLVM type of `width` numbers of a kind."""
        element = ELEMENTS[kind]
        if self.width == 1:
            return element.register
        return f"{{ {self.type(element.part)}, {self.type(element.part)} }}" if element.part \
            else f"<{self.width} x {element.register}>"

    def suffix(self, kind: str) -> str:
        """Return the type suffix of LLVM intrinsics."""
        return ("" if self.width == 1 else f"v{self.width}") + ELEMENTS[kind].suffix

    def constant(self, x: Any, kind: str) -> str:
        """Return a constant in LLVM IR."""
        if kind in COMPLEX:
            part = ELEMENTS[kind].part
            return f"{{ {', '.join(f'{self.type(part)} {self.constant(y, part)}' for y in (x.real, x.imag))} }}"
        return literal(x, kind) if self.width == 1 else f"splat ({ELEMENTS[kind].register} {literal(x, kind)})"

    def wide(self, kinds: Iterable[str]) -> Lanes:
        """Return the lanes for a loop over numbers of these kinds; `self` are those for float64."""
        narrow = self.width > 1 and all(itemsize(kind) < 8 for kind in kinds)
        return self._replace(width=self.width * 2) if narrow else self


ONE = Lanes()


def literal(x: Any, kind: str) -> str:
    """Return a constant that is not complex in LLVM IR.

    >>> literal(1.0, "f"), literal(True, "b")
    ('0x3FF0000000000000', 'true')
    """
    if kind in FLOATS:
        exact = float(x) if kind == "f" else float(np.float32(x))
        return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
    return str(bool(x)).lower() if kind == "b" else str(int(x))


def written(text: str) -> Any:
    """Return the number that a constant represents, None for a register or a complex number.

    >>> written(Lanes(8).constant(1.5, "s")), written(ONE.constant(True, "b")), written("%v1")
    (1.5, True, None)
    """
    found = re.fullmatch(r"(?:splat \(\w+ )?(0x[0-9A-F]{16}|-?\d+|true|false)\)?", text)
    if found is None:
        return None
    if found[1].startswith("0x"):
        return struct.unpack("<d", struct.pack("<Q", int(found[1], 16)))[0]
    return found[1] == "true" if found[1].isalpha() else int(found[1])


def aligned(kind: str) -> int:
    """Return the alignment of numbers of a kind, in bytes."""
    return min(itemsize(ELEMENTS[kind].part or kind), 8)


class Emitter:
    """Appends instructions to one function; each value is assigned once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}  # declarations and constants beside the function, in order
        self.stacked: list[str] = []  # stack memory, allocated at the function's entry
        self.block = "%start"
        self.lanes = ONE  # numbers that each emitted instruction computes
        self.slots = 0  # number of objects that the function holds references to
        self._count = 0

    # -- backtracking, when a call turns out to have no native code

    def mark(self) -> Mark:
        """Return the end of the text so far."""
        return len(self.lines), self.block, self.slots

    def back_to(self, mark: Mark) -> None:
        """Drop the text after a mark."""
        del self.lines[mark[0]:]
        _, self.block, self.slots = mark

    # -- instructions

    def put(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {text}")

    def is_small(self, x: Spec) -> bool:
        """Return whether an array's elements are held in registers; within a batch, those of each row."""
        return is_small(x) or (self.lanes.batch and element_kind(x) is not None and x.size <= TABLE)

    def opaque(self, x: str, kind: str, lanes: Lanes) -> str:
        """Return a vector that LLVM cannot analyse. LLVM would otherwise replace lanes that are not selected or stored,
        and computing with the replacements may set or omit floating-point exception flags.
        """
        t, letter = lanes.type(kind), "v" if lanes.width * itemsize(kind) == 64 else "x"
        return self.op(f'call {t} asm "", "={letter},0"({t} {x})')

    def op(self, text: str) -> str:
        """Append an instruction; return the name of its value."""
        name = self.fresh("v")
        self.lines.append(f"  {name} = {text}")
        return name

    def fresh(self, hint: str) -> str:
        """Return a new name."""
        self._count += 1
        return f"%{hint}{self._count}"

    def declare(self, text: str) -> None:
        """Declare a function or a constant in the module."""
        self.declared[text] = None

    def stack(self, size: int) -> str:
        """Return stack memory."""
        name = self.fresh("stack")
        self.stacked.append(f"  {name} = alloca [{max(size, 8)} x i8], align 64")
        return name

    def constants(self, kind: str, values: Sequence[Any]) -> str:
        """Return the name of a table of constants."""
        register = ELEMENTS[kind].register
        items = ", ".join(f"{register} {literal(x, kind)}" for x in values)
        body = f"internal constant [{len(values)} x {register}] [{items}], align 8"
        for text in self.declared:
            name, _, rest = text.partition(" = ")
            if rest == body:
                return name
        self._count += 1
        self.declare(f"@table{self._count} = {body}")
        return f"@table{self._count}"

    def at(self, pointer: str, offset: int | str) -> str:
        """Return a pointer plus an offset in bytes."""
        return pointer if offset == 0 else self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def times(self, number: str, factor: int) -> str:
        """Return an index times a constant."""
        return number if factor == 1 else str(int(number) * factor) if number.isdigit() \
            else self.op(f"mul i64 {number}, {factor}")

    def plus(self, a: str, b: str) -> str:
        """Return the sum of two indices."""
        return b if a == "0" else a if b == "0" else str(int(a) + int(b)) if a.isdigit() and b.isdigit() \
            else self.op(f"add i64 {a}, {b}")

    # -- numbers of several kinds

    @contextmanager
    def computing(self, lanes: Lanes) -> Iterator[None]:
        """Emit code for these lanes meanwhile."""
        before, self.lanes = self.lanes, lanes
        try:
            yield
        finally:
            self.lanes = before

    def load(self, kind: str, at: str) -> str:
        """Load one number."""
        text = self.op(f"load {ELEMENTS[kind].stored}, ptr {at}, align {aligned(kind)}")
        return self.op(f"trunc i8 {text} to i1") if kind == "b" else text

    def store(self, kind: str, text: str, at: str) -> None:
        """Store one number."""
        text = self.op(f"zext i1 {text} to i8") if kind == "b" else text
        self.put(f"store {ELEMENTS[kind].stored} {text}, ptr {at}, align {aligned(kind)}")

    def parts(self, z: str, kind: str) -> tuple[str, str]:
        """Return the real and the imaginary part of a complex number."""
        t = self.lanes.type(kind)
        return self.op(f"extractvalue {t} {z}, 0"), self.op(f"extractvalue {t} {z}, 1")

    def complex(self, parts: Sequence[str], kind: str) -> str:
        """Return a complex number from its parts."""
        t, part = self.lanes.type(kind), self.lanes.type(ELEMENTS[kind].part)
        first = self.op(f"insertvalue {t} poison, {part} {parts[0]}, 0")
        return self.op(f"insertvalue {t} {first}, {part} {parts[1]}, 1")

    def by_parts(self, kind: str, write: Callable[..., str], *xs: str) -> str:
        """Apply `write` to the real and the imaginary parts separately, or to real numbers directly; its first argument
        is the kind of the parts.
        """
        if kind not in COMPLEX:
            return write(kind, *xs)
        pairs = zip(*[self.parts(x, kind) for x in xs])
        return self.complex([write(ELEMENTS[kind].part, *each) for each in pairs], kind)

    def select(self, condition: str, kind: str, x: str, y: str) -> str:
        """Return one of two numbers, by a condition."""
        def write(kind: str, x: str, y: str) -> str:
            t = self.lanes.type(kind)
            return self.op(f"select {self.lanes.type('b')} {condition}, {t} {x}, {t} {y}")
        return self.by_parts(kind, write, x, y)

    def convert(self, ir: str, kind: str, to: str) -> str:
        """Return a number converted to another kind; to a bool: whether it is nonzero."""
        value = written(ir)
        if kind == to:
            return ir
        if to in COMPLEX:
            part = ELEMENTS[to].part
            if kind in COMPLEX:
                return self.complex([self.convert(x, ELEMENTS[kind].part, part) for x in self.parts(ir, kind)], to)
            return self.complex([self.convert(ir, kind, part), self.lanes.constant(0.0, part)], to)
        if value is not None and to in FLOATS:
            return self.lanes.constant(value, to)
        types = self.lanes.type(kind), self.lanes.type(to)
        if to == "b":
            if kind in COMPLEX:
                some = [self.convert(x, ELEMENTS[kind].part, "b") for x in self.parts(ir, kind)]
                return self.op(f"or {types[1]} {some[0]}, {some[1]}")
            compare = "fcmp une" if kind in FLOATS else "icmp ne"
            return self.op(f"{compare} {types[0]} {ir}, {self.lanes.constant(0, kind)}")
        if kind in COMPLEX:
            raise Unlowered("a complex number in place of a real one")
        if kind in FLOATS:
            name = "fptosi" if to not in FLOATS else "fpext" if to == "f" else "fptrunc"
        elif to in FLOATS:
            name = "uitofp" if kind == "b" else "sitofp"
        else:
            name = "zext" if kind == "b" else "sext" if to == "i" else "trunc"
        return self.op(f"{name} {types[0]} {ir} to {types[1]}")

    # -- control

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label[1:]}:")
        self.block = label

    def require(self, condition: str, otherwise: str = "%no") -> None:
        """Jump to a block unless a condition holds."""
        go_on = self.fresh("ok")
        self.put(f"br i1 {condition}, label {go_on}, label {otherwise}")
        self.begin(go_on)

    def loop(self, count: int | str, first: Sequence[tuple[str, str]],
             body: Callable[[str, list[str]], Sequence[str]], step: int = 1) -> list[str]:
        """Append a loop and return its carried values at the end. A loop known not to run is omitted: the emitted loop
        tests its condition at the end.

        `first` lists types and initial values of the carried values; `body` maps the counter and the carried values to
        their new values.
        """
        if count == 0:
            return [text for _, text in first]
        head, done, before = self.fresh("loop"), self.fresh("done"), self.block
        self.put(f"br label {head}")
        self.begin(head)
        counter, names = self.fresh("k"), [self.fresh("c") for _ in first]
        place = len(self.lines)
        self.lines += [""] * (1 + len(names))
        new = body(counter, names)
        following = self.op(f"add nuw nsw i64 {counter}, {step}")
        more = self.op(f"icmp ult i64 {following}, {count}")
        phis = [(counter, "i64", "0", following)]
        phis += [(name, kind, start, next_) for name, (kind, start), next_ in zip(names, first, new)]
        for number, (name, kind, start, next_) in enumerate(phis, place):
            self.lines[number] = f"  {name} = phi {kind} [ {start}, {before} ], [ {next_}, {self.block} ]"
        self.put(f"br i1 {more}, label {head}, label {done}")
        self.begin(done)
        return list(new)
