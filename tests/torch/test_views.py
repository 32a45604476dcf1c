"""Programs of views and writes in torch code, made at random: value, gradient, second order and replays are torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.passes import flatgrad

Step = tuple[int, int, int, int]

# -- a program is a list of steps: an operation, a tensor that is there, and two numbers that stand for its parameters


def _slice(x: Any, a: int, b: int) -> Any:
    n = x.shape[a % x.ndim]
    return x[(slice(None),) * (a % x.ndim) + (slice(b % (n + 1), None, b % 2 + 1),)]


def _at(x: Any, a: int, b: int) -> Any:
    return x[b % len(x)] if len(x) else x[:0]


def _narrow(x: Any, a: int, b: int) -> Any:
    n = x.shape[a % x.ndim]
    start = b % (n + 1)
    return x.narrow(a, start, (n - start + 1) // 2) if a < x.ndim else torch.narrow(x, -1, 0, x.shape[-1])


def _wide(x: Any, a: int, b: int) -> Any:
    return x.expand(2, *x.shape) if a % 2 else x.unsqueeze(0).expand(3, *[-1] * x.ndim)


VIEWS: list[Callable[[Any, int, int], Any]] = [
    _slice, _at, _narrow, _wide,
    lambda x, a, b: x.select(a % x.ndim, b % x.shape[a % x.ndim]),
    lambda x, a, b: x.transpose(a % x.ndim, b % x.ndim),
    lambda x, a, b: x.T if x.ndim == 2 else x.mT if x.ndim > 2 else x.t(),
    lambda x, a, b: x.view(-1),
    lambda x, a, b: x.reshape(-1),
    lambda x, a, b: x.reshape(*reversed(x.shape)) if a % 2 else x.flatten(),
    lambda x, a, b: x.view(x.shape[0], -1) if x.numel() else x,
    lambda x, a, b: x.unsqueeze(a % (x.ndim + 1)),
    lambda x, a, b: x.squeeze() if a % 2 else x.squeeze(b % x.ndim),
    lambda x, a, b: x.permute(*(list(range(x.ndim))[::-1] if a % 2 else [(i + b) % x.ndim for i in range(x.ndim)])),
    lambda x, a, b: x.chunk(2, a % x.ndim)[-1],
    lambda x, a, b: x.split(b % 2 + 1, a % x.ndim)[0],
    lambda x, a, b: x.unbind(a % x.ndim)[0],
    lambda x, a, b: x.diagonal(b % 2, 0, 1) if x.ndim > 1 else x[...],
    lambda x, a, b: x.movedim(a % x.ndim, b % x.ndim),
    lambda x, a, b: x.real.detach() if x.is_complex() else x.detach()[...],
]
COMPUTED: list[Callable[[Any, Any, int], Any]] = [
    lambda x, y, a: x.sin(), lambda x, y, a: x * 1.5, lambda x, y, a: x * y.sum(), lambda x, y, a: x.clone(), lambda x, y, a: x.contiguous(),
    lambda x, y, a: x[x > 0] if not x.is_complex() else x, lambda x, y, a: torch.stack([x, x * 2]), lambda x, y, a: torch.zeros(3, dtype=x.dtype),
]


def fitting(x: Any, y: Any) -> Any:
    """Return what can be written into x: y where it broadcasts, else a number that depends on it."""
    try:
        torch.broadcast_to(torch.empty(y.shape), x.shape)
    except RuntimeError:
        return y.sum() * 0.5
    return y


def _mask(x: Any, y: Any, a: int) -> None:
    x[torch.arange(x.numel()).reshape(x.shape) % 2 == a % 2] = y.sum() * 0.3


def _row(x: Any, y: Any, a: int) -> None:
    if len(x):
        x[a % len(x)] = fitting(x[a % len(x)], y)


def _part(x: Any, y: Any, a: int) -> None:
    if len(x):
        x[a % len(x)].sub_(0.5) if a % 2 else x[: a % len(x)].mul_(1.25)


def _augmented(x: Any, y: Any, a: int) -> None:
    x += fitting(x, y)


def _augmented_part(x: Any, y: Any, a: int) -> None:
    x[a % 2:] *= 1.5
    x[..., :1] -= y.sum() * 0.1


def _index_add(x: Any, y: Any, a: int) -> None:
    if len(x):
        x.index_add_(0, torch.tensor([a % len(x), 0]), x[:1].detach().expand(2, *x.shape[1:]) + y.sum() * 0.1)


def _out(x: Any, y: Any, a: int) -> None:
    torch.mul(x, 0.5, out=x) if a % 2 else torch.add(x, y.sum(), out=x)


def _under_no_grad(x: Any, y: Any, a: int) -> None:
    with torch.no_grad():
        x.mul_(1.5) if a % 2 else x[:1].add_(1.0)


WRITES: list[Callable[[Any, Any, int], Any]] = [
    _mask, _row, _part, _augmented, _augmented_part, _index_add, _out, _under_no_grad,
    lambda x, y, a: x.add_(fitting(x, y)), lambda x, y, a: x.mul_(1.5), lambda x, y, a: x.copy_(fitting(x, y)), lambda x, y, a: x.fill_(0.25),
    lambda x, y, a: x.zero_(), lambda x, y, a: x.sin_(), lambda x, y, a: torch.nn.functional.relu(x, inplace=True) if not x.is_complex() else x.neg_(),
    lambda x, y, a: x.masked_fill_(torch.arange(x.shape[-1]) % 2 == 0, 0.5), lambda x, y, a: x.addcmul_(x, x, value=0.1),
    lambda x, y, a: x.unsqueeze_(0), lambda x, y, a: x.transpose_(0, a % x.ndim), lambda x, y, a: x.squeeze_(),
]


def program(steps: list[Step], *inputs: Any) -> Any:
    """Run the steps; return a number that depends on every tensor that is left."""
    pool = list(inputs)
    for kind, which, a, b in steps:
        x, y = pool[which % len(pool)], pool[b % len(pool)]
        if kind % 2:
            if x.ndim:
                WRITES[kind // 2 % len(WRITES)](x, y, a)
        elif kind % 4:
            if x.ndim and all(x.shape):
                pool.append(VIEWS[kind // 4 % len(VIEWS)](x, a, b))
        else:
            pool.append(COMPUTED[kind // 4 % len(COMPUTED)](x, y, a))
    total = 0.0
    for i, x in enumerate(pool):
        x = torch.view_as_real(x.resolve_conj()).sum(-1) if x.is_complex() else x
        total = total + (x * (torch.arange(x.numel(), dtype=torch.float64) * 0.1 + i).reshape(x.shape)).sum()
    return total


# what a difference quotient follows, and no gradient: detach(), and writes under no_grad
UNFOLLOWED = {kind for kind in range(240) if (kind // 2 % len(WRITES) in (5, 7) if kind % 2 else kind % 4 and kind // 4 % len(VIEWS) == 19)}
STEPS = st.lists(st.tuples(st.integers(0, 239), st.integers(0, 9), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=9)


def layouts() -> dict[str, Callable[[], Any]]:
    """Return how an input may lie in memory."""
    base = torch.linspace(-1.0, 1.0, 48, dtype=torch.float64)
    return {"C": lambda: base[:12].reshape(3, 4).clone(), "transposed": lambda: base[:12].reshape(4, 3).T, "strided": lambda: base[:24].reshape(3, 8)[:, ::2],
            "3-d": lambda: base[:12].reshape(2, 3, 2).clone(), "vector": lambda: base[10:14].clone(), "0-d": lambda: base[40].clone(),
            "empty": lambda: torch.zeros(0, 3, dtype=torch.float64), "part of more": lambda: base.reshape(6, 8)[1:4, 2:6]}


LAYOUTS = layouts()


def kept(x: Any) -> Any:
    """Copy a tensor as it lies in memory."""
    storage = x.untyped_storage().clone()
    return torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())


def by_torch(steps: list[Step], xs: list[Any]) -> tuple[Any, list[Any] | None]:
    """Return the value by torch, and the gradients, None where its tape refuses what the program does; raise what torch raises."""
    value = program(steps, *map(kept, xs))
    roots = [kept(x).requires_grad_() for x in xs]
    try:
        y = program(steps, *[as_laid(x) for x in roots])
        found = torch.autograd.grad(y, roots, allow_unused=True, materialize_grads=True) if y.requires_grad else [torch.zeros_like(x) for x in roots]
    except RuntimeError:  # an output of a function of several views is written to, or what a gradient needs
        return value, None
    return value, list(found)


def as_laid(x: Any) -> Any:
    """Return a tensor with its history, and laid out as it is, that may be written to."""
    class Laid(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return kept(x.detach())

        @staticmethod
        def backward(ctx: Any, dy: Any) -> Any:
            return dy
    return Laid.apply(x)


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


def check(steps: list[Step], *xs: Any) -> None:
    before = [kept(x) for x in xs]

    def f(*args: Any) -> Any:
        return program(steps, *args)
    try:
        value, gradients = by_torch(steps, list(xs))
    except (RuntimeError, IndexError) as err:
        if "single memory location" not in str(err):  # a tape has a meaning for some of these
            with pytest.raises(Exception):  # noqa: B017  (torch's own, or ours)
                tg.trace(f, *xs)
        return
    try:
        found, (_, *dxs) = tg.grad(f, *xs)
    except (RuntimeError, tg.MutationError) as err:
        assert "single memory location" in str(err) or "by way of x.detach()" in str(err)
        return
    close(found, value)
    if gradients is None and not any(step[0] in UNFOLLOWED for step in steps):
        numeric(f, xs, dxs)
    for dx, wanted in zip(dxs, gradients or dxs):
        close(dx, wanted)
    primal = tg.trace(f, *xs)[1].check()
    close(primal.play(*map(kept, xs)), value)
    for tape in (tg.gradtape(f, *xs).check(), flatgrad(primal).check()):
        again, (_, *dxs_again) = tape.play(*map(kept, xs))
        close(again, value)
        for a, b in zip(dxs_again, dxs):
            close(a, b)
    for x, was in zip(xs, before):
        assert torch.equal(x, was)


def numeric(f: Callable[..., Any], xs: Any, dxs: list[Any]) -> None:
    """Check the gradients along one direction by differences, where torch has none."""
    direction = [torch.sin(torch.arange(x.numel(), dtype=torch.float64) + 1).reshape(x.shape) for x in xs]
    h = 1e-6

    def shifted(s: float) -> float:
        moved = []
        for x, d in zip(xs, direction):
            y = kept(x)
            y += s * h * d
            moved.append(y)
        return float(f(*moved))
    slope = (shifted(1.0) - shifted(-1.0)) / (2 * h)
    found = sum(float((dx * d).sum()) for dx, d in zip(dxs, direction))
    assert abs(found - slope) <= 1e-4 * max(1.0, abs(slope)), (found, slope)


@settings(max_examples=600, deadline=None)
@given(STEPS, st.sampled_from(list(LAYOUTS)))
def test_random_programs_of_views_and_writes_are_torchs(steps: list[Step], layout: str) -> None:
    check(steps, LAYOUTS[layout]())
