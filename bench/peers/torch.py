"""torch.autograd, eager and compiled: a version of the objective written by hand, in the module
`<module>_torch` beside it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.peers.peer import Gradient, Peer, beside, of_module
from bench.problems.problem import Problem


def of(problem: Problem, objective: Callable[..., Any]) -> Gradient:
    """Make the tensors once, on the CPU, with torch's own number of threads; gradients stay tensors."""
    import torch
    if problem.module:
        given = of_module(problem)[1]
        return differentiated(lambda: objective(*given), list(given[0].parameters()))

    def tensor(value: Any, **options: Any) -> Any:
        return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None, **options)
    args = [tensor(arg, requires_grad=True) for arg in problem.args]
    named = {name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in problem.given.items()}
    return differentiated(lambda: objective(*args, **named), args)


def differentiated(objective: Callable[[], Any], wrt: list[Any]) -> Gradient:
    """Compute the value and the gradient by torch's tape."""
    import torch

    def gradient() -> tuple[Any, Any]:
        value = objective()
        return value, torch.autograd.grad(value, wrt)
    return Gradient(gradient, lambda result: (result[0].item(), tuple(dx.numpy() for dx in result[1])))


def version(problem: Problem) -> Callable[..., Any]:
    """Return the objective for torch."""
    return importlib.import_module(beside(problem, "torch")).objective  # type: ignore[no-any-return]


def eager(problem: Problem) -> Gradient:
    """Call the objective as it is."""
    return of(problem, version(problem))


def compiled(problem: Problem) -> Gradient:
    """Compile the objective and its backward pass with torch.compile, as it comes."""
    import torch
    return of(problem, torch.compile(version(problem)))


def load() -> None:
    """Differentiate something large enough to start the threads."""
    import torch
    x = torch.ones(10 ** 6, requires_grad=True)
    torch.autograd.grad(torch.sum(x * x), x)


def load_compiler() -> None:
    """Compile a product."""
    import torch
    load()
    x = torch.tensor(2.0, requires_grad=True)
    torch.autograd.grad(torch.compile(lambda x: torch.sin(x) * x)(x), x)
    torch._dynamo.reset()


PEERS = (Peer("torch", eager, load, "torch", modules=True),
         Peer("torch.compile", compiled, load_compiler, "torch", modules=True))
