"""Picture: the drawing of a tape, as boxes and arrows in order of computation."""

from __future__ import annotations

from typing import NamedTuple

LIMIT = 2000  # operations: a longer tape is drawn by source line
MOST_BOXES = 5000
MOST_WORK = (300_000, 12_000)  # rows that all arrows pass, and nodes along them
GROUPS = ("operation", "line")


class Box(NamedTuple):
    """An operation with the plumbing around it, or the operations of one source line.

    `reverse` selects the column. `beside` is the forward box of a reverse box, which stands a layer above it if `lift`
    is true. `guards` counts the guarded facts. `marked` is true for the tape's result.
    """

    key: int
    role: str
    title: str
    detail: str
    hover: str
    reverse: bool = False
    beside: int | None = None
    lift: bool = False
    guards: int = 0
    marked: bool = False


class Arrow(NamedTuple):
    """Data flow between two boxes: `head` uses values of `tail` so many `times`."""

    tail: int
    head: int
    times: int = 1

    @property
    def again(self) -> bool:
        """Whether the arrow leads back to an earlier box: a loop in the program."""
        return self.tail >= self.head


class Picture(NamedTuple):
    """Boxes by key, in order, and the arrows between them."""

    title: str
    boxes: dict[int, Box]
    arrows: list[Arrow]

    @property
    def reverse(self) -> bool:
        """Whether there is a reverse sweep."""
        return any(box.reverse for box in self.boxes.values())

    def saved(self, arrow: Arrow) -> bool:
        """Return whether an arrow leads from the forward to the reverse column: a value kept for the reverse sweep."""
        return self.boxes[arrow.tail].reverse != self.boxes[arrow.head].reverse


