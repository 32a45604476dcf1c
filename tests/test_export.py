"""to_python: modules that compute the same without tapegrad."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tg
from tapegrad.testing import contract
from tests.cases import CASES
from tests.cases.case import Case
from tests.test_compile import same
from tests.test_ops import differentiable

ROWS = [pytest.param(case, id=case.name) for case in CASES]


def module(text: str) -> dict[str, Any]:
    """Execute a module's source."""
    names: dict[str, Any] = {"__name__": "exported"}
    exec(compile(text, "<exported>", "exec"), names)
    return names


@pytest.mark.parametrize("case", ROWS)
def test_every_case(case: Case) -> None:
    for args in case.samples[:4]:
        if not differentiable(case, args):
            continue

        def f(*xs: Any, fn: Any = case.fn) -> Any:
            return contract(fn(*xs))
        tape = tg.flatgrad(tg.trace(f, *args)[1])
        text = tape.to_python("exported")
        assert "tapegrad" not in text.partition('"""\n')[2].replace("What tapegrad recorded", "")
        same(module(text)["exported"](*args), tg.grad(f, *args))
