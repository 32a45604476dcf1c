"""HIPS autograd: the same source, with `np` another module."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.peers.peer import Gradient, Peer
from bench.problems.problem import Problem


def rebound(objective: Callable[..., Any], np: Any) -> Callable[..., Any]:
    """Return the objective of a fresh copy of its module, in which `np` is the given module."""
    spec = sys.modules[objective.__module__].__spec__
    assert spec is not None and spec.loader is not None
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    copy.np = np  # type: ignore[attr-defined]
    return getattr(copy, objective.__name__)  # type: ignore[no-any-return]


def prepare(problem: Problem) -> Gradient:
    """Build value_and_grad once."""
    import autograd  # type: ignore[import-untyped]
    f, given = problem.program(partial(rebound, np=autograd.numpy))
    gradient = autograd.value_and_grad(f, tuple(range(len(problem.args))))
    return Gradient(partial(gradient, *problem.args, **given))


def load() -> None:
    """Differentiate a product."""
    import autograd
    autograd.grad(lambda x: autograd.numpy.sin(x) * x)(2.0)


PEERS = (Peer("autograd", prepare, load),)
