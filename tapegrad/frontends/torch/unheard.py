"""What torch's protocol does not tell of: its `autograd.Function`s, its checkpoints, and what `torch.compile` made."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint

from tapegrad.context import LISTENERS, Tracer
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.torch.call import call, traced_in
from tapegrad.rules import means


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
    """Record a torch.autograd.Function, which would run where no gradient flows."""
    return call(applied(cls), args, {})


_OF_CHECKPOINT = frozenset(["use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"])


@means(torch.utils.checkpoint.checkpoint)
def checkpoint(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the function: what a tape keeps, it keeps."""
    return function(*args, **{key: value for key, value in kwargs.items() if key not in _OF_CHECKPOINT})


class Eager:
    """Runs what torch.compile made as it was written, while any trace runs: compiled code would see proxies."""

    def __init__(self) -> None:
        self.lock, self.depth, self.stance = threading.Lock(), 0, None

    def begin(self, tracer: Tracer) -> Callable[[], None]:
        """Begin to, where anything has been compiled; return how to end it."""
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        if compiler is None or not hasattr(compiler, "_set_stance"):
            return _nothing
        with self.lock:
            if self.depth == 0:
                self.stance = compiler._set_stance(compiler.DynamoStance("force_eager"))
            self.depth += 1
        return functools.partial(self.end, compiler)

    def end(self, compiler: Any) -> None:
        """End it with the last trace."""
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                compiler._set_stance(self.stance)


def _nothing() -> None:
    """End nothing."""


LISTENERS.append(Eager().begin)
