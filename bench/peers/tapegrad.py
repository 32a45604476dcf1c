"""tapegrad: the gradient at once, and the replay of a gradient tape."""

from __future__ import annotations

import tapegrad as tg
from bench.peers.peer import Gradient, Peer
from bench.problems.problem import Problem


def one_shot(problem: Problem) -> Gradient:
    """Trace and sweep, each time anew."""
    def gradient() -> tuple[object, tuple[object, ...]]:
        value, (_, *dargs) = tg.grad(problem.objective, *problem.args, **problem.given)
        return value, tuple(dargs)
    return gradient


def played(problem: Problem, tape: tg.Tape) -> Gradient:
    """Replay a tape that returns value and gradient."""
    def gradient() -> tuple[object, tuple[object, ...]]:
        value, (_, *dargs) = tape.play(*problem.args, **problem.given)
        return value, tuple(dargs)
    return gradient


def replay(problem: Problem) -> Gradient:
    """Replay the gradient tape: triples and pullbacks."""
    return played(problem, tg.gradtape(problem.objective, *problem.args, **problem.given))


def flat(problem: Problem) -> Gradient:
    """Replay the flat tape, of primitive calls only."""
    return played(problem, tg.primitivize(tg.gradtape(problem.objective, *problem.args, **problem.given)))


PEERS = (Peer("tapegrad grad", one_shot), Peer("tapegrad replay", replay), Peer("tapegrad flat replay", flat))
