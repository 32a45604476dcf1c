"""torch.autograd.Function: the user's own forward and backward, recorded as one operation; checkpointing, of which a tape needs none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from tapegrad.frontends.torch.generic import generic
from tapegrad.rules import means, tracer_of
from tapegrad.tree import leaves_of


@functools.cache
def whole(cls: Any) -> Callable[..., Any]:
    """Return the function that applies a class."""
    def apply(*args: Any) -> Any:
        return cls.apply(*args)
    apply.__name__ = cls.__name__
    return apply


@means(torch.autograd.Function.apply.__func__)
def apply(cls: Any, *args: Any) -> Any:
    """Record the call as one operation: its gradient is the user's backward."""
    return generic(tracer_of(leaves_of(args)), whole(cls), args, {})


@means(checkpoint)
def through(function: Callable[..., Any], *args: Any, use_reentrant: Any = None, context_fn: Any = None, determinism_check: Any = None,
            debug: Any = None, early_stop: Any = None, preserve_rng_state: Any = None, **kwargs: Any) -> Any:
    return function(*args, **kwargs)
