"""Tensors made while a trace runs: the results of torch.zeros and its kin belong to the trace, and may be written to
with traced values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.torch.call import MAKERS, make
from tapegrad.frontends.torch.common import brought, result_type
from tapegrad.frontends.torch.generic import whole
from tapegrad.frontends.torch.mixed import as_tensor
from tapegrad.frontends.torch.registry import found, torch_means
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_dtypes import numpy_dtype, torch_dtype
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.facts import BLANK, CONSTANT
from tapegrad.rules.op import Op, Traced, tracer_of
from tapegrad.rules.registry import of_frontend
from tapegrad.tape.tape import Call
from tapegrad.trace.guards import DEFAULTS, number_type
from tapegrad.trace.recorder import Tracer
from tapegrad.tree.flatten import leaves_of

_NOTHING = ("out", "requires_grad", "pin_memory", "memory_format", "layout", "names")  # not recorded
_ops: dict[Any, Op] = {}


def maker_op(func: Callable[..., Any]) -> Op:
    """Return the op of a function that makes a tensor from parameters; a replay makes it on the device of its inputs.
    """
    if func not in _ops:
        def run(*args: Any, device: Any = None, **kwargs: Any) -> Any:
            return func(*args, **kwargs, **({} if device is None else {"device": device}))
        _ops[func] = of_frontend(Op(func.__name__, run, rule=CONSTANT, memory=BLANK, torch=run))
    return _ops[func]


def made(tracer: Tracer, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Record a tensor that the program makes."""
    known = {key: plain_number(value) for key, value in kwargs.items() if key not in _NOTHING and value is not None}
    given = tuple(map(plain_number, args))
    val = func(*given, **known)
    known.pop("device", None)
    return tracer.append(Call(maker_op(func), given, {"dtype": val.dtype, **known}, val))


def plain_number(x: Any) -> Any:
    """Return a maker's argument as plain numbers; a traced real or complex number raises if a gradient flows through
    it, because torch has no gradient by it.
    """
    if isinstance(x, (torch.Size, str)):
        return x
    kind = number_type(x) if isinstance(x, Traced) and not shape_of(plain(x)) else ""
    return float(x) if kind == "f" else complex(x) if kind == "c" else static(x)


for _name in ["zeros", "ones", "eye", "arange", "linspace", "logspace", "hann_window", "hamming_window", "tril_indices",
              "triu_indices"]:
    for _fn in found(_name):
        MAKERS[_fn] = made
        maker_op(_fn)  # so that a saved tape that names it can be loaded
maker_op(torch.full)
MAKERS[torch.full] = lambda tracer, func, size, fill_value, **kwargs: full(tracer, size, fill_value, **kwargs)
# zeros instead of undefined values, so that every run gives the same
MAKERS[torch.empty] = lambda tracer, func, *args, **kwargs: made(tracer, torch.zeros, *args, **kwargs)


def full(tracer: Tracer, size: Any, fill_value: Any, *, dtype: Any = None, **kwargs: Any) -> Any:
    """Record a tensor filled with a number or a 0-d tensor, which may be traced."""
    if not isinstance(fill_value, Traced):
        return made(tracer, torch.full, size, fill_value, dtype=dtype, **kwargs)
    return _filled(made(tracer, torch.zeros, size, dtype=dtype or result_type(fill_value), **kwargs), fill_value)


def copied(tracer: Tracer, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a tensor that the program makes from plain numbers, as a constant that may be written to."""
    val = func(*args, **kwargs)
    return tracer.proxy(tracer.constant(id(val), val, val.detach()), val.detach(), tracer) if is_tensor(val) else val


MAKERS[torch.tensor] = copied


def sized(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Record a tensor of a traced size."""
    return make(tracer_of(leaves_of((args, list(kwargs.values())))), func, args, kwargs)


for _fn in (torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn):
    torch_means(_fn.__name__)(functools.partial(sized, _fn))


@torch_means("zeros_like", "empty_like")
def zeros_like(input: Any, *, dtype: Any = None, **_: Any) -> Any:
    return ops.zeros_like(input, **_dtype(dtype))


@torch_means("ones_like")
def ones_like(input: Any, *, dtype: Any = None, **_: Any) -> Any:
    return ops.ones_like(input, **_dtype(dtype))


def _dtype(dtype: Any) -> dict[str, Any]:
    return {} if dtype is None else {"dtype": numpy_dtype(dtype)}


@torch_means("full_like")
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, **_: Any) -> Any:
    return _filled(ops.zeros_like(input, **_dtype(dtype)), fill_value)


def _filled(y: Any, value: Any) -> Any:
    y[...] = value
    return y


def _new(func: Any) -> Callable[..., Any]:
    def new(x: Any, *args: Any, dtype: Any = None, device: Any = None, size: Any = None, **kwargs: Any) -> Any:
        like = plain(x)
        given = args if size is None else (size, *args)
        return made(x._tracer, func, *given, dtype=dtype or like.dtype, device=device or like.device, **kwargs)
    return new


torch_means("Tensor.new_zeros", "Tensor.new_empty")(_new(torch.zeros))
torch_means("Tensor.new_ones")(_new(torch.ones))
torch_means("Tensor.new_full")(
    lambda x, size, fill_value, **kwargs: _filled(_new(torch.zeros)(x, tuple(size), **kwargs), fill_value))


@torch_means("Tensor.new")
def new(x: Array, *args: Any, **kwargs: Any) -> Any:
    """Return a tensor of a size, given as integers or a torch.Size; torch takes any other sequence for numbers."""
    if all(isinstance(plain(part), (int, torch.Size)) for part in args):
        return _new(torch.zeros)(x, *(args or (0,)), **kwargs)
    return whole("Tensor.new", x, *args, **kwargs)


@torch_means("tensor")
def tensor(data: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    """Return a tensor of traced numbers; as in torch no gradient flows to a tensor."""
    if is_tensor(plain(data)):
        return ops.stop_gradient(ops.copy(data if dtype is None else brought(data, dtype)))
    return as_tensor_(data, dtype=dtype, device=device, copy=True)


@torch_means("Tensor.new_tensor")
def new_tensor(x: Any, data: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    dtype = dtype or plain(x).dtype
    if tracer_of(leaves_of(data)) is None:
        return copied(x._tracer, torch.tensor, data, dtype=dtype, device=device or plain(x).device)
    return tensor(data, dtype=dtype, device=device)


@torch_means("asarray", "as_tensor")
def as_tensor_(data: Any, dtype: Any = None, device: Any = None, *, copy: Any = None, **_: Any) -> Any:
    """Return traced numbers, in nested lists, or a traced array as a tensor; no gradient flows to tensors in lists."""
    found = plain(data)
    if is_tensor(found):
        y = data if dtype is None else brought(data, dtype)
        return ops.copy(y) if copy and y is data else y
    if isinstance(found, (np.ndarray, np.generic)):
        return as_tensor(data, dtype, copy)
    parts = list(_numbers(data))
    if all(type(plain(part)) is np.ndarray for part in parts) and any(map(shape_of, parts)):
        return as_tensor(as_array(data), dtype, True)
    dtype = dtype or _common(parts)
    tracer = tracer_of(parts)
    shape: list[int] = []
    while isinstance(data, (list, tuple)):
        shape.append(len(data))
        data = data[0] if data else 0
    flat = made(tracer, torch.zeros, len(parts), dtype=dtype, device=device)
    for i, part in enumerate(parts):
        flat[i] = ops.stop_gradient(part) if is_tensor(plain(part)) and isinstance(part, Traced) else part
    return ops.reshape(flat, tuple(shape))


def _common(parts: list[Any]) -> torch.dtype:
    """Return the dtype of a tensor made of numbers; NumPy numbers keep their own dtypes in the promotion."""
    kinds = [torch_dtype(dtype_of(plain(x))) if isinstance(plain(x), (np.generic, np.ndarray)) else result_type(x)
             for x in parts]
    for x in parts:
        if isinstance(x, Traced) and not is_tensor(plain(x)):
            x._tracer.specialise(x)
    return functools.reduce(torch.promote_types, kinds) if kinds else torch.get_default_dtype()


def _numbers(data: Array) -> Any:
    if isinstance(data, (list, tuple)):
        for part in data:
            yield from _numbers(part)
    else:
        yield data


def _default() -> torch.dtype | None:
    """Return the dtype of numbers that are made, None where it is the one that torch begins with."""
    dtype = torch.get_default_dtype()
    return None if dtype is torch.float32 else dtype


DEFAULTS.append(_default)
