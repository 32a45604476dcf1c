"""What is refused: each refusal names the user's line and the way out."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.special

import tapegrad as tg

LEAKED: list[Any] = []


OURS = np.zeros(3)


def _write_to_a_global(x: Any) -> Any:
    OURS[0] = x
    return OURS


# one row per refusal: the program, an argument, the error, a word of its message
TABLE = [
    (lambda x: float(x), 1.0, tg.ConcretizationError, "float"),
    (lambda x: complex(x), 1.0, tg.ConcretizationError, "complex"),
    (lambda x: math.ulp(x), 1.0, tg.ConcretizationError, "plain float"),
    (lambda x: np.require(x, float, "C"), np.ones(2), tg.ConcretizationError, "plain array"),
    (lambda x: _write_to_a_global(x), 1.0, tg.ConcretizationError, "float"),
    (lambda x: pickle.dumps(x), 1.0, tg.ConcretizationError, "pickled"),
    (lambda x: pow(x, 2, 3), 2, tg.UnknownFunction, "modulus"),
    (lambda x: LEAKED[0] * x, 1.0, tg.EscapedProxy, "ended"),
    (lambda x: scipy.special.airy(x), np.ones(2), tg.UnknownFunction, "airy"),
    (lambda x: np.isnat(x), 1.0, tg.UnknownFunction, "isnat"),
]


@pytest.mark.parametrize(("f", "x", "error", "word"), TABLE)
def test_refusals(f: Any, x: Any, error: Any, word: str) -> None:
    LEAKED.clear()
    tg.trace(lambda x: LEAKED.append(x), 1.0)
    with pytest.raises(error, match=word) as caught:
        tg.grad(f, x)
    assert caught.value.where.file == __file__ and caught.value.try_ and isinstance(caught.value, tg.TapeError)
    assert "test_errors.py:" in str(caught.value) and "try: " in str(caught.value)


def test_copies_of_a_proxy_are_the_value() -> None:
    assert tg.gradient(lambda x: copy.copy(x) * copy.deepcopy({"x": x})["x"], 3.0) == (6.0,)


def test_value_and_stop_gradient_drop_it_on_purpose() -> None:
    assert tg.gradient(lambda x: x * tg.value(x), 3.0) == (3.0,)
    assert tg.gradient(lambda x: x * tg.stop_gradient(x), 3.0) == (3.0,)
    x = np.ones(2)
    assert tg.value(x) is not x and tg.value(2.0) == 2.0


def test_attributes_that_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        tg.grad(lambda x: x.frobnicate(), 1.0)
    with pytest.raises(AttributeError):
        tg.grad(lambda x: x.sum(), 1.0)  # a Python float has no sum
    with pytest.raises(TypeError):
        tg.grad(lambda x: [y for y in x], 1.0)
    with pytest.raises(TypeError):
        tg.grad(lambda x: x + "text", 1.0)
    assert tg.trace(lambda x: (x == None, x != "text"), 1.0)[0] == (False, True)  # noqa: E711
