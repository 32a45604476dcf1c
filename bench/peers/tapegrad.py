"""tapegrad: the gradient at once, compiled, and by the replay of its tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tapegrad as tg
from bench.peers.peer import Gradient, Missing, Peer
from bench.problems.problem import Problem


def of(problem: Problem, call: Callable[..., Any]) -> Gradient:
    """Call what returns (value, (df, *dargs))."""
    return Gradient(partial(call, *problem.args, **problem.given), lambda result: (result[0], tuple(result[1][1:])))


def one_shot(problem: Problem) -> Gradient:
    """Trace and sweep, each time anew."""
    return of(problem, partial(tg.grad, problem.objective))


def replay(problem: Problem) -> Gradient:
    """Replay the gradient tape: triples and pullbacks."""
    return of(problem, tg.gradtape(problem.objective, *problem.args, **problem.given).play)


def flat_tape(problem: Problem) -> tg.Tape:
    """Return the gradient tape of primitive calls only."""
    return tg.primitivize(tg.gradtape(problem.objective, *problem.args, **problem.given))


def flat(problem: Problem) -> Gradient:
    """Replay the flat tape."""
    return of(problem, flat_tape(problem).play)


def compiled(problem: Problem) -> Gradient:
    """Compile the flat tape, and call what comes of it directly."""
    return of(problem, public("compile")(flat_tape(problem)))


def value_and_grad(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself."""
    return of(problem, public("value_and_grad")(problem.objective))


def public(name: str) -> Any:
    """Return `tapegrad.<name>`."""
    if not hasattr(tg, name):
        raise Missing(f"this tapegrad has no {name}")
    return getattr(tg, name)


def load() -> None:
    """Differentiate a product."""
    tg.grad(lambda x: x * x, 2.0)


def load_compiler() -> None:
    """Compile a product's gradient."""
    public("compile")(tg.primitivize(tg.gradtape(lambda x: x * x, 2.0)))(2.0)


PEERS = (Peer("tapegrad grad", one_shot, load), Peer("tapegrad replay", replay, load, optional=True),
         Peer("tapegrad flat replay", flat, load, optional=True), Peer("tapegrad compiled", compiled, load_compiler),
         Peer("tapegrad value_and_grad", value_and_grad, load_compiler))
