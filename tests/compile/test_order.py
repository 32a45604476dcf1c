"""The order in memory: NumPy's of what its functions return, and that of `grad` and the program of what a compiled function returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numbers.cotangents import layout_of
from tapegrad.tree.flatten import leaves_of
from tests.harness.run import exported

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
    expected, fast = orders(tg.grad(f, *args)), tg.value_and_grad(f, argnums=None)
    for _ in range(3):
        assert orders(fast(*args)) == expected
    tape = tg.gradtape(f, *args)
    assert orders(tape.play(*args)) == expected and orders(tg.compile(tape)(*args)) == expected
    assert orders(exported(tape)(*args)) == expected


def test_what_lies_right_is_not_copied() -> None:
    for f, args in [(lambda a, b: np.sum(np.tanh(a @ b)), (A, B)), (lambda a: np.sum(np.sin(a) * a), (A,)), (lambda a: np.sum(np.sin(a)), (F,))]:
        source = tg.compile(tg.gradtape(f, *args)).source  # type: ignore[attr-defined]
        assert "copy" not in source and "asarray" not in source


# -- what NumPy's functions return: `ravel` is a view or a copy by the order in memory, and so a write through it is seen or not

DEEP = RNG.standard_normal((2, 3, 4))
LAID = {"rows": A, "columns": F, "deep columns": np.asfortranarray(DEEP), "turned": DEEP.transpose(1, 0, 2), "backwards": A[::-1], "stepped": TALL[:8:2]}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "pad": lambda a: np.pad(a, 1), "pad edge": lambda a: np.pad(a, 1, mode="edge"), "pad wrap": lambda a: np.pad(a, 1, mode="wrap"),
    "insert": lambda a: np.insert(a, 1, 5.0, axis=0), "insert several": lambda a: np.insert(a, [0, 1], 5.0, axis=-1),
    "delete": lambda a: np.delete(a, 1, axis=0), "delete several": lambda a: np.delete(a, [0, 2], axis=-1), "delete one": lambda a: np.delete(a, [0], axis=-1),
    "delete a slice": lambda a: np.delete(a, slice(0, 1), axis=0), "delete by mask": lambda a: np.delete(a, np.arange(a.shape[-1]) == 1, axis=-1),
    "compress": lambda a: np.compress([True, False], a, axis=0), "compress method": lambda a: a.compress([True, False], axis=-1),
    "partition": lambda a: np.partition(a, 1, axis=0), "select": lambda a: np.select([a > 0], [a]), "gradient": lambda a: np.gradient(a, axis=0),
    "gradients": lambda a: np.gradient(a)[1], "unwrap": lambda a: np.unwrap(a, axis=0), "vander": lambda a: np.vander(a.ravel()),
    "meshgrid": lambda a: np.meshgrid(a, a)[0], "piecewise": lambda a: np.piecewise(a, [a < 0, a >= 0], [0.0, lambda z: z]),
    "polyval": lambda a: np.polyval([1.0, 2.0], a), "roll": lambda a: np.roll(a, 1, 0),
}


@pytest.mark.parametrize("x", LAID.values(), ids=LAID)
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_of_numpys_functions(f: Callable[..., Any], x: Any) -> None:
    def written(a: Any) -> Any:
        y = f(a)
        y.ravel()[0] = 100.0
        return y
    expected = f(x)
    (value, tape), made = tg.trace(f, x), tg.trace(written, x)[0]
    assert layout_of(value) == layout_of(expected) and orders(tape.play(x)) == orders(expected)
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(made, written(np.array(x) if x.flags.forc else x))


@pytest.mark.parametrize("mode", ["numpy", "native"])
@pytest.mark.parametrize("asked", [lambda x: x.flags.f_contiguous, lambda x: x.strides[0] == 8, lambda x: (x * 2.0).flags.f_contiguous])
def test_a_branch_on_the_order_in_memory(asked: Callable[[Any], bool], mode: str) -> None:
    def f(x: Any) -> Any:
        return np.sin(x).sum() if asked(x) else np.cos(x).sum()
    step, c = tg.compile(f, mode=mode, warmup=1), np.arange(72.0).reshape(8, 9)
    for x in (c, c, c, np.asfortranarray(c), c, np.asfortranarray(c)):
        assert step(x) == pytest.approx(f(x), rel=1e-12)
