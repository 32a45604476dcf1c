"""dropping: large values that are given up while a gradient is recorded, and what passes and the writer make of their specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad.compile import backend, cache, compiling
from tapegrad.compile.numpy.source import write_source
from tapegrad.tape.tape import Constant, has_value
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms import value_dropping
from tapegrad.transforms.value_dropping import drop_large
from tests.harness.compare import same
from tests.harness.run import peak

SMALL = {"elementwise": {"n": 1 << 18}, "lstm": {"characters": 5}, "recurrence": {"iterations": 5}, "rk4": {"steps": 5}, "filling": {"n": 10},
         "gp": {"n": 20}, "mlp": {"batch": 4}, "mlp32": {"batch": 4}, "fft_filter": {"n": 64}}


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if not problem.module])  # NumPy code
def test_the_source_is_the_same_as_of_a_tape_with_its_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_dropping, "LARGE", 0)
    problem = PROBLEMS[name].made(**SMALL.get(name, {}))

    def source(release: bool) -> list[str]:
        tape = tg.flatgrad(record(problem.objective, problem.args, problem.given, DEFAULT, grad=True), release=release)
        if release:
            drop_large(tape, 0)
            assert not any(type(op.val) is np.ndarray and op.kind == "call" and not op.fn.memory.blank and op.fn.__name__ != "setitem"
                           and not getattr(op.args[0], "fn", op.fn).memory.blank for op in tape)
        written = write_source(backend.choose("numpy", None, "auto", compiling.PASSES).finish(tape))
        return [*written.body, written.result]
    assert source(True) == source(False)


def test_a_dropped_value_shows_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones(1 << 18)
    monkeypatch.setattr(cache, "WARMUP", None)
    step = tg.value_and_grad(lambda x: np.sum(np.exp(x) * x), argnums=None)
    step(x)
    step(x)
    for _ in range(2):  # as recorded, and as compiled
        dropped = [op for op in step.tapes[0] if not has_value(op)]
        assert dropped
        assert {op.type for op in dropped} <= {"float64[262144]", "tuple"}  # the tuple is the result
        assert all(len(op.val) == x.size for op in dropped if op.type != "tuple")
        step(x)


def test_a_tape_of_the_users_keeps_its_values() -> None:
    x = np.ones(1 << 18)
    tape = tg.trace(lambda x: np.sum(np.exp(x) * x), x)[1]
    flat = tg.flatgrad(tape)
    assert all(has_value(op) for each in (tape, flat) for op in each)


@pytest.mark.parametrize("name", ["elementwise", "gmm", "filling"])
def test_a_released_tape_is_compiled_without_its_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_dropping, "LARGE", 64)
    problem = PROBLEMS[name].made(**SMALL.get(name, {}))
    released, whole = [tg.flatgrad(tg.trace(problem.objective, *problem.args, **problem.given)[1], release=release) for release in (True, False)]
    missing = [op for op in released if not has_value(op)]
    assert missing and all(map(has_value, whole))
    run = tg.compile(released)
    assert missing == [op for op in released if not has_value(op)]  # as it was
    assert run.source == tg.compile(whole).source
    same(run(*problem.args, **problem.given), whole.play(*problem.args, **problem.given))


def test_a_first_call_takes_the_memory_of_grad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", None)
    problem = PROBLEMS["elementwise"].made(n=1 << 18)
    array = problem.args[0].nbytes
    once, _ = peak(lambda: tg.grad(problem.objective, *problem.args))
    step = tg.value_and_grad(problem.objective, argnums=None)
    for more in (0.1, 2.5):  # calls that are traced, the second observed: it records the gradient
        traced, left = peak(lambda: step(*problem.args))
        assert traced <= once + more * array
        assert left <= 1.1 * array  # the gradient
    for _ in range(2):
        compiled, _ = peak(lambda: step(*problem.args))
        assert compiled <= 1.1 * array


TABLE = np.arange(3.0)
WIDE = np.broadcast_to(np.arange(4.0), (1 << 16, 4))


def test_constants_that_were_there_for_a_moment() -> None:
    def f(x: Any) -> Any:
        for k in (1.0, 2.0, 0.0, -0.0, 3.0):  # each product is freed at once, and the next may get its place
            x = x + np.arctan2(TABLE * k, -1.0 - x * x)
            x = x + (TABLE * k).astype(np.float32)
        return x
    x = np.array([0.1, 0.2, 0.3])
    value, tape = tg.trace(f, x)
    np.testing.assert_array_equal(value, f(x))
    np.testing.assert_array_equal(tape.play(x), f(x))
    assert {op.val.dtype.name for op in tape if type(op) is Constant} == {"float64", "float32"}


def test_a_large_stretched_constant_stays_stretched(tmp_path: Path) -> None:
    x = np.ones((1 << 16, 4))
    value, tape = tg.trace(lambda x: np.sum(x * WIDE), x)
    constant, = (op.val for op in tape if type(op) is Constant)
    assert constant.strides == (0, 8) and not np.may_share_memory(constant, WIDE)
    tape.save(tmp_path / "wide.tape")
    for each in (tape, tg.load(tmp_path / "wide.tape")):
        np.testing.assert_allclose(each.play(2 * x), 2 * value)
    same(tg.value_and_grad(lambda x: np.sum(x * WIDE), argnums=None)(x), (value, (tg.grad(lambda x: np.sum(x * WIDE), x)[1])))
