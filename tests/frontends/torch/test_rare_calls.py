"""Calls of a rare form are what they are in torch, or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

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
