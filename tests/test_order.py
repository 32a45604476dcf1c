"""The order in memory of what a compiled function returns: the rows and columns lie as in what `grad` and the program return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.tangent import layout_of
from tapegrad.tree import leaves_of

RNG = np.random.default_rng(0)
A, B, TALL = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal((1000, 3))
F, LONG = np.asfortranarray(A), np.asfortranarray(RNG.standard_normal((600, 500)))
ROWS = np.arange(1000) % 100

VALUES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda a: a.T, (A,)), (lambda a: a, (F,)), (lambda a: 1.0 * a.T, (A,)), (lambda a, b: (a @ b).T, (A, B)), (lambda a: a.T + a.T.copy(), (A,)),
    (lambda a: (np.sin(a) * 2.0) * np.cos(a), (TALL,)), (lambda a: (np.sin(a) * 2.0).T * 1.5, (TALL,)),
    (lambda a: np.sin(a[ROWS]) * 2.0, (TALL[:100],)), (lambda a: np.sum(np.sin(a) * a, axis=1, keepdims=True) * np.sin(a) * 2.0, (TALL,)),
    (lambda a: (np.sin(a) * 2.0)[:, ::-1], (TALL,)), (lambda a: {"a": np.sin(a) * a, "b": [np.exp(a).T]}, (TALL,)),
    (lambda a: np.sin(a) * np.cos(a) + 1.0, (LONG,)), (lambda a: np.where(a > 0, a, 0.0), (F,)),
]
GRADIENTS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda a: np.sum(a.T * 2.0), (A,)), (lambda a: np.sum(np.sin(a.T) * np.arange(3.0)), (A,)), (lambda a: np.sum(np.sin(a)), (F,)),
    (lambda a, b: np.sum(np.tanh(a.T @ b)), (A.T.copy(), B)), (lambda a: np.sum(np.sin(a) ** 2 * np.cos(a)), (TALL,)),
    (lambda a: np.sum(np.sin(a[ROWS]) ** 2 * TALL), (TALL[:100],)), (lambda a: np.sum(np.sin(a) * np.cos(a)), (LONG,)),
    (lambda a, b: np.sum(np.linalg.solve(a @ a.T, a @ b)), (A, B)),
]


def orders(x: Any) -> list[Any]:
    """Return the order of each array of a result: of a view, of a copy of it."""
    return [layout_of(np.array(leaf)) for leaf in leaves_of(x) if np.ndim(leaf) > 1]


@pytest.mark.parametrize(("f", "args"), VALUES)
def test_of_a_value(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    expected, fast = orders(f(*args)), tg.compile(f)
    for _ in range(3):
        assert orders(fast(*args)) == expected
    tape = tg.trace(f, *args)[1]
    assert orders(tg.optimise(tape).play(*args)) == expected and orders(tg.compile(tape)(*args)) == expected


@pytest.mark.parametrize(("f", "args"), GRADIENTS)
def test_of_a_gradient(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    expected, fast = orders(tg.grad(f, *args)), tg.value_and_grad(f)
    for _ in range(3):
        assert orders(fast(*args)) == expected
    tape, names = tg.gradtape(f, *args), dict[str, Any]()
    assert orders(tape.play(*args)) == expected and orders(tg.compile(tape)(*args)) == expected
    exec(tape.to_python(name="written"), names)
    assert orders(names["written"](*args)) == expected


def test_what_lies_right_is_not_copied() -> None:
    for f, args in [(lambda a, b: np.sum(np.tanh(a @ b)), (A, B)), (lambda a: np.sum(np.sin(a) * a), (A,)), (lambda a: np.sum(np.sin(a)), (F,))]:
        source = tg.compile(tg.gradtape(f, *args)).source  # type: ignore[attr-defined]
        assert "copy" not in source and "asarray" not in source
