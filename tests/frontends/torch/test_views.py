"""Programs of views and writes in torch code, made at random: value, gradient, second order and replays are torch's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.transforms.flat_gradient import flatgrad

# said by torch, of programs that it runs itself here, once in a process
pytestmark = pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")

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
    """Return what can be written into x: a copy of y where it broadcasts, else a number that depends on it.

    A copy, because what torch makes of `x.add_(x[0])` depends on the order in which it goes through them.
    """
    try:
        torch.broadcast_to(torch.empty(y.shape), x.shape)
    except RuntimeError:
        return y.sum() * 0.5
    return y.clone()


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
        x.index_add_(0, torch.tensor([a % len(x), 0]), x[:1].detach().clone().expand(2, *x.shape[1:]) + y.sum() * 0.1)


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


RESHAPED = (17, 18, 19)  # unsqueeze_, transpose_, squeeze_
# what a difference quotient follows, and no gradient: detach(), and writes under no_grad
UNFOLLOWED = {kind for kind in range(240) if (kind // 2 % len(WRITES) in (5, 7) if kind % 2 else kind % 4 and kind // 4 % len(VIEWS) == 19)}
STEPS = st.lists(st.tuples(st.integers(0, 239), st.integers(0, 9), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=9)


def layouts() -> dict[str, Callable[[], Any]]:
    """Return how an input may lie in memory."""
    base = torch.linspace(-1.0, 1.0, 48, dtype=torch.float64)
    return {"C": lambda: base[:12].reshape(3, 4).clone(), "transposed": lambda: base[:12].reshape(4, 3).T, "strided": lambda: base.reshape(4, 12)[:3, 1:9:2],
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


@settings(max_examples=120, deadline=None)
@given(STEPS, st.sampled_from(list(LAYOUTS)))
def test_random_programs_of_views_and_writes_are_torchs(steps: list[Step], layout: str) -> None:
    check(steps, LAYOUTS[layout]())


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from(list(LAYOUTS)))
def test_two_inputs_and_complex_numbers(steps: list[Step], layout: str) -> None:
    x = LAYOUTS[layout]()
    check(steps, x, x.flip(0) * 0.5 if x.ndim else x * 0.5)
    if x.ndim and x.numel():
        check_complex(steps, x)


def check_complex(steps: list[Step], x: Any) -> None:
    """Check the program on views of complex numbers, written to by their real and imaginary parts."""
    def f(x: Any) -> Any:
        z = torch.complex(x, x * 0.5)
        z.real[0] = x[0] * 2
        z.imag.mul_(1.5)
        z[-1] *= 1j
        return program(steps[:3], z.real, z.imag) + (z * z.conj()).real.sum()
    try:
        y, (wanted,) = f(kept(x)), torch.autograd.grad(f(root := kept(x).requires_grad_()), root)
    except (RuntimeError, IndexError):  # of torch's own tape: a mask of what unsqueeze_ made of a real part
        return
    try:
        value, (_, dx) = tg.grad(f, x)
    except (RuntimeError, tg.MutationError) as err:
        assert any(text in str(err) for text in ("single memory location", "by way of x.detach()", "share memory"))
        return
    close(value, y)
    if not any(kind % 2 and kind // 2 % len(WRITES) in RESHAPED for kind, *_ in steps[:3]):
        close(dx, wanted)
    elif not any(kind in UNFOLLOWED for kind, *_ in steps[:3]):  # a real part that is transposed in place and then written to: torch's own gradient is wrong
        numeric(f, [x], [dx])


@settings(max_examples=40, deadline=None)
@given(STEPS, st.sampled_from(["C", "strided", "vector"]))
def test_gradients_of_gradients_are_torchs(steps: list[Step], layout: str) -> None:
    x = LAYOUTS[layout]()
    weights = torch.linspace(0.5, 1.5, x.numel(), dtype=x.dtype).reshape(x.shape)

    def f(x: Any) -> Any:
        return program(steps, x * x)
    try:
        (dx,) = torch.autograd.grad(f(root := kept(x).requires_grad_()), root, create_graph=True)
        (wanted,) = torch.autograd.grad((dx * weights).sum(), root, allow_unused=True, materialize_grads=True)
    except RuntimeError:
        return
    try:
        (found,) = tg.gradient(lambda x: (tg.gradient(f, x)[0] * weights).sum(), x)
    except (RuntimeError, tg.MutationError) as err:
        assert "single memory location" in str(err) or "by way of x.detach()" in str(err)
        return
    close(found, wanted)


# -- what random programs do not reach

X = torch.linspace(-1.0, 1.0, 12, dtype=torch.float64).reshape(3, 4)


def test_a_tape_is_replayed_at_other_values() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        y[1:] += x[0]
        y.t()[2].mul_(1.5)
        x.diagonal().zero_()
        return (y * x).exp().sum() + y[2, 2] * y[0, 0]
    other = torch.randn(3, 4, dtype=torch.float64)
    root = other.clone().requires_grad_()
    value = f(root * 1)
    (wanted,) = torch.autograd.grad(value, root)
    primal = tg.trace(f, X)[1]
    close(primal.play(other.clone()), value.detach())
    for tape in (tg.gradtape(f, X), flatgrad(primal)):
        given = other.clone()
        found, (_, dx) = tape.play(given)
        close(found, value.detach())
        close(dx, wanted)
        assert torch.equal(given, other)


def test_a_replay_where_a_reshape_would_be_a_copy_is_refused() -> None:
    def f(x: Any) -> Any:
        flat = x.reshape(-1)
        flat[0] = 5.0
        return x.sum()
    tape = tg.trace(f, X.clone())[1]
    strided = torch.zeros(3, 8, dtype=torch.float64)[:, :4]
    assert float(f(strided.clone())) == 5.0 and float(f(strided)) == 0.0
    close(tape.play(X.clone()), f(X.clone()))
    with pytest.raises(tg.GuardError, match="layout"):
        tape.play(strided)


def test_writes_are_cast_as_torch_casts_them() -> None:
    def f(x: Any) -> Any:
        n = torch.zeros(4, dtype=torch.int64)
        n[:] = x[0] * 10
        n += 2
        single = torch.zeros(4)
        single.copy_(x[1])
        single.add_(x[2].double())
        return (n * x[0]).sum() + single.sum()
    root = X.clone().requires_grad_()
    y = f(root)
    value, (_, dx) = tg.grad(f, X)
    torch.testing.assert_close(value, y.detach())
    torch.testing.assert_close(dx, torch.autograd.grad(y, root)[0])
    with pytest.raises(RuntimeError, match="can't be cast"):
        tg.grad(lambda x: torch.zeros(4, dtype=torch.int64).add_(x[0]).sum(), X)


def test_inputs_that_share_memory_are_not_used_after_a_write_to_one() -> None:
    x = X.clone()

    def f(a: Any, b: Any) -> Any:
        a.mul_(2.0)
        return a.sum() + b.sum()
    with pytest.raises(tg.MutationError, match="shares memory"):
        tg.grad(f, x, x[0])
    tape = tg.trace(f, x, X[0].clone())[1]
    with pytest.raises(tg.GuardError):
        tape.play(x, x[0])


GLOBAL = torch.ones(4, dtype=torch.float64)


def test_a_tensor_made_outside_is_never_written_to() -> None:
    def setitem(x: Any) -> Any:
        GLOBAL[0] = x[0, 0]

    def out(x: Any) -> Any:
        torch.mul(x[0], 2, out=GLOBAL)
    for f in (setitem, out, lambda x: GLOBAL.add_(x[0]), lambda x: GLOBAL[1:].copy_(x[0, 1:]), lambda x: torch._foreach_add_([GLOBAL], [x[0]]),
              lambda x: torch.nn.functional.batch_norm(x, GLOBAL, GLOBAL.clone(), training=True)):
        with pytest.raises(tg.MutationError, match="does not own"):
            tg.trace(f, X)
        assert torch.equal(GLOBAL, torch.ones(4, dtype=torch.float64))


def test_a_tensor_that_the_program_changes_between_two_uses_is_two_constants() -> None:
    def f(x: Any, how: str) -> Any:
        y = (x * GLOBAL).sum()
        if how == "in place":
            GLOBAL.mul_(3.0)
        elif how == "data":
            GLOBAL.data.mul_(3.0)
        else:
            GLOBAL.numpy()[:] *= 3.0
        return y + (x * GLOBAL).sum()
    for how in ("in place", "data", "numpy"):
        GLOBAL.fill_(1.0)
        _, (_, dx, _) = tg.grad(f, X, how)
        close(dx, torch.full_like(X, 4.0))
    GLOBAL.fill_(1.0)


def test_a_view_that_no_path_describes_is_used_until_one_of_the_two_is_written_to() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        total = y.unfold(0, 2, 1).sum()
        y[0] = 0.0
        return total + y.sum()
    root = X.clone().requires_grad_()
    close(tg.gradient(f, X)[0], torch.autograd.grad(f(root), root)[0])


def test_an_expanded_tensor_is_not_written_to() -> None:
    for f in (lambda x: x.expand(2, 3, 4).add_(1.0), lambda x: x[:1].expand(3, 4).mul_(x), lambda x: x[:1].expand(3, 4).masked_fill_(x > 0, 1.0)):
        with pytest.raises(RuntimeError, match="single memory location"):
            tg.trace(f, X)


def test_methods_in_place_that_rearrange_leave_other_views_as_they_are() -> None:
    def f(x: Any) -> Any:
        y = x.clone()
        row = y[1]
        y.t_().unsqueeze_(0)
        y[0, :, 1] *= 3.0
        return (row * 2.5).sum() + (y * torch.arange(12).reshape(1, 4, 3)).sum() + y.squeeze_().shape[0]
    root = X.clone().requires_grad_()
    value = f(root)
    found, (_, dx) = tg.grad(f, X)
    close(found, value.detach())
    close(dx, torch.autograd.grad(value, root)[0])


TABLE = torch.arange(4.0)


def test_a_copy_of_an_outside_tensor_is_the_programs_own() -> None:
    def f(p: torch.Tensor) -> torch.Tensor:
        y = TABLE.clone()
        y[0] = p
        z = TABLE * 2
        z[1:3] += p
        return (y * z).sum()
    for p in (torch.tensor(2.0), torch.tensor(3.0)):
        value, (_, dp) = tg.grad(f, p)
        torch.testing.assert_close(value, f(p))
        torch.testing.assert_close(dp, torch.func.grad(f)(p))
    assert type(TABLE) is torch.Tensor and TABLE.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_tensor_that_is_read_backwards_shares_memory() -> None:
    """As NumPy's views do; torch has no negative steps, and what is read so is a copy."""
    def before(x: Any) -> Any:
        y = x * 2
        backwards = y[::-1]
        y[0, 0] = 5.0
        return backwards.sum()

    def through(x: Any) -> Any:
        y = x * 2
        y[:, ::-1][0, 0] = 8
        return (y * y).sum()
    x = np.arange(4.0).reshape(2, 2)
    for f in (before, through):
        with pytest.raises(tg.MutationError, match="share memory"):
            tg.grad(f, torch.tensor(x))
        value = tg.grad(f, x)[0]
        assert tg.gradtape(f, x).play(torch.tensor(x))[0] == value
    assert torch.equal(tg.gradient(lambda x: (x[::-1] * torch.ones(2, 2)).sum(), torch.tensor(x))[0], torch.ones(2, 2, dtype=torch.float64))
