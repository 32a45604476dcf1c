"""What an op says of its result's memory: a wrong fact is found. Of each op's cases it is a mode of the harness."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad.rules.facts import ANY, FRESH, ResultMemory
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define
from tests.harness.facts import check_memory


@pytest.mark.quick
def test_a_wrong_fact_is_found() -> None:
    memory = np.zeros(3)
    for impl, fact, error in [(lambda x, y: np.asarray(x)[()], None, "argument 0"), (lambda x, y: x[::2], 1, "argument 0"), (lambda x, y: (y, x), 1, "argument 0"),
                              (lambda x, y: memory, None, "twice"), (lambda x, y: np.broadcast_to(x, (2, 3)), 0, "readonly"),
                              (lambda x, y: ((z := x + y), z[1:]), None, "twice")]:
        with pytest.raises(AssertionError, match=error):
            check_memory(Op("wrong", impl, memory=ResultMemory(fact)), (np.ones(3), np.ones(3)), {})
    with pytest.raises(AssertionError, match="of batch arguments"):
        check_memory(Op("scalar", lambda x: np.asarray(x)[()], memory=FRESH), (2.0,), {})


@pytest.mark.quick
def test_an_op_that_does_not_say_is_none() -> None:
    with pytest.raises(TypeError, match="does not declare the memory"):
        define("silent", lambda x: x)
    assert Op("user's", lambda x: x).aliases == ANY
