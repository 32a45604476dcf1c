"""emit: the text of one LLVM function, instruction by instruction.

It is written as LLVM's textual form: explicit, and the same for all versions of llvmlite. Nothing in it is an address.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tapegrad.compile.native.values import LLVM

Mark = tuple[int, str, int]


class Lanes(NamedTuple):
    """How many numbers are computed at once: 1, or a vector of them; and how the functions of vectors are named."""

    width: int = 1
    prefix: str = ""

    def type(self, kind: str) -> str:
        """LLVM's type of so many numbers of a kind."""
        return LLVM[kind] if self.width == 1 else f"<{self.width} x {LLVM[kind]}>"

    @property
    def suffix(self) -> str:
        """What names of LLVM's intrinsics end in."""
        return "f64" if self.width == 1 else f"v{self.width}f64"

    def constant(self, x: Any, kind: str = "f") -> str:
        """Write a constant."""
        return literal(x, kind) if self.width == 1 else f"splat ({LLVM[kind]} {literal(x, kind)})"


ONE = Lanes()


def literal(x: Any, kind: str) -> str:
    """Write a constant.

    >>> literal(1.0, "f"), literal(True, "b")
    ('0x3FF0000000000000', 'true')
    """
    if kind == "f":
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(x)))[0]:016X}"
    return str(bool(x)).lower() if kind == "b" else str(int(x))


class Emitter:
    """Appends instructions to one function; each value is named once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declared: dict[str, None] = {}  # declarations and constants beside the function, in order
        self.stacked: list[str] = []  # memory of its own, taken where it begins
        self.block = "%start"
        self.lanes = ONE  # how many numbers each instruction that is written computes
        self.slots = 0  # objects that the function holds references to
        self._count = 0

    # -- going back where a call turns out to have no native code

    def mark(self) -> Mark:
        """Return where the text ends."""
        return len(self.lines), self.block, self.slots

    def back_to(self, mark: Mark) -> None:
        """Drop what was appended since a mark."""
        del self.lines[mark[0]:]
        _, self.block, self.slots = mark

    # -- instructions

    def put(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(f"  {text}")

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
        """Declare a function, or a constant, beside this function."""
        self.declared[text] = None

    def stack(self, size: int) -> str:
        """Return memory of the function's own."""
        name = self.fresh("stack")
        self.stacked.append(f"  {name} = alloca [{max(size, 8)} x i8], align 64")
        return name

    def constants(self, kind: str, values: Sequence[Any]) -> str:
        """Return the name of a table of constants."""
        items = ", ".join(f"{LLVM[kind]} {literal(x, kind)}" for x in values)
        body = f"internal constant [{len(values)} x {LLVM[kind]}] [{items}], align 8"
        for text in self.declared:
            name, _, rest = text.partition(" = ")
            if rest == body:
                return name
        self._count += 1
        self.declare(f"@table{self._count} = {body}")
        return f"@table{self._count}"

    def at(self, pointer: str, offset: int | str) -> str:
        """Return a pointer so many bytes further."""
        return pointer if offset == 0 else self.op(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def times(self, number: str, factor: int) -> str:
        """Return an index times a constant."""
        return number if factor == 1 else str(int(number) * factor) if number.isdigit() \
            else self.op(f"mul i64 {number}, {factor}")

    def plus(self, a: str, b: str) -> str:
        """Return the sum of two indices."""
        return b if a == "0" else a if b == "0" else str(int(a) + int(b)) if a.isdigit() and b.isdigit() \
            else self.op(f"add i64 {a}, {b}")

    # -- control

    def begin(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label[1:]}:")
        self.block = label

    def require(self, condition: str, otherwise: str = "%no") -> None:
        """Leave for a block unless a condition holds."""
        go_on = self.fresh("ok")
        self.put(f"br i1 {condition}, label {go_on}, label {otherwise}")
        self.begin(go_on)

    def loop(self, count: int | str, first: Sequence[tuple[str, str]],
             body: Callable[[str, list[str]], Sequence[str]], step: int = 1) -> list[str]:
        """Append a loop that is run at least once; return what it carries at the end.

        `first` are types and first values of what is carried, `body` is given the counter and what is carried, and
        returns its new values.
        """
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
