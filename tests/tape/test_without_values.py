"""A tape without the values of its calls is printed, saved, optimised, differentiated and compiled as one that has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import ops
from tapegrad.tape.tape import Call, Constant, Input, Tape, call
from tests.harness.compare import same
from tests.harness.run import bare


def types(tape: Tape) -> list[str]:
    return [op.type for op in tape]


def lines(tape: Tape) -> list[str]:
    return [repr(op) for op in tape]


def test_a_loop_without_values() -> None:
    def f(x: Any) -> Any:
        for k in range(20):
            x = x + k * np.sin(x)
        return x
    tape = tg.roll(tg.trace(f, 0.3)[1], saved=0)
    empty = bare(tape)
    assert lines(tg.optimise(empty)) == lines(tg.optimise(tape)) and types(empty.check()) == types(tape)
    same(tg.compile(empty)(0.5), f(0.5))
    same(tg.flatgrad(empty).play(0.5), tg.flatgrad(tape).play(0.5))


@pytest.mark.parametrize("number", [2.0, float("nan"), np.float64(3.0), np.float32(3.0)])
def test_a_constant_is_folded_to_the_type_that_was_recorded(number: Any) -> None:
    tape = Tape()
    x, c = tape.push(Input(np.ones(3, np.float32), "x")), tape.push(Constant(number))
    y = tape.push(Call(ops.exp, (c,), None, type(number)(np.exp(number))))
    tape.result = tape.push(call(ops.multiply, x, y))
    x = np.ones(3, np.float32)
    for each in (tape, bare(tape)):
        best = tg.optimise(each)
        assert [type(arg) for arg in best.result.args if not isinstance(arg, Call | Input)] == [type(number)]
        same(best.play(x), tape.play(x), 1e-5)
