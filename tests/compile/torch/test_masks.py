"""Selections in the form that torch computes in vectors: the same numbers, whatever infinities and nans there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.compile.torch import masks
from tests.compile.torch.test_compile import called, program_of
from tests.harness.compare import alike as close

AWKWARD = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, 0.3, -2.5])

SELECTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "maximum": lambda x, y: np.maximum(x, 0.0) * y,
    "maximum of two": lambda x, y: np.maximum(x, y) * y,
    "maximum with another number": lambda x, y: np.maximum(x, 1.0) * y,
    "maximum, swapped": lambda x, y: np.maximum(0.0, x) * y,
    "minimum": lambda x, y: np.minimum(x, 0.0) * y,
    "clip": lambda x, y: np.clip(x, -1.0, 1.0) * y,
    "where": lambda x, y: np.where(x > y, x * y, y),
    "where of equals": lambda x, y: np.where(x == y, 3 * x, y * x),
    "where and the mask": lambda x, y: np.where(x <= 0.3, x, y) * (x <= 0.3),
    "zero or not": lambda x, y: np.where(x < 0.3, 0.0, y) + np.where(x < 0.3, x, 0.0),
    "half": lambda x, y: np.where(x != 0.0, y, 0.5 * y) + np.where(x > 0.3, 0.25 * y, y),
    "fmax": lambda x, y: np.fmax(x, y),
}


def pairs(dtype: Any) -> tuple[Any, Any]:
    """Return each awkward number beside each other."""
    with np.errstate(over="ignore"):
        x, y = (part.ravel().astype(dtype) for part in np.meshgrid(AWKWARD, AWKWARD))
    return np.tile(x, 17), np.tile(y, 17)  # more than fit a vector, and a rest


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SELECTIONS)
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_each_number_is_the_same(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f, (x, y) = SELECTIONS[name], pairs(dtype)
    assert x.size > masks.LARGE
    seeds = np.roll(x, 5)
    tape = tg.gradtape(f, x, y, seed=seeds)
    fast = tg.compile(tape, backend="torch")(*map(torch.tensor, (x, y)))
    monkeypatch.setattr(masks, "LARGE", x.size + 1)
    plain = tg.compile(tape, backend="torch")(*map(torch.tensor, (x, y)))
    for found, expected in zip((fast[0], *fast[1][1:]), (plain[0], *plain[1][1:])):
        np.testing.assert_array_equal(found, expected)
        numbers = ~torch.isnan(expected)  # the sign of a nan is nothing
        np.testing.assert_array_equal(torch.signbit(found)[numbers], torch.signbit(expected)[numbers])


def test_a_rectifier_takes_three_passes() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.maximum(x, 0.0) ** 2)
    x = np.random.default_rng(0).normal(size=3000)
    source = tg.compile(tg.gradtape(f, x), backend="torch").source
    assert "where" not in source and source.count("_backward") == 2 and source.count("mask = ") == 1
    assert "where" in tg.compile(tg.gradtape(f, x[:9]), backend="torch").source  # few numbers: fewer calls


def test_what_is_no_comparison_of_numbers_stays() -> None:
    x = np.random.default_rng(0).normal(size=3000)
    for f in (lambda x: np.where((x > 0) & (x < 1), x, 0.0), lambda x: np.where(x > 0, x, -0.0),
              lambda x: np.where(x[:, None] > x[None, :9], x[:, None], 0.0), lambda x: np.where(x.astype(np.float32) > 0, x, 0.0)):
        assert "where" in called(program_of(f, x))
        close(tg.compile(f, backend="torch")(x), f(x))


