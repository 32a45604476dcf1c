"""torch.autocast in a program: values and gradients are torch's, bit by bit; around a trace it is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import tapegrad as tg

torch.manual_seed(0)
X, OTHER = torch.randn(4, 3), torch.randn(4, 3)
BFLOAT = torch.bfloat16


def model() -> Any:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


def half(m: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=BFLOAT):
        y = m(x)
        w = torch.softmax(y @ y.T, -1)
        s = w.exp().sum() + (x[:, None] * 2).sum()
    return y.float().pow(2).sum() + s.float() + m[0](x).sum()


def partly(m: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=BFLOAT):
        y = m(x)
        with torch.autocast("cpu", enabled=False):
            u = m[0](x.float())
        h = torch.zeros(4, 2) + y
        h[0] = 1
        h += y
        return F.cross_entropy(y, torch.tensor([0, 1, 0, 1])) + F.mse_loss(u, torch.zeros_like(u)) + h.sum()


@torch.autocast("cpu", dtype=BFLOAT)
def decorated(m: Any, x: Any) -> Any:
    return torch.cat([m(x), x @ x.T], 1).float().sum() + torch.einsum("ij,kj->ik", x, x).sum() * m[0].bias.sum()


def with_numpy(m: Any, x: Any) -> Any:
    with torch.autocast("cpu", dtype=BFLOAT):
        return np.sin(m[0].weight).sum() + np.matmul(m[0].weight, x.T).sum() + (m[0].weight @ x.T).sum()


def dropped(m: Any, x: Any) -> Any:
    torch.manual_seed(4)
    with torch.autocast("cpu", dtype=BFLOAT):
        return F.dropout(m(x), 0.5).float().pow(2).sum()


def by_torch(f: Callable[..., Any], m: Any, x: Any) -> Any:
    value = f(m, x)
    return value.detach(), dict(zip([name for name, _ in m.named_parameters()],
                                    torch.autograd.grad(value, list(m.parameters()), allow_unused=True, materialize_grads=True)))


def same(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found[0], wanted[0], rtol=0.0, atol=0.0)
    for name, dp in wanted[1].items():
        torch.testing.assert_close(torch.zeros_like(dp) if found[1][name] is None else found[1][name], dp, rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:dropped is not compiled:tapegrad.RetraceWarning")  # it seeds a generator that others draw from
@pytest.mark.parametrize("f", [half, partly, decorated, dropped])
def test_inside(f: Any) -> None:
    m = model()
    same(tg.grad(f, m, X, argnums=0), by_torch(f, m, X))
    step = tg.value_and_grad(f, 0, backend="torch", warmup=1)
    for x in (X, OTHER, X, OTHER):
        same(step(m, x), by_torch(f, m, x))
    assert step.stats.hits >= 3 or f is dropped


def test_functions_of_numpy_cast_nothing() -> None:
    m = model()
    _, gradients = tg.grad(with_numpy, m, X, argnums=0)
    exact = m[0].weight.detach().cos() + X.sum(0)
    torch.testing.assert_close(gradients["0.weight"], exact + X.to(BFLOAT).sum(0, dtype=torch.float32), rtol=2e-2, atol=2e-2)


def test_second_order() -> None:
    m = model()

    def slope(x: Any) -> Any:
        return tg.gradient(lambda x: half(m, x), x)[0].pow(2).sum()
    x = X.clone().requires_grad_()
    first, = torch.autograd.grad(half(m, x), x, create_graph=True)
    wanted, = torch.autograd.grad(first.pow(2).sum(), x)
    torch.testing.assert_close(tg.gradient(slope, X)[0], wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("call", [
    lambda f, m: tg.grad(f, m, X), lambda f, m: tg.trace(f, m, X), lambda f, m: tg.jvp(lambda x: f(m, x), (X,), (X,))])
def test_around_a_trace_it_is_refused(call: Any) -> None:
    with torch.autocast("cpu", dtype=BFLOAT), pytest.raises(tg.UnknownFunction, match="autocast around"):
        call(lambda m, x: m(x).float().sum(), model())


def test_a_compiled_function_is_not_used_in_another_state() -> None:
    def f(m: Any, x: Any) -> Any:
        return m(x).float().pow(2).sum()
    m, step = model(), tg.value_and_grad(f, 0, backend="torch", warmup=1)
    for _ in range(3):
        step(m, X)
    with torch.autocast("cpu", dtype=BFLOAT), pytest.raises(tg.UnknownFunction, match="autocast around"):
        step(m, X)
    same(step(m, X), by_torch(f, m, X))
    tg.value_and_grad(lambda x: (x * x).sum(), 0, warmup=1)(np.ones(2))


def test_a_tape_is_not_played_in_another_state() -> None:
    w = torch.randn(2, 3)
    tape = tg.trace(lambda w, x: x @ w.T, w, X)[1]
    fast = tg.compile(tape, backend="torch")
    for call in (tape.play, fast):
        with torch.autocast("cpu", dtype=BFLOAT), pytest.raises(tg.GuardError, match="was recorded outside"):
            call(w, X)
        torch.testing.assert_close(call(w, X), X @ w.T)


def test_a_function_that_calls_others_is_refused_there() -> None:
    def f(m: Any, x: Any) -> Any:
        with torch.autocast("cpu", dtype=BFLOAT):
            return checkpoint(m, x, use_reentrant=False).float().sum()
    with pytest.raises(tg.UnknownFunction, match="around a traced call"):
        tg.grad(f, model(), X)


@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
def test_compiled_calls_notice_the_default_dtype(make: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        return (torch.zeros(2) + x).sum() * torch.tensor(1 / 3)
    x, step = torch.ones(2), make(f, warmup=1)
    try:
        for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            for _ in range(3):
                y = step(x) if make is tg.compile else step(x)[0]
                assert torch.equal(y, f(x)) and y.dtype is dtype
    finally:
        torch.set_default_dtype(torch.float32)
