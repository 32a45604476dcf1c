"""The checker is checked: wrong rules must fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import check_grads, check_rule


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
