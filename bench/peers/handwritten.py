"""The adjoint written by hand in NumPy, in the module `<module>_adjoint` beside the objective."""

from __future__ import annotations

import importlib
from functools import partial

from bench.peers.peer import Gradient, Peer, beside
from bench.problems.problem import Problem


def prepare(problem: Problem) -> Gradient:
    """Nothing has to be done before."""
    gradient = importlib.import_module(beside(problem, "adjoint")).gradient
    return Gradient(partial(gradient, *problem.args, **problem.given))


PEERS = (Peer("handwritten", prepare, version="adjoint", by_hand=True),)
