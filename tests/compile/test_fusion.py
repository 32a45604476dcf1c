"""fuse: groups of elementwise calls, computed in blocks; every program computes what it did."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad.compile.backend import MODES
from tapegrad.compile.numpy import blocked_executor as blocks
from tapegrad.compile.numpy import fusion as fusing
from tapegrad.compile.numpy.blocked_executor import Blocks
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.compile.numpy.fusion import fuse, unfuse
from tapegrad.numbers import parallel
from tapegrad.ops.fused import Fused
from tapegrad.optimise import shapes
from tapegrad.tape.tape import Call, Constant, Input, Tape
from tests.threads import at_once

BLOCK = 16
SIZES = [BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 5 * BLOCK + 7]


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Let short arrays count as long: blocks of 16 elements, shared by threads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusing, "LARGE", 8)
        patch.setattr(shapes, "WHOLE", 8)
        patch.setattr(blocks, "SMALLEST", BLOCK)
        patch.setattr(blocks, "LARGEST", BLOCK)
        patch.setattr(blocks, "THREADED", 1)
        patch.setattr(blocks, "processors", lambda: 3)
        patch.setattr(parallel, "processors", lambda: 3)
        parallel.workers.cache_clear()
        yield
    parallel.workers.cache_clear()


class Used:
    """A compiled function whose first call is made twice: its tape is compiled when it is used again."""

    def __init__(self, fast: Any) -> None:
        self.fast = fast

    def __call__(self, *args: Any) -> Any:
        if not self.fast.tapes:
            self.fast(*args)
        return self.fast(*args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.fast, name)


def used(make: Any, f: Any, **options: Any) -> Any:
    """Return a compiled function; of a tape, the function that it becomes."""
    options = {"mode": "numpy", **options}
    return Used(make(f, **options)) if not isinstance(f, tg.Tape) else make(f, **options)



def groups(tape: Tape) -> list[Fused]:
    return [op.fn for op in tape if isinstance(op, Call) and isinstance(op.fn, Fused)]


def alike(found: Any, expected: Any, tolerance: float = 1e-12) -> None:
    a, b = np.asarray(found), np.asarray(expected)
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a, b, tolerance, tolerance)


def chain(x: Any) -> Any:
    return np.sum(np.exp(-(x * np.sin(x))) / (1.0 + x * x))


# -- random programs

STEPS: list[Callable[[Any, Any, Any], Any]] = [
    lambda a, b, s: a * b, lambda a, b, s: a - b, lambda a, b, s: a + 2 * b, lambda a, b, s: a / (1.0 + b * b), lambda a, b, s: np.sin(a) + np.cos(a),
    lambda a, b, s: np.tanh(a * s), lambda a, b, s: np.exp(-np.abs(a)), lambda a, b, s: np.where(a > b, a, 0.5), lambda a, b, s: np.maximum(a, b),
    lambda a, b, s: np.where(np.logical_and(a > 0, b < 1), b, a), lambda a, b, s: np.hypot(a, 1 + np.abs(b)), lambda a, b, s: np.tanh(a) ** 2,
    lambda a, b, s: np.tanh(a * np.mean(b)), lambda a, b, s: np.sin(a + np.tanh(np.sum(b))), lambda a, b, s: np.cos(a) * np.tanh(np.max(b)),
    lambda a, b, s: np.cumsum(a)[::-1] / a.size - b, lambda a, b, s: np.tanh(a) if np.mean(b) > 0 else np.sin(b), lambda a, b, s: np.logaddexp(a, b) - 1,
]
PROGRAMS = st.lists(st.tuples(st.integers(0, len(STEPS) - 1), st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=12)


@settings(deadline=None)
@given(PROGRAMS, st.sampled_from(SIZES), st.sampled_from([np.float64, np.float32]), st.sampled_from(["auto", "threads", "blocks"]))
def test_random_programs(program: Any, n: int, dtype: Any, mode: str) -> None:
    def f(x: Any, y: Any, s: float) -> Any:
        values = [x, y]
        for number, i, j in program:
            values.append(np.tanh(STEPS[number](values[i % len(values)], values[j % len(values)], s)))
        return np.sum(values[-1] * values[len(values) // 2]), values[-1], values[-2]

    def loss(x: Any, y: Any, s: float) -> Any:
        total, last, other = f(x, y, s)
        return total + np.mean(last * other)
    rng = np.random.default_rng(n)
    x, y = rng.normal(size=(2, n)).astype(dtype)
    tolerance = 1e-11 if dtype is np.float64 else 2e-3
    fast = used(tg.compile, f, mode=mode)
    for found, expected in zip(fast(x, y, 0.5), f(x, y, 0.5)):
        alike(found, expected, tolerance)
    step, plain = used(partial(tg.value_and_grad, argnums=None), loss, mode=mode), used(partial(tg.value_and_grad, argnums=None), loss, mode="plain")
    for _ in range(2):
        (value, (_, *found)), (wanted, (_, *expected)) = step(x, y, 0.5), plain(x, y, 0.5)
        for a, b in zip([value, *found], [wanted, *expected]):
            alike(a, b, tolerance)
    for tape in (*fast.tapes, *step.tapes):
        alike(tape.check().play(x, y, 0.5)[0], (fast if tape in fast.tapes else step)(x, y, 0.5)[0], tolerance)


# -- what is grouped

def test_a_chain_is_one_call() -> None:
    x = np.linspace(-2, 2, 100)
    step = used(partial(tg.value_and_grad, argnums=None), chain)
    value, (_, dx) = step(x)
    [tape] = step.tapes
    [group] = groups(tape)
    assert group.__name__ == "fused(sin, multiply, negative, ...)" and repr(group) == "<fused(sin, multiply, negative, ...): 17 calls>"
    assert [op.fn.__name__ for op in tape if isinstance(op, Call)] == [group.__name__, "getfield", "getfield", "pack"]
    alike(value, chain(x))
    alike(dx, tg.grad(chain, x)[1][1])
    assert "fused(sin, multiply, negative, ...)(%2)" in str(tape)
    assert len(group.program.temporaries) == 3  # type: ignore[attr-defined]


def test_short_arrays_and_single_calls_stay() -> None:
    for f, x in ((chain, np.ones(7)), (lambda x: np.cumsum(np.sin(x)), np.ones(100)), (lambda x: x @ x, np.ones(100))):
        tape = tg.optimise(tg.trace(f, x)[1])
        assert fuse(tape) is tape


def test_layouts_and_shapes_that_do_not_fit_stay() -> None:
    x = np.asfortranarray(np.random.default_rng(0).normal(size=(10, 20)))
    row = np.ones(20)
    for f in (lambda x: np.sin(x) * x, lambda x: (x.copy() + row) * row):
        tape = tg.optimise(tg.trace(f, x)[1])
        assert not groups(fuse(tape))
    both = used(tg.compile, lambda x, y: (np.sin(x) * x, np.sin(y) + y))
    a, b = np.ones((4, 5)), np.ones(30)
    for found, expected in zip(both(a, b), (np.sin(a) * a, np.sin(b) + b)):
        alike(found, expected)
    assert len(groups(both.tapes[0])) == 2


def test_levels_follow_reductions() -> None:
    def f(x: Any) -> Any:
        centred = x - np.mean(x)
        scaled = centred / np.sqrt(np.mean(centred * centred))
        return np.sum(np.tanh(scaled) * scaled)
    x = np.random.default_rng(0).normal(size=(10, 33))
    fast = used(tg.compile, f)
    alike(fast(x), f(x))
    tape = fast.tapes[0]
    assert [len(group.calls) for group in groups(tape)] == [3, 4]  # the mean stands alone before them


def test_what_only_the_last_group_needs_is_computed_there() -> None:
    def f(x: Any) -> Any:
        return np.cos(x * x) * np.sum(np.exp(x) * x + np.sin(x))
    fast = used(tg.compile, f)
    x = np.linspace(0, 1, 100)
    alike(fast(x), f(x))
    first, second = groups(fast.tapes[0])
    assert [op.fn.__name__ for op in first.calls] == ["exp", "multiply", "sin", "add", "sum"]
    assert [op.fn.__name__ for op in second.calls][1:] == ["cos", "multiply"]


def test_nothing_moves_before_a_guard_or_a_draw() -> None:
    def f(x: Any) -> Any:
        y = np.exp(x) * 2.0
        total = np.sum(y)
        if total > 10:
            return np.sqrt(x) * x
        return y
    fast = used(tg.compile, f)
    x = np.linspace(1, 2, 50)
    alike(fast(x), f(x))
    tape = fast.tapes[0]
    kinds = [op.kind if op.kind == "guard" else op.fn.__name__ for op in tape if op.kind == "guard" or isinstance(op, Call)]
    assert kinds.index("fused(exp, multiply, sum)") < len(kinds) - 1 - kinds[::-1].index("guard") < next(i for i, k in enumerate(kinds) if "sqrt" in k)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alike(fast(x - 9), f(x - 9))  # no square roots of negative numbers on the way to the guard


def test_shapes_that_values_decide() -> None:
    def f(x: Any) -> Any:
        y = x[x > 0]
        return np.sum(np.sin(y) * y) / np.mean(y * y)
    fast, rng = used(partial(tg.value_and_grad, argnums=None), f), np.random.default_rng(0)
    for n in (40, 60, 90):
        for _ in range(4):
            x = rng.normal(size=n)
            found, expected = fast(x), tg.grad(f, x)
            alike(found[0], expected[0])
            alike(found[1][1], expected[1][1])
    assert any(groups(tape) for tape in fast.tapes)


# -- execution

def test_results_are_fresh_and_what_stays_inside_is_kept() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * x
        return np.cumsum(y), np.cumsum(np.cos(y) + y), y + 1.0
    fast, x = used(tg.compile, f), np.linspace(0, 3, 70)
    first = fast(x)
    copies = [part.copy() for part in first]
    fast(x + 1)
    for part, copy, expected in zip(first, copies, f(x)):
        np.testing.assert_array_equal(part, copy)
        alike(part, expected)
    run = compile_tape(fuse(tg.optimise(tg.trace(f, x)[1]), Blocks))
    assert "out=(b" in run.source  # type: ignore[attr-defined]


def test_arguments_in_any_layout() -> None:
    x = np.random.default_rng(0).normal(size=100)
    fast = used(tg.compile, chain)
    alike(fast(x), chain(x))
    alike(fast(np.repeat(x, 2)[::2]), chain(x))
    frozen = x.copy()
    frozen.flags.writeable = False
    alike(fast(frozen), chain(x))
    assert fast.stats.traces == 1


def test_a_group_of_other_arguments_plays_its_calls() -> None:
    _, tape = tg.trace(chain, np.linspace(-1, 1, 50))
    [group] = groups(fuse(tg.optimise(tape)))
    x = np.linspace(-2, 2, 9)
    alike(group(x.astype(np.float32)), chain(x.astype(np.float32)), 1e-5)
    alike(group(np.float64(0.5)), chain(np.float64(0.5)))
    alike(tg.grad(lambda x: group(x), x)[1][1], tg.grad(chain, x)[1][1])  # a trace goes through it
    two, (first, second) = np.linspace(0, 1, 40), np.empty((2, 40), np.float32)
    _, tape = tg.trace(lambda x: (np.sin(x) * x, np.cos(x)), two)
    [group] = groups(fuse(tg.optimise(tape)))
    group(two.astype(np.float32), out=(first, second))
    alike(second, np.cos(two.astype(np.float32)), 1e-6)


def test_numbers_keep_their_types() -> None:
    x = np.linspace(1, 2, 50).astype(np.float32)
    cases: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (lambda x, s: (x * s + 1) ** 3, (x, 2.0)), (lambda x, s: x * s + 1, (x, np.float64(2.0))), (lambda x, s: s - np.sqrt(x) * s, (x, np.float32(2.0))),
        (lambda x, s: np.where(x > s, x, s) * 2, (x, 1.5)), (lambda x, s: 2 ** (x * s), (x, 3)), (lambda x, s: s - x / s, (x, np.array(2.0))),
    ]
    for f, args in cases:
        fast = used(tg.compile, f)
        alike(fast(*args), f(*args), 1e-6)
        alike(fast(*args), f(*args), 1e-6)
        assert groups(fast.tapes[0])


def test_nan_and_inf_come_out_where_they_did() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-310, 5e-324, 1e22] * 4)
    y = np.roll(x, 5)
    functions: list[Callable[..., Any]] = [
        lambda x, y: np.sin(x) + np.cos(y), lambda x, y: np.hypot(x, y) * 2, lambda x, y: np.logaddexp(x, y) + 1, lambda x, y: np.fmod(x, y) * x,
        lambda x, y: np.sign(x) * y, lambda x, y: np.where(x > y, x, y) / x, lambda x, y: np.maximum(x, y) - y, lambda x, y: np.remainder(x, y) + 1]
    with np.errstate(all="ignore"):
        for dtype in (np.float64, np.float32):
            for f in functions:
                a, b = x.astype(dtype), y.astype(dtype)
                np.testing.assert_allclose(used(tg.compile, f)(a, b), f(a, b), 1e-14 if dtype is np.float64 else 1e-6)


def test_float_errors_are_those_of_the_caller() -> None:
    fast, x = used(tg.compile, lambda x: 1.0 / x + x), np.ones(200)
    fast(x)
    x[::7] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in fused") as caught:
        fast(x)
    assert len(caught) == 1
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fast(x)
    seen = []
    with np.errstate(divide="call", call=lambda what, flag: seen.append(what)):
        fast(x)
    assert seen and set(seen) == {"divide by zero"}
    with np.errstate(divide="ignore"):
        fast(x)


def test_torch_raises_where_numpy_does() -> None:
    fast, x = used(tg.compile, lambda x: np.sin(x) * x), np.ones(100)
    alike(fast(x), np.sin(x) * x)
    x[50] = np.inf
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        fast(x)


def test_torch_keeps_its_threads() -> None:
    before = torch.get_num_threads()
    fast, x = used(tg.compile, lambda x: np.sin(x) * x), np.linspace(0, 9, 100)
    alike(fast(x), np.sin(x) * x)
    assert "torch_sin" in groups(fast.tapes[0])[0].with_torch.text  # type: ignore[attr-defined]
    assert "torch" not in groups(fast.tapes[0])[0].program.text  # type: ignore[attr-defined]
    assert torch.get_num_threads() == before


def test_without_torch() -> None:
    code = ("import sys, numpy as np, tapegrad as tg; f = tg.compile(lambda x: np.sin(x) * x, warmup=1, mode='numpy'); x = np.linspace(0, 9, 300_000)\n"
            "for _ in range(2): assert np.array_equal(f(x), np.sin(x) * x)\nprint('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_torch_is_imported_for_long_arrays_at_compile_time() -> None:
    code = ("import sys, numpy as np, tapegrad as tg; from tapegrad.compile.numpy import blocked_executor as blocks; blocks.LONG = 300_000\n"
            "x = np.linspace(0, 9, 300_000)\n"
            "for f, mode, there in [(np.exp, 'numpy', False), (np.sin, 'threads', False), (np.sin, 'numpy', True)]:\n"
            "    fast = tg.compile(lambda x: f(x) * x, mode=mode, warmup=1); fast(x); assert 'torch' not in sys.modules\n"
            "    assert np.allclose(fast(x), f(x) * x, 1e-14); assert ('torch' in sys.modules) is there\n")
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_long_arrays_need_no_torch() -> None:
    code = ("import sys, numpy as np, tapegrad as tg; from tapegrad.compile.numpy import blocked_executor as blocks; blocks.LONG = 300_000\n"
            "sys.modules['torch'] = None; f = tg.compile(lambda x: np.sin(x) * x, mode='numpy'); x = np.linspace(0, 9, 300_000)\n"
            "for _ in range(3): assert np.array_equal(f(x), np.sin(x) * x)")
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_a_forked_process_has_threads_of_its_own() -> None:
    code = ("import os, numpy as np, tapegrad as tg; f = tg.compile(lambda x: np.exp(x) * x, warmup=1, mode='numpy'); x = np.linspace(0, 9, 300_000); a = f(x)\n"
            "pid = os.fork()\nif pid == 0: os._exit(int(not np.array_equal(f(x), a)))\nprint(os.waitpid(pid, 0)[1])")
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout == "0\n"


def test_many_callers_at_once() -> None:
    step = used(partial(tg.value_and_grad, argnums=None), lambda x, s: chain(x * s) * np.mean(x))
    arguments = [(np.random.default_rng(k).normal(size=500), 0.1 * k) for k in range(8)]
    expected = [step(*args) for args in arguments]
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(30):
            value, (_, dx, ds) = step(*arguments[k])
            if value != expected[k][0] or not np.array_equal(dx, expected[k][1][1]) or ds != expected[k][1][2]:
                wrong.append(k)
    at_once(call, range(8))
    assert not wrong


def test_an_error_of_one_thread_ends_all() -> None:
    _, tape = tg.trace(chain, np.linspace(-1, 1, 500))
    [group] = groups(fuse(tg.optimise(tape)))
    assert isinstance(group, Blocks)
    calls: list[int] = []

    def broken(lo: int, hi: int, *args: Any) -> Any:
        calls.append(lo)
        if lo == BLOCK:
            raise KeyboardInterrupt
        return (0.0,)
    group.torch = False
    group.__dict__["program"] = group.program._replace(run=broken)
    with pytest.raises(KeyboardInterrupt):
        group(np.linspace(-1, 1, 500))
    assert len(calls) == len(set(calls))


def test_modes() -> None:
    assert list(MODES) == ["numpy", "threads", "blocks", "plain"]
    x = np.linspace(0, 1, 100)
    for mode in MODES:
        fast = used(tg.compile, chain, mode=mode)
        alike(fast(x), chain(x))
        assert bool(groups(fast.tapes[0])) == (mode != "plain")
    for make in (tg.compile, tg.value_and_grad):
        with pytest.raises(tg.ArgumentError, match="there is no mode 'fast'"):
            make(chain, mode="fast")


def test_another_executor() -> None:
    class Whole(Fused):
        def execute(self, n: int, arrays: Any, numbers: Any, outs: Any) -> Any:
            found = self.tape.play(*arrays, *numbers)
            outs[0][:] = found[1]
            return [found[0]]
    x = np.linspace(0, 1, 100)
    tape = fuse(tg.optimise(tg.flatgrad(tg.trace(chain, x)[1])), Whole)
    value, (_, dx) = compile_tape(tape)(x)
    alike(value, chain(x))
    alike(dx, tg.grad(chain, x)[1][1])


def test_a_fused_tape_can_be_taken_apart_and_written() -> None:
    def f(x: Any) -> Any:
        y = np.exp(-x) * np.mean(x * x)
        return np.sum(y * np.cumsum(y)), y + 1.0
    x = np.linspace(0, 1, 100)
    tape = used(tg.compile, f)
    tape(x)
    [fused] = tape.tapes
    apart = unfuse(fused).check()
    assert groups(fused) and not groups(apart)
    names: dict[str, Any] = {}
    exec(fused.to_python("written"), names)
    exec(fused.to_python("kept", buffers=True), names)
    for found in (apart.play(x), names["kept"](x), names["kept"](x), names["written"](x), fused.play(x)):
        for a, b in zip(found, f(x)):
            alike(a, b)


def test_a_report_of_an_error_may_call_a_group() -> None:
    inner, outer = used(tg.compile, lambda x: np.exp(x) * x + x), used(tg.compile, lambda x: np.sqrt(1.0 / x + np.exp(x) * x))
    x, seen = np.linspace(0, 1, 100), []
    y = inner(x)
    with np.errstate(divide="ignore"):
        expected = outer(x + 1), outer(x)
    with np.errstate(divide="call", call=lambda what, flag: seen.append(np.array_equal(inner(x), y))):
        alike(outer(x), expected[1])
    assert seen and all(seen)
    alike(outer(x + 1), expected[0])


def test_a_group_holds_no_arrays() -> None:
    x = np.linspace(0, 1, 100)
    [group] = groups(fuse(tg.optimise(tg.trace(chain, x)[1])))
    assert all(set(op.val.strides) == {0} for op in group.tape if isinstance(op, (Input, Constant, Call)) and isinstance(op.val, np.ndarray))
