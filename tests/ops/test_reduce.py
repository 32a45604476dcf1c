"""What the table of cases cannot say of reductions: ties, kinks, third derivatives, refusals."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.errors import ConcretizationError, UnknownFunction
from tapegrad.testing import check_grads


@pytest.mark.parametrize("fn", [np.max, np.min, np.nanmax])
def test_ties_share_equally(fn: object) -> None:
    dx, = tg.gradient(lambda x: 6.0 * fn(x), np.full(3, 0.5))  # type: ignore[operator]
    np.testing.assert_allclose(dx, [2.0, 2.0, 2.0])


def test_sort_keeps_ties_in_their_order() -> None:
    dx, = tg.gradient(lambda x: (np.sort(x) * np.arange(4.0)).sum(), np.array([1.0, 1.0, 1.0, 0.0]))
    np.testing.assert_array_equal(dx, [1.0, 2.0, 3.0, 0.0])


def test_std_of_equal_numbers_is_flat() -> None:
    np.testing.assert_array_equal(tg.gradient(np.std, np.ones(3))[0], np.zeros(3))


@pytest.mark.parametrize("fn", [np.prod, np.cumprod])
def test_products_with_zeros_to_the_third_order(fn: object) -> None:
    check_grads(fn, np.array([1.5, 0.0, 2.0, 0.0]), order=3)  # type: ignore[arg-type]


def test_median_of_nan_is_nan() -> None:
    value, _ = tg.grad(np.median, np.array([1.0, np.nan, 3.0]))
    assert np.isnan(value)


@pytest.mark.parametrize("fn", [
    lambda x: np.quantile(x, 0.5, method="hazen"), lambda x: np.quantile(x, x[0]), lambda x: np.sort(x, order="name")])
def test_refuses_what_it_does_not_know(fn: object) -> None:
    with pytest.raises((UnknownFunction, ConcretizationError), match=r"hazen|quantile|order"):
        tg.grad(fn, np.array([0.1, 0.3]))  # type: ignore[arg-type]


@pytest.mark.parametrize("weight", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("number", [np.int8, np.uint8, np.int64, np.float32, bool])
def test_averages_are_summed_in_the_dtype_of_numpys(number: Any, weight: Any) -> None:
    x, w = np.array([3, 100]).astype(number), np.array([2, 101]).astype(weight)
    found, expected = tg.trace(lambda x, w: np.average(x, weights=w), x, w)[0], np.average(x, weights=w)
    assert found == expected and found.dtype == expected.dtype


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
@pytest.mark.parametrize("missing", [False, True])
def test_ranks_are_those_of_a_stable_sort_however_they_are_found(shape: Any, missing: bool, monkeypatch: Any) -> None:
    x = np.random.default_rng(0).integers(0, 6, shape).astype(float)
    x[7:9] = np.nan if missing else -0.0
    found = tg.ops.argrank(x, ranks=(0, 13, 39))
    monkeypatch.setattr(importlib.import_module("tapegrad.ops.sort"), "SORTED", 0)  # partitions, as of long arrays
    np.testing.assert_array_equal(found, tg.ops.argrank(x, ranks=(0, 13, 39)))
