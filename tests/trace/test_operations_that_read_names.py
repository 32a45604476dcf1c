"""What is one operation, and reads by name a list that the program was passed: it sees what the program has written there, or is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg

SCALE, OTHER = [2.0, 3.0], {"by": 2.0}
scaled_by_ufunc = np.frompyfunc(lambda x: x * SCALE[0], 1, 1)


@tg.primitive
def scaled(x: Any) -> Any:
    return x * SCALE[0]


@tg.rrule(scaled)
def _(x: Any) -> Any:
    return x * SCALE[0], lambda dy: (dy * SCALE[0],)


@tg.primitive
def by_rule(x: Any) -> Any:
    return x


@tg.rrule(by_rule)
def _(x: Any) -> Any:
    return by_rule(x), lambda dy: (dy * OTHER["by"],)


def test_a_ufunc_of_python_sees_the_copy() -> None:
    def f(scale: Any, x: Any) -> Any:
        scale[0] = 5.0
        return scaled_by_ufunc(x)
    assert tg.grad(f, SCALE, 3.0) == (15.0, (None, [0.0, 0.0], 5.0))
    compiled = tg.value_and_grad(f, argnums=None, warmup=1)
    assert [compiled(SCALE, x)[0] for x in (3.0, 4.0, 3.0)] == [15.0, 20.0, 15.0] and SCALE == [5.0, 3.0]
    SCALE[0] = 2.0


def test_a_primitive_that_would_see_the_original_is_refused() -> None:
    def f(scale: Any, x: Any) -> Any:
        scale[0] = 5.0
        return scaled(x)

    def g(other: Any, x: Any) -> Any:
        other["by"] = 5.0
        return by_rule(x)
    for program, given in ((f, SCALE), (g, OTHER)):
        with pytest.raises(tg.MutationError, match=r"reads by name a (list|dict)"):
            tg.grad(program, given, 3.0)
        with pytest.raises(tg.MutationError):
            tg.compile(program, warmup=1)(given, 3.0)


def test_what_was_not_written_to_may_be_read() -> None:
    def f(scale: Any, others: Any, x: Any) -> Any:
        others[0] = scale[1]
        return scaled(x) * others[0]
    assert tg.grad(f, SCALE, [1.0], 3.0)[0] == 18.0
