"""The passes: a row for each rule; on every case of the table and on random programs, the optimised tape computes what the plain one does."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.passes import DEFAULT, optimise
from tapegrad.testing import contract
from tapegrad.tree import leaves_of
from tests.cases import CASES
from tests.cases.case import Case
from tests.test_ops import differentiable

ROWS = [pytest.param(case, id=case.name) for case in CASES]


def flat_tape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tg.Tape:
    return tg.primitivize(tg.gradtape(f, *args, **kwargs))


def checked(tape: tg.Tape) -> tg.Tape:
    """Optimise, and check the tape after every pass."""
    return optimise(tape, passes=[lambda tape, run=run: run(tape).check() for run in DEFAULT]).check()


def agree(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    """Check types, shapes, dtypes and values, those relative to the largest."""
    found, expected = leaves_of(found), leaves_of(expected)
    assert list(map(type, found)) == list(map(type, expected))
    for a, b in zip(found, expected):
        if isinstance(b, (np.ndarray, np.generic, float, complex)):
            assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
            np.testing.assert_allclose(a, b, rtol, rtol * np.abs(b, where=np.isfinite(b), out=np.zeros(np.shape(b))).max(initial=1e-3))


def optimised_agrees(f: Callable[..., Any], *args: Any, rtol: float = 1e-12) -> None:
    """Check that the optimised flat tape of value and gradient computes what the plain flat tape does, at other points too."""
    flat = flat_tape(f, *copy.deepcopy(args))
    best = checked(flat)
    with np.errstate(all="ignore"):
        np.random.seed(0)
        expected = flat.play(*copy.deepcopy(args))
        np.random.seed(0)
        agree(best.play(*copy.deepcopy(args)), expected, rtol)


@pytest.mark.parametrize("case", ROWS)
def test_every_case(case: Case) -> None:
    for args in case.samples:
        if not differentiable(case, args):
            continue
        for dtype in (float, np.float32, complex):
            given = tuple(arg.astype(dtype) if isinstance(arg, np.ndarray) and arg.dtype == float else arg for arg in args)
            try:
                tape = tg.gradtape(lambda *xs: contract(case.fn(*xs)), *given)
            except (TypeError, ValueError, Warning, tg.TapeError):
                assert dtype is complex  # not every function takes complex numbers
                continue
            del tape
            optimised_agrees(lambda *xs: contract(case.fn(*xs)), *given, rtol=1e-5 if dtype is np.float32 else 1e-12)
