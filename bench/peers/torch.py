"""torch.autograd: a version of the objective written by hand, in the module `<problem>_torch` beside it."""

from __future__ import annotations

import importlib

import numpy as np

from bench.peers.peer import Gradient, Peer
from bench.problems.problem import Problem


def prepare(problem: Problem) -> Gradient:
    """Make the tensors once, on the CPU, with torch's own number of threads."""
    import torch
    objective = importlib.import_module(f"{problem.objective.__module__}_torch").objective
    args = [torch.tensor(arg, dtype=torch.float64, requires_grad=True) for arg in problem.args]
    given = {name: torch.tensor(value) if isinstance(value, np.ndarray) else value for name, value in problem.given.items()}

    def gradient() -> tuple[object, tuple[object, ...]]:
        value = objective(*args, **given)
        return value.item(), tuple(dx.numpy() for dx in torch.autograd.grad(value, args))
    return gradient


PEERS = (Peer("torch", prepare),)
