"""What torch's functions and methods mean, by their dotted names in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tapegrad.rules.registry import FOREIGN, PYTHON, Refusal, register

Meaning = Callable[..., Any]


def found(name: str) -> list[Any]:
    """Return the functions of a dotted name: `add`, `Tensor.add`, `nn.functional.relu`; none where this
    version of torch has none.

    >>> found("add") == [torch.add], found("Tensor.no_such_method")
    (True, [])
    """
    at: Any = torch
    for part in name.split("."):
        at = getattr(at, part, None)
    if at is None:
        return []
    if type(at).__name__ == "getset_descriptor":  # a property of tensors: read by its getter
        return [at.__get__]
    return [at]


def torch_means(*names: str, constant: bool = False) -> Callable[[Meaning], Meaning]:
    """Register the decorated op or composite as the meaning of torch's functions, and of tensors'
    methods, of these names.

    Torch hands us every call by its protocol, so that nothing is replaced, as other Python functions are. Several names
    may be of one function.
    """
    def decorate(meaning: Meaning) -> Meaning:
        for fn in dict.fromkeys(fn for name in names for fn in found(name)):
            if FOREIGN.get(fn) is not meaning:
                count = len(PYTHON)
                register(fn, meaning, constant=constant)
                del PYTHON[count:]
        return meaning
    return decorate


def torch_refuses(*names: str, why: str, try_: str) -> None:
    """Register functions that no tape can hold: they raise, and say why, and what to do instead."""
    for name in names:
        torch_means(name)(Refusal(f"torch.{name}", why, try_, derivative=False))


@functools.cache
def spelled(func: Callable[..., Any]) -> str:
    """Return the name of a function of torch as programs write it."""
    owner: Any = getattr(func, "__self__", None)
    if type(func).__name__ == "method-wrapper":
        return f"Tensor.{owner.__name__}"
    if hasattr(torch.Tensor, func.__name__) and getattr(torch.Tensor, func.__name__) == func:
        return f"Tensor.{func.__name__}"
    module = str(getattr(func, "__module__", None) or "torch")
    return (f"{module}.{func.__name__}" if module.startswith("torch") and "_C" not in module
            else f"torch.{func.__name__}")

