"""compile and value_and_grad on torch: what a replay gives, whatever numbers come later."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad.compile.torch.kernel import inside
from tapegrad.compile.torch.tape_function import TapeOnTorch, eager
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.rules.facts import CONSTANT, Effects
from tapegrad.rules.op import OPS, Op
from tests.cases.case import draw
from tests.harness.compare import alike as close
from tests.harness.on_torch import tensors
from tests.harness.sample import kept
from tests.threads import at_once

SMALL: dict[str, dict[str, int]] = {
    "rational": {}, "recurrence": {"iterations": 5}, "tr_mul": {"n": 5}, "rosenbrock": {"n": 9}, "filling": {"n": 9}, "elementwise": {"n": 50},
    "mlp": {"batch": 4, "inputs": 7, "hidden": 5, "hidden2": 4, "classes": 3}, "gmm": {"d": 3, "K": 4, "n": 6}, "gp": {"n": 8},
    "lstm": {"layers": 2, "characters": 6, "bits": 3}, "ba": {"n": 2, "m": 5, "p": 7}, "rk4": {"steps": 4}, "fft_filter": {"n": 16}}


def program_of(f: Any, *args: Any) -> Any:
    """Return the tape of calls of torch's that a function comes down to."""
    run = TapeOnTorch(tg.optimise(tg.primitivize(tg.trace(f, *args)[1])), None, eager)
    run(*args)
    return run.runs[0].lowered.tape  # type: ignore[attr-defined]


def called(tape: Any) -> list[str]:
    """Return the names of the functions that a tape calls, but for what nests the result."""
    return [op.fn.__name__ for op in tape if op.kind == "call" and op is not tape.result]


# -- what a replay gives


@pytest.mark.parametrize("name", [name for name, problem in PROBLEMS.items() if not problem.module])  # NumPy code
def test_every_problem(name: str) -> None:
    problem = PROBLEMS[name]
    problem = problem.made(**{key: n for key, n in SMALL.get(name.rstrip("32"), {}).items() if key in problem.default})
    expected = tg.grad(problem.objective, *problem.args, **problem.given)
    step = tg.value_and_grad(problem.objective, argnums=None, backend="torch")
    given = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in problem.given.items()}
    for _ in range(2):
        close(step(*problem.args, **problem.given), expected, 1e-9)
        close(step(*tensors(problem.args), **given), expected, 1e-9)
    assert step.stats.traces == 1


@pytest.mark.quick
def test_results_are_tensors_of_the_callers() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, x, np.exp(x)[1:], np.exp(x), CAPTURED[:2], x.T
    fast = tg.compile(f, backend="torch")
    x, y = np.ones((4, 2)), draw(4, 2)
    for given in ((x, y), (x, y), tensors((x, y))):
        found = fast(*given)
        close(found, f(x, y))
        for part in found:
            assert isinstance(part, torch.Tensor) and not part.is_inference() and not part.requires_grad
            part.fill_(7.0)
        close(fast(*given), f(x, y))
    assert (x == 1).all()


CAPTURED = np.arange(3.0)
TENSOR = torch.arange(3.0, dtype=torch.float64)


@pytest.mark.quick
def test_gradients_serve_a_parameter() -> None:
    step = tg.value_and_grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2), argnums=None, backend="torch")
    w, x = torch.nn.Parameter(torch.tensor(draw(3, 2))), torch.tensor(draw(4, 3))
    step(w.detach().numpy(), x.numpy())
    optimiser = torch.optim.SGD([w], lr=0.1)
    before = w.detach().clone()
    for _ in range(2):
        value, (_, dw, _) = step(w, x)
        loss = (torch.tanh(x @ w) ** 2).sum()
        torch.testing.assert_close(dw, torch.autograd.grad(loss, w)[0])
        torch.testing.assert_close(value, loss.detach())
        w.grad = dw
        optimiser.step()
    assert not torch.equal(before, w) and step.stats.traces == 1


def test_memory_order_means_nothing() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        v = y.reshape(-1)
        v[1:] = v[:-1] * x.reshape(-1)[1:]
        return y.sum() + (x.T @ x).sum()
    x = draw(3, 4)
    fast = tg.compile(tg.trace(f, x)[1], backend="torch")
    for given in (torch.tensor(x), torch.tensor(x.T.copy()).T, torch.tensor(np.stack([x, x], 2))[..., 0], np.asfortranarray(x), x[::-1][::-1]):
        close(fast(given), f(x))
    z = draw(3) + 1j * draw(3, seed=1)
    conjugated = tg.compile(tg.trace(lambda z: np.abs(z + 1j * z.imag), z)[1], backend="torch")
    close(conjugated(torch.tensor(z).conj()), np.abs(z.conj() - 1j * z.imag))


# -- nothing that depends on numbers is taken as it was


@pytest.mark.parametrize("f", [
    lambda x, y: x[x > 0].sum() + np.mean(x[y > 0.1]), lambda x, y: np.unique(np.round(x)).sum(), lambda x, y: x[np.nonzero(x > 0)[0]] * 2,
    lambda x, y: x[np.argmax(y)] * y[np.argmin(x)], lambda x, y: x[np.argsort(y)], lambda x, y: np.sort(x)[::-1] * y, lambda x, y: np.where(x > y, x, y) ** 2,
    lambda x, y: np.searchsorted(np.sort(x), y), lambda x, y: np.bincount((x > 0).astype(int)), lambda x, y: x.reshape(2, -1)[:, np.argmax(y) % 3],
    lambda x, y: np.digitize(x, np.sort(y)), lambda x, y: np.median(x) * np.percentile(y, 30), lambda x, y: np.interp(x, np.sort(y), x), lambda x, y: np.linalg.norm(x) * y,
    lambda x, y: np.max(x) * (x == np.max(x)), lambda x, y: np.count_nonzero(x > y) * x, lambda x, y: np.compress(x > 0, y), lambda x, y: np.clip(x, -0.2, y),
])
def test_what_numbers_decide(f: Any) -> None:
    rng = np.random.default_rng(0)
    fast, step = tg.compile(f, backend="torch"), tg.value_and_grad(lambda x, y: np.sum(f(x, y) * 1.5), argnums=None, backend="torch")
    for number in range(12):
        args = rng.normal(size=6), rng.normal(size=6)
        given = args if number == 0 or number % 3 == 1 else tensors(args)
        close(fast(*map(kept, given)), f(*map(kept, args)))
        close(step(*map(kept, given)), tg.grad(lambda x, y: np.sum(f(x, y) * 1.5), *map(kept, args)))


def masked_writes(x: Any, n: float) -> Any:
    y = x * n
    y[x > 0.2] = n
    y[x < 0] *= x[x < 0]
    y[np.argmax(x)] += y[np.argmin(x)]
    return (y * np.arange(6.0)).sum() + n ** 2 * y[y > n].sum()


def loops(x: Any, n: float) -> Any:
    s = n
    for v in x:
        s = s * 0.9 if v > 0 else s + v
    while np.abs(x).sum() > 3:
        x = x * 0.7
    for i in range(int(abs(n) * 3)):
        x[i % 6] = x[i % 6] * s + i
    return np.sum(x) * s + (math.sin(n) if n > 0.3 else math.exp(n))


def integers(x: Any, n: float) -> Any:
    k = int(np.argmax(x))
    rolled = np.roll(x, k)
    return np.sum(rolled[:k] * n) + np.repeat(x, 2)[k] + x[k % 3: 5].sum() * k + np.full(3, n).sum() * np.arange(k).sum()


@pytest.mark.parametrize("f", [masked_writes, loops, integers])
@pytest.mark.parametrize("number", [float, np.float64, torch.tensor])
def test_paths(f: Any, number: Any) -> None:
    rng = np.random.default_rng(1)
    step = tg.value_and_grad(f, argnums=None, backend="torch", max_tapes=200)
    for count in range(25):
        x, n = rng.normal(size=6), float(rng.normal())
        scalar = number(n, dtype=torch.float64) if number is torch.tensor and count else n if number is torch.tensor else number(n)
        expected = tg.grad(f, x.copy(), n)
        close(step(x if count % 2 == 0 and number is not torch.tensor else torch.tensor(x) if count else x, scalar), expected, 1e-9)


def test_one_tensor_for_two_arguments() -> None:
    fast = tg.compile(tg.trace(lambda x, y: x * 2 - y, np.ones(3), np.ones(3))[1], backend="torch")
    x, y = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    assert fast(x, x).tolist() == [1.0] * 3 and fast(x, y).tolist() == [2.0] * 3 and fast(y, x).tolist() == [-1.0] * 3


def test_random_numbers_are_drawn_afresh() -> None:
    def f(x: Any, rng: Any) -> Any:
        noise = rng.normal(size=3)
        return np.sum(x * noise * (1 if rng.random() < 2 else 0)), noise
    fast = tg.compile(f, backend="torch")
    for seed in range(4):
        ours, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
        close(fast(np.ones(3) if seed < 2 else torch.ones(3, dtype=torch.float64), ours), f(np.ones(3), theirs))
    assert fast.stats.traces == 2  # the second call compares, and draws but once
    drawn = tg.compile(lambda x: x * np.random.normal(size=3), backend="torch")
    assert len({tuple(drawn(np.ones(3)).tolist()) for _ in range(4)}) == 4


def test_a_function_of_the_users_runs_each_time() -> None:
    calls = []

    @tg.primitive
    def noisy(x: Any) -> Any:
        calls.append(1)
        return x * len(calls)

    fast = tg.compile(tg.trace(lambda x: noisy(x) + 1, np.ones(2))[1], backend="torch")
    first = len(calls)
    for number in range(1, 4):
        assert fast(torch.ones(2, dtype=torch.float64)).tolist() == [first + number + 1.0] * 2


def test_an_opaque_op_is_one_call_that_may_run_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    def slope(x: Any) -> Any:
        with torch.enable_grad():
            given = x.detach().requires_grad_()
            return torch.autograd.grad((given ** 3).sum(), given)[0]
    for autograd in (True, False):  # one that does not say so is found out
        op = Op("slope", lambda x: 3 * x ** 2, rule=CONSTANT, effects=Effects(autograd=autograd), torch=slope)
        monkeypatch.setitem(OPS, "slope", op)
        run = tg.compile(tg.trace(lambda x, op=op: op(x * 2) + 1, np.ones(3))[1], backend="torch")
        for scale in (1.0, 2.0, 3.0):
            close(run(torch.full((3,), scale, dtype=torch.float64)), np.full(3, 12 * scale ** 2 + 1))


# -- what goes in


def test_kinds_of_arguments() -> None:
    def f(p: Any, mode: str = "a", k: Any = None) -> Any:
        y = p["x"] * (2.0 if mode == "a" else 3.0)
        return np.sum(y if k is None else y * k)
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (({"x": np.ones(2)},), {}), (({"x": 1.0},), {}), (({"x": np.ones(2, np.float32)},), {}), (({"x": 1},), {}), (({"x": 1.0}, "b"), {}),
        (({"x": np.ones(2)},), {"mode": "b"}), (({"x": 1.0}, "a", 2.0), {}), (({"x": np.ones((2, 1))},), {}), (({"x": np.ones(2)}, "a", 2.0), {})]
    for _ in range(3):
        for args, kwargs in calls:
            close(step(*args, **kwargs), tg.grad(f, *args, **kwargs))
    assert step.stats.traces == len(calls)
    number = torch.tensor(2.0, dtype=torch.float64)
    close(step({"x": torch.ones(2, dtype=torch.float64)}, "a", number), tg.grad(f, {"x": np.ones(2)}, "a", 2.0))
    assert step.stats.traces == len(calls)


def test_objects() -> None:
    def f(a: Any, b: Any) -> Any:
        return np.sum(a.w * b[0][0]) + b[1][0]
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for w in (np.ones(2), np.arange(2.0), torch.ones(2, dtype=torch.float64)):
        found = step(SimpleNamespace(w=w), ([2.0], [3.0]))
        assert float(found[0]) == float(2 * w.sum() + 3) and found[1][1].w.tolist() == [2.0, 2.0] and float(found[1][2][1][0]) == 1.0
    assert step.stats.traces == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes(dtype: Any) -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        y[1:] = x[:-1] * x[1:] / 2
        return np.sum(np.abs(y + x * 0.5)) + np.sum(y.real)
    x = (draw(5) + 0.5).astype(dtype)
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    for given in (x, x, torch.tensor(x)):
        value, (_, dx) = step(given)
        assert dx.dtype == torch.tensor(x).dtype and value.dtype == torch.tensor(f(x)).dtype
        expected = tg.grad(f, x.astype(np.complex128 if x.dtype.kind == "c" else float))
        np.testing.assert_allclose(dx.numpy(), expected[1][1], 3e-2 if dtype is np.float16 else 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_torch_code(dtype: Any) -> None:
    def f(w: Any, x: Any) -> Any:
        y = (x @ w) * 0.5 + x[:, :1]
        return y.sum(), y.reshape(-1)[1:] / 2
    w, x = torch.tensor(draw(3, 2)).to(dtype), torch.tensor(draw(4, 3)).to(dtype)
    fast = tg.compile(f, backend="torch")
    for scale in (1, 1, 2):
        found, expected = fast(w * scale, x), f(w * scale, x)
        assert all(a.dtype is b.dtype is dtype for a, b in zip(found, expected))
        torch.testing.assert_close(found, expected)
    assert fast.stats.traces == 1


def test_numpy_code_meets_tensors() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(len(x))
        y[:] = x.astype(float) * 2
        return y.sum() if x[0] > 0 else -y.sum()
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(ArgumentError, match="call it once with arrays"):
        step(x)
    step(np.ones(3))
    close(step(x), tg.grad(f, np.ones(3)))
    assert step.stats.traces == 2
    close(step(-x), tg.grad(f, -np.ones(3)))  # another path: it is traced with arrays
    close(step(-x), tg.grad(f, -np.ones(3)))
    assert step.stats.traces == 3
    with pytest.raises(ArgumentError, match="bfloat16"):
        step(x.bfloat16())


def test_globals_are_looked_at_again() -> None:
    def f(x: Any) -> Any:
        return (x * TENSOR).sum()
    fast = tg.compile(f, backend="torch")
    x = torch.ones(3, dtype=torch.float64)
    for _ in range(2):
        assert float(fast(x)) == 3.0
    try:
        TENSOR[0] = 5.0
        assert float(fast(x)) == float(fast(x)) == 8.0
    finally:
        TENSOR[0] = 0.0
    assert float(fast(x)) == 3.0 and fast.stats.traces == 2



MODULE = torch.nn.Sequential(torch.nn.Linear(3, 2))


def test_a_module_of_torchs_own_among_the_globals_is_looked_at_again() -> None:
    def f(x: Any) -> Any:
        return MODULE(x).sum()
    step, x = tg.value_and_grad(f, argnums=None, backend="torch"), torch.ones(4, 3)
    for change in (lambda: None, lambda: None, lambda: MODULE[0].weight.data.mul_(2.0), lambda: MODULE.append(torch.nn.Tanh())):
        change()
        for _ in range(2):
            torch.testing.assert_close(step(x)[0], f(x).detach())
    assert step.stats.traces == 3


def test_what_a_program_says_it_cannot_hold_is_said_as_it_is() -> None:
    with pytest.raises(tg.UnknownFunction, match=r"torch\.vmap"):
        tg.value_and_grad(lambda x: torch.vmap(torch.sin, randomness="same")(x).sum(), argnums=None, backend="torch")(torch.ones(2, 3))


def test_a_tapes_function_refuses_what_does_not_fit() -> None:
    run = tg.compile(tg.trace(lambda x, y: x * y if x > 0 else y, 2.0, np.ones(3))[1], backend="torch")
    assert run(3.0, np.arange(3.0)).tolist() == [0.0, 3.0, 6.0]
    for args in ((-1.0, np.ones(3)), (2.0, np.ones(4)), (2, np.ones(3)), (2.0, np.ones(3, np.float32)), (2.0, [1.0, 1.0, 1.0]),
                 (torch.tensor(-1.0, dtype=torch.float64), np.ones(3)), (2.0, torch.ones(3))):
        for _ in range(2):
            with pytest.raises(GuardError):
                run(*args)
    close(run(torch.tensor(2.0, dtype=torch.float64), torch.ones(3, dtype=torch.float64)), np.full(3, 2.0))
    assert "if not v" in run.source or "raise miss(0)" in run.source


def test_errors() -> None:
    for options in ({"backend": "abacus"}, {"backend": "torch", "mode": "fast"}, {"backend": "numpy", "device": "cpu"}):
        with pytest.raises(ArgumentError):
            tg.compile(lambda x: x, **options)
    step = tg.value_and_grad(lambda x: np.linalg.cholesky(x).sum(), argnums=None, backend="torch")
    for _ in range(2):
        step(np.eye(2))
        with pytest.raises(np.linalg.LinAlgError):
            step(-np.eye(2))


def test_threads() -> None:
    def f(x: Any) -> Any:
        y = np.tanh(x) * np.exp(-x)
        z = np.zeros(50)
        z[1:] = y[:-1] * y[1:]
        return np.sum(z * z) if y[0] > 0 else np.sum(z)
    step = tg.value_and_grad(f, argnums=None, backend="torch")
    points = [np.random.default_rng(k).normal(size=50) for k in range(8)]
    expected = [tg.grad(f, x) for x in points]
    step(points[0])
    wrong: list[Any] = []

    def work(k: int) -> None:
        for i in range(30):
            at = (k + i) % 8
            value, (_, dx) = step(torch.tensor(points[at]) if i % 2 else points[at])
            if not np.allclose(float(value), expected[at][0], 1e-12) or not np.allclose(dx, expected[at][1][1], 1e-12, 1e-11):
                wrong.append(at)
    at_once(work, range(4))
    assert not wrong


def test_inside_another_trace() -> None:
    step = tg.value_and_grad(lambda x: x ** 3, argnums=None, backend="torch")
    step(2.0)
    assert tg.grad(lambda x: step(x)[1][1] * 1.0, 2.0) == (12.0, (None, 12.0))


# -- what a program is made of


def test_dtypes_and_axes_are_worked_out_beforehand() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.mean(np.tanh(x @ w) * 2.0, axis=-1)
    program = program_of(f, draw(4, 3), draw(3, 2))
    names = called(program)
    assert names in (["mm", "tanh", "mul", "mean"], ["mm", "tanh", "mean", "mul"]), names
    assert inside(program) is None and not any(op.kind == "constant" for op in program)


def test_torch_converts_integers_itself() -> None:
    def shared(x: Any) -> Any:
        ties = x == np.max(x, axis=1, keepdims=True)
        return x / np.sum(ties, axis=1, keepdims=True) + np.sum(ties, axis=1, keepdims=True) * x - np.arange(2).reshape(2, 1) * np.sum(ties)
    for x in (np.array([[1.0, 1.0, 0.5], [2.0, 3.0, 4.0]]), np.array([[1.0, 0.0, 0.5], [4.0, 4.0, 4.0]])):
        close(tg.compile(tg.trace(shared, x)[1], backend="torch")(torch.tensor(x)), shared(x))
    program_of(lambda x: np.where(x > 0, x, 0.0) / np.sum(x > 0, axis=0), draw(4, 3))
    single = tg.value_and_grad(lambda x: np.max(x, axis=1).sum(), argnums=None, backend="torch")
    x = np.array([[1, 1, 0], [2, 3, 4]], np.float32)
    for _ in range(2):
        close(single(x), (np.float32(5), (None, np.array([[0.5, 0.5, 0], [0, 0, 1]], np.float32))))
    assert "float64" not in single._entries[1][0].run.source


def test_a_loop_that_fills_an_array_copies_it_once() -> None:
    def fill(x: Any) -> Any:
        y = np.zeros(50)
        for i in range(50):
            y[i] = x[0] * i
        return y
    names = called(program_of(fill, np.ones(1)))
    assert names.count("clone") <= 1 and names.count("select") <= 51 and names.count("copy_") == 50


def test_what_is_not_used_any_more_is_dropped() -> None:
    run = tg.compile(tg.trace(lambda x: np.exp(np.sin(np.cos(x) + 1) + 1), np.ones(3))[1], backend="torch")
    assert run.source.count("del ") >= 4 and "torch.sin" in run.source and "# test_compile.py" in run.source


def test_settings_of_torch_stay_as_they_are() -> None:
    before = (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.cuda.matmul.allow_tf32)
    step = tg.value_and_grad(lambda x: np.sum(np.exp(x)), argnums=None, backend="torch")
    for _ in range(3):
        step(np.ones(3))
        x = torch.ones(2, requires_grad=True)
        assert (x * 2).requires_grad
    assert before == (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.backends.cuda.matmul.allow_tf32)
