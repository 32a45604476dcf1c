"""Compiled functions that compile as they do by themselves, but at once: a path's second trace is observed, its third call compiled."""

from __future__ import annotations

from typing import Any

from tapegrad.compile.path import Pace


def lazy(step: Any) -> Any:
    """Let a compiled function keep a tape at a path's second call, and compile it at the third."""
    step._pace = Pace(1e-9, 1e-9, 0.0, heard=0.0)
    return step
