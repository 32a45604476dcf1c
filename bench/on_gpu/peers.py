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
from bench.peers.peer import Gradient, Missing, beside, of_module
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


def placed(module: torch.nn.Module, device: str, precision: str) -> torch.nn.Module:
    """Return a module with parameters of the device, in the precision."""
    for part in module.modules():
        for name, x in list(part._parameters.items()):
            if x is not None:
                moved = x.detach().to(device=device, dtype=getattr(torch, precision))
                part._parameters[name] = torch.nn.Parameter(moved)
    return module


def arguments(problem: Problem, device: str, precision: str,
              number: Callable[[Any], Any] = lambda x: x) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a problem on a device, by position and by name, what is no array as `number` makes it."""
    if problem.module:
        module, *args = of_module(problem)[1]
        return (placed(module, device, precision), *[x.to(device) for x in args]), {}
    given = {} if problem.form else problem.given
    return (tuple([tensor(arg, device, precision) for arg in problem.args]),
            {name: tensor(value, device, precision) if isinstance(value, np.ndarray) else number(value)
             for name, value in given.items()})


def replayed(problem: Problem, device: str, precision: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for a tape that was recorded in a precision."""
    return arguments(problem, device, precision, partial(array, precision=precision))


def eager(problem: Problem, device: str, precision: str, transform: Callable[[Any], Any] = lambda f: f) -> Gradient:
    """torch.autograd, on the version of the objective that is written for torch."""
    torch.set_default_device(device)  # for what the objective makes
    torch.set_default_dtype(getattr(torch, precision))
    objective = transform(importlib.import_module(beside(problem, "torch")).objective)
    args, given = arguments(problem, device, precision)
    wrt = list(args[0].parameters()) if problem.module else [arg.requires_grad_() for arg in args]

    def call() -> Any:
        value = objective(*args, **given)
        return value, torch.autograd.grad(value, wrt)
    return Gradient(call, lambda result: (numbers(result[:1])[0], numbers(result[1])))


def compiled(mode: str | None) -> Callable[..., Gradient]:
    """torch.compile in one of its modes."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        return eager(problem, device, precision, partial(torch.compile, mode=mode))
    return prepare


def gradient_tape(problem: Problem, precision: str) -> tg.Tape:
    """Return the flat gradient tape of the plain objective, recorded with NumPy's arrays, or with torch's module."""
    if problem.module:
        module, *args = of_module(problem)[1]
        return tg.flatgrad(tg.trace(of_module(problem)[0], placed(module, "cpu", precision), *args)[1])
    problem = replace(problem, data={name: array(value, precision) for name, value in problem.data.items()})
    f, given = problem.program()
    return tg.flatgrad(tg.roll(tg.trace(f, *problem.args, **given)[1]))


def tapegrad(mode: str) -> Callable[..., Gradient]:
    """tapegrad: that tape, compiled for torch in one of its modes."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        run = tg.compile(gradient_tape(problem, precision), backend="torch", device=device, mode=mode)
        args, given = replayed(problem, device, precision)

        def read(result: Any) -> Any:
            gradients = list(result[1][1].values()) if problem.module else result[1][1:]
            return numbers(result[:1])[0], numbers(gradients)
        return Gradient(partial(run, *args, **given), read)
    return prepare


def jax(of: Callable[[Problem], Gradient]) -> Callable[..., Gradient]:
    """JAX compiled by jit, on the device that it finds."""
    def prepare(problem: Problem, device: str, precision: str) -> Gradient:
        import jax as library
        if device == "cuda" and library.default_backend() != "gpu":
            raise Missing(f"JAX finds no GPU here, but {library.default_backend()}")
        library.config.update("jax_default_matmul_precision", "highest")  # as torch's is: not TF32
        return of(replace(problem, data={name: array(value, precision) for name, value in problem.data.items()}))
    return prepare


PEERS: dict[str, Callable[[Problem, str, str], Gradient]] = {
    "torch": eager, "torch.compile": compiled(None),
    "torch.compile max-autotune": compiled("max-autotune-no-cudagraphs"),
    "torch.compile reduce-overhead": compiled("reduce-overhead"), "jax": jax(on_jax.same), "jax scan": jax(on_jax.scan),
    "tapegrad eager": tapegrad("eager"), "tapegrad graph": tapegrad("graph"), "tapegrad inductor": tapegrad("inductor"),
}


def fits(peer: str, problem: Problem) -> bool:
    """Whether there is a version of the problem for a peer: only some have one with a scan, and torch's modules are
    none of JAX's.
    """
    if problem.module:
        return not peer.startswith("jax")
    return peer != "jax scan" or importlib.util.find_spec(beside(problem, "scan")) is not None
