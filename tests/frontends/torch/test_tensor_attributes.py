"""Attributes that a program gives tensors: a traced tensor has none of them, and refuses rather than to deny one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import tapegrad as tg
from tapegrad.errors import UnknownFunction


@pytest.mark.parametrize("trained", [False, True])
def test_an_attribute_of_the_programs_is_refused(trained: bool) -> None:
    m = nn.Linear(3, 1)
    w = nn.Parameter(torch.ones(3)) if trained else torch.ones(3)
    m.weight.scale = w.scale = 4.0  # type: ignore[assignment, attr-defined]
    x = torch.ones(3)
    with pytest.raises(UnknownFunction, match="scale"):
        tg.grad(lambda w, x: (w * x).sum() * getattr(w, "scale", 1.0), w, x)
    with pytest.raises(UnknownFunction, match="scale"):
        tg.compile(lambda m, x: m(x).sum() * m.weight.scale, backend="torch", warmup=1)(m, x)


def test_other_attributes_are_as_they_were() -> None:
    w = nn.Parameter(torch.ones(3))
    w.note = "kept"  # type: ignore[attr-defined]

    def f(w: Any) -> Any:
        assert not hasattr(w, "scale")
        y = w * 2.0
        y.scale = 3.0
        assert not hasattr(y, "note")
        return y.sum() * y.scale
    assert tg.grad(f, w)[1][1].tolist() == [6.0] * 3
    assert w.note == "kept"  # type: ignore[attr-defined]
