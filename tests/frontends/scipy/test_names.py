"""SciPy's public names: what the map of coverage says of each is what a program that calls it shows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy

import tapegrad as tg
from tapegrad.show.coverage import SPACES, entries
from tapegrad.testing import contract, weights
from tests.frontends.scipy.names import ROWS, SEARCHES

SPATIAL = ["scipy.spatial", "scipy.spatial.distance", "scipy.spatial.transform"]
OLDER = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"  # which may refuse what 1.17 has in Python
MEASURED = pytest.mark.skipif(OLDER, reason="the map was measured with another version")
MAP = {space: {entry.name: entry for entry in entries(space)} for space in ROWS}


def numbers(y: Any) -> list[Any]:
    """Return the numbers and arrays of a result, whatever it is a list of."""
    if hasattr(y, "toarray"):
        return [y.toarray()]
    if isinstance(y, (tuple, list, dict)):
        return [x for part in (y.values() if isinstance(y, dict) else y) for x in numbers(part)]
    return [] if y is None or isinstance(y, (str, bool)) else [y]


def moves(i: int, x: Any) -> Any:
    """Return by how much each number of an argument moves along the direction of the check, a number for a number."""
    real, imaginary = weights(i, np.shape(x))
    way = real + 1j * imaginary if np.iscomplexobj(x) else real
    return way if isinstance(x, np.ndarray) else np.asarray(way).item()


def of(space: str, covered: bool) -> list[Any]:
    """Return the rows of a space's names that are covered, or of those that are not though they have a derivative."""
    return [pytest.param(space, name, id=f"{space}.{name}") for name, entry in MAP[space].items() if entry.derivative and entry.covered is covered]


def test_each_space_of_scipy_has_its_rows() -> None:
    assert set(ROWS) == {space for space in SPACES if space.startswith("scipy.")}


@MEASURED
@pytest.mark.parametrize("space", ROWS)
def test_each_name_is_classified_and_most_are_covered(space: str) -> None:
    found = MAP[space]
    assert [name for name, entry in found.items() if entry.kind == "unknown"] == []
    assert {name for name, entry in found.items() if entry.derivative} == set(ROWS[space]) & set(found)
    together = [entry for name in (SPATIAL if space in SPATIAL else [space]) for entry in MAP[name].values() if entry.derivative]
    assert sum(entry.covered for entry in together) >= 0.8 * len(together)


@pytest.mark.parametrize(("space", "name"), [row for space in ROWS for row in of(space, True)])
def test_what_is_covered_has_its_gradient(space: str, name: str) -> None:
    fn, *args = ROWS[space][name]
    eps, rtol = SEARCHES.get(name, (1e-6, 1e-4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        def total(*args: Any) -> Any:
            return contract(found := numbers(fn(*args))), found

        try:
            (_, value), found = tg.value_and_grad(total, argnums=tuple(range(len(args))), has_aux=True)(*args)
        except tg.TapeError as err:
            if OLDER:
                pytest.skip(f"refused with this SciPy: {err}")
            raise
        for a, b in zip(value, numbers(fn(*args)), strict=True):
            np.testing.assert_allclose(a, b, 1e-9, 1e-11)
        for i, (x, dx) in enumerate(zip(args, found)):  # along one direction, in which each number moves by its own amount
            way = moves(i, x)
            up, down = (total(*args[:i], x + step * way, *args[i + 1:])[0] for step in (eps, -eps))
            np.testing.assert_allclose(np.sum(np.real(np.conj(dx) * way)), (up - down) / (2 * eps), rtol, rtol, err_msg=f"argument {i}")


@MEASURED
@pytest.mark.parametrize(("space", "name"), [row for space in ROWS for row in of(space, False)])
def test_what_is_not_is_refused_in_words(space: str, name: str) -> None:
    fn, *args = ROWS[space][name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(tg.TapeError) as caught:
            tg.grad(lambda *args: sum(np.sum(np.real(x)) for x in numbers(fn(*args))), *args)
    assert caught.value.try_ and caught.value.where is not None and "tests" in caught.value.where.file
