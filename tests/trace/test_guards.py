"""Plain numbers and arrays of which no gradient is lost: they are handed out, and a guard remembers them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.harness.compare import same
from tests.harness.run import exported

TABLE = np.arange(10.0) ** 2
COUNTS = [3, 1, 4, 1, 5]
X = np.array([0.3, 1.7, 2.2, -0.4])
OTHERS = [X, np.array([3.3, 1.7, -2.2, 0.4]), X + 0.01, X[::-1].copy(), X]


def by_places(x: Any) -> Any:
    return np.sum(TABLE[np.floor(x).astype(int)] * x)


def by_order(x: Any) -> Any:
    return np.sum(TABLE[:4][np.argsort(x)] * x)


def by_mask(x: Any) -> Any:
    return np.sum(TABLE[:4][x > 0]) * np.sum(x ** 2)


def by_pairs(x: Any) -> Any:
    i = np.floor(np.abs(x)).astype(np.int64)
    return np.sum(np.outer(TABLE, TABLE)[i, i[::-1]] * np.sin(x))


def written_by_mask(x: Any) -> Any:
    weights = [0.0, 1.0, 2.0, 3.0]
    table = np.array(weights)
    table[x > 1.0] = 5.0
    return np.sum(table * x ** 2)


def counted(x: Any) -> Any:
    return float(np.sum(x > 0)) * np.sum(x * x)


def rounded(x: Any) -> Any:
    return float(np.floor(x[1])) * np.sum(x * x) + COUNTS[int(np.argmax(x))] * x[0]


def in_a_loop(x: Any) -> Any:
    total = 0.0
    for k in range(4):
        total = total + TABLE[np.rint(np.abs(x)).astype(int)[k]] * x[k] + float(np.count_nonzero(x[k:] > 0)) * x[k] ** 2
    return total


PROGRAMS = [by_places, by_order, by_mask, by_pairs, written_by_mask, counted, rounded, in_a_loop]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_gradients_and_replays_are_those_of_the_numbers(f: Any, backend: str) -> None:
    if backend == "torch":
        pytest.importorskip("torch")
    step = tg.value_and_grad(f, argnums=None, backend=backend, warmup=1)
    for x in OTHERS:
        value, (_, dx) = tg.grad(f, x)
        assert value == pytest.approx(f(x))
        eps = 1e-6 * np.eye(4)
        np.testing.assert_allclose(dx, [(f(x + e) - f(x - e)) / 2e-6 for e in eps], rtol=1e-5, atol=1e-7)
        found = step(x)
        np.testing.assert_allclose(np.asarray(found[0]), value)
        np.testing.assert_allclose(np.asarray(found[1][1]), dx)


@pytest.mark.parametrize("f", PROGRAMS)
def test_tapes_refuse_other_numbers(f: Any, tmp_path: Any) -> None:
    tape = tg.trace(f, X)[1]
    tape.save(tmp_path / "f.tape")
    other = np.array([-5.3, -3.7, -0.2, 7.4])
    for replay, error in ((tape.play, tg.GuardError), (tg.load(tmp_path / "f.tape").play, tg.GuardError), (exported(tape), ValueError)):
        same(replay(X + 1e-3), f(X + 1e-3), 1e-12)
        if f is written_by_mask:  # an array that the program makes is traced, and so is what is written to it
            same(replay(other), f(other), 1e-12)
            continue
        with pytest.raises(error):
            replay(other)


def test_an_integer_argument_may_be_an_index_and_no_more() -> None:
    n = np.array([1, 2, 3, 0])
    value, (_, dx, dn) = tg.grad(lambda x, n: np.sum(TABLE[n] * x), X, n)
    assert value == np.sum(TABLE[n] * X)
    np.testing.assert_array_equal(dx, TABLE[n])
    np.testing.assert_array_equal(dn, np.zeros(4))
    with pytest.raises(tg.ConcretizationError, match="plain array"):  # what C code makes of it may have a derivative
        tg.grad(lambda n: np.nested_iters([n, n], [[0], []]), n)
    assert tg.grad(lambda n: float(n) * 2.0, 3) == (6.0, (None, None))  # an option, which has no gradient
    with pytest.raises(tg.ConcretizationError, match="float"):
        tg.grad(lambda a: float(a) * 2.0, 3.0)


def test_what_is_drawn_is_no_constant() -> None:
    rng = np.random.default_rng(0)
    tape = tg.trace(lambda x, rng: TABLE[rng.integers(10, size=3)].sum() * x, 2.0, rng)[1]
    with pytest.raises(tg.GuardError):
        for _ in range(5):
            tape.play(2.0, rng)


def test_floats_that_steer_are_refused_where_a_gradient_is_lost() -> None:
    for f in (lambda x: float(x[0]) * x[1], lambda x: TABLE[x], lambda x: np.interp(1.5, [0, 1, 2, 3], np.frompyfunc(float, 1, 1)(x))):
        with pytest.raises((tg.ConcretizationError, tg.UnknownFunction, IndexError)):
            tg.grad(f, X)
