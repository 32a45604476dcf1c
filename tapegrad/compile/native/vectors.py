"""vectors: several numbers at once between memory and registers, and loops over what arrays have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tapegrad.compile.native.emit import Emitter, Lanes
from tapegrad.compile.native.values import DTYPES, LLVM, STORED, Array

Shape = tuple[int, ...]


class Operand(NamedTuple):
    """An array that rows are read from or written to: its strides along the batch, and where in a row each element
    lies.
    """

    data: str
    strides: tuple[int, ...]
    places: tuple[int, ...]
    kind: str

    @staticmethod
    def of(x: Array, batch: Shape, rank: int) -> Operand:
        """Return an array, broadcast to a batch, as rows of so many axes."""
        cut = max(len(x.shape) - rank, 0)
        lead, steps = x.shape[:cut], x.strides[:cut]
        along = tuple(0 if n == 1 and of != 1 else step for n, of, step in zip(lead, batch[len(batch) - cut:], steps))
        places = tuple(sum(i * step for i, step in zip(index, x.strides[cut:])) for index in np.ndindex(*x.shape[cut:]))
        return Operand(x.data, (0,) * (len(batch) - cut) + along, places, x.kind)


def collapsed(shape: Shape, strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return an order of axes with the longest run of neighbours last, and as few of them as there can be: those that
    all operands go through alike are one.

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
    """Writes reads and writes of vectors; of the last one of a loop only `count` numbers are there."""

    def __init__(self, f: Emitter, lanes: Lanes) -> None:
        self.f, self.lanes, self.width = f, lanes, lanes.width

    def mask(self, count: int) -> str:
        """Return which of a vector's numbers there are."""
        return "<" + ", ".join(f"i1 {str(k < count).lower()}" for k in range(self.width)) + ">"

    def splat(self, text: str, kind: str) -> str:
        """Return a vector of one number."""
        if not text.startswith("%"):
            return f"splat ({LLVM[kind]} {text})"
        t, f = self.lanes.type(kind), self.f
        one = f.op(f"insertelement {t} poison, {LLVM[kind]} {text}, i32 0")
        return f.op(f"shufflevector {t} {one}, {t} poison, <{self.width} x i32> zeroinitializer")

    def load_one(self, kind: str, at: str) -> str:
        """Read one number, as a vector."""
        text = self.f.op(f"load {STORED[kind]}, ptr {at}, align {size(kind)}")
        return self.splat(self.f.op(f"trunc i8 {text} to i1") if kind == "b" else text, kind)

    def load(self, kind: str, at: str, step: int, count: int) -> str:
        """Read numbers that are so many bytes apart; after the last one it is repeated, so that computing with it
        tells nothing new.
        """
        f, width, nbytes = self.f, self.width, size(kind)
        t = f"<{width} x {STORED[kind]}>"
        if step == nbytes and count == width:
            text = f.op(f"load {t}, ptr {at}, align {nbytes}")
        elif step == nbytes:
            name = f"llvm.masked.load.v{width}{short(kind)}.p0"
            f.declare(f"declare {t} @{name}(ptr, i32, <{width} x i1>, {t})")
            part = f.op(f"call {t} @{name}(ptr {at}, i32 {nbytes}, <{width} x i1> {self.mask(count)}, "
                        f"{t} zeroinitializer)")
            text = f.op(f"shufflevector {t} {part}, {t} poison, <{width} x i32> <"
                        + ", ".join(f"i32 {min(lane, count - 1)}" for lane in range(width)) + ">")
        else:
            text = self.gather(self.pointers(at, [min(lane, count - 1) * step for lane in range(width)]), kind)
        return f.op(f"trunc {t} {text} to <{width} x i1>") if kind == "b" else text

    def pointers(self, at: str, offsets: Sequence[int]) -> str:
        """Return a vector of addresses."""
        table = "<" + ", ".join(f"i64 {offset}" for offset in offsets) + ">"
        return self.f.op(f"getelementptr i8, ptr {at}, <{self.width} x i64> {table}")

    def gather(self, pointers: str, kind: str) -> str:
        """Read numbers at a vector of addresses."""
        f, width = self.f, self.width
        t, name = f"<{width} x {STORED[kind]}>", f"llvm.masked.gather.v{width}{short(kind)}.v{width}p0"
        f.declare(f"declare {t} @{name}(<{width} x ptr>, i32, <{width} x i1>, {t})")
        return f.op(f"call {t} @{name}(<{width} x ptr> {pointers}, i32 {size(kind)}, <{width} x i1> "
                    f"{self.mask(width)}, {t} poison)")

    def store(self, kind: str, at: str, step: int, text: str, count: int) -> None:
        """Write numbers that are so many bytes apart."""
        f, width, nbytes = self.f, self.width, size(kind)
        t = f"<{width} x {STORED[kind]}>"
        if kind == "b":
            text = f.op(f"zext <{width} x i1> {text} to {t}")
        if step == nbytes and count == width:
            f.put(f"store {t} {text}, ptr {at}, align {nbytes}")
        elif step == nbytes:
            name = f"llvm.masked.store.v{width}{short(kind)}.p0"
            f.declare(f"declare void @{name}({t}, ptr, i32, <{width} x i1>)")
            f.put(f"call void @{name}({t} {text}, ptr {at}, i32 {nbytes}, <{width} x i1> {self.mask(count)})")
        else:
            places = self.pointers(at, [lane * step for lane in range(width)])
            name = f"llvm.masked.scatter.v{width}{short(kind)}.v{width}p0"
            f.declare(f"declare void @{name}({t}, <{width} x ptr>, i32, <{width} x i1>)")
            f.put(f"call void @{name}({t} {text}, <{width} x ptr> {places}, i32 {nbytes}, "
                  f"<{width} x i1> {self.mask(count)})")

    def each(self, n: int, body: Callable[[str, int], None]) -> None:
        """Write a loop over n numbers: `body` is given the first of some of them, and how many there are."""
        whole = n // self.width * self.width

        def step(k: str, _: list[str]) -> list[str]:
            body(k, self.width)
            return []
        if whole:
            self.f.loop(whole, [], step, self.width)
        if n % self.width:
            body(str(whole), n % self.width)

    def total(self, text: str, join: Callable[[str, str], str]) -> str:
        """Join the numbers of a vector."""
        parts = [self.f.op(f"extractelement {self.lanes.type('f')} {text}, i32 {lane}") for lane in range(self.width)]
        while len(parts) > 1:
            parts = [join(a, b) for a, b in zip(parts[::2], parts[1::2])]
        return parts[0]


def nest(f: Emitter, shape: Sequence[int], strides: Sequence[Sequence[int]], pointers: list[str],
         body: Callable[[list[str]], None]) -> None:
    """Write loops over axes, with pointers that go along; `body` is written once, of the pointers there."""
    if not shape:
        body(pointers)
        return

    def step(k: str, _: list[str]) -> list[str]:
        moved = [f.at(p, f.times(k, steps[0])) if steps[0] else p for p, steps in zip(pointers, strides)]
        nest(f, shape[1:], [steps[1:] for steps in strides], moved, body)
        return []
    f.loop(shape[0], [], step)


def size(kind: str) -> int:
    """Return how many bytes a number takes in memory."""
    return int(DTYPES[kind].itemsize)


def short(kind: str) -> str:
    """Return how LLVM's names of functions end for a kind in memory."""
    return {"f": "f64", "s": "f32", "i": "i64", "b": "i8"}[kind]
