"""NumPy's functions in a replay: other values, the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg


def test_a_replay_follows_other_values() -> None:
    def f(x: Any) -> Any:
        return (np.unique(x) ** 2).sum()
    _, tape = tg.trace(f, np.array([1.0, 2.0, 2.0]))
    assert tape.play(np.array([1.0, 2.0, 3.0])) == 14.0
    _, (_, dx) = tg.gradtape(f, np.array([1.0, 2.0, 2.0])).play(np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(dx, [2.0, 6.0, 4.0])


def test_a_vectorized_function_guards_its_branches() -> None:
    f = np.vectorize(lambda x: x * x if x > 0 else -x)
    _, tape = tg.trace(lambda x: f(x), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(tape.play(np.array([3.0, -1.0])), [9.0, 1.0])
    with pytest.raises(tg.GuardError):
        tape.play(np.array([-3.0, -1.0]))
