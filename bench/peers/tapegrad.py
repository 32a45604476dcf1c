"""tapegrad: the gradient at once, compiled, and by the replay of its tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tapegrad as tg
from bench.peers.peer import Gradient, Missing, Peer, of_module
from bench.problems.problem import Problem


class Program(NamedTuple):
    """What is differentiated: a function with its arguments, and where it computes."""

    f: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    backend: dict[str, str]


def program(problem: Problem) -> Program:
    """Return the objective with its data; that of a torch.nn.Module is compiled for torch."""
    if problem.module:
        return Program(*of_module(problem), {}, {"backend": "torch"})
    f, given = problem.program()
    return Program(f, problem.args, given, {})


def of(problem: Problem, made: Program, call: Callable[..., Any]) -> Gradient:
    """Call what returns (value, (df, *dargs))."""
    if problem.module:
        return Gradient(partial(call, *made.args),
                        lambda result: (result[0].item(), tuple(dx.numpy() for dx in result[1][1].values())))
    return Gradient(partial(call, *made.args, **made.kwargs), lambda result: (result[0], tuple(result[1][1:])))


def one_shot(problem: Problem) -> Gradient:
    """Trace and sweep, each time anew."""
    made = program(problem)
    return of(problem, made, partial(tg.grad, made.f))


def replay(problem: Problem) -> Gradient:
    """Replay the gradient tape: triples and pullbacks."""
    made = program(problem)
    return of(problem, made, tg.gradtape(made.f, *made.args, **made.kwargs).play)


def flat(problem: Problem) -> Gradient:
    """Replay the flat tape of primitive calls only."""
    made = program(problem)
    return of(problem, made, tg.primitivize(tg.gradtape(made.f, *made.args, **made.kwargs)).play)


def compiled(problem: Problem) -> Gradient:
    """Compile the flat gradient tape, its loops rolled, and call what comes of it directly: the first call has the
    whole compilation in it.
    """
    made = program(problem)
    refuse(made)
    tape = tg.trace(made.f, *made.args, **made.kwargs)[1]
    return of(problem, made, tg.compile(tg.flatgrad(tg.roll(tape), release=True), **made.backend))


def value_and_grad(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself; it compiles at the third call. As other peers do, it differentiates
    by the arguments, and not by data in a closure or an object.
    """
    made = program(problem)
    refuse(made)
    return of(problem, made, tg.value_and_grad(made.f, argnums=None, captured=not problem.varied, **made.backend))


def numpy_code(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself, compiled to calls of NumPy."""
    made = program(problem)
    return of(problem, made, tg.value_and_grad(made.f, argnums=None, mode="numpy", captured=not problem.varied))


def refuse(made: Program) -> None:
    """Raise Missing where this version of tapegrad does not compile for what a program needs."""
    if made.backend and "device" not in inspect.signature(tg.value_and_grad).parameters:
        raise Missing("tapegrad does not compile for torch yet")


def on_torch(problem: Problem) -> Gradient:
    """Call what finds the compiled tape by itself, on torch: NumPy's objective, recorded with arrays, on
    tensors that are made once.
    """
    import torch

    def tensor(value: Any) -> Any:
        return torch.tensor(value) if isinstance(value, np.ndarray) else value
    f, given = problem.program()
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    step(*problem.args, **given)
    call = partial(step, *map(tensor, problem.args), **{name: tensor(value) for name, value in given.items()})
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
    step = tg.value_and_grad(lambda x: x * x, argnums=None, backend="torch")
    for _ in range(2):
        step(np.float64(2.0))


PEERS = (Peer("tapegrad grad", one_shot, load, modules=True),
         Peer("tapegrad replay", replay, load, optional=True, modules=True),
         Peer("tapegrad flat replay", flat, load, optional=True, modules=True),
         Peer("tapegrad compiled", compiled, load_compiler, modules=True),
         Peer("tapegrad value_and_grad", value_and_grad, load_compiler, modules=True),
         Peer("tapegrad numpy", numpy_code, load_compiler, optional=True),
         Peer("tapegrad torch", on_torch, load_torch, optional=True))
