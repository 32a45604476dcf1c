"""call: what becomes of a call of torch's with traced values, and of those that make tensors while a trace runs."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint
from torch.overrides import TorchFunctionMode

from tapegrad import ops
from tapegrad.context import LISTENERS, Tracer, running
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.write import in_place, into_out, is_in_place
from tapegrad.rules import FOREIGN, STAND_IN, Traced, means, tracer_of

MAKERS: dict[Any, Callable[..., Any]] = {}  # functions that make a tensor of no tensor: `(tracer, func, *args, **kwargs) -> value`


def traced_in(args: Any) -> Iterator[Any]:
    """Yield the traced values among arguments, in lists, tuples and dicts too."""
    for arg in args:
        if isinstance(arg, Traced):
            yield arg
        elif type(arg) in (list, tuple):
            yield from traced_in(arg)
        elif type(arg) is dict:
            yield from traced_in(arg.values())


@means("torch")
def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what a function of torch means for traced values."""
    tracer = tracer_of([*traced_in(args), *traced_in(kwargs.values())])
    if tracer is None:
        return func(*args, **kwargs)
    if tracer.ctx.is_primitive(func) or tracer.ctx.is_primitive(STAND_IN.get(func, func)):
        return tracer.ctx.op(func).run(*args, **kwargs)
    try:
        return known(tracer, func, args, kwargs) if torch.is_grad_enabled() else constant(known(tracer, func, args, kwargs))
    except Exception as err:
        tracer.raised(func, args, kwargs, err)
        raise


def known(tracer: Tracer, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the meaning of a function, or record it as one operation of torch's own."""
    meaning = FOREIGN.get(func)
    if kwargs.get("out") is not None:
        return into_out(call, func, args, kwargs)
    if meaning is not None:
        return meaning(*args, **kwargs)
    if is_in_place(func, kwargs):
        return in_place(tracer, func, args, kwargs)
    return generic(tracer, func, args, kwargs)


def constant(y: Any) -> Any:
    """Return what was computed under torch.no_grad: no gradient flows through it."""
    if type(y) in (tuple, list):
        return type(y)(map(constant, y))
    return ops.stop_gradient(y) if isinstance(y, Traced) else y


@functools.cache
def applied(cls: Any) -> Callable[..., Any]:
    """Return what a torch.autograd.Function computes, as a function of torch's: recorded whole, its pullback is its `backward`."""
    def run(*args: Any) -> Any:
        y = cls.apply(*args)
        if any(True for _ in traced_in([y])):
            raise UnknownFunction(f"{cls.__name__}, a torch.autograd.Function, computes with a traced value that is not among its arguments",
                                  user_location(), "pass it to apply")
        return y
    run.__name__ = cls.__name__
    return run


@means(torch.autograd.Function.apply.__func__)
def apply_function(cls: Any, *args: Any) -> Any:
    return call(applied(cls), args, {})


@means(torch.utils.checkpoint.checkpoint)
def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the function: what a tape keeps, it keeps."""
    return function(*args, **{key: value for key, value in kwargs.items() if key not in _OF_CHECKPOINT})


_OF_CHECKPOINT = frozenset(["use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"])


class Listening(TorchFunctionMode):  # type: ignore[misc]
    """Hears every call of torch's in a thread while a trace runs there."""

    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self.tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if not running.tracers or running.tracers[-1] is not self.tracer or sys._getframe(1).f_globals.get("__name__", "").startswith("tapegrad."):
            return func(*args, **kwargs)  # what an op computes with is no program of the user's
        for _ in traced_in(args):
            return call(func, args, kwargs)
        for _ in traced_in(kwargs.values()):
            return call(func, args, kwargs)
        if func in MAKERS:
            return MAKERS[func](self.tracer, func, *args, **kwargs)
        return func(*args, **kwargs)


class Eager:
    """Runs what torch.compile compiled as it was written, while any trace runs: compiled code would see proxies."""

    def __init__(self) -> None:
        self.lock, self.depth, self.stance = threading.Lock(), 0, None

    def begin(self) -> Callable[[], None]:
        """Begin to, where anything has been compiled; return how to end it."""
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        if compiler is None or not hasattr(compiler, "_set_stance"):
            return lambda: None
        with self.lock:
            if self.depth == 0:
                self.stance = compiler._set_stance(compiler.DynamoStance("force_eager"))
            self.depth += 1
        return functools.partial(self.end, compiler)

    def end(self, compiler: Any) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                compiler._set_stance(self.stance)


eager = Eager()


def listen(tracer: Tracer) -> Callable[[], None]:
    """Begin to hear torch's calls; return how to end it. What the caller said of gradients is no part of the program: `grad` needs no enable_grad."""
    mode, enabled = Listening(tracer), torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    mode.__enter__()
    compiled = eager.begin()

    def end() -> None:
        compiled()
        mode.__exit__(None, None, None)
        torch._C._set_grad_enabled(enabled)
    return end


LISTENERS.append(listen)
for _name in ["rand", "randn", "randint", "randperm", "normal"]:
    MAKERS[getattr(torch, _name)] = lambda tracer, func, *args, **kwargs: generic(tracer, func, args, kwargs)
