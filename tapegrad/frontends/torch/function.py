"""torch.autograd.Function: the user's own forward and backward, recorded as one operation; what transforms
functions in torch's own way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import eager_transforms, vmap
from torch.autograd import functional
from torch.utils.checkpoint import checkpoint

from tapegrad.frontends.torch.call import by_mode
from tapegrad.frontends.torch.generic import recorded_whole
from tapegrad.rules.registry import Refusal, means, register
from tapegrad.trace.checkpoint import recorded


@functools.cache
def whole(cls: Any) -> Callable[..., Any]:
    """Return the function that applies a class."""
    def apply(*args: Any) -> Any:
        return cls.apply(*args)
    apply.__name__ = cls.__name__
    return apply


@means(torch.autograd.Function.apply.__func__)
def apply(cls: type, *args: Any) -> Any:
    """Record the call as one operation: its gradient is the user's backward."""
    # one that reverses a gradient returns its argument
    return by_mode(recorded_whole(whole(cls), args, {}, itself=False))


@means(checkpoint)
def through(function: Callable[..., Any], *args: Any, use_reentrant: Any = None, context_fn: Any = None, determinism_check: Any = None,
            debug: Any = None, early_stop: Any = None, preserve_rng_state: Any = None, **kwargs: Any) -> Any:
    return by_mode(recorded(function, args, kwargs, refuses=False))


def _refuses(name: str, fn: Callable[..., Any], try_: str) -> None:
    register(fn, Refusal(name, "torch would transform what it cannot see", try_, derivative=False))


for _name, _try in {"jacobian": "jacobian", "hessian": "hessian", "vjp": "pullback", "jvp": "jvp", "hvp": "hvp", "vhp": "hvp"}.items():
    _refuses(f"torch.autograd.functional.{_name}", getattr(functional, _name), f"tg.{_try}")
# what torch.func's transforms call with the arguments
for _module, _inner, _name, _try in (
        (vmap, "vmap_impl", "torch.vmap", "a loop, or functions that take a batch"),
        (eager_transforms, "grad_impl", "torch.func.grad", "tg.gradient"),
        (eager_transforms, "grad_and_value_impl", "torch.func.grad_and_value", "tg.grad"),
        (eager_transforms, "_vjp_with_argnums", "torch.func.vjp", "tg.pullback"),
        (eager_transforms, "_jvp_with_argnums", "torch.func.jvp", "tg.jvp")):
    if hasattr(_module, _inner):
        _refuses(_name, getattr(_module, _inner), _try)
