"""Every op, by the table of cases, in every mode; and what the table must hold."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import TapeError
from tapegrad.rules.op import OPS
from tests.cases import CASES, FAMILIES
from tests.cases.case import Case
from tests.cases.over import over
from tests.harness.table import examine_case

FIRST = {id(cases[0]) for cases in FAMILIES.values()}
ROWS = [pytest.param(case, id=case.name, marks=[pytest.mark.quick] if id(case) in FIRST else []) for case in CASES]
STRUCTURAL = {"pack", "getfield", "choose", "hook"}  # every structured test uses the first two, compiled functions make the third; a hook has no tangent


@over(ROWS)
def test_every_mode(case: Case) -> None:
    examine_case(case)


@over([row for row in ROWS if row.values[0].errors])
def test_refuses_what_numpy_refuses(case: Case) -> None:
    for args, error in case.errors:
        with pytest.raises(error) as plain:
            case.fn(*args)
        with pytest.raises(error) as traced:
            tg.grad(case.fn, *args)
        assert issubclass(plain.type, traced.type) or issubclass(traced.type, TapeError)  # or another handler would run


def test_every_op_has_a_case_and_a_rule() -> None:
    covered = {name for case in CASES for name in case.ops}
    without_case = sorted(set(OPS) - covered - STRUCTURAL)
    without_rule = sorted(name for name, op in OPS.items() if op.differentiable and not op.has_rule)
    assert not without_case, f"ops without a row in tests/cases: {', '.join(without_case)}"
    assert not without_rule, f"ops without a rule: {', '.join(without_rule)}"
    assert len({case.name for case in CASES}) == len(CASES)


def test_every_ufunc_is_known_or_refused() -> None:
    from tapegrad.rules.registry import DISPATCH
    ufuncs = {getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    unknown = sorted(ufunc.__name__ for ufunc in ufuncs if ufunc not in DISPATCH)
    assert not unknown
