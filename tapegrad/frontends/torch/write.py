"""torch's in-place writes: methods with a trailing underscore, `x[i] = v`, `out=`, `inplace=True`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch

from tapegrad import ops
from tapegrad.errors import MutationError, UnknownFunction, user_location
from tapegrad.frontends.torch import random
from tapegrad.frontends.torch.generic import generic, untraced
from tapegrad.frontends.torch.leaves import plainly, rebased, requires_grad_
from tapegrad.frontends.torch.registry import found, spelled, torch_means, torch_refuses
from tapegrad.frontends.torch.shape import places
from tapegrad.frontends.user import hook as hooked
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_dtypes import numpy_dtype
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH, refused
from tapegrad.tape.tape import Call, Input, operands
from tapegrad.trace import views, writes
from tapegrad.trace.global_arrays import write_refused
from tapegrad.trace.recorder import Tracer
from tapegrad.tree.flatten import leaves_of

# In-place operators, by the functions that compute the same.
_OPERATORS = {"__iadd__": "add", "__isub__": "sub", "__imul__": "mul", "__ipow__": "pow",
              "__itruediv__": "true_divide", "__idiv__": "true_divide", "__ifloordiv__": "floor_divide",
              "__imod__": "remainder",
               "__iand__": "bitwise_and", "__ior__": "bitwise_or", "__ixor__": "bitwise_xor",
               "__ilshift__": "bitwise_left_shift", "__irshift__": "bitwise_right_shift"}
_OWN = frozenset(["bernoulli_"])  # differ from the functions of the same name: `x.bernoulli_()` does not read x


def is_in_place(func: Callable[..., Any], kwargs: dict[str, Any]) -> bool:
    """True for a function that writes its result into its first argument."""
    name = func.__name__
    return name in _OPERATORS or (name.endswith("_") and not name.endswith("__")) or bool(kwargs.get("inplace"))


def owned(x: Array) -> Any:
    """Return a tensor that the trace may write to; refuse any other."""
    if not isinstance(x, Traced):
        raise write_refused("a tensor")
    return x


# -- writes that torch's own tape does not record: under no_grad, and through x.detach() or x.data

def attached(x: Any) -> Any:
    """Return the tensor whose view by detach() or `.data` `x` is, with its gradient."""
    path = x._view.path if x._view is not None else ()
    stays = tuple(step for step in path if step.op is not ops.stop_gradient and step.op is not plainly)
    if len(stays) == len(path):
        return x
    return x._tracer.proxy(None, x._val, x._tracer, views.View(x._view.storage, stays, version=-1))


def is_followed(x: Any, value: Any) -> bool:
    """Return whether torch's own tape records a write of a value into `x`; raise MutationError if it does so in part.

    Raises RuntimeError, as torch does, if two elements of `x` share memory, and MutationError if two elements of the
    tensor that `x` is a view of do.
    """
    if x._view is not None and meets_itself(plain(x._view.storage.layout)):
        raise MutationError("more than one element of a tensor that is written to refers to a single memory location",
                            user_location(), views.CLONE)
    if meets_itself(views.laid(x)):
        raise RuntimeError("unsupported operation: more than one element of the written-to tensor refers to a single "
                           "memory location. "
                           "Please clone() the tensor before performing the operation.")
    if attached(x) is not x and torch.is_grad_enabled() and has_flow(value):
        raise MutationError("a value with a gradient is written by way of x.detach() or x.data, where torch's autograd "
                            "would not see it either",
                            user_location(), "write to x itself, or write v.detach()")
    return torch.is_grad_enabled() and attached(x) is x


def meets_itself(x: Any) -> bool:
    """Return whether two elements of a tensor may share memory, as those of an expanded one do."""
    if x.is_contiguous():
        return False
    reach = 0
    for stride, n in sorted(zip(x.stride(), x.shape)):
        if n > 1 and stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def has_flow(value: Array) -> bool:
    """True if a gradient by an input may flow through a value."""
    if not isinstance(value, Traced):
        return False
    stack, seen = [value._op], {value._op}
    while stack:
        op = stack.pop()
        if isinstance(op, Input):
            return True
        flows = getattr(op.fn, "differentiable", True) and op.fn is not plainly
        new = [used for used in operands(op) if used not in seen] if flows else []
        seen.update(new)
        stack += new
    return False


def replace(x: Any, y: Any) -> None:
    """Overwrite all of `x` with a result."""
    if is_followed(x, y):
        writes.replace(x, y)
    else:
        target = attached(x)
        writes.replace(target, rebased(ops.copy(target), y))


def write(x: Any, index: tuple[Any, ...], value: Any) -> None:
    """Write a value at an index of `x`."""
    if is_followed(x, value):
        writes.write(x, index, value)
        return
    target = attached(x)
    old = ops.read(target, index)
    like = ops.zeros_like(old)
    writes.write(like, (Ellipsis,), value)
    writes.write(target, index, rebased(ops.copy(old), like))


def put(x: Array, y: Array) -> Any:
    """Write a result into `x`, or results into a list, cast to its dtype as torch casts; return `x`."""
    if isinstance(x, (list, tuple)):
        return type(x)(map(put, x, y))
    target, value = plain(owned(x)), plain(y)
    if is_tensor(value):
        if not torch.can_cast(value.dtype, target.dtype):
            raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {target.dtype}")
        if value.shape != target.shape:
            raise RuntimeError(f"output with shape {list(target.shape)} doesn't match the broadcast shape "
                               f"{list(value.shape)}")
        if value.dtype != target.dtype:
            y = ops.astype(y, dtype=numpy_dtype(target.dtype))
    replace(x, y)
    return x


def in_place(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record an in-place function as the one that returns a new tensor, and a write of its result."""
    target = args[0] if args else next(iter(kwargs.values()))
    if not kwargs.get("inplace"):
        for x in target if isinstance(target, (list, tuple)) else [target]:
            owned(x)
    return put(target, beside(tracer, func, args, kwargs))


class _Handle:
    """The handle of a registered hook; the hook is on the tape and cannot be removed."""

    def remove(self) -> None:
        raise refused("removing a tensor's hook", "the hook is recorded already", "a hook that is not registered")


@torch_means("Tensor.register_hook")
def register_hook(x: Any, hook: Callable[[Any], Any]) -> _Handle:
    """Replace the tensor by its hooked value: later uses pass their cotangents through the hook."""
    if x._view is not None and x._view.path:
        raise refused("Tensor.register_hook of a view", "the hook would apply to the whole tensor",
                      "x = tg.hook(fn, x)")
    op, tracer = views.peek(x), x._tracer
    if any(op in operands(other) and getattr(other.fn, "differentiable", True)
           for other in tracer.tape.ops[op.id:]):
        raise refused("Tensor.register_hook",
                      "the tensor has been used before, and the hook would miss that part of its gradient",
                      "set the hook where the tensor is made, or x = tg.hook(fn, x)")
    if op.fn is ops.hook:  # a hook on top of another would be called before it: both become one
        below, *captured = [tracer.proxy(arg, arg.val, tracer) for arg in op.args]
        put(x, hooked(_in_turn(ops.hook_function(op.kwargs["fn"], captured), hook), below))
    else:
        put(x, hooked(hook, x))
    return _Handle()


def _in_turn(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a hook that calls two in the order in which they were registered, as torch does."""
    def both(dy: Any) -> Any:
        dx = first(dy)
        dx = dy if dx is None else dx
        found = second(dx)
        return dx if found is None else found
    return both


def beside(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result that an in-place function would write."""
    if kwargs.get("inplace"):
        kwargs = {**kwargs, "inplace": False}
        return DISPATCH[func](*args, **kwargs) if func in DISPATCH else generic(tracer, func, args, kwargs)
    if not inspect.isfunction(func) and func.__name__ not in _OWN:
        name = _OPERATORS.get(func.__name__, func.__name__[:-1])
        module = spelled(func).removeprefix("torch.").rpartition(".")[0]
        for other in found(f"{module}.{name}" if module else name):
            return DISPATCH[other](*args, **kwargs) if other in DISPATCH else generic(tracer, other, args, kwargs)
    return generic(tracer, _on_copy(func), args, kwargs)


_copies: dict[Any, Callable[..., Any]] = {}


def _on_copy(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that applies an in-place function to a copy, where torch has no other form of it."""
    if func not in _copies:
        def run(*args: Any, **kwargs: Any) -> Any:
            if args:
                y = args[0].clone()
                func(y, *args[1:], **kwargs)
            else:  # torch.nn.init passes all arguments by name
                name, x = next(iter(kwargs.items()))
                y = x.clone()
                func(**{**kwargs, name: y})
            return y
        run.__name__ = func.__name__.strip("_")
        _copies[func] = run
    return _copies[func]


def into_out(call: Callable[..., Any], func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write a result into the `out=` of the call that computed it; return `out`."""
    known = dict(kwargs)
    out = known.pop("out")
    result = call(func, args, known)
    pairs = list(zip(out, result)) if isinstance(out, (tuple, list)) else [(out, result)]
    if any(plain(x).dtype != plain(y).dtype for x, y in pairs) and not _is_cast(func, args, kwargs, pairs):
        raise UnknownFunction(f"{spelled(func)} into a tensor of another dtype computes in that dtype", user_location(),
                              "out.copy_(result of the call without out=); or x.to(out.dtype) first")
    return tuple(map(put, out, result)) if isinstance(out, (tuple, list)) else put(out, result)


def _is_cast(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], pairs: list[tuple[Any, Any]]) -> bool:
    """Return whether torch writes the cast result into the `out=` of a call; True if torch raises."""
    drawn = random.Drawn(map(plain, leaves_of((args, kwargs))), kwargs.get("generator"))
    given, named = untraced(args), untraced(kwargs)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            func(*given, **named)
    except Exception:
        return True
    finally:
        drawn.rewind()
    written = named["out"] if isinstance(named["out"], (tuple, list)) else [named["out"]]
    return all(torch.equal(x.nan_to_num(), plain(y).to(x.dtype).nan_to_num()) for x, (_, y) in zip(written, pairs))


@torch_means("Tensor.__setitem__")
def setitem(x: Array, index: Any, value: Array) -> None:
    write(owned(x), places(index), value)


@torch_means("Tensor.copy_")
def copy_(x: Array, src: Array, non_blocking: bool = False) -> Any:
    write(owned(x), (Ellipsis,), src)
    return x


@torch_means("Tensor.zero_")
def zero_(x: Array) -> Any:
    return copy_(x, 0)


@torch_means("Tensor.fill_", "fill_")
def fill_(x: Array, value: Array) -> Any:
    if shape_of(plain(value)):
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with "
                           f"{len(shape_of(plain(value)))} dimensions.")
    return copy_(x, value)


# -- in-place methods that rearrange elements: the tensor becomes another view of its memory


def _becomes(name: str) -> None:
    def become(x: Any, *args: Any, **kwargs: Any) -> Any:
        y = getattr(owned(x), name)(*args, **kwargs)
        if y is not x:
            tracer = x._tracer
            # a proxy of the old view, for tensors that share memory with it
            stays = tracer.proxy(x.__dict__["_op"], x.__dict__["_val"], tracer, views.place(x))
            tracer.inputs = [stays if part is x else part for part in tracer.inputs]
            views.place(y)
            x.__dict__.update(_op=y.__dict__["_op"], _val=y.__dict__["_val"])
            x._view = y._view
        return x
    torch_means(f"Tensor.{name}_")(become)


for _name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims", "as_strided"):
    _becomes(_name)
torch_means("Tensor.detach_", "detach_")(lambda x: put(x, ops.stop_gradient(ops.copy(x))))
torch_refuses("Tensor.set_", "Tensor.resize_", "Tensor.resize_as_", "resize_as_",
              why="the tensor would get other memory",
              try_="make a torch.zeros of that shape and write into it; or x.as_strided(...)")


# -- assignments to attributes


def _sets(name: str, meaning: Callable[..., Any]) -> None:
    for at in [getattr(torch.Tensor, name).__set__]:
        DISPATCH[at] = meaning


_sets("requires_grad", requires_grad_)
_sets("real", lambda x, value: copy_(x.real, value))
_sets("imag", lambda x, value: copy_(x.imag, value))


def _assign(name: str, instead: str) -> Callable[..., Any]:
    def refuse(x: Any, value: Any) -> None:
        op = views.peek(value) if isinstance(value, Traced) else None
        if isinstance(op, Call) and op.fn in (plainly, ops.stop_gradient) and op.args[0] is views.peek(x):
            return  # x.data = x.data, as module.to(...) does if the dtype stays
        if value is not None:
            raise MutationError(f"x.{name} = y cannot be recorded for a traced tensor", user_location(), instead)
    return refuse


_sets("data", _assign("data", "x.copy_(y) under torch.no_grad(), or x = y"))
_sets("grad", _assign("grad", "store it in a variable of your own: tapegrad returns gradients"))
