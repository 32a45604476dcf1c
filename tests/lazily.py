"""Compiled functions that compile as they do by themselves, but at once: a path's second trace is observed, its third call compiled."""

from __future__ import annotations

from typing import Any

from tapegrad.replay.path import Pace


def lazy(step: Any) -> Any:
    """Let a compiled function keep a tape at a path's second call, and compile it at the third."""
    step._pace, step._rents = Pace(1e-9, 1e-9), Paid()
    return step


class Paid(dict[Any, Any]):
    """Lets the paths of all calls be looked at, from the first on."""

    def setdefault(self, key: Any, rent: Any = None) -> Any:
        rent.over = True
        return super().setdefault(key, rent)
