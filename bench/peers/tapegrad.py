"""tapegrad: the gradient at once, compiled, and by the replay of its tape."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

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


def on_torch(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself, on torch: NumPy's objective, recorded with arrays, on tensors that are made once."""
    import torch

    def tensor(value: Any) -> Any:
        return torch.tensor(value) if isinstance(value, np.ndarray) else value
    step = tg.value_and_grad(problem.objective, backend="torch")
    step(*problem.args, **problem.given)
    call = partial(step, *map(tensor, problem.args), **{name: tensor(value) for name, value in problem.given.items()})
    return Gradient(call, lambda result: (float(result[0]), tuple(np.asarray(dx) for dx in result[1][1:])))


def load() -> None:
    """Differentiate a product."""
    tg.grad(lambda x: x * x, 2.0)


def load_compiler() -> None:
    """Compile a product's gradient."""
    tg.compile(tg.flatgrad(tg.trace(lambda x: x * x, 2.0)[1]))(2.0)


def load_torch() -> None:
    """Compile a product's gradient on torch, and start its threads."""
    import torch
    x = torch.ones(10 ** 6, requires_grad=True)
    torch.autograd.grad(torch.sum(x * x), x)
    step = tg.value_and_grad(lambda x: x * x, backend="torch")
    for _ in range(2):
        step(np.float64(2.0))


PEERS = (Peer("tapegrad grad", one_shot, load), Peer("tapegrad replay", replay, load, optional=True),
         Peer("tapegrad flat replay", flat, load, optional=True), Peer("tapegrad compiled", compiled, load_compiler),
         Peer("tapegrad value_and_grad", value_and_grad, load_compiler), Peer("tapegrad torch", on_torch, load_torch, optional=True))
