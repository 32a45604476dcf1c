"""Loops on torch: a body is lowered once, and run as often as the loop runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.on_gpu.stand_in import repeated
from bench.problems import PROBLEMS
from tapegrad.compile.torch import backend
from tapegrad.compile.torch.cuda_graph import replaying
from tapegrad.compile.torch.kernel import inside, is_kernel
from tapegrad.errors import GuardError
from tapegrad.ops.loop import Loop, is_loop
from tests.cases.case import draw
from tests.compile.torch.test_compile import SMALL
from tests.harness.compare import alike as close
from tests.harness.on_torch import tensors

LOOPING = {**SMALL, "lstm": {"layers": 2, "characters": 9, "bits": 3}, "rk4": {"steps": 6}, "recurrence": {"iterations": 8}}


@pytest.fixture(autouse=True)
def rolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short programs have loops too."""
    monkeypatch.setattr(tg.roll, "__defaults__", (3, 0))


@pytest.fixture(params=["eager", "graph"])
def mode(request: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The calls one after the other, and what a CUDA graph would hold."""
    monkeypatch.setitem(backend.MODES, "graph", lambda program, leaves: replaying(program, leaves, repeated))
    monkeypatch.setattr(backend, "graph_device", lambda device: device)
    return request.param


def run_of(fast: Any) -> Any:
    """Return the tape on torch that a compiled function called last."""
    return next(iter(fast._entries.values()))[0].run


def loops_of(fast: Any) -> list[Loop]:
    """Return the loops of what a compiled function runs."""
    def inner(tape: Any) -> list[Loop]:
        loops = [op.fn for op in tape if is_loop(op)]
        return [found for loop in loops for found in (loop, *inner(loop.body))]
    return inner(run_of(fast).runs[0].lowered.tape)


@pytest.mark.parametrize("name", ["lstm", "rk4", "recurrence", "filling"])
def test_problems(name: str, mode: str) -> None:
    problem = PROBLEMS[name].made(**{key: n for key, n in LOOPING[name].items() if key in PROBLEMS[name].default})
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    step = tg.value_and_grad(problem.objective, argnums=None, backend="torch", mode=mode)
    given = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in problem.given.items()}
    for _ in range(2):
        close(step(*problem.args, **problem.given), expected, 1e-9)
        close(step(*tensors(problem.args), **given), expected, 1e-9)
    assert step.stats.traces == 1
    assert any(type(op.fn) is Loop for op in step.tapes[0])
    assert bool(loops_of(step)) == (mode == "eager") and (" in zip(" in run_of(step).source) == (mode == "eager")


def fill(x: Any) -> Any:
    y = np.zeros(60)
    for i in range(60):
        y[i] = x[i % 3] * i
    return y


def test_an_array_is_filled_in_place() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(50)
        y[0] = x[0]
        for i in range(1, 50):
            y[i] = y[i - 1] * 0.9 + x[i] * i
        return np.sum(y * y)
    x = draw(50)
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for scale in (1.0, 1.0, 2.0):
        close(step(x * scale), tg.grad(f, x * scale))
    for loop in loops_of(step):
        assert not any(is_kernel(inner) and inner.fn.__name__ == "clone" and inner.spec.shape == (50,) for inner in loop.body)
    assert ", 0, step0)" in run_of(step).source and ".copy_(" in run_of(step).source


def test_results_are_in_nobody_elses_memory(mode: str) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        y, kept = np.zeros(4), c
        for i in range(9):
            y[i % 4:i % 4 + 1] = a[:1] * i
            a, b, kept = b, a * 1.5, kept
        z = c
        for _ in range(9):
            z = z[::-1]
        return a, b, y, kept, z
    args = draw(4), draw(4, seed=1), draw(4, seed=2)
    fast = tg.compile(f, backend="torch", mode=mode)
    for _ in range(4):
        given = tensors(args)
        found = fast(*given)
        close(found, f(*args))
        for part in found:
            part.fill_(7.0)
        close(given, args)


@pytest.mark.parametrize("swapped", [False, True])
def test_arrays_that_are_written_to_and_handed_on(swapped: bool, mode: str) -> None:
    def f(x: Any) -> Any:
        a, b, total = x * 1, x + 1, 0.0
        for _ in range(8):
            a[1] = b[0] * 0.5
            b[2] = a[1] + x[2]
            total = total + a.sum() * b.sum()
            if swapped:
                a, b = b, a
        return total + a[2] * b[1]
    x = draw(3)
    step, fast = tg.value_and_grad(f, argnums=None, backend="torch", mode=mode), tg.compile(f, backend="torch", mode=mode)
    for scale in (1.0, 1.0, 2.0):
        close(step(x * scale), tg.grad(f, x * scale))
        close(fast(x * scale), f(x * scale))


def test_guards_in_a_loop() -> None:
    def f(x: Any) -> Any:
        s = x[0] * 0
        for i in range(12):
            s = s * 0.9 + x[i] if x[i] > 0 else s - 1
        return s
    x = np.abs(draw(12)) + 0.1
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for _ in range(3):
        close(step(x), tg.grad(f, x))
    assert loops_of(step) and "raise miss(" in run_of(step).source
    for at in (0, 5, 11):
        other = x.copy()
        other[at] *= -1
        close(step(other), tg.grad(f, other))
    assert step.stats.traces == 4 and any("bool" in what and "test_loops.py" in what for what in step.stats.guards)
    run = tg.compile(tg.roll(tg.trace(f, x)[1]), backend="torch")
    run(x)
    with pytest.raises(GuardError, match="bool"):
        run(-x)


def test_numbers_and_tensors_for_them() -> None:
    def f(x: Any, n: int) -> Any:
        total = 0.0
        for i in range(n):
            x = math_sin(x) * i + x ** 2 / (i + 1)
            total = total + x
        return total
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for x in (0.3, 0.4, 0.5):
        close(step(x, 9), tg.grad(f, x, 9))
        close(step(torch.tensor(x, dtype=torch.float64), 9), tg.grad(f, x, 9))
    assert loops_of(step)


def math_sin(x: Any) -> Any:
    return np.sin(x)


def test_numbers_that_steps_decide() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(12)
        for i in range(10):
            y[i + 1] = i
            y[-i] += np.roll(x, 1)[2] * x[i % 3] ** 2
        for i in range(9):
            y[i] = np.sum(y[:3]) * i + float(i > 4)
        return np.sum(np.sin(y))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    x = draw(3)
    for scale in (1.0, 1.0, 0.5):
        close(step(x * scale), tg.grad(f, x * scale), 1e-9)


def test_several_results_of_a_call_are_handed_on(mode: str) -> None:
    def f(a: Any) -> Any:
        pair, total = np.divmod(a, 0.3), 0.0
        for i in range(9):
            total = total + pair[0].sum() * (i + 1) + (pair[1] * a).sum()
            pair = np.divmod(pair[1] + a * i, 0.7)
        return total
    a = np.abs(draw(4)) + 1
    step, fast = tg.value_and_grad(f, argnums=None, backend="torch", mode=mode), tg.compile(f, backend="torch", mode=mode)
    for scale in (1.0, 1.0, 1.01):
        close(step(a * scale), tg.grad(f, a * scale))
        close(fast(a * scale), f(a * scale))


def test_what_is_collected_is_computed_in_each_call(mode: str) -> None:
    def f(x: Any) -> Any:
        y, seen = x, []
        for _ in range(9):
            y = np.sin(y) * x[0]
            seen.append(y)
        return np.sum(np.stack(seen) ** 2)
    x, step, fast = np.abs(draw(4)) + 1, tg.value_and_grad(f, backend="torch", mode=mode), tg.compile(f, backend="torch", mode=mode)
    for scale in (1.0, 0.9, 1.1):
        close(step(x * scale), tg.grad(f, x * scale))
        close(fast(x * scale), f(x * scale))


def test_a_loop_and_its_memory_are_short() -> None:
    problem = PROBLEMS["lstm"].made(layers=2, characters=40, bits=3)
    step = tg.value_and_grad(problem.objective, argnums=None, backend="torch")
    for _ in range(2):
        step(*problem.args, **problem.given)
    source, loops = run_of(step).source, loops_of(step)
    assert len(loops) == 2 and len(source.splitlines()) < 600
    lists = [line.split(" = ")[0].strip() for line in source.splitlines() if line.endswith(" = []")]
    last = source.rindex("for ")
    assert lists and all(f"del {name}" in source[last:] or f", {name}" in source[source.index("del ", last):] for name in lists)


def test_inductor_and_fx_get_the_calls_of_all_runs() -> None:
    problem = PROBLEMS["rk4"].made(steps=5)
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    tape = tg.gradtape(problem.objective, *problem.args, **problem.given)
    leaves = tensors((*problem.args, *problem.given.values()))
    close(tape.to_fx()(*leaves), expected, 1e-9)
    rolled = tg.roll(tg.trace(fill, draw(3))[1])
    assert any(type(op.fn) is Loop for op in rolled)
    module = rolled.to_fx()
    close(module(torch.tensor(draw(3))), fill(draw(3)))


# -- torch code


def rnn(w: Any, u: Any, b: Any, xs: Any) -> Any:
    h, total = b * 0, 0.0
    for t in range(len(xs)):
        h = torch.tanh(xs[t] @ w + h @ u + b)
        total = total + (h * h).sum()
    return total + h[0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_recurrent_network_in_torch(dtype: Any, mode: str) -> None:
    args = [torch.tensor(draw(*shape, seed=k)).to(dtype) for k, shape in enumerate([(3, 4), (4, 4), (4,), (12, 3)])]
    step = tg.value_and_grad(rnn, argnums=None, backend="torch", mode=mode)
    for scale in (1.0, 1.0, 0.5):
        given = [(x * scale).requires_grad_() for x in args]
        value = rnn(*given)
        expected = torch.autograd.grad(value, given)
        found, (_, *dxs) = step(*given)
        torch.testing.assert_close(found, value.detach())
        for dx, theirs in zip(dxs, expected):
            torch.testing.assert_close(dx, theirs)
    assert step.stats.traces == 1 and bool(loops_of(step)) == (mode == "eager")


def test_what_torch_code_makes_is_looked_into() -> None:
    def f(x: Any) -> Any:
        h, y = torch.zeros(3, dtype=torch.float64), torch.zeros(9, dtype=torch.float64)
        for i in range(9):
            h = torch.tanh(h + x)
            y[i] = h.sum()
        return (y * y).sum()
    x = torch.tensor(draw(3))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for scale in (1.0, 1.0, 2.0):
        close(step(x * scale), tg.grad(f, x * scale))
    assert loops_of(step) and inside(run_of(step).runs[0].lowered.tape) is None


def test_torch_code_of_changing_shapes() -> None:
    def f(x: Any) -> Any:
        y, total = x, 0.0
        for i in range(9):
            y = torch.cat([y, y[:1]])
            total = total + y.sum() * i
        z = x.reshape(2, 2)
        for _ in range(9):
            z = z.t() * 1.1
        return total + (z * torch.arange(4.0, dtype=torch.float64).reshape(2, 2)).sum()
    x = torch.tensor(draw(4))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for scale in (1.0, 1.0, 2.0):
        close(step(x * scale), tg.grad(f, x * scale))


def test_torch_code_that_fills_a_tensor() -> None:
    def f(x: Any) -> Any:
        y = x * 0
        for i in range(1, 12):
            y[i] = y[i - 1] * 0.5 + x[i]
        return (y * y).sum()
    x = torch.tensor(draw(12))
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for scale in (1.0, 1.0, 2.0):
        close(step(x * scale), tg.grad(f, x * scale))


@pytest.fixture(scope="module", autouse=True)
def same_afterwards() -> Iterator[None]:
    """Make sure that other tests roll as the library does."""
    before = tg.roll.__defaults__
    yield
    assert sys.modules["tapegrad.optimise.roll"].roll.__defaults__ == before  # type: ignore[attr-defined]
