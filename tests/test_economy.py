"""economy, needs: large values that `grad` drops while it traces, and what rules read of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad import economy, ops
from tapegrad.context import DEFAULT
from tapegrad.economy import Dropped
from tapegrad.needs import reads
from tapegrad.tape import Call
from tapegrad.testing import contract
from tapegrad.trace import record
from tests.cases import CASES
from tests.cases.case import Case
from tests.test_blank import SMALL
from tests.test_compile import same
from tests.test_ops import differentiable

ROWS = [pytest.param(case, id=case.name) for case in CASES]
ALL = 1 << 60  # bytes: no array is large


def both(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a call gives with each array looked after, and with none: a dropped value that is read raises."""
    found = []
    for large in (0, ALL):
        monkeypatch.setattr(economy, "LARGE", large)
        found.append(call())
    return found[0], found[1]


@pytest.mark.parametrize("case", ROWS)
def test_every_case(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(*xs: Any, fn: Any = case.fn) -> Any:
        return contract(fn(*xs))
    for args in case.samples:
        if differentiable(case, args):
            same(*both(monkeypatch, lambda args=args: tg.grad(f, *args)))  # type: ignore[misc]


@pytest.mark.parametrize("case", ROWS)
def test_every_case_of_second_order(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(*xs: Any, fn: Any = case.fn) -> Any:
        return contract(fn(*xs))

    def twice(*xs: Any) -> Any:
        return sum((contract(dx) for dx in tg.gradient(f, *xs) if dx is not None), 0.0 * contract(f(*xs)))
    for args in case.samples[:1]:
        if differentiable(case, args) and case.smooth:
            same(*both(monkeypatch, lambda args=args: tg.grad(twice, *args)))  # type: ignore[misc]
