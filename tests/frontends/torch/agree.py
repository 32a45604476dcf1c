"""What tests of torch code share: a program's value and gradients by tapegrad are those of torch.autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tapegrad as tg
from tapegrad.transforms.flat_gradient import flatgrad


def tensors(args: Any) -> list[Any]:
    return [x for x in args if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())]


def reference(f: Callable[..., Any], *args: Any) -> tuple[Any, list[Any]]:
    """Return the value and the gradients by torch's own tape, None where nothing flows."""
    given = [x.clone().requires_grad_() if any(x is t for t in tensors(args)) else x for x in args]
    torch.manual_seed(1)
    y = f(*given)
    found = torch.autograd.grad(y, tensors(given), allow_unused=True) if y.requires_grad else [None] * len(tensors(given))
    return y.detach(), list(found)


def same(found: Any, wanted: Any, x: Any, precision: Any = None) -> None:
    """Check a gradient, to the precision of the narrowest number that went into it."""
    assert found.dtype is x.dtype
    found, wanted = (part.resolve_conj().to(precision or x.dtype) for part in (found, torch.zeros_like(x) if wanted is None else wanted))
    torch.testing.assert_close(found, wanted, equal_nan=True)


def narrowest(args: Any) -> Any:
    """Return the least precise dtype among arguments, where that is a real one."""
    dtype = min((x.dtype for x in tensors(args)), key=lambda dtype: -torch.finfo(dtype).eps, default=None)
    return None if dtype is None or dtype.is_complex else dtype


def agree(f: Callable[..., Any], *args: Any, draws: bool = False, again: bool = True) -> None:
    """Check grad, the tape of triples and the flat tape against torch; replays of a program that draws differ, and are not compared."""
    (y, wanted), precision = reference(f, *args), narrowest(args)
    before = [x.clone() for x in tensors(args)]
    torch.manual_seed(1)
    value, (_, *dxs) = tg.grad(f, *args)
    torch.testing.assert_close(value, y, equal_nan=True)
    for dx, dx_torch, x, was in zip(tensors_of(dxs, args), wanted, tensors(args), before):
        same(dx, dx_torch, x, precision)
        assert torch.equal(x, was)  # the caller's tensors are never touched
    if draws or not again:
        return
    primal = tg.trace(f, *args)[1]
    for tape in (tg.gradtape(primal), flatgrad(primal)):
        tape.check()
        value, (_, *dxs) = tape.play(*args)
        torch.testing.assert_close(value, y, equal_nan=True)
        for dx, dx_torch, x in zip(tensors_of(dxs, args), wanted, tensors(args)):
            same(dx, dx_torch, x, precision)


def tensors_of(dxs: Any, args: Any) -> list[Any]:
    return [dx for dx, x in zip(dxs, args) if any(x is t for t in tensors(args))]


def refused_alike(f: Callable[..., Any], *args: Any) -> None:
    """Check that what torch refuses raises, traced, what torch raises."""
    with pytest.raises(Exception) as wanted:
        f(*args)
    with pytest.raises(type(wanted.value)):
        tg.trace(f, *args)
