"""Every op, by the table of cases: value, replay, gradient against central differences and torch, dtype, second order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.rules.op import OPS
from tapegrad.testing import check_grads, check_rule, contract
from tapegrad.tree.flatten import leaves_of
from tests.cases import CASES, FAMILIES
from tests.cases.case import Case
from tests.cases.over import over

FIRST = {id(cases[0]) for cases in FAMILIES.values()}
ROWS = [pytest.param(case, id=case.name, marks=[pytest.mark.quick] if id(case) in FIRST else []) for case in CASES]


def floats(args: tuple[Any, ...]) -> list[int]:
    """Return the positions of the real floating arguments."""
    return [i for i, arg in enumerate(args) if isinstance(arg, (float, np.floating)) or getattr(getattr(arg, "dtype", None), "kind", "") == "f"]


def differentiable(case: Case, args: tuple[Any, ...]) -> bool:
    return bool(floats(args)) and any(np.asarray(leaf).dtype.kind in "fc" for leaf in leaves_of(case.fn(*args)))


@over(ROWS)
def test_value_replay_and_gradient(case: Case) -> None:
    for args in case.samples:
        check_rule(case.fn, *args)


@over(ROWS)
def test_second_order(case: Case) -> None:
    if case.smooth:
        for args in case.samples[:3]:
            if differentiable(case, args):
                check_grads(case.fn, *args, order=2)


@over(ROWS)
def test_float32_in_float32_out(case: Case) -> None:
    for args in case.samples:
        if not differentiable(case, args):
            continue
        narrow = tuple(arg.astype(np.float32) if isinstance(arg, np.ndarray) and arg.dtype == float else arg for arg in args)
        _, (_, *wide) = tg.grad(lambda *xs, fn=case.fn: contract(fn(*xs)), *args)
        _, (_, *found) = tg.grad(lambda *xs, fn=case.fn: contract(fn(*xs)), *narrow)
        for dx, x, expected in zip(found, narrow, wide):
            if isinstance(x, np.ndarray) and x.dtype == np.float32:
                assert dx.dtype == np.float32 and dx.shape == x.shape
                np.testing.assert_allclose(dx, expected, 2e-3, 2e-4)


@over([row for row in ROWS if row.values[0].torch is not None])
def test_torch_agrees(case: Case) -> None:
    for args in case.samples:
        which = floats(args)
        if not differentiable(case, args):
            continue
        _, (_, *found) = tg.grad(lambda *xs, fn=case.fn: contract(fn(*xs)), *args)
        tensors = [torch.tensor(np.ascontiguousarray(arg) if np.ndim(arg) else arg, dtype=torch.float64, requires_grad=True) if i in which else arg
                   for i, arg in enumerate(args)]
        outputs = case.torch(*tensors)
        total = torch.zeros(())
        for number, out in enumerate(leaves_of(outputs)):
            if out.is_floating_point():
                total = total + (out * torch.tensor(np.random.default_rng(number).uniform(0.5, 1.5, tuple(out.shape)))).sum()
        gradients = torch.autograd.grad(total, [tensors[i] for i in which], allow_unused=True)
        for i, dx in zip(which, gradients):
            np.testing.assert_allclose(found[i], 0.0 if dx is None else dx.numpy(), 1e-9, 1e-12)


@over([row for row in ROWS if row.values[0].errors])
def test_refuses_what_numpy_refuses(case: Case) -> None:
    for args, error in case.errors:
        with pytest.raises(error):
            case.fn(*args)
        with pytest.raises(error):
            tg.grad(case.fn, *args)


def test_every_op_has_a_case_and_a_rule() -> None:
    covered = {name for case in CASES for name in case.ops}
    without_case = sorted(set(OPS) - covered - STRUCTURAL)
    without_rule = sorted(name for name, op in OPS.items() if op.differentiable and not op.has_rule)
    assert not without_case, f"ops without a row in tests/cases: {', '.join(without_case)}"
    assert not without_rule, f"ops without a rule: {', '.join(without_rule)}"


# every structured test uses the first two; compiled functions make the third (tests/compile/test_rental.py); a hook has no tangent
STRUCTURAL = {"pack", "getfield", "choose", "hook"}


def test_every_ufunc_is_known_or_refused() -> None:
    from tapegrad.rules.registry import FOREIGN
    ufuncs = {getattr(np, name) for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    unknown = sorted(ufunc.__name__ for ufunc in ufuncs if ufunc not in FOREIGN)
    assert not unknown
