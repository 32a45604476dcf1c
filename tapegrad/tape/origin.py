"""origin: why a pass appended an operation to a tape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

_BEFORE = {"cotangent": "d", "accumulation": "accumulate d"}
BESIDE = frozenset(["pullback", *_BEFORE])  # kinds of the reverse sweep that belong to one operation of the primal half
REVERSE = BESIDE | {"seed", "gradient"}


class Origin(NamedTuple):
    """The purpose of an operation: its `kind`, and the position `of` the operation it belongs to, or a `name`.

    An operation's note is its text; passes and displays read the kind and the position.

    >>> for origin in Origin("seed"), Origin("pullback", 7), Origin("accumulation", 2), Origin("gradient", name="x"):
    ...     print(origin, origin == Origin.parsed(str(origin)))
    seed True
    pullback of %7 True
    accumulate d%2 True
    gradient of x True
    """

    kind: str
    of: int = 0
    name: str = ""

    def __str__(self) -> str:
        of = f"%{self.of}" if self.of else self.name
        return f"{_BEFORE.get(self.kind) or f'{self.kind} of '}{of}" if of else self.kind

    @staticmethod
    def parsed(text: str) -> Origin | None:
        """Return the origin written as text by a file or a user, None for empty text."""
        head, percent, number = text.rpartition("%")
        position = int(number) if percent and number.isascii() and number.isdecimal() and number[0] != "0" else 0
        for kind, before in _BEFORE.items():
            if position and head == before:
                return Origin(kind, position)
        if position and head.endswith(" of "):
            return Origin(head[:-4], position)
        kind, of, name = text.partition(" of ")
        return Origin(kind, name=name) if of and kind and name else Origin(text) if text else None


def set_origin(made: Iterable[Any], like: Any, origin: Origin | None = None) -> None:
    """Give operations the source line of `like`, and `origin` to those that have none."""
    for op in made:
        op.code, op.lasti = like.code, like.lasti
        if op.origin is None:
            op.origin = origin
