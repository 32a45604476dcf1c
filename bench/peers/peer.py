"""Peer: one way to get a gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.problems.problem import Problem

Gradient = Callable[[], tuple[Any, tuple[Any, ...]]]


@dataclass(frozen=True)
class Peer:
    """An adapter: `prepare(problem)` returns a function that computes (value, gradient by each of `problem.args`).

    What can be done once for many gradients, `prepare` does. It raises ImportError where the library, or its version of the
    objective, is missing.
    """

    name: str
    prepare: Callable[[Problem], Gradient]
