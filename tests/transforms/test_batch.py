"""vmap over the table of ops: each one batched against a Python loop over the members."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.rules.batching import rule_of
from tapegrad.rules.op import OPS
from tapegrad.testing import contract
from tapegrad.tree.flatten import leaves_of
from tests.cases import CASES, FAMILIES
from tests.cases.case import Case
from tests.cases.over import over
from tests.harness.compare import assert_close
from tests.harness.sample import kept

FIRST = {id(cases[0]) for cases in FAMILIES.values()}
SINGLY = {  # ops that have no rule, and are called once for each member
    "bincount", "choose", "conv_weight", "convolution", "convolve", "correlate", "correlate1d",
    "correlate_image", "coshm", "cosm", "default_rng", "draw", "eig", "element", "elements", "empty",
    "euclidean_norm", "expm", "fma", "fsum", "getfield", "hook", "ieee_remainder", "lexsort", "lfilter", "logm",
    "lstsq", "lu_factor", "nearest_points", "nonzero", "ones", "pack", "permutation", "round_number",
    "sampled_matmul", "sinhm", "sinm", "solve_sylvester", "sparse_product", "sqrtm", "tanhm", "tanm", "turn",
    "uniform_filter1d", "unique", "value_by", "wins", "with_jacobian", "zeros",
}


def is_batchable(x: Any) -> bool:
    return isinstance(x, (np.ndarray, float, complex, np.generic)) and np.asarray(x).dtype.kind in "biufc"


def member_of(x: Any, k: int) -> Any:
    """Return another argument like this one: floating ones a little smaller, so that domains and definiteness stay."""
    if np.asarray(x).dtype.kind in "fc":
        return x * np.asarray(x).dtype.type(1 - 0.03 * k)
    return np.roll(np.asarray(x), k, -1 if np.ndim(x) else None) if np.ndim(x) else x


def expected(fn: Callable[..., Any], columns: list[list[Any]]) -> list[Any]:
    """Return the leaves of the values of all members, stacked; raise what a member raises."""
    values = [leaves_of(fn(*map(kept, args))) for args in zip(*columns)]
    return [np.stack([np.asarray(x) for x in leaf]) for leaf in zip(*values, strict=True)]


def ways(args: tuple[Any, ...]) -> Iterator[tuple[int | None, ...]]:
    """Yield which arguments are batched: each alone, and all together."""
    which = [i for i, x in enumerate(args) if is_batchable(x)]
    for i in which if len(which) > 1 else ():
        yield tuple([0 if k == i else None for k in range(len(args))])
    if which:
        yield tuple([0 if k in which else None for k in range(len(args))])


def traced(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: tg.trace(fn, *xs)[0]


def check(
    fn: Callable[..., Any], args: tuple[Any, ...], size: int, tolerance: float, member: Callable[..., Any]
) -> None:
    """Compare a function's batch with a loop over what `member` gives, which is the function or its trace."""
    for axes in ways(args):
        given = [
            x if axis is None else np.stack([np.asarray(member_of(x, k)) for k in range(size)])
            for x, axis in zip(args, axes)
        ]
        columns = [[x] * size if axis is None else list(x) for x, axis in zip(given, axes)]
        try:
            wanted = expected(member, columns)
        except Exception:  # some member is none of the function's, or has another shape: so it has no batch
            continue
        try:
            found = leaves_of(tg.vmap(fn, in_axes=axes)(*given))
        except Exception:
            with pytest.raises(Exception):  # noqa: B017  # a trace refuses a member, too
                expected(traced(fn), columns)
            continue
        assert len(found) == len(wanted)
        for y, whole in zip(found, wanted):
            assert np.shape(y) == whole.shape and np.asarray(y).dtype == whole.dtype, axes
            scale = (
                max(float(np.max(np.abs(whole), initial=0.0, where=np.isfinite(whole))), 1.0)
                if whole.dtype.kind in "fc"
                else 1.0
            )
            assert_close(y, whole, tolerance, tolerance * scale)


def check_gradient(fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
    """Compare the gradients of all members with a loop: the tape of a gradient has calls that only rules make."""
    which = [i for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.dtype == float]
    columns = [[member_of(x, k) for k in range(2)] if i in which else [x] * 2 for i, x in enumerate(args)]

    def gradient(*xs: Any) -> list[Any]:
        return [dx for i, dx in enumerate(tg.gradient(lambda *xs: contract(fn(*xs)), *xs)) if i in which]

    try:
        wanted = [np.stack(each) for each in zip(*[gradient(*member) for member in zip(*columns)])]
    except Exception:  # nothing to differentiate
        return
    given = [np.stack(column) if i in which else column[0] for i, column in enumerate(columns)]
    for dx, whole in (
        zip(tg.vmap(gradient, in_axes=tuple([0 if i in which else None for i in range(len(args))]))(*given), wanted)
        if which
        else ()
    ):
        np.testing.assert_allclose(dx, whole, 1e-8, 1e-8 * max(float(np.max(np.abs(whole), initial=0.0)), 1.0))


ROWS = [pytest.param(case, id=case.name, marks=[pytest.mark.quick] if id(case) in FIRST else []) for case in CASES]


@over(ROWS)
def test_a_batch_is_a_loop(case: Case) -> None:
    if "draw" in case.ops or "default_rng" in case.ops:
        return  # tests/transforms/test_vmap.py
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for args, size in zip(case.samples[:3], (3, 2, 1)):
            check(case.fn, args, size, 1e-10, case.fn)
        for args in case.samples[:1]:
            if case.smooth:
                check_gradient(case.fn, args)
            narrow = tuple(x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == float else x for x in args)
            if any(x is not y for x, y in zip(narrow, args)):
                check(case.fn, narrow, 2, 1e-3, traced(case.fn))  # SciPy's own may be nan in float32


def test_every_op_has_a_rule_or_is_called_for_each_member() -> None:
    undecided = sorted(
        name for name, op in OPS.items() if op.batch is None and rule_of(op) is None and name not in SINGLY
    )
    assert not undecided, (
        f"ops without batch=, which is False where there is one call for each member: {', '.join(undecided)}"
    )
    assert {name for name, op in OPS.items() if rule_of(op) is None} == SINGLY & set(OPS)


@over([row for row in ROWS if row.values[0].torch is not None])
def test_a_batch_of_tensors_is_a_loop(case: Case) -> None:
    args = case.samples[0]
    axes = list(ways(args))[-1:]
    columns = [[member_of(x, k) for k in range(2)] if is_batchable(x) else [x] * 2 for x in args]
    given = [torch.tensor(np.stack(column)) if is_batchable(column[0]) else column[0] for column in columns]
    try:
        values = [leaves_of(case.torch(*[x[k] if torch.is_tensor(x) else x for x in given])) for k in range(2)]
        wanted = [torch.stack(list(map(torch.as_tensor, leaf))) for leaf in zip(*values)]
    except Exception:  # a number that torch wants as Python's
        return
    for y, whole in zip(leaves_of(tg.vmap(case.torch, in_axes=axes[0])(*given)), wanted) if axes else ():
        torch.testing.assert_close(y, whole, rtol=1e-9, atol=1e-9, equal_nan=True)
