"""tapegrad: the gradient at once, compiled, and by the replay of its tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tapegrad as tg
from bench.peers.peer import Gradient, Peer
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
    """Compile the flat gradient tape, and call what comes of it directly: the first call has the whole compilation in it."""
    return of(problem, tg.compile(tg.flatgrad(tg.trace(problem.objective, *problem.args, **problem.given)[1])))


def value_and_grad(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself; it compiles at the second call."""
    return of(problem, tg.value_and_grad(problem.objective))


def load() -> None:
    """Differentiate a product."""
    tg.grad(lambda x: x * x, 2.0)


def load_compiler() -> None:
    """Compile a product's gradient."""
    tg.compile(tg.flatgrad(tg.trace(lambda x: x * x, 2.0)[1]))(2.0)


PEERS = (Peer("tapegrad grad", one_shot, load), Peer("tapegrad replay", replay, load, optional=True),
         Peer("tapegrad flat replay", flat, load, optional=True), Peer("tapegrad compiled", compiled, load_compiler),
         Peer("tapegrad value_and_grad", value_and_grad, load_compiler))
