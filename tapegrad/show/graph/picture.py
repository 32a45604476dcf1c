"""Picture: what is drawn of a tape, boxes and arrows in the order in which they are computed."""

from __future__ import annotations

from typing import NamedTuple

LIMIT = 2000  # operations: a longer tape is drawn by source line
MOST_BOXES = 5000
MOST_WORK = (300_000, 12_000)  # rows that all arrows pass, and nodes along them
GROUPS = ("operation", "line")


class Box(NamedTuple):
    """An operation with the plumbing around it, or the operations of one source line.

    `reverse` tells the column, `beside` is the forward box that one of the reverse sweep belongs to, and one with
    `lift` stands a layer above that. `guards` counts the facts that are guarded, and `marked` stands for the tape's
    result.
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
    """How often what the box `tail` computes is used by the box `head`."""

    tail: int
    head: int
    times: int = 1

    @property
    def again(self) -> bool:
        """True for an arrow back to an earlier box: a loop in the program."""
        return self.tail >= self.head


class Picture(NamedTuple):
    """Boxes by key, in order, and the arrows between them."""

    title: str
    boxes: dict[int, Box]
    arrows: list[Arrow]

    @property
    def reverse(self) -> bool:
        """True if there is a reverse sweep."""
        return any(box.reverse for box in self.boxes.values())

    def saved(self, arrow: Arrow) -> bool:
        """True for an arrow from the forward to the reverse column: a value that is kept for the reverse sweep."""
        return self.boxes[arrow.tail].reverse != self.boxes[arrow.head].reverse


