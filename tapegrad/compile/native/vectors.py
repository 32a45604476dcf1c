"""vectors: loads and stores of vectors, and loops over the common axes of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tapegrad.compile.native.emit import Emitter, Lanes, aligned, written
from tapegrad.compile.native.values import COMPLEX, ELEMENTS, FLOATS, Array, itemsize

Shape = tuple[int, ...]


class Operand(NamedTuple):
    """An array whose rows are read or written: its strides along the batch, and the offset of each element in a row."""

    data: str
    strides: tuple[int, ...]
    places: tuple[int, ...]
    kind: str

    @staticmethod
    def of(x: Array, batch: Shape, rank: int) -> Operand:
        """Return an array broadcast to a batch, with rows of `rank` axes."""
        cut = max(len(x.shape) - rank, 0)
        lead, steps = x.shape[:cut], x.strides[:cut]
        along = tuple(0 if n == 1 and of != 1 else step for n, of, step in zip(lead, batch[len(batch) - cut:], steps))
        places = tuple(sum(i * step for i, step in zip(index, x.strides[cut:])) for index in np.ndindex(*x.shape[cut:]))
        return Operand(x.data, (0,) * (len(batch) - cut) + along, places, x.kind)


def collapsed(shape: Shape, strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return the axes reordered so that the most contiguous one is last, and merged where all operands traverse them as
    one.

    >>> collapsed((3, 4, 5), [(160, 40, 8), (0, 0, 8)])
    ([12, 5], [[40, 8], [0, 8]])
    """
    order = sorted(range(len(shape)), key=lambda axis: (-max((abs(s[axis]) for s in strides), default=0), axis))
    axes = [(shape[axis], [s[axis] for s in strides]) for axis in order if shape[axis] != 1] \
        or [(1, [0] * len(strides))]
    found = [axes[-1]]
    for n, steps in reversed(axes[:-1]):
        last, inner = found[0]
        if all(step == last * below for step, below in zip(steps, inner)):
            found[0] = n * last, inner
        else:
            found.insert(0, (n, steps))
    return [n for n, _ in found], [[steps[at] for _, steps in found] for at in range(len(strides))]


class Vectors:
    """Emits loads and stores of vectors; the last vector of a loop holds `count` numbers, other lanes are masked."""

    def __init__(self, f: Emitter, lanes: Lanes) -> None:
        self.f, self.lanes, self.width = f, lanes, lanes.width

    def mask(self, count: int, width: int = 0) -> str:
        """Return the mask of the first `count` lanes."""
        return "<" + ", ".join(f"i1 {str(k < count).lower()}" for k in range(width or self.width)) + ">"

    def splat(self, text: str, kind: str) -> str:
        """Return a vector that repeats one number."""
        value, f = written(text), self.f
        if value is not None:
            return self.lanes.constant(value, kind)
        if kind in COMPLEX:
            parts = [self.splat(x, ELEMENTS[kind].part) for x in f.parts(text, kind)]
            with f.computing(self.lanes):
                return f.complex(parts, kind)
        t = self.lanes.type(kind)
        one = f.op(f"insertelement {t} poison, {ELEMENTS[kind].register} {text}, i32 0")
        return self.shuffle(t, one, [0] * self.width)

    def shuffle(self, t: str, text: str, places: Sequence[int]) -> str:
        """Return the lanes of a vector at these positions."""
        return self.f.op(f"shufflevector {t} {text}, {t} poison, <{len(places)} x i32> <"
                         + ", ".join(f"i32 {place}" for place in places) + ">")

    def load_one(self, kind: str, at: str) -> str:
        """Load one number, as a vector."""
        return self.splat(self.f.load(kind, at), kind)

    def load(self, kind: str, at: str, step: int, count: int) -> str:
        """Load numbers at a stride; the last one is repeated in unused lanes, so that these raise no further exception
        flags.
        """
        f, width, nbytes = self.f, self.width, itemsize(kind)
        if kind in COMPLEX:
            part = ELEMENTS[kind].part
            if step == nbytes:
                both, t = self.together(part, at, 2 * width, 2 * count), f"<{2 * width} x {ELEMENTS[part].stored}>"
                parts = [self.shuffle(t, both, [2 * min(lane, count - 1) + k for lane in range(width)]) for k in (0, 1)]
            else:
                parts = [self.load(part, f.at(at, k * itemsize(part)), step, count) for k in (0, 1)]
            with f.computing(self.lanes):
                return f.complex(parts, kind)
        t = f"<{width} x {ELEMENTS[kind].stored}>"
        if step == nbytes:
            text = self.together(kind, at, width, count)
            if count < width:
                text = self.shuffle(t, text, [min(lane, count - 1) for lane in range(width)])
                text = f.opaque(text, kind, self.lanes) if kind in FLOATS else text
        else:
            return self.gather(self.pointers(at, [min(lane, count - 1) * step for lane in range(width)]), kind)
        return f.op(f"trunc {t} {text} to <{width} x i1>") if kind == "b" else text

    def together(self, kind: str, at: str, width: int, count: int) -> str:
        """Load contiguous numbers, in their memory type."""
        f, t, name = self.f, f"<{width} x {ELEMENTS[kind].stored}>", f"llvm.masked.load.v{width}{short(kind)}.p0"
        if count == width:
            return f.op(f"load {t}, ptr {at}, align {aligned(kind)}")
        f.declare(f"declare {t} @{name}(ptr, i32, <{width} x i1>, {t})")
        return f.op(f"call {t} @{name}(ptr {at}, i32 {aligned(kind)}, <{width} x i1> {self.mask(count, width)}, "
                    f"{t} zeroinitializer)")

    def rows(self, at: str, offsets: str) -> str:
        """Return an address plus a vector of byte offsets."""
        return self.f.op(f"getelementptr i8, ptr {at}, {self.lanes.type('i')} {offsets}")

    def behind(self, pointers: str, offset: int) -> str:
        """Return addresses plus one byte offset."""
        return self.f.op(f"getelementptr i8, <{self.width} x ptr> {pointers}, i64 {offset}") if offset else pointers

    def pointers(self, at: str, offsets: Sequence[int]) -> str:
        """Return a vector of addresses."""
        return self.rows(at, "<" + ", ".join(f"i64 {offset}" for offset in offsets) + ">")

    def gather(self, pointers: str, kind: str) -> str:
        """Load numbers at a vector of addresses."""
        f, width = self.f, self.width
        if kind in COMPLEX:
            part = ELEMENTS[kind].part
            others = self.behind(pointers, itemsize(part))
            with f.computing(self.lanes):
                return f.complex([self.gather(each, part) for each in (pointers, others)], kind)
        t, name = f"<{width} x {ELEMENTS[kind].stored}>", f"llvm.masked.gather.v{width}{short(kind)}.v{width}p0"
        f.declare(f"declare {t} @{name}(<{width} x ptr>, i32, <{width} x i1>, {t})")
        text = f.op(f"call {t} @{name}(<{width} x ptr> {pointers}, i32 {aligned(kind)}, <{width} x i1> "
                    f"{self.mask(width)}, {t} poison)")
        return f.op(f"trunc {t} {text} to <{width} x i1>") if kind == "b" else text

    def store(self, kind: str, at: str, step: int, text: str, count: int) -> None:
        """Store numbers at a stride."""
        f, width, nbytes = self.f, self.width, itemsize(kind)
        if kind in COMPLEX:
            part = ELEMENTS[kind].part
            with f.computing(self.lanes):
                parts = f.parts(text, kind)
            if step == nbytes:
                places = ", ".join(f"i32 {lane // 2 + width * (lane % 2)}" for lane in range(2 * width))
                t = self.lanes.type(part)
                both = f.op(f"shufflevector {t} {parts[0]}, {t} {parts[1]}, <{2 * width} x i32> <{places}>")
                self.put_together(part, at, both, 2 * width, 2 * count)
                return
            for k, each in enumerate(parts):
                self.store(part, f.at(at, k * itemsize(part)), step, each, count)
            return
        t = f"<{width} x {ELEMENTS[kind].stored}>"
        if kind == "b":
            text = f.op(f"zext <{width} x i1> {text} to {t}")
        if step == nbytes:
            self.put_together(kind, at, text, width, count)
        else:
            pointers = self.pointers(at, [lane * step for lane in range(width)])
            name = f"llvm.masked.scatter.v{width}{short(kind)}.v{width}p0"
            f.declare(f"declare void @{name}({t}, <{width} x ptr>, i32, <{width} x i1>)")
            f.put(f"call void @{name}({t} {text}, <{width} x ptr> {pointers}, i32 {aligned(kind)}, "
                  f"<{width} x i1> {self.mask(count)})")

    def put_together(self, kind: str, at: str, text: str, width: int, count: int) -> None:
        """Store contiguous numbers, in their memory type."""
        f, t, name = self.f, f"<{width} x {ELEMENTS[kind].stored}>", f"llvm.masked.store.v{width}{short(kind)}.p0"
        if count == width:
            f.put(f"store {t} {text}, ptr {at}, align {aligned(kind)}")
            return
        f.declare(f"declare void @{name}({t}, ptr, i32, <{width} x i1>)")
        f.put(f"call void @{name}({t} {text}, ptr {at}, i32 {aligned(kind)}, <{width} x i1> {self.mask(count, width)})")

    def each(self, n: int, body: Callable[[str, int], None]) -> None:
        """Emit a loop over n numbers; `body` gets the index of a vector's first number, and the number of lanes used.
        """
        whole = n // self.width * self.width

        def step(k: str, _: list[str]) -> list[str]:
            body(k, self.width)
            return []
        if whole:
            self.f.loop(whole, [], step, self.width)
        if n % self.width:
            body(str(whole), n % self.width)

    def lane(self, text: str, kind: str, number: int) -> str:
        """Return one lane of a vector."""
        if kind in COMPLEX:
            with self.f.computing(self.lanes):
                pair = self.f.parts(text, kind)
            return self.f.complex([self.lane(x, ELEMENTS[kind].part, number) for x in pair], kind)
        return self.f.op(f"extractelement {self.lanes.type(kind)} {text}, i32 {number}")

    def total(self, text: str, kind: str, join: Callable[[str, str], str]) -> str:
        """Combine the lanes of a vector."""
        parts = [self.lane(text, kind, number) for number in range(self.width)]
        while len(parts) > 1:
            parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]


class Singles(Vectors):
    """Emits the same for one number at a time."""

    def splat(self, text: str, kind: str) -> str:
        return text

    def load(self, kind: str, at: str, step: int, count: int) -> str:
        return self.f.load(kind, at)

    def behind(self, pointers: str, offset: int) -> str:
        return self.f.at(pointers, offset)

    def gather(self, pointers: str, kind: str) -> str:
        return self.f.load(kind, pointers)

    def store(self, kind: str, at: str, step: int, text: str, count: int) -> None:
        self.f.store(kind, text, at)

    def lane(self, text: str, kind: str, number: int) -> str:
        return text


def vectors_of(f: Emitter, lanes: Lanes) -> Vectors:
    """Return the emitter of loads and stores for these lanes."""
    return Vectors(f, lanes) if lanes.width > 1 else Singles(f, lanes)


def nest(f: Emitter, shape: Sequence[int], strides: Sequence[Sequence[int]], pointers: list[str],
         body: Callable[[list[str]], None]) -> None:
    """Emit nested loops over axes; `body` is called once, with the pointers at each position."""
    if not shape:
        body(pointers)
        return

    def step(k: str, _: list[str]) -> list[str]:
        moved = [f.at(p, f.times(k, steps[0])) if steps[0] else p for p, steps in zip(pointers, strides)]
        nest(f, shape[1:], [steps[1:] for steps in strides], moved, body)
        return []
    f.loop(shape[0], [], step)


def short(kind: str) -> str:
    """Return the suffix of LLVM intrinsics for a kind in memory."""
    return ELEMENTS[kind].suffix
