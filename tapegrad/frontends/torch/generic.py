"""generic: records a function of torch that is not an op of tapegrad's as one operation (see `torchop`).

A function that draws random numbers is recorded with the generator's state before the call, so that a recomputation
draws the same numbers.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad.frontends.common import static
from tapegrad.frontends.torch import common, random
from tapegrad.frontends.torch.mixed import to_torch
from tapegrad.frontends.torch.registry import found, spelled
from tapegrad.frontends.torch.torchop import MADE, TorchOp, nones
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.nested import inside
from tapegrad.numbers.tensors import is_memory, is_tensor, overlap
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.tape.tape import Call
from tapegrad.trace import views
from tapegrad.trace.recorder import Tracer
from tapegrad.tree.copies import apart
from tapegrad.tree.flatten import flatten, leaves_of


@functools.cache
def torch_op(func: Callable[..., Any]) -> TorchOp:
    """Return the op that records a function of torch."""
    made = TorchOp(spelled(func).rpartition(".")[2], func)
    made.made = getattr(func, "made", ("function", func))
    return made


@functools.cache
def seeded_op(func: Callable[..., Any]) -> TorchOp:
    """Return the op that records a function that draws random numbers; its first argument is the generator's state."""
    made = TorchOp(spelled(func).rpartition(".")[2], random.seeded(func), draws=True)
    made.made = ("seeded", func)
    return made


MADE.update(function=torch_op, seeded=seeded_op)


def settled(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments with traced numbers in the form that torch takes: integers as plain ones, real and complex ones
    as tensors, through which a gradient flows. Such a tensor has the dtype that promotion gives the number beside the
    other tensors.
    """
    leaves = leaves_of((args, kwargs))
    if not any(isinstance(leaf, Traced) and not is_memory(plain(leaf)) for leaf in leaves):
        return args, kwargs
    tensors = [leaf for leaf in leaves if is_tensor(plain(leaf))]
    refused(func, args, kwargs, random.Drawn(map(plain, leaves), kwargs.get("generator")))

    def settle(x: Any) -> Any:
        if not isinstance(x, Traced) or is_memory(plain(x)):
            return inside(settle, x)
        if not isinstance(plain(x), (float, complex, np.inexact)):
            return static(x)
        return common.brought(to_torch(x), common.result_type(*tensors, plain(x)))
    return settle(args), settle(kwargs)


def refused(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], drawn: random.Drawn) -> None:
    """Raise TypeError if torch does not take a number here: it might accept the tensor that replaces the number."""
    try:
        with torch.no_grad(), apart(spelled(func)):
            func(*untraced(args), **untraced(kwargs))
    except TypeError:
        raise
    except Exception:  # the recorded call raises it again
        return
    finally:
        drawn.rewind()


def untraced(x: Any) -> Any:
    """Return nested arguments, objects included, with plain values in place of traced ones; tensors are copied, so that
    they may be written to.
    """
    leaves: list[Any] = []
    structure = flatten(x, "", leaves, [])
    values = map(plain, leaves)
    return structure.build([value.detach().clone() if is_tensor(value) else value for value in values])


def recorded_whole(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], itself: bool = True) -> Any:
    """Record a call as one operation by the tracer of its arguments."""
    return generic(tracer_of(leaves_of((args, kwargs))), func, args, kwargs, itself)


def generic(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
            itself: bool = True) -> Any:
    """Record a call of a function of torch as one operation. If it returns an argument unchanged and `itself` is true,
    nothing is recorded.
    """
    op = torch_op(func)
    args, names, kwargs = positional(func, *settled(func, args, kwargs))
    known = {"names": names, **kwargs} if names else kwargs
    given = tuple(tracer.pack(arg) for arg in args)
    for arg in given:
        tracer.lift(arg)
    leaves = leaves_of((args, list(kwargs.values())))
    mark, drawn = len(tracer.tape.ops), random.Drawn(map(plain, leaves), kwargs.get("generator"))
    y = tracer.record(op, given, known)
    if drawn.moved():  # the call drew random numbers: record it again with the state as an argument
        del tracer.tape.ops[mark:]
        begin, source = drawn.begin(tracer)
        known = {key: value for key, value in known.items() if key != "generator"} | ({} if source is None
                                                                                      else {"source": source})
        y = drawn.ended(tracer, tracer.record(seeded_op(func), (begin, *given), known))
        note_nones_and_layout(tracer, mark, y)
        return y
    same = next((arg for arg in args if isinstance(arg, Traced) and is_same(arg._op.val, y)), None)
    if same is not None and itself:  # `x.contiguous()` of a contiguous tensor
        del tracer.tape.ops[mark:]
        return same
    relate(y, [arg for arg in leaves if isinstance(arg, Traced)])
    note_nones_and_layout(tracer, mark, y)
    return y


def note_nones_and_layout(tracer: Tracer, mark: int, y: Any) -> None:
    """Note in the call which parts of its result are None; register its tensors, so that their memory layout is guarded
    once the program depends on it. Both may depend on the function's numbers.
    """
    parts = y if isinstance(y, (tuple, list)) else (y,)
    for op in tracer.tape.ops[mark:] if any(part is None for part in parts) else ():
        if isinstance(op, Call) and isinstance(op.fn, TorchOp):
            op.kwargs = {**op.kwargs, "absent": nones(parts)}
    tracer.unseen += [views.peek(part) for part in parts if isinstance(part, Traced) and is_tensor(plain(part))]


def is_same(x: Any, y: Any) -> bool:
    """True if a traced value is the same tensor, or a view that differs in nothing."""
    val: Any = y._val if isinstance(y, Traced) else None
    if not is_tensor(val) or not is_tensor(x) or not overlap(val, x):
        return False
    return bool((x.shape, x.dtype, x.stride(), x.storage_offset()) == (val.shape, val.dtype, val.stride(),
                                                                       val.storage_offset())
                and x.is_conj() == val.is_conj() and x.is_neg() == val.is_neg())


def relate(y: Any, args: list[Any]) -> None:
    """Note that a result shares memory with an argument, if no path of views describes how."""
    for part in y if isinstance(y, (tuple, list)) else (y,):
        for arg in args:
            if isinstance(part, Traced) and overlap(part._val, arg._op.val):
                common.related(arg, part)


@functools.cache
def defaults(func: Callable[..., Any]) -> dict[str, Any]:
    """Return the defaults of a Python function's keyword arguments; arguments equal to them are not recorded."""
    if not inspect.isfunction(func):
        return {}
    try:
        return {p.name: p.default for p in inspect.signature(func).parameters.values() if p.default is not p.empty}
    except ValueError:  # it wraps a builtin
        return {}


def is_default(value: Any, default: Any) -> bool:
    """True for a plain value that equals the default."""
    return value is default or (type(value) is type(default) and type(value) in (int, float, str, bool)
                                and value == default)


def positional(func: Callable[..., Any], args: tuple[Any, ...],
               kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[str, ...], dict[str, Any]]:
    """Move keyword arguments that hold tensors to positions, where variables can stand: to their own positions, or to
    the end; in that case their names are returned.
    """
    known = defaults(func)
    kwargs = {key: value for key, value in kwargs.items() if not (key in known and is_default(value, known[key]))}
    names = tuple(key for key, value in kwargs.items()
                  if any(isinstance(leaf, Traced) or is_tensor(leaf) for leaf in leaves_of(value)))
    if names and inspect.isfunction(func):
        code = func.__code__
        own = code.co_varnames[:code.co_argcount]
        if all(name in own[len(args):] for name in names):
            last = max(map(own.index, names))
            between = own[len(args):last + 1]
            return (*args, *(kwargs.pop(name, known.get(name)) for name in between)), (), kwargs
    return (*args, *(kwargs[name] for name in names)), names, {key: value for key, value in kwargs.items()
                                                               if key not in names}


def whole(name: str, *args: Any, **kwargs: Any) -> Any:
    """Record a call of torch's function `name` as one operation: where no op computes exactly the same, and where torch
    raises its own error.
    """
    return recorded_whole(found(name)[0], args, kwargs)
