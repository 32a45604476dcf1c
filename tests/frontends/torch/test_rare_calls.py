"""Calls of a rare form are what they are in torch, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy.optimize import linear_sum_assignment

import tapegrad as tg
from tests.frontends.torch.agree import agree

X = torch.tensor([0.25, -2.5, 0.0, 1.5])
WIDE = torch.tensor([math.inf, -math.inf, 0.0, math.nan, 1.0], dtype=torch.float64)


@pytest.mark.parametrize("f", [
    lambda x: torch.copysign(x, 2), lambda x: torch.copysign(x, -0.5), lambda x: x.copysign(-1), lambda x: x.clone().copysign_(-2.0), lambda x: torch.logit(x, 1),
    lambda x: torch.logit(x, 0.75), lambda x: torch.logit(x, 0.25), lambda x: torch.lerp(x, x.flip(0), 2.0), lambda x: x.lerp(x.flip(0), 0.3), lambda x: x.lerp(x * 2, 0.5),
    lambda x: torch.lerp(x, x.flip(0), torch.linspace(-1.0, 2.0, len(x), dtype=x.dtype))])
@pytest.mark.parametrize("x", [X, X.double(), WIDE, X.half()], ids=lambda x: str(x.dtype))
def test_values_and_dtypes(f: Callable[[Any], Any], x: Any) -> None:
    wanted, (found, tape) = f(x), tg.trace(f, x)
    for y in (found, tape.play(x), *(tg.compile(f, backend="torch", warmup=1)(x) for _ in range(2))):
        assert y.dtype is wanted.dtype
        torch.testing.assert_close(y, wanted, rtol=0, atol=0, equal_nan=True)


def test_gradients() -> None:
    x = torch.tensor([0.25, -2.5, 0.5, 1.5], dtype=torch.float64)
    for weight in (-0.5, 0.3, 0.5, 2.0, torch.tensor([0.1, 0.9, 0.5, 2.0], dtype=torch.float64)):
        agree(lambda x, w: torch.lerp(x, x.flip(0) * 3, w).sum(), x, weight)
    agree(lambda x: (x.copysign(-2.0) * x).sum(), x)
    agree(lambda x: torch.logit(x, 0.1).sum(), x.abs() / 3)


def test_reductions_into_another_precision() -> None:
    def f(fn: Any, dtype: Any) -> Any:
        return lambda x: fn(x, dim=0, out=torch.zeros((), dtype=dtype))
    x = torch.tensor([0.1, 0.2, 0.7, 3.3], dtype=torch.float16)
    for fn in (torch.logsumexp, torch.sum, torch.mean, torch.prod):
        try:
            wanted = f(fn, torch.float64)(x)
        except RuntimeError:
            continue
        try:
            found = tg.trace(f(fn, torch.float64), x)[0]
        except tg.UnknownFunction as err:
            assert "computes in that dtype" in str(err)
            continue
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
    assert torch.equal(tg.gradient(lambda x: torch.add(x, 1.0, out=torch.zeros(4, dtype=torch.float64)).sum(), X)[0], torch.ones(4))


@pytest.mark.parametrize("n", [-1, 300, 2 ** 40])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_integers_that_a_tensor_cannot_hold(dtype: Any, n: int) -> None:
    x = torch.tensor([0, 1, 3], dtype=dtype)
    for f in (lambda x: x > n, lambda x: x == n, lambda x: torch.ge(x, n), lambda x: x + n, lambda x: x * n, lambda x: n - x):
        wanted, (found, tape) = f(x), tg.trace(f, x)
        assert all(y.dtype is wanted.dtype and torch.equal(y, wanted) for y in (found, tape.play(x)))


def test_chunks_of_nothing() -> None:
    for f in (lambda x: x.chunk(2), lambda x: torch.chunk(x, 3, 1), lambda x: torch.chunk(x, 5)):
        for x in (torch.zeros(0, 3), torch.zeros(4, 0), torch.zeros(4, 3)):
            assert [tuple(part.shape) for part in tg.trace(f, x)[0]] == [tuple(part.shape) for part in f(x)]


def by_assignment(x: Any) -> Any:
    rows, columns = linear_sum_assignment(x.detach())
    with torch.no_grad():
        again, _ = linear_sum_assignment(x * x)
    return (x[rows, columns] ** 2).sum() + x[again].sum()


def test_a_detached_tensor_is_handed_to_compiled_code() -> None:
    step = tg.value_and_grad(by_assignment, backend="torch", argnums=0, warmup=1)
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for scale in (1.0, 2.0, -1.0, 1.0, -1.0, 0.5):
        given = (x * scale).requires_grad_()
        want = torch.autograd.grad(by_assignment(given), given)[0]
        assert torch.allclose(step(x * scale)[1], want) and torch.allclose(tg.gradient(by_assignment, x * scale)[0], want)
    with pytest.raises(tg.ConcretizationError):
        tg.grad(lambda x: x[linear_sum_assignment(x)].sum(), x)


def test_a_tensor_is_not_none_and_a_module_goes_where_a_tensor_is() -> None:
    x, layer = torch.ones(3), torch.nn.Linear(3, 1)
    assert tg.gradient(lambda x: 2 * x.sum() if x != None and x not in [None] and not x == None else x, x)[0].tolist() == [2.0] * 3  # noqa: E711
    assert tg.grad(lambda m, x: m.to(x)(x).sum(), layer, x)[1][1]["weight"].tolist() == [[1.0] * 3]


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


def test_what_torch_jit_compiled_is_refused_by_its_name() -> None:
    with pytest.raises(tg.UnknownFunction, match=r"scripted, which torch\.jit compiled and torch does not expose"):
        tg.grad(lambda x: scripted(x), torch.ones(3))


@pytest.mark.parametrize("how", [{"attn_mask": torch.tensor([[True, True, False]] * 3)}, {"attn_mask": torch.arange(9.0, dtype=torch.float64).reshape(3, 3) / 9},
                                 {"enable_gqa": True}], ids=["mask", "numbers", "groups"])
def test_second_derivatives_of_attention(how: Any) -> None:
    def f(q: Any) -> Any:
        q = q.reshape(1, 2, 3, 2)
        k = q[:, :1] if "enable_gqa" in how else q
        return (torch.nn.functional.scaled_dot_product_attention(q, k * 1.5, k, **how) ** 2).sum()
    q = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = torch.autograd.functional.hessian(f, q)
    assert torch.allclose(tg.hessian(f)(q), want)
