"""The registry of implementations of torch's functions and methods, by their dotted names in torch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from tapegrad.rules.registry import DISPATCH, PYTHON, Refusal, register

Meaning = Callable[..., Any]


def found(name: str) -> list[Any]:
    """Return the functions with a dotted name (`add`, `Tensor.add`, `nn.functional.relu`); an empty list if this
    version of torch has none.

    >>> found("add") == [torch.add], found("Tensor.no_such_method")
    (True, [])
    """
    at: Any = torch
    for part in name.split("."):
        at = getattr(at, part, None)
    if at is None:
        return []
    if type(at).__name__ == "getset_descriptor":  # a property of tensors, which its getter reads
        return [at.__get__]
    return [at]


def torch_means(*names: str, constant: bool = False) -> Callable[[Meaning], Meaning]:
    """Register the decorated op or composite for torch's functions and tensor methods with these names.

    torch passes every call to tapegrad by its protocol, so unlike other Python functions they are not replaced in
    modules. Several names may belong to one function.
    """
    def decorate(meaning: Meaning) -> Meaning:
        for fn in dict.fromkeys(fn for name in names for fn in found(name)):
            if DISPATCH.get(fn) is not meaning:
                count = len(PYTHON)
                register(fn, meaning, constant=constant)
                del PYTHON[count:]
        return meaning
    return decorate


def torch_refuses(*names: str, why: str, try_: str) -> None:
    """Register functions that cannot be recorded: they raise an error with the reason and the alternative `try_`."""
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

