"""SciPy's public names: what the map of coverage says of each is what a program that calls it shows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.show.coverage import SPACES, entries
from tapegrad.testing import check_grads
from tests.frontends.scipy.names import ROWS, SEARCHES

MAP = {space: {entry.name: entry for entry in entries(space)} for space in ROWS}


def numbers(y: Any) -> list[Any]:
    """Return the numbers and arrays of a result, whatever it is a list of."""
    if hasattr(y, "toarray"):
        return [y.toarray()]
    if isinstance(y, (tuple, list, dict)):
        return [x for part in (y.values() if isinstance(y, dict) else y) for x in numbers(part)]
    return [] if y is None or isinstance(y, (str, bool)) else [y]


def of(space: str, covered: bool) -> list[Any]:
    """Return the rows of a space's names that are covered, or of those that are not though they have a derivative."""
    return [pytest.param(space, name, id=f"{space}.{name}") for name, entry in MAP[space].items() if entry.derivative and entry.covered is covered]


def test_each_space_of_scipy_has_its_rows() -> None:
    assert set(ROWS) == {space for space in SPACES if space.startswith("scipy.")}


@pytest.mark.parametrize("space", ROWS)
def test_each_name_is_classified_and_most_are_covered(space: str) -> None:
    found = MAP[space]
    assert [name for name, entry in found.items() if entry.kind == "unknown"] == []
    whole = [entry for entry in found.values() if entry.derivative]
    assert sum(entry.covered for entry in whole) >= 0.8 * len(whole)
    assert {entry.name for entry in whole} == set(ROWS[space]) & set(found)


@pytest.mark.parametrize(("space", "name"), [row for space in ROWS for row in of(space, True)])
def test_what_is_covered_has_its_gradient(space: str, name: str) -> None:
    fn, *args = ROWS[space][name]
    eps, rtol = SEARCHES.get(name, (1e-6, 1e-4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = numbers(tg.trace(fn, *args)[0]), numbers(fn(*args))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-11)
        check_grads(lambda *args: numbers(fn(*args)), *args, eps=eps, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(("space", "name"), [row for space in ROWS for row in of(space, False)])
def test_what_is_not_is_refused_in_words(space: str, name: str) -> None:
    fn, *args = ROWS[space][name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(tg.TapeError) as caught:
            tg.grad(lambda *args: sum(np.sum(np.real(x)) for x in numbers(fn(*args))), *args)
    assert caught.value.try_ and caught.value.where is not None and "tests" in caught.value.where.file
