"""Attributes that a program gives tensors: a traced tensor has none of them, and refuses rather than to deny one."""

from __future__ import annotations

import functools
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


WAYS: dict[str, Any] = {
    "grad": lambda f, *args: tg.grad(f, *args), "trace": lambda f, *args: tg.trace(f, *args), "jvp": lambda f, w, x: tg.jvp(f, (w, x), (w, x)),
    "compile": lambda f, *args: STEP(f)(*args), "value_and_grad": lambda f, *args: FAST(f)(*args)}
STEP, FAST = functools.cache(tg.compile), functools.cache(lambda f: tg.value_and_grad(f, argnums=None))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("where", ["argument", "captured", "of a module"])
@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning", "ignore::tapegrad.EffectWarning")
def test_what_a_program_sets_on_a_tensor_is_there_afterwards(where: str, way: str) -> None:
    given, m = torch.ones(3), nn.Linear(3, 1)
    held = {"argument": given, "captured": torch.ones(3), "of a module": m.weight}[where]

    def f(w: Any, x: Any) -> Any:
        v = w if where == "argument" else held if where == "captured" else m.weight
        v.loss, v.note = (v * x).sum(), [1, "two"]
        return v.loss * w.sum() + m(x).sum()
    for k in range(4):
        x = torch.full((3,), float(k))
        WAYS[way](f, given, x)
        found: Any = held
        assert found.note == [1, "two"] and type(found.loss) is torch.Tensor
        torch.testing.assert_close(found.loss, (held * x).sum().detach())
        if where == "of a module" and k == 0:  # a global, which is read again with the attributes that it has
            break
