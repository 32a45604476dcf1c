"""Modules are traced as they are, and their gradients are named as their parameters."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tapegrad as tg


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self, d: int = 16) -> None:
        super().__init__()
        self.ln, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.att = nn.MultiheadAttention(d, 4, batch_first=True, dropout=0.1)
        self.mlp = nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, d))

    def forward(self, x: Any) -> Any:
        h = self.ln(x)
        x = x + self.att(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.ln2(x))


class Recurrent(nn.Module):
    """An LSTM over an embedding, with one matrix for both ends."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.lstm, self.out = nn.Embedding(10, 8), nn.LSTM(8, 8, 2, batch_first=True), nn.Linear(8, 10)
        self.out.weight = self.embedding.weight

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(self.embedding(x))[0])


def check(module: Any, x: Any, loss: Any) -> None:
    torch.manual_seed(3)
    wanted = loss(module, x)
    module.zero_grad()
    wanted.backward()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    torch.manual_seed(3)
    value, (_, gradients, _) = tg.grad(loss, module, x)
    torch.testing.assert_close(value, wanted.detach())
    assert list(gradients) == [name for name, _ in module.named_parameters()]
    for name, p in module.named_parameters():
        torch.testing.assert_close(gradients[name], p.grad)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_a_transformer_block() -> None:
    check(Block(), torch.randn(2, 5, 16), lambda m, x: m(x).square().mean())


def test_a_recurrent_network_with_tied_weights() -> None:
    check(Recurrent(), torch.randint(0, 10, (2, 6)), lambda m, x: F.cross_entropy(m(x).flatten(0, 1), x.flatten()))


def test_frozen_parameters_and_buffers_have_no_gradient() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    module[0].weight.requires_grad_(False)
    _, (_, gradients, _) = tg.grad(lambda m, x: m(x).sum(), module, torch.randn(5, 3))
    assert gradients["0.weight"] is None and gradients["0.bias"].shape == (4,)


@pytest.mark.parametrize("f", [lambda m: m, lambda m: m.forward, lambda m: lambda x: m(x)], ids=["callable", "bound method", "closure"])
def test_a_module_may_be_the_function_or_be_captured(f: Any) -> None:
    module = nn.Linear(3, 2)
    x = torch.randn(5, 3)
    _, (df, dx) = tg.grad(f(module), x, seed=torch.ones(5, 2))
    found = df if set(df) == {"weight", "bias"} else df["m"]
    torch.testing.assert_close(found["weight"], x.sum(0).expand(2, 3))
    torch.testing.assert_close(dx, module.weight.detach().sum(0).expand(5, 3))
