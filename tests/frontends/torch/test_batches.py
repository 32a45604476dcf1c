"""Batches of functions of torch that are recorded whole: those of which parts are None, and those of tensors that a trace around knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import tapegrad as tg

GENERATOR = torch.Generator().manual_seed(0)


def T(*shape: int) -> Any:
    return torch.randn(*shape, generator=GENERATOR, dtype=torch.float64)


class Partly(torch.autograd.Function):  # type: ignore[misc]
    """The second part of what it returns is None; torch.vmap does not take it."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x ** 2, None, x + 1

    @staticmethod
    def backward(ctx: Any, dy: Any, _: Any, dz: Any) -> Any:
        return 2 * ctx.saved_tensors[0] * dy + dz


def partly(x: Any, w: Any) -> Any:
    y, _, z = Partly.apply(x)
    return y * w + z


PARTS: dict[str, Callable[[Any, Any], Any]] = {
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, w, training=True),
    "batch_norm of statistics": lambda x, w: F.batch_norm(x, x.new_zeros(2), x.new_ones(2), w, training=True),
    "instance_norm": lambda x, w: F.instance_norm(x.mT[None]) * w[:, None],
    "a function of the user's": partly,
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_none(name: str) -> None:
    f, xs, ws = PARTS[name], T(3, 5, 2), T(3, 2)

    def batched(xs: Any, ws: Any) -> Any:
        return tg.vmap(f)(xs, ws).sin().sum()
    x, w = xs.clone().requires_grad_(), ws.clone().requires_grad_()
    y = torch.stack([f(x[k], w[k]) for k in range(3)])
    torch.testing.assert_close(tg.vmap(f)(xs, ws), y.detach())
    dx, dw = torch.autograd.grad(y.sin().sum(), (x, w), create_graph=True)
    _, (_, *found) = tg.grad(batched, xs, ws)
    torch.testing.assert_close(found, [dx.detach(), dw.detach()])
    ddx, ddw = torch.autograd.grad((dx * xs.cos()).sum(), (x, w))
    _, (_, *found) = tg.grad(lambda xs, ws: (tg.grad(batched, xs, ws)[1][1] * torch.cos(tg.stop_gradient(xs))).sum(), xs, ws)
    torch.testing.assert_close(found, [ddx, ddw])
    _, tangent = tg.jvp(lambda xs: tg.grad(batched, xs, ws)[1][1], (xs,), (xs.cos(),))
    torch.testing.assert_close(tangent, ddx)
    twice = tg.gradient(lambda xss: tg.vmap(batched, in_axes=(0, None))(xss, ws).sum(), torch.stack([xs, 0 * xs]))[0]
    torch.testing.assert_close(twice[0], dx.detach())


def test_parts_that_are_none_in_a_file(tmp_path: Any) -> None:
    xs, ws = T(3, 5, 2), T(3, 2)
    _, tape = tg.trace(tg.vmap(PARTS["batch_norm"]), xs, ws)
    tape.save(tmp_path / "f.tape")
    torch.testing.assert_close(tg.load(tmp_path / "f.tape").play(xs + 1, ws), tape.play(xs + 1, ws))


KNOWN: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {  # functions written in Python
    "embedding": (lambda w, i: F.embedding(i, w), torch.tensor([[0, 1], [2, 2], [4, 0]])),
    "layer_norm": (lambda w, x: F.layer_norm(x, (3,), w[0], w[1]), T(4, 2, 3)),
    "einsum": (lambda w, x: torch.einsum("ij,jk->ik", w, x), T(2, 3, 4)),
    "block_diag": (lambda w, x: torch.block_diag(w, x).cumsum(0), T(2, 3, 4)),
    "bilinear": (lambda w, x: F.bilinear(x, x, w[None, :3, :3]), T(4, 2, 3)),
}


@pytest.mark.parametrize("name", KNOWN)
def test_tensors_that_a_trace_around_knows(name: str) -> None:
    f, x = KNOWN[name]
    w = T(5, 3)
    held = (w, x)

    def loss(w: Any) -> Any:
        return tg.vmap(f, in_axes=(None, 0))(w, held[1]).sin().sum() + 0 * len(held)

    def plain(w: Any) -> Any:
        return torch.stack([f(w, part) for part in x]).sin().sum()
    v = w.cos()
    _, wanted = torch.autograd.functional.hvp(plain, w, v)
    _, found = tg.jvp(lambda w: tg.grad(loss, w)[1][1], (w,), (v,))
    torch.testing.assert_close(found, wanted)


WHOLE: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, (4,)), "of several": lambda x: torch.block_diag(x, x * 2), "by a name": lambda x: torch.renorm(x, p=2, dim=0, maxnorm=0.5),
    "of several results": lambda x: (torch.aminmax(x, dim=1)[1] + torch.frexp(x)[0].sum(1)) * torch.native_layer_norm(x, (4,), None, None, 1e-5)[0].sum(1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_second_derivatives_are_batched_and_compiled(name: str) -> None:
    """A Hessian has one call of each pullback for all of its columns, and so has a batch of gradients; both are compiled, for other numbers too."""
    def f(x: Any) -> Any:
        return (WHOLE[name](x) ** 3).sum()
    xs = T(3, 2, 4)
    text = str(tg.trace(tg.hessian(f), xs[0])[1])
    assert "batched" in text and not any(slow in text for slow in ("per member", "over the members"))
    hessian, gradients = tg.compile(tg.hessian(f)), tg.compile(tg.vmap(lambda x: tg.gradient(f, x)[0]))
    for _ in range(4):
        torch.testing.assert_close(hessian(xs[0]), torch.autograd.functional.hessian(f, xs[0]))
        torch.testing.assert_close(gradients(xs), torch.stack([torch.func.grad(f)(x) for x in xs]))
        xs = xs + 0.1
    assert hessian.stats.traces <= 2 and gradients.stats.traces <= 2


def test_a_power_series_ends_where_torchs_derivatives_may_be_wrong() -> None:
    x, v = T(4), T(4)
    value, slope = tg.taylor(lambda x: (F.layer_norm(x, (4,)) ** 3).sum(), x, 1, direction=v)
    torch.testing.assert_close((value, slope), torch.func.jvp(lambda x: (F.layer_norm(x, (4,)) ** 3).sum(), (x,), (v,)))
    with pytest.raises(tg.MissingRule, match="no power series"):
        tg.taylor(lambda x: F.layer_norm(x, (4,)).sum(), x, 2)
