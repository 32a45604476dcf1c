"""Machine code on long arrays: every case of the table as if its arrays were long, and programs of long ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native import backend, rows, values
from tapegrad.testing import contract
from tests.cases import CASES
from tests.cases.case import Case
from tests.cases.over import over
from tests.compile.native.test_native import in_python, native
from tests.harness.compare import same
from tests.harness.sample import differentiable, quiet

pytest.importorskip("llvmlite")


@pytest.fixture
def short_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of three numbers lie in memory, tables of two rows are computed row by row."""
    monkeypatch.setattr(values, "SMALL", 2)
    monkeypatch.setattr(rows, "FEW", 2)


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What could not be compiled, which is nothing once a test has ended."""
    found: list[Any] = []
    monkeypatch.setattr(backend, "failed", lambda tape, err: found.append(err))
    yield found
    assert not found


DRAWN = [pytest.param(case, id=case.name) for case in CASES if case.samples and "draw" not in case.name
         and "random" not in case.name]


@pytest.mark.usefixtures("short_is_long", "failures")
@over(DRAWN)
def test_every_op_in_memory(case: Case) -> None:
    for args in case.samples[:2]:
        if not differentiable(case, args):
            continue

        def f(*xs: Any, fn: Any = case.fn) -> Any:
            return contract(fn(*xs))
        with quiet(), np.errstate(all="ignore"):
            step, expected = native(f), tg.grad(f, *args)
            for _ in range(3):
                same(step(*args), expected)
