"""plan: facts about a native function: its objects, its memory, and the calls that stay in Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tapegrad.compile.native.emit import Lanes
from tapegrad.tape.tape import Operation


class Target(NamedTuple):
    """The processor: its widest vectors, and whether BLAS is available."""

    lanes: Lanes
    blas: bool


ALIGN = 64  # bytes, alignment of the function's memory


class Refused(Exception):
    """A loop must stay in Python: Python code uses the values that it keeps."""


class Plan:
    """The findings of one attempt to emit a function, for the next attempt.

    `refused` are the operations that stay in Python. `objects` are those whose arrays are Python objects from the
    start: results of the tape, and arguments of calls that stay in Python.
    """

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self.refused: set[Operation] = set()
        self.objects: set[Any] = set(objects)
        self.settled = True  # False once an array turned out to be needed as an object


class Block:
    """A block of the function's memory, with its lifetime in lines; blocks that are not alive together may overlap."""

    __slots__ = ("end", "name", "offset", "size", "start")

    def __init__(self, name: str, size: int, start: int) -> None:
        self.name, self.size, self.start, self.end, self.offset = name, size, start, start, 0


def placed(blocks: Iterable[Block]) -> int:
    """Assign each block its offset, in the order of creation; return the total size in bytes."""
    end, before = 0, list[Block]()
    for block in blocks:
        size = -(-block.size // ALIGN) * ALIGN
        taken = sorted((other.offset, other.offset + -(-other.size // ALIGN) * ALIGN) for other in before
                       if other.end >= block.start)
        before.append(block)
        at = 0
        for first, last in taken:
            if first - at >= size:
                break
            at = max(at, last)
        block.offset, end = at, max(end, at + size)
    return end


class Objects:
    """The objects that native code uses, by position in a tuple; a `Tape` among them is replaced by its function."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._at: dict[int, int] = {}

    def place(self, x: Any) -> int:
        """Return the position of an object."""
        if id(x) not in self._at:
            self._at[id(x)] = len(self.items)
            self.items.append(x)
        return self._at[id(x)]
