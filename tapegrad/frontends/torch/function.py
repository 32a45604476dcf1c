"""torch.autograd.Function: the user's forward and backward, recorded as one operation; control flow of torch's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules._functions import BackwardHookFunction
from torch.utils.checkpoint import checkpoint

from tapegrad.frontends.torch.call import by_mode
from tapegrad.frontends.torch.generic import recorded_whole
from tapegrad.rules.registry import means, refuse, refused
from tapegrad.trace.checkpoint import recorded


@functools.cache
def whole(cls: Any) -> Callable[..., Any]:
    """Return a function that calls `cls.apply`."""
    def apply(*args: Any) -> Any:
        return cls.apply(*args)
    apply.__name__, apply.is_users = cls.__name__, True  # type: ignore[attr-defined]
    return apply


@means(torch.autograd.Function.apply.__func__)
def apply(cls: type, *args: Any) -> Any:
    """Record the call as one operation, whose gradient is the user's backward. A module's backward hook is refused: it
    works on torch's own tape only.
    """
    if cls is BackwardHookFunction:
        raise refused("a backward hook of a module", "it runs in torch's own autograd only",
                      "x = tg.hook(fn, x), with the module's input or output")
    # a function that reverses the gradient returns its argument unchanged, and must be recorded
    return by_mode(recorded_whole(whole(cls), args, {}, itself=False))


refuse(torch.masked.masked_tensor, torch.masked.as_masked_tensor,
       why="a masked tensor has operators of its own",
       try_="torch.where(mask, x, 0), with the mask beside it")


@means(torch.cond)
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    return (true_fn if pred else false_fn)(*operands)


@means(checkpoint)
def through(function: Callable[..., Any], *args: Any, use_reentrant: Any = None, context_fn: Any = None,
            determinism_check: Any = None,
            debug: Any = None, early_stop: Any = None, preserve_rng_state: Any = None, **kwargs: Any) -> Any:
    return by_mode(recorded(function, args, kwargs, refuses=False))
