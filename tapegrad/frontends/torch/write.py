"""Writes of torch's in place: methods that end in an underscore, `x[i] = v`, `out=`, `inplace=True`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tapegrad import ops, views
from tapegrad.brief import plain
from tapegrad.context import Tracer
from tapegrad.errors import MutationError, user_location
from tapegrad.frontends.numpy.index import index_parts
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.registry import found, spelled, torch_means
from tapegrad.rules import FOREIGN, Traced
from tapegrad.tensors import is_tensor, numpy_dtype

# Operators in place, by the functions that they are the same as.
_OPERATORS = {f"__i{name}__": name for name in ("add", "sub", "mul", "and", "or", "xor", "lshift", "rshift", "pow", "mod")}
_OPERATORS |= {"__itruediv__": "true_divide", "__idiv__": "true_divide", "__ifloordiv__": "floor_divide", "__imod__": "remainder",
               "__iand__": "bitwise_and", "__ior__": "bitwise_or", "__ixor__": "bitwise_xor",
               "__ilshift__": "bitwise_left_shift", "__irshift__": "bitwise_right_shift"}


def is_in_place(func: Any, kwargs: dict[str, Any]) -> bool:
    """True for a function that writes its result into its first argument."""
    name = func.__name__
    return name in _OPERATORS or (name.endswith("_") and not name.endswith("__")) or bool(kwargs.get("inplace"))


def owned(x: Any) -> Any:
    """Return a tensor that the trace may write to; refuse any other."""
    if not isinstance(x, Traced):
        raise MutationError("a traced value is written into a tensor that the trace does not own", user_location(),
                            "make the tensor inside the function (torch.zeros), or pass it as an argument")
    return x


def put(x: Any, y: Any) -> Any:
    """Write what was computed into `x`, cast to its dtype as torch casts it; return `x`."""
    target, value = plain(owned(x)), plain(y)
    if is_tensor(value):
        if not torch.can_cast(value.dtype, target.dtype):
            raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {target.dtype}")
        if value.shape != target.shape:
            raise RuntimeError(f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(value.shape)}")
        if value.dtype != target.dtype:
            y = ops.astype(y, dtype=numpy_dtype(target.dtype))
    views.replace(x, y)
    return x


def in_place(tracer: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function in place as the one that returns a new tensor, and a write of that."""
    if not isinstance(args[0], Traced) and not kwargs.get("inplace"):
        return owned(args[0])  # raises
    return put(args[0], beside(tracer, func, args, kwargs))


def beside(tracer: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function in place would write."""
    if kwargs.get("inplace"):
        kwargs = {**kwargs, "inplace": False}
        return FOREIGN[func](*args, **kwargs) if func in FOREIGN else generic(tracer, func, args, kwargs)
    name = _OPERATORS.get(func.__name__, func.__name__[:-1])
    module = spelled(func).removeprefix("torch.").rpartition(".")[0]
    for other in found(f"{module}.{name}" if module else name):
        return FOREIGN[other](*args, **kwargs) if other in FOREIGN else generic(tracer, other, args, kwargs)
    return generic(tracer, _on_copy(func), args, kwargs)


_copies: dict[Any, Callable[..., Any]] = {}


def _on_copy(func: Any) -> Callable[..., Any]:
    """Return the function that does to a copy what `func` does in place, for what torch has in place alone."""
    if func not in _copies:
        def run(x: Any, *args: Any, **kwargs: Any) -> Any:
            y = x.clone()
            func(y, *args, **kwargs)
            return y
        run.__name__ = func.__name__.strip("_")
        _copies[func] = run
    return _copies[func]


def into_out(call: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write a result into the `out=` of the call that computed it, and return that."""
    known = dict(kwargs)
    out = known.pop("out")
    result = call(func, args, known)
    return tuple(map(put, out, result)) if isinstance(out, (tuple, list)) else put(out, result)


@torch_means("Tensor.__setitem__")
def setitem(x: Any, index: Any, value: Any) -> None:
    views.write(owned(x), index_parts(index), value)


@torch_means("Tensor.copy_")
def copy_(x: Any, src: Any, non_blocking: bool = False) -> Any:
    views.write(owned(x), (Ellipsis,), src)
    return x


@torch_means("Tensor.zero_")
def zero_(x: Any) -> Any:
    views.write(owned(x), (Ellipsis,), 0)
    return x


@torch_means("Tensor.fill_", "fill_")
def fill_(x: Any, value: Any) -> Any:
    views.write(owned(x), (Ellipsis,), value)
    return x
