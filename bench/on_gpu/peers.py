"""The peers of bench/gpu.py: each makes a gradient of a problem on a device, in one precision."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

import tapegrad as tg
from bench.peers import jax as on_jax
from bench.peers.peer import Gradient, Missing, beside
from bench.problems.problem import Problem


def tensor(value: Any, device: str, precision: str) -> Any:
    """Return a float or an array as a tensor of the device, floating ones in the precision; what is neither stays."""
    if isinstance(value, float) or (isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "f"):
        return torch.tensor(np.asarray(value), dtype=getattr(torch, precision), device=device)
    return torch.tensor(value, device=device) if isinstance(value, np.ndarray) else value


def array(value: Any, precision: str) -> Any:
    """Return a floating array, or a float as NumPy's number, in the precision; what is neither stays."""
    if isinstance(value, float):
        return np.dtype(precision).type(value)
    return value.astype(precision) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def numbers(parts: Any) -> tuple[Any, ...]:
    """Return tensors as arrays in double precision."""
    return tuple(part.detach().double().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part, float)
                 for part in parts)


def eager(problem: Problem, device: str, precision: str, transform: Callable[[Any], Any] = lambda f: f) -> Gradient:
    """torch.autograd, on the version of the objective that is written for torch."""
    torch.set_default_device(device)  # for what the objective makes
    objective = transform(importlib.import_module(beside(problem, "torch")).objective)
    args = [tensor(arg, device, precision).requires_grad_() for arg in problem.args]
    given = {name: tensor(value, device, precision) if isinstance(value, np.ndarray) else value
             for name, value in problem.given.items()}

    def call() -> Any:
        value = objective(*args, **given)
        return value, torch.autograd.grad(value, args)
    return Gradient(call, lambda result: (numbers(result[:1])[0], numbers(result[1])))


def compiled(mode: str | None) -> Callable[..., Gradient]:
    """torch.compile in one of its modes."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        return eager(problem, device, precision, partial(torch.compile, mode=mode))
    return prepare


def tapegrad(mode: str) -> Callable[..., Gradient]:
    """tapegrad: the gradient tape of the plain NumPy objective, compiled for torch in one of its modes."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        given = {name: array(value, precision) for name, value in problem.given.items()}
        args = [array(arg, precision) for arg in problem.args]
        tape = tg.flatgrad(tg.roll(tg.trace(problem.objective, *args, **given)[1]))
        run = tg.compile(tape, backend="torch", device=device, mode=mode)
        there = [tensor(arg, device, precision) for arg in args]
        beside_them = {name: tensor(value, device, precision) if isinstance(value, np.ndarray) else value
                       for name, value in given.items()}
        return Gradient(partial(run, *there, **beside_them),
                        lambda result: (numbers(result[:1])[0], numbers(result[1][1:])))
    return prepare


def jax(of: Callable[[Problem], Gradient]) -> Callable[..., Gradient]:
    """JAX compiled by jit, on the device that it finds."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        import jax as library
        if device == "cuda" and library.default_backend() != "gpu":
            raise Missing(f"JAX finds no GPU here, but {library.default_backend()}")
        return of(replace(problem, data={name: array(value, precision) for name, value in problem.data.items()}))
    return prepare


PEERS: dict[str, Callable[[Problem, str, str], Gradient]] = {
    "torch": eager, "torch.compile": compiled(None),
    "torch.compile max-autotune": compiled("max-autotune-no-cudagraphs"),
    "torch.compile reduce-overhead": compiled("reduce-overhead"), "jax": jax(on_jax.same), "jax scan": jax(on_jax.scan),
    "tapegrad eager": tapegrad("eager"), "tapegrad graph": tapegrad("graph"), "tapegrad inductor": tapegrad("inductor"),
}


def fits(peer: str, problem: Problem) -> bool:
    """Whether there is a version of the problem for a peer: only some have one with a scan."""
    return peer != "jax scan" or importlib.util.find_spec(beside(problem, "scan")) is not None
