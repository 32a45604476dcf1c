"""Paths: what they name in an array's memory, also where they cannot be followed in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import ops
from tapegrad.numbers.view_path import Path, Step, add_at, assign, follow, may_repeat, reach, repeats

FLAT = Step(ops.reshape, (-1,), {})
TURN = Step(ops.permute_dims, (), {})
PATHS: list[Path] = [
    (), (FLAT,), (TURN, FLAT), (Step(ops.getitem, (slice(1, None),), {}), TURN), (Step(ops.flip, (), {}), FLAT),
    (Step(ops.imag, (), {}), FLAT), (TURN, Step(ops.real, (), {}), FLAT), (FLAT, Step(ops.imag, (), {}), Step(ops.getitem, (slice(None, None, 2),), {})),
]
INDICES: list[tuple[Any, ...]] = [(1,), (slice(0, 2),), (np.array([0, 1, 0]),), (Ellipsis,)]


@pytest.mark.parametrize("index", INDICES, ids=str)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_path_names_the_same_places_in_every_layout(path: Path, index: tuple[Any, ...]) -> None:
    found, views = [], 0
    for order in ("C", "F"):
        numbers = np.array(np.arange(6.0).reshape(2, 3) + 1j * np.arange(6, 12).reshape(2, 3), order=order)
        views += np.shares_memory(follow(numbers, path), numbers)
        view, at = reach(numbers, index, path)
        np.testing.assert_array_equal(view[at], follow(numbers, path)[index])
        written, added = numbers.copy(order="K"), numbers.copy(order="K")
        assign(written, 50.0, index, path)
        add_at(added, np.ones(np.shape(view[at])), index, path)
        found.append((written, added))
        np.testing.assert_array_equal(follow(written, path)[index], np.full(np.shape(view[at]), 50.0))
        assert (added - numbers).sum() in (np.size(view[at]), 1j * np.size(view[at]))
    assert views  # NumPy's own meaning in one layout at least
    np.testing.assert_array_equal(*[written for written, _ in found])
    np.testing.assert_array_equal(*[added for _, added in found])


def test_a_real_array_and_an_empty_one() -> None:
    x = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assign(x, -1.0, (slice(1, 3),), (FLAT,))
    np.testing.assert_array_equal(x, [[0, -1, -1], [3, 4, 5]])
    assign(x[:0], 1.0, (Ellipsis,), (FLAT,))
    with pytest.raises(IndexError):
        assign(x, 1.0, (6,), (FLAT,))
    with pytest.raises(ValueError, match="read-only"):
        assign(x, 1.0, (0,), (Step(ops.broadcast_to, ((2, 2, 3),), {}),))


RISING, FALLING, AGAIN = np.array([0, 2, 3]), np.array([3, 2, 0]), np.array([0, 2, 2])


@pytest.mark.parametrize("index, twice", [
    ((RISING,), False), ((RISING, RISING), False), ((RISING, AGAIN), False), ((Ellipsis, RISING), False), ((RISING, slice(1, 3)), False),
    ((None, RISING, 1), False), ((np.array([0, 2], np.uint8),), False), ((FALLING,), True), ((AGAIN,), True), ((AGAIN, RISING), True),
    ((np.array([-4, 0, 1]),), True), ((RISING, RISING[:, None]), True), ((RISING[:, None],), True), ((RISING, np.int64(1)), True), ((slice(None),), False),
    ((RISING, np.ones(4, bool)), True), ((np.ones(4, bool),), False), ((np.array([], int),), True)])
def test_places_that_rise_are_named_once(index: tuple[Any, ...], twice: bool) -> None:
    """Where it is not known, an index may name a place twice: then each is added to on its own, which is right for all."""
    assert repeats(index) == twice and may_repeat(index) >= twice
    if len(index) == 2 and index[1].__class__ is np.ndarray and index[1].dtype == bool:
        return  # three places, and four
    x = np.arange(16.0).reshape(4, 4)
    wanted, found = np.zeros((4, 4)), ops.scatter(x[index], *index, shape=(4, 4), ranks=(len(index),))
    np.add.at(wanted, index, x[index])
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(tg.gradient(lambda x: (x[index] ** 2).sum(), x)[0], 2 * wanted)
