"""Dropout draws what torch draws; its pullback, and whatever computes it again, never draws."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tapegrad as tg
from tests.frontends.torch.agree import agree
from tests.frontends.torch.nn.table import draw

FUNCTIONS = {"dropout": F.dropout, "dropout1d": F.dropout1d, "dropout2d": lambda x, p: F.dropout2d(x[None], p)[0], "alpha_dropout": F.alpha_dropout,
             "feature_alpha_dropout": F.feature_alpha_dropout, "rrelu": lambda x, p: F.rrelu(x, 0.1, 0.5, training=True),
             "all of it": lambda x, p: F.dropout(x, 1.0), "none of it": lambda x, p: F.dropout(x, 0.0), "at rest": lambda x, p: F.dropout(x, p, training=False),
             "strided": lambda x, p: F.dropout(x.transpose(1, 2), p), "in place": lambda x, p: F.dropout(x * 2, p, inplace=True),
             "attention": lambda x, p: F.scaled_dot_product_attention(x, x, x, dropout_p=p),
             "gumbel": lambda x, p: F.gumbel_softmax(x)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_are_those_that_torch_draws(name: str) -> None:
    f = FUNCTIONS[name]
    agree(lambda x: f(f(x, 0.4), 0.3).square().sum(), draw(2, 5, 6), draws=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_program_goes_on_drawing_where_torch_would(name: str) -> None:
    f, x = FUNCTIONS[name], draw(2, 5, 6)
    torch.manual_seed(2)
    f(x, 0.4)
    wanted = torch.rand(3)
    torch.manual_seed(2)
    tg.grad(lambda x: f(x, 0.4).sum(), x)
    assert torch.equal(torch.rand(3), wanted)


def test_a_replay_draws_afresh_and_its_pullback_sees_the_same_mask() -> None:
    x = draw(50)
    for tape in (tg.gradtape(lambda x: F.dropout(x, 0.3).sum(), x), tg.passes.flatgrad(tg.trace(lambda x: F.dropout(x, 0.3).sum(), x)[1])):
        found = []
        for _ in range(3):
            value, (_, dx) = tape.play(x)
            torch.testing.assert_close((dx * x).sum(), value)  # linear in x
            assert set(dx.tolist()) <= {0.0, 1 / 0.7}
            found.append(float(value))
        assert len(set(found)) == 3


def test_a_module_at_rest_records_no_mask() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout()).eval()
    _, tape = tg.trace(lambda m, x: m(x), module, draw(2, 3).float())
    assert [op.fn.__name__ for op in tape if op.kind == "call"] == ["linear"]


def test_second_order_through_one_mask() -> None:
    def f(x: Any) -> Any:
        return F.dropout(x, 0.5).pow(3).sum()
    x = draw(20)
    torch.manual_seed(0)
    (found,) = tg.gradient(lambda x: tg.gradient(f, x)[0].sum(), x)
    torch.manual_seed(0)
    factor = F.dropout(torch.ones_like(x), 0.5)
    torch.testing.assert_close(found, 6 * factor ** 3 * x)
