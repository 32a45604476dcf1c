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


def test_windows_can_only_be_read() -> None:
    def f(x: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, 2)
        windows[0, 0] = 5.0
        return windows.sum()
    with pytest.raises(ValueError, match="read-only"):
        tg.trace(f, np.ones(4))
    with pytest.raises(tg.UnknownFunction, match="writeable"):
        tg.trace(lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, writeable=True), np.ones(4))


def test_the_length_of_a_range_is_guarded() -> None:
    _, tape = tg.trace(lambda stop: np.arange(0, stop, 0.1) * stop, 1.04)
    np.testing.assert_array_equal(tape.play(1.02), np.arange(0, 1.02, 0.1) * 1.02)
    assert tg.gradient(lambda stop: tape.play(stop).sum(), 1.02) == pytest.approx((5.5,))
    with pytest.raises(tg.GuardError, match="ceil"):
        tape.play(1.2)


def test_a_vectorized_function_guards_its_branches() -> None:
    f = np.vectorize(lambda x: x * x if x > 0 else -x)
    _, tape = tg.trace(lambda x: f(x), np.array([1.0, -2.0]))
    np.testing.assert_array_equal(tape.play(np.array([3.0, -1.0])), [9.0, 1.0])
    with pytest.raises(tg.GuardError):
        tape.play(np.array([-3.0, -1.0]))


def test_what_is_taken_of_a_constant_by_a_traced_mask() -> None:
    fixed = np.array([1.0, 2.0, 3.0])
    for f in (lambda x: np.extract(x > 0, fixed).sum() * x[0], lambda x: np.compress(x > 0, fixed * 2.0).sum() * x[0], lambda x: np.extract(x[0], 1.0).sum() * x[0]):
        x = np.array([0.5, -1.0, 2.0])
        value, (_, dx) = tg.grad(f, x)
        assert value == f(x)
        np.testing.assert_allclose(dx, [f(x) / x[0], 0.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.bool_])
@pytest.mark.parametrize("kwargs", [{}, {"cache": True}, {"otypes": [np.float32]}])
def test_a_vectorized_function_gives_the_dtype_of_its_first_number(dtype: Any, kwargs: Any) -> None:
    seen: list[Any] = []

    def sine(x: Any) -> Any:
        seen.append(x)
        return np.sin(x)
    f, x = np.vectorize(sine, **kwargs), np.array([1.0, 0.0, 1.0]).astype(dtype)
    y = f(x)
    count = len(seen)
    value, tape = tg.trace(lambda x: f(x) * 1, x)
    assert len(seen) == 2 * count
    for found in (value, tape.play(x)):
        assert found.dtype == y.dtype
        np.testing.assert_array_equal(found, y)
