"""Peer: one way to get a gradient."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.problems.problem import Problem


class Missing(Exception):
    """This peer cannot run this problem, or not here; the message says why."""


class Gradient(NamedTuple):
    """A gradient to compute: `call()` computes it, as the peer's users would, and is all that is timed.

    `read(result)` gives what it returned as (value, gradient by each of the problem's `args`),
    numbers and NumPy arrays.
    """

    call: Callable[[], Any]
    read: Callable[[Any], tuple[Any, tuple[Any, ...]]] = lambda result: result


def nothing() -> None:
    """Load nothing."""


@dataclass(frozen=True)
class Peer:
    """An adapter: `prepare(problem)` does what can be done once for many gradients, and returns the Gradient.

    `load()` comes before the clock starts: it imports the library and differentiates something small, so that what the
    library sets up once in a process counts for no problem. Both raise ImportError or Missing where the peer cannot
    run. A peer that needs a version of the objective for itself finds it in a module beside it, `<module>_<version>`.
    `optional` peers are measured on request. Those with `modules` take a torch.nn.Module. One `by_hand` is a gradient,
    not a version of the objective, and so one of all its forms.
    """

    name: str
    prepare: Callable[[Problem], Gradient]
    load: Callable[[], Any] = nothing
    version: str = ""
    optional: bool = False
    modules: bool = False
    by_hand: bool = False

    def fits(self, problem: Problem) -> bool:
        """Whether there is a version of the problem for this peer."""
        if problem.module:
            return self.modules
        if problem.varied and self.version and not self.by_hand:
            return False
        return not self.version or importlib.util.find_spec(beside(problem, self.version)) is not None

    def ready(self, problem: Problem) -> None:
        """Import all that the gradient of a problem needs."""
        if problem.module:
            importlib.import_module(beside(problem, "torch"))
        self.load()
        if self.version:
            importlib.import_module(beside(problem, self.version))


def of_module(problem: Problem) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the objective of a problem with a torch.nn.Module, and its arguments, that module first."""
    module = importlib.import_module(beside(problem, "torch"))
    return module.objective, module.arguments(problem.data)


def beside(problem: Problem, version: str) -> str:
    """Return the name of the module that has a version of the objective."""
    return f"{problem.objective.__module__}_{version}"
