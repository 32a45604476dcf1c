"""What the table of cases cannot say of the shape ops: replays at other shapes, guards, refusals, cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

X, WIDER = np.arange(6.0).reshape(2, 3), np.linspace(1.0, 3.0, 20).reshape(4, 5)


@pytest.mark.parametrize("f", [
    lambda x: x.T, np.ravel, lambda x: x.flatten("F"), lambda x: np.swapaxes(x, 0, 1), lambda x: np.moveaxis(x, 0, -1), np.rot90,
    lambda x: np.squeeze(np.expand_dims(x, 0)), lambda x: np.stack([x, x * x], axis=-1), lambda x: np.concatenate([x, x * x], axis=-1),
    lambda x: np.concatenate([x, x * x], axis=None), np.flip, lambda x: np.roll(x, 1), lambda x: np.repeat(x, 2, axis=1), lambda x: np.tile(x, (2, 1)),
    lambda x: np.pad(x, 1), np.atleast_3d, lambda x: np.vstack([x, x]), lambda x: np.block([[x, x], [x, x]]), lambda x: np.split(x, [1])[0],
])
def test_a_gradient_tape_replays_at_another_shape(f: Callable[..., Any]) -> None:
    def scalar(x: Any) -> Any:
        return (f(x) ** 2).sum()
    value, (_, dx) = tg.gradtape(scalar, X).play(WIDER)
    expected, (_, dx_expected) = tg.grad(scalar, WIDER)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(dx, dx_expected)


@pytest.mark.parametrize("f", [
    lambda x: x * np.shape(x)[0], lambda x: x * np.size(x), lambda x: x + np.ones_like(x), lambda x: np.split(x, 2)[0], lambda x: np.repeat(x, [2, 1], axis=0),
    lambda x: np.pad(x, 1, "edge"),
])
def test_a_shape_that_steered_the_program_is_guarded(f: Callable[..., Any]) -> None:
    with pytest.raises(tg.GuardError):
        tg.trace(f, X)[1].play(WIDER)


@pytest.mark.parametrize("f", [np.ndim, lambda x: np.swapaxes(x, 0, 1)])
def test_a_rank_that_steered_the_program_is_guarded(f: Callable[..., Any]) -> None:
    tape = tg.trace(lambda x: x * np.sum(f(x)), X)[1]
    tape.play(WIDER)
    with pytest.raises(tg.GuardError):
        tape.play(WIDER.reshape(2, 2, 5))


@pytest.mark.parametrize("f", [np.ndim, np.size, lambda x: len(np.shape(x)), np.atleast_1d])
def test_that_a_number_has_no_axes_is_guarded(f: Callable[..., Any]) -> None:
    with pytest.raises(tg.GuardError):
        tg.trace(lambda x: x * f(x), 2.0)[1].play(X)


@pytest.mark.parametrize("f", [
    lambda x: x.ravel("K"), lambda x: np.reshape(x, -1, order="A"), lambda x: np.pad(x, 1, "mean"), lambda x: np.pad(x, 1, "reflect", reflect_type="odd"),
    lambda x: np.pad(x, 1, "empty"), lambda x: np.pad(x, 1, lambda *_: None),
])
def test_what_is_not_known_is_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(tg.UnknownFunction):
        tg.trace(f, X)


@pytest.mark.parametrize("f", [
    lambda x: np.concatenate([x, x], dtype=int), lambda x: np.stack([x, x], dtype=np.float32, casting="safe"), lambda x: np.vstack([x, x], dtype=int),
])
def test_a_cast_that_numpy_refuses_is_refused(f: Callable[..., Any]) -> None:
    for call in (f, lambda x: tg.trace(f, x)):
        with pytest.raises(TypeError, match="Cannot cast"):
            call(X)


@pytest.mark.parametrize("join", [np.stack, np.hstack])
def test_joining_many_arrays_makes_one_pullback(join: Callable[..., Any]) -> None:
    # a partial for each of n arrays would be handed all n: O(n²)
    tape = tg.gradtape(lambda xs: (join(xs) ** 2).sum(), [1.0] * 100)
    joined = [op for op in tape if isinstance(op, tg.Call) and op.note.startswith("pullback") and len(op.val) == 100]
    assert len(joined) == 1 and isinstance(joined[0].val, tuple)
