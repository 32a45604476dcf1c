"""The program's names for values."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad.show.assigned import assigned


def names(tape: tg.Tape) -> list[str]:
    return list(assigned(tape).values())


def half(x: Any) -> Any:
    y = x / 2
    return y


def f(x: Any) -> Any:
    total = 0.0
    for v in x:
        total += v * v
    spread = np.var(x)
    h = half(spread) + (scale := total * 2)
    pair = h, scale
    return np.sin(pair[0])


def test_the_last_operation_of_a_call_has_the_name_that_it_is_assigned_to() -> None:
    tape = tg.trace(f, np.array([1.0, 2.0]))[1]
    assert [name for name in names(tape) if name != "v"] == ["total", "total", "spread", "y", "scale", "h"]
    assert [op.fn.__name__ for op, name in assigned(tape).items() if name == "y" and isinstance(op, tg.Call)] == ["divide"]


def test_a_gradient_tape_names_the_values_of_its_triples() -> None:
    def g(a: float) -> float:
        c = a * a
        return c + a
    tape = tg.gradtape(g, 2.0)
    (op, name), = assigned(tape).items()
    assert name == "c" and isinstance(op, tg.Call) and op.val == 4.0
    assert re.search(r"%4  . +getfield\(%3, 0\) +float +c\b", tape.format("table", width=100))
