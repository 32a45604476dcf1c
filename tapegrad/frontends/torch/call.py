"""call: dispatch of torch's functions with traced arguments, and of those that make tensors while a trace runs."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from tapegrad import ops
from tapegrad.errors import MutationError, UnknownFunction, user_location
from tapegrad.frontends.torch import autocast, random, sparse
from tapegrad.frontends.torch.arrays import beside
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.leaves import marked
from tapegrad.frontends.torch.write import in_place, into_out, is_in_place
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import DISTRIBUTED, is_spread, is_tensor
from tapegrad.rules.op import Traced, tracer_of
from tapegrad.rules.registry import DISPATCH, STAND_IN, means
from tapegrad.trace.recorder import TRACE_HOOKS, Tracer
from tapegrad.tree.copies import current, running

# NumPy's names of arguments, which torch's parser also accepts
NUMPYS = {"axis": "dim", "keepdims": "keepdim", "a": "input", "x1": "input", "x2": "other"}
# functions without tensor arguments that make a tensor: `(tracer, func, *args, **kwargs) -> value`
MAKERS: dict[Any, Callable[..., Any]] = {}
HOOKS = torch._C._autograd._top_saved_tensors_default_hooks
_SHOWN = frozenset([torch.Tensor.__repr__, torch.Tensor.__format__])  # work after the trace has ended, too


def traced_in(args: Any) -> Iterator[Any]:
    """Yield the traced values among arguments, also in lists, tuples, dicts and sparse tensors."""
    for arg in args:
        if isinstance(arg, Traced):
            yield arg
        elif type(arg) in (list, tuple):
            yield from traced_in(arg)
        elif type(arg) is dict:
            yield from traced_in(arg.values())
        elif type(arg) is sparse.SparseProxy:
            yield from traced_in(arg._sparse_parts)


@means("torch")
def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the implementation of a function of torch for traced values."""
    tracer = tracer_of(traced_in((args, kwargs)))
    if tracer is None:
        return func(*args, **kwargs)
    if tracer.ctx.is_primitive(func) or tracer.ctx.is_primitive(STAND_IN.get(func, func)):
        return tracer.ctx.op(func).run(*args, **kwargs)
    if func not in _SHOWN:
        tracer.check_running()
    try:
        y = beside(func, args, kwargs) if is_of_program(sys._getframe(1)) else NotImplemented
        y = known(tracer, func, args, kwargs) if y is NotImplemented else y
        return by_mode(y, sys._getframe(1))
    except Exception as err:
        tracer.raised(func, args, kwargs, err)
        raise


_HERE = ("tapegrad.frontends.torch.call", "tapegrad.frontends.torch.proxy", "tapegrad.trace.interposition")


def is_of_program(frame: Any) -> bool:
    """True if the program makes a call. Calls by an op's implementation, or by a trace around this one, ignore the
    program's no_grad.
    """
    while frame is not None and frame.f_globals.get("__name__") in _HERE:
        frame = frame.f_back
    return frame is None or not frame.f_globals.get("__name__", "").startswith("tapegrad.")


def caller(frame: Any) -> Any:
    """Return the frame that called a function of torch's, given the frame that called the mode: functions written in
    Python call the mode by a helper.
    """
    return frame.f_back.f_back if frame.f_globals.get("__name__") == "torch.overrides" else frame


def known(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the implementation of a function, or record the function as one operation."""
    for _ in sparse.sparse_in((args, kwargs)):
        return sparse.call(tracer, func, args, {NUMPYS.get(key, key): value for key, value in kwargs.items()
                                                if key != "out" or value is not None})
    if autocast.ENABLED():
        writes = func in MAKERS or is_in_place(func, kwargs) or func.__name__ == "__get__"
        cast = autocast.casting(tracer, func, writes)
        with autocast.off():
            return known(tracer, func, args, kwargs) if cast is None else generic(tracer, cast, args, kwargs)
    if (hooks := HOOKS(True)) is not None and torch.is_grad_enabled():
        refuse_hooks(hooks)
    if DISTRIBUTED and any(is_spread(plain(x)) for x in traced_in((args, kwargs))):
        return DISPATCH["spread"](tracer, func, args, kwargs)
    meaning = DISPATCH.get(func)
    if "out" in kwargs:
        if kwargs["out"] is not None:
            return into_out(call, func, args, kwargs)
        kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    if meaning is not None:
        if kwargs and not isinstance(func, FunctionType):
            kwargs = {NUMPYS.get(key, key): value for key, value in kwargs.items()}
        return meaning(*args, **kwargs)
    if func in MAKERS:
        return make(tracer, func, args, kwargs)
    if is_in_place(func, kwargs):
        return in_place(tracer, func, args, kwargs)
    return generic(tracer, func, args, kwargs)


def make(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function that makes a tensor for the program."""
    y = MAKERS[func](tracer, func, *args, **kwargs)
    return marked(y) if kwargs.get("requires_grad") else y


def refuse_hooks(hooks: tuple[Any, Any]) -> None:
    """Raise UnknownFunction for hooks that may change saved tensors; torch's own hooks only move and return them."""
    if not all(str(getattr(hook, "__module__", "")).startswith("torch.") for hook in hooks):
        raise UnknownFunction("torch.autograd.graph.saved_tensors_hooks changes the saved values of torch's own "
                              "autograd graph, which is not used here",
                              user_location(), "call the function without the hooks; tg.checkpoint(f) saves memory")


@means("by_mode")
def by_mode(y: Array, frame: Any = None) -> Any:
    """Return a result of the program's, as a constant under torch.no_grad, if `frame` (when given) is the program's."""
    return y if torch.is_grad_enabled() or not is_of_program(frame) else constant(y)


def constant(y: Any) -> Any:
    """Return a value computed under torch.no_grad: no gradient flows through it."""
    if type(y) in (tuple, list):
        return type(y)(map(constant, y))
    return ops.stop_gradient(y) if isinstance(y, Traced) else sparse.detach(y) if type(y) is sparse.SparseProxy else y


def led(x: Any) -> Any:
    """Return arguments with tensors replaced by their proxies in this trace, whichever way the program reached them,
    also through a library's object.
    """
    if type(x) in (tuple, list):
        parts = list(map(led, x))
        return x if all(map(operator.is_, parts, x)) else type(x)(parts)
    if type(x) is dict:
        return {key: led(part) for key, part in x.items()}
    return current(x) if is_tensor(x) and not isinstance(x, Traced) else x


class TracingMode(TorchFunctionMode):  # type: ignore[misc]
    """A mode that intercepts torch's calls in a thread while a trace runs there."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not (running.tracers and running.tracers[-1] is self.tracer and is_of_program(caller(sys._getframe(1)))):
            return func(*args, **kwargs)  # a call by an op's implementation is not the program's
        if any(tracer.copies for tracer in running.tracers):
            args, kwargs = led((args, kwargs))
        for _ in traced_in((args, kwargs)):
            return call(func, args, kwargs)
        if func in MAKERS:
            return make(self.tracer, func, args, kwargs)
        return self.unfollowed(func, args, kwargs)

    def unfollowed(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function of plain values; if it draws random numbers, record it instead."""
        if func.__name__ == "__get__":
            return func(*args, **kwargs)
        drawn = random.Drawn((*args, *kwargs.values()), kwargs.get("generator"))
        y = func(*args, **kwargs)
        if not drawn.moved():
            return y
        if is_in_place(func, kwargs):
            raise MutationError(f"{func.__name__} draws random numbers into a tensor that the trace does not own, "
                                "which a replay could not repeat",
                                user_location(), "make the tensor inside the function (torch.zeros, torch.empty), or "
                                                 "pass it as an argument")
        drawn.rewind()
        return generic(self.tracer, func, args, kwargs)


def listen(tracer: Tracer) -> Callable[[], None]:
    """Begin to intercept torch's calls; return a function that ends it. Gradients are enabled inside, so `grad` works
    under the caller's no_grad.
    """
    mode, enabled = TracingMode(tracer), torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    mode.__enter__()

    def end() -> None:
        mode.__exit__(None, None, None)
        torch._C._set_grad_enabled(enabled)
    return end


TRACE_HOOKS.append(listen)
for _name in ["rand", "randn", "randint", "randperm", "normal"]:
    MAKERS[getattr(torch, _name)] = lambda tracer, func, *args, **kwargs: generic(tracer, func, args, kwargs)
