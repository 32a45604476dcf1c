"""The checker is checked: wrong rules must fail, and each row of a table that does is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import check_grads, check_rule
from tests.cases.over import over


def wrong(pullback: Any, forward: Any = np.sin) -> Any:
    @tg.primitive
    def op(x: Any) -> Any:
        return np.sin(x)

    @tg.rrule(op)
    def _(x: Any) -> Any:
        return forward(x), lambda dy: (pullback(dy, x),)
    return op


def test_a_right_rule_passes() -> None:
    check_rule(wrong(lambda dy, x: dy * np.cos(x)), np.linspace(0, 1, 3))
    check_grads(wrong(lambda dy, x: dy * np.cos(x)), np.linspace(0, 1, 3), order=2)
    check_grads(lambda z: z * z * 1j, np.array([1 + 2j, 0.5j]))


@pytest.mark.parametrize("pullback", [
    lambda dy, x: dy * np.sin(x), lambda dy, x: -dy * np.cos(x), lambda dy, x: dy, lambda dy, x: 1.0001 * dy * np.cos(x),
    lambda dy, x: dy * np.cos(x) + 1e-4, lambda dy, x: tg.ZeroTangent(),
])
def test_wrong_rules_fail(pullback: Any) -> None:
    with pytest.raises(AssertionError):
        check_rule(wrong(pullback), np.linspace(0, 1, 3))


def test_a_wrong_second_derivative_fails() -> None:
    op = wrong(lambda dy, x: dy * tg.stop_gradient(np.cos(x)))
    check_grads(op, np.linspace(0, 1, 3))
    with pytest.raises(AssertionError):
        check_grads(op, np.linspace(0, 1, 3), order=2)


def test_a_wrong_conjugate_fails() -> None:
    op = wrong(lambda dy, x: dy * np.cos(x))
    with pytest.raises(AssertionError):
        check_grads(op, np.array([1 + 2j]))


def test_a_forward_pass_of_another_value_fails() -> None:
    with pytest.raises(AssertionError):
        check_rule(wrong(lambda dy, x: dy * np.cos(x), forward=lambda x: np.sin(x) + 1e-9 * x ** 2), np.linspace(0, 1, 3), rtol=1e-12, atol=0)


def test_rows_that_fail_are_named_and_the_others_run() -> None:
    ran = []

    @over([pytest.param(n, id=f"row {n}", marks=[pytest.mark.quick] if n == 3 else []) for n in range(4)])
    def check(n: int, dtype: str) -> None:
        ran.append((n, dtype))
        assert n == 1, f"{n} is wrong"
    (mark,) = check.pytestmark  # type: ignore[attr-defined]
    first, alone = mark.args[1]
    assert (first.id, alone.id, len(first.marks), len(alone.marks)) == ("row 0,row 1,row 2", "row 3", 0, 1)
    with pytest.raises(AssertionError, match="2 of 3 rows fail: row 0, row 2\n") as caught:
        check(*first.values, dtype="f")  # type: ignore[call-arg]
    assert "[row 2]" in str(caught.value) and "AssertionError: 2 is wrong" in str(caught.value)
    assert ran == [(0, "f"), (1, "f"), (2, "f")]


def test_it_names_the_argument() -> None:
    with pytest.raises(AssertionError, match=r"with respect to p\['a'\]\[1\], of shape \(\) \(ACTUAL\), and central differences"):
        check_grads(lambda p: p["a"][0] * 2 + abs(p["a"][1]) * np.sign(p["a"][1]), {"a": [1.0, 0.0]})
