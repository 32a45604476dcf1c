"""dicts: dicts with names as keys, which are flattened in sorted order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

STR = frozenset([str])


class Names(list[str]):
    """The keys of a dict in sorted order, and in its own."""

    __slots__ = ("order",)

    def __init__(self, x: dict[str, Any]) -> None:
        super().__init__(sorted(x))
        self.order = [*x]


def dict_with(names: Names, parts: Iterable[Any]) -> dict[str, Any]:
    return {**dict.fromkeys(names.order), **dict(zip(names, parts))}
