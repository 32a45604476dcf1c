"""torch_functions: a NumPy program as a function of tensors, which torch's autograd differentiates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad.bridges.sweeps import Sweeps, inexact
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import is_tensor


class _Call:
    """A call of a program as a torch.autograd.Function; it appends the nesting of the result to `into`."""

    @staticmethod
    def forward(ctx: Any, into: list[Any], sweeps: Sweeps, *args: Any) -> tuple[Any, ...]:
        """Return the leaves of the result as tensors."""
        tensors = [x for x in args if is_tensor(x)]
        nest, leaves = sweeps(*[_array(x) if is_tensor(x) else x for x in args])
        into.append(nest)
        ctx.sweeps, ctx.returned = sweeps, inexact(leaves)
        ctx.others = [None if is_tensor(x) else x for x in args]
        ctx.save_for_backward(*tensors)
        device = tensors[0].device if tensors else None
        found = tuple([torch.as_tensor(leaf, device=device) for leaf in leaves])
        ctx.mark_non_differentiable(*[y for i, y in enumerate(found) if i not in ctx.returned])
        return found

    @staticmethod
    def backward(ctx: Any, *dys: Any) -> tuple[Any, ...]:
        """Return the cotangents of the tensor arguments, by a call of the reverse sweep."""
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if other is None else other for other in ctx.others]
        wrt = [i for i, x in enumerate(args) if ctx.needs_input_grad[2 + i]]
        sweep = ctx.sweeps.pulled(len(args), wrt, ctx.returned)
        found = dict(zip(wrt, _function().apply([], sweep, *args, *[dys[i] for i in ctx.returned])))
        return (None, None, *map(found.get, range(len(args))))


@functools.cache
def _function() -> Any:
    return type("Call", (_Call, torch.autograd.Function), {})


def _array(x: Any) -> Any:
    return x.detach().cpu().resolve_conj().resolve_neg().numpy()


def to_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a NumPy program as a function of tensors that `torch.autograd` differentiates, to any order.

    It takes tensors, and numbers as constants. It returns the program's result in the same nesting, with tensors for
    arrays and numbers, on the device of the first tensor argument. The program runs on the CPU by compiled tapes; the
    backward pass recomputes it. Raises the program's errors.

    >>> import numpy as np, torch
    >>> wave = to_torch(lambda x, w: np.sin(w * x).sum())
    >>> x = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    >>> wave(x, 3.0).backward()
    >>> x.grad
    tensor([3., 3.], dtype=torch.float64)
    """
    sweeps = Sweeps(f)

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        into: list[Any] = []
        leaves = _function().apply(into, sweeps, *args)
        return into[0].build(list(leaves))
    return call
