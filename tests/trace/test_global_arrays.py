"""Arrays that a program reads by name: what it makes of them may be written to, they themselves may not."""

from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile import memo
from tests.threads import at_once

TABLE = np.arange(1.0, 6.0)
VIEW = TABLE[1:]
COUNTS = np.arange(5)
CONST = np.ones(5)
HELD = {"rows": [np.arange(4.0), (np.arange(3.0),)]}
RNG = np.random.default_rng(0)
RUNS: list[int] = []


class Model:
    bias = np.arange(3.0)

    def __init__(self) -> None:
        self.weights = np.arange(3.0)


class Count:
    n = 0


MODEL = Model()

MAKERS: list[Callable[[], Any]] = [
    lambda: TABLE.copy(),
    lambda: CONST * 1.0,
    lambda: -TABLE,
    lambda: np.sin(TABLE),
    lambda: np.array(TABLE),
    lambda: np.mgrid[0:5.0],
    lambda: COUNTS.astype(float),
    lambda: TABLE[[0, 1, 1]],
    lambda: TABLE[:4].reshape(2, 2).copy().ravel(),
    lambda: np.where(TABLE > 2, 1.0, 0.0),
    lambda: np.concatenate([TABLE, VIEW]),
    lambda: HELD["rows"][0] + 0.0,
    lambda: HELD["rows"][1][0].copy(),
    lambda: Model.bias.copy(),
    lambda: MODEL.weights * 2,
    lambda: VIEW.copy(),
    lambda: (lambda table=TABLE: table.copy())(),
    lambda: TABLE.astype(np.float32),
    lambda: TABLE + 0j,
    lambda: np.outer(TABLE, CONST)[1].copy(),
    lambda: np.arange(5.0),
    lambda: [TABLE.copy() for _ in range(2)][1],
]


def _writes(y: Any, x: Any) -> Any:
    y[0] = x * x
    y[1:3] += x
    y *= y
    np.multiply(y, x, out=y)
    return abs(y).sum()


@pytest.mark.parametrize("number", range(len(MAKERS)))
def test_a_copy_of_an_outside_array_is_the_programs_own(number: int) -> None:
    make = MAKERS[number]

    def f(x: float) -> Any:
        return _writes(make(), x)

    for x in (2.0, 3.0):
        kept = TABLE.copy(), HELD["rows"][0].copy(), MODEL.weights.copy()  # type: ignore[attr-defined]
        value, dx = tg.grad(f, x, argnums=0)
        step = 1e-2 if make().dtype == np.float32 else 1e-6
        np.testing.assert_allclose(value, f(x), rtol=1e-6)
        np.testing.assert_allclose(
            dx, (float(f(x + step)) - float(f(x - step))) / (2 * step), rtol=1e-3 if step == 1e-2 else 1e-6
        )
        for was, now in zip(kept, (TABLE, HELD["rows"][0], MODEL.weights)):
            np.testing.assert_array_equal(was, now)
            assert type(now) is np.ndarray


def copied(x: Any) -> Any:
    y = TABLE.copy()
    y.flat[0] = x
    y[1:2].fill(x)
    return (y * y).sum()


def test_every_transform_and_compiled_calls() -> None:
    assert tg.gradient(copied, 2.0) == (8.0,)
    assert tg.jvp(copied, (2.0,), (1.0,))[1] == 8.0
    assert tg.hessian(copied)(2.0) == 4.0
    np.testing.assert_array_equal(tg.vmap(copied)(np.arange(3.0)), [copied(x) for x in np.arange(3.0)])
    assert tg.gradient(lambda x: tg.gradient(copied, x)[0] * x, 2.0) == (16.0,)
    _, tape = tg.trace(copied, 2.0)
    assert tape.play(3.0) == copied(3.0)
    for _ in range(2):
        memo.kept.clear()
        fast = tg.compile(copied, warmup=1)
        assert [fast(x) for x in (2.0, 3.0, 4.0)] == [copied(x) for x in (2.0, 3.0, 4.0)]
        assert fast.stats.hits == 2
        TABLE[4] = 50.0
        try:
            assert fast(2.0) == copied(2.0)
        finally:
            TABLE[4] = 5.0


def test_a_value_of_an_outer_trace() -> None:
    def outer(x: float) -> Any:
        def inner(z: float) -> Any:
            y = TABLE.copy()
            y[0] = x * z
            return (y * y).sum()

        return tg.gradient(inner, 3.0)[0]  # 2 x² z

    np.testing.assert_allclose(tg.gradient(outer, 2.0)[0], 24.0)


def _itself(x: float) -> Any:
    TABLE[0] = x
    return TABLE.sum()


def _view(x: float) -> Any:
    VIEW[0] = x
    return TABLE.sum()


def _adds(x: float) -> Any:
    part = TABLE[1:]
    part += x
    return TABLE.sum()


def _attribute(x: float) -> Any:
    MODEL.weights[0] = x
    return MODEL.weights.sum()


@pytest.mark.parametrize("f", [_itself, _view, _adds, _attribute])
def test_the_array_itself_is_not_written_to(f: Callable[[float], Any]) -> None:
    kept = TABLE.copy(), MODEL.weights.copy()
    with pytest.raises(tg.MutationError, match="does not own") as caught:
        tg.grad(f, 2.0)
    assert caught.value.where is not None and caught.value.where.function == f.__name__
    assert "pass it as an argument" in caught.value.try_
    np.testing.assert_array_equal(TABLE, kept[0])
    np.testing.assert_array_equal(MODEL.weights, kept[1])


def _counts(x: float) -> Any:
    Count.n += 1
    return _put(x * Count.n)


def _put(x: Any) -> Any:
    y = TABLE.copy()
    y[0] = x
    return y.sum()


def _appends(x: float) -> Any:
    RUNS.append(1)
    return _put(x * len(RUNS))


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (_counts, "Count.n"),
        (_appends, "RUNS"),
        (lambda x: _put(x * RNG.normal()), "own"),
        (lambda x: _put(x * np.random.normal()), "own"),
        (lambda x: _put(x * random.random()), "random"),
    ],
)
def test_a_program_that_is_another_at_its_second_run(f: Callable[[float], Any], why: str) -> None:
    with pytest.raises(tg.MutationError, match=why):
        tg.grad(f, 2.0)


def test_an_error_of_the_programs_own_is_its_own() -> None:
    def f(x: float) -> Any:
        raise KeyError(_put(x) > 0)

    with pytest.raises(KeyError) as caught:
        tg.grad(f, 2.0)
    assert caught.value.__context__ is None


def test_code_that_was_given_no_proxy_writes() -> None:
    memory = memoryview(TABLE)
    known = tg.value_and_grad(lambda x, write: (_put(x), write(), _put(x))[2], argnums=0)
    known(2.0, int)

    def write() -> None:
        memory[4] = 7.0

    try:
        with pytest.raises(tg.MutationError):
            known(2.0, write)
    finally:
        TABLE[4] = 5.0


def test_other_threads_never_notice() -> None:
    wrong: list[Any] = []

    def run(_: int) -> None:
        for _ in range(20):
            if tg.gradient(copied, 2.0) != (8.0,) or type(TABLE) is not np.ndarray:
                wrong.append(type(TABLE))

    at_once(run, range(4))
    assert not wrong


def _written(z: Any) -> Any:
    y = TABLE.copy()
    y[0] = z * z
    return (y * TABLE).sum() * z


COMPILED, VECTORIZED = tg.compile(_written, warmup=1), np.vectorize(_written)


@pytest.mark.parametrize("inner", [COMPILED, VECTORIZED])
def test_a_compiled_function_that_writes_is_called_in_another_trace(inner: Any) -> None:
    step = tg.value_and_grad(lambda x: inner(x) * x, argnums=0, warmup=1)
    for x in (2.0, 3.0, 1.5):
        want = 4.0 * x**3 + 108.0 * x  # of x⁴ + 54 x²
        assert tg.grad(lambda x: inner(x) * x, x, argnums=0)[1] == want == step(x)[1]


def test_a_program_that_fails_the_second_time_is_refused_as_the_first() -> None:
    def f(x: Any) -> Any:
        y = np.sin(TABLE)
        COUNT[0] += 1
        if COUNT[0] % 2:
            once = 1.0
        y[0] *= x
        return once * x
    for _ in range(2):
        COUNT[0] = 0
        with pytest.raises(tg.MutationError, match="written into an array that the trace does not own"):
            tg.grad(f, 2.0)


COUNT = [0]


INSTALLED = '''
import numpy as np

WEIGHTS = np.array([0.5, 2.0])

class Curve:
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])

    def parts(self, x):
        return [(self.matrix @ [x * k, x]).sum() for k in (1, 2)]

class Bent(Curve):
    pass

def weighted(x):
    return (WEIGHTS * [x, x * x]).sum() + sum(Bent().parts(x))
'''


def test_arrays_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "weighted_for_a_test.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(str(folder))
    package = importlib.import_module("weighted_for_a_test")
    matrix = package.Curve.matrix
    try:
        for f in (package.weighted, lambda x: package.weighted(x)):
            assert tg.gradient(f, 3.0)[0] == pytest.approx(0.5 + 4 * 3.0 + 24.0)
            step = tg.value_and_grad(f, argnums=0, warmup=1)
            for x in (1.0, 2.0, 3.0):
                assert step(x) == (pytest.approx(package.weighted(x)), pytest.approx(0.5 + 4 * x + 24.0))
            assert vars(package.Curve)["matrix"] is matrix and type(package.WEIGHTS) is np.ndarray
    finally:
        del sys.modules["weighted_for_a_test"]
