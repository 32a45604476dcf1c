"""parallel: functions of long arrays by several threads give NumPy's bits, warnings and errors."""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.numbers import parallel
from tapegrad.numbers.parallel import in_parts, together
from tapegrad.rules import op

ODD = 37  # elements beyond whole parts
UNARY = [np.sin, np.cos, np.tan, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p, np.sqrt, np.cbrt, np.tanh, np.sinh, np.cosh, np.arctan,
         np.arcsinh, np.square, np.reciprocal, np.sign, np.floor, operator.neg, operator.abs]
BINARY = [np.power, np.arctan2, np.hypot, np.maximum, np.fmin, np.logaddexp, np.remainder, operator.add, operator.sub, operator.mul, operator.truediv]


@pytest.fixture(autouse=True, scope="module")
def _threads() -> Iterator[None]:
    """Let three threads share parts of 4,096 elements."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel, "PART", 1 << 12)
        for module in (parallel, op):
            patch.setattr(module, "LONG", 1 << 12)
        before = tg.get_num_threads()
        tg.set_num_threads(3)
        yield
    tg.set_num_threads(before)


def numbers(n: int, dtype: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(0.01, 3.0, n).astype(dtype)


def threads_of(call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often a call asked other threads for help."""
    asked = []
    monkeypatch.setattr(parallel, "together", lambda work, helpers: (asked.append(helpers), together(work, helpers)))
    call()
    return len(asked)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fn", UNARY + BINARY, ids=lambda fn: fn.__name__)
def test_the_bits_are_the_same(fn: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1 << 12, 5 * (1 << 12) + ODD, (1 << 17) + ODD):
        args = tuple(numbers(n, dtype, seed) for seed in range(1 + (fn in BINARY)))
        found: list[Any] = []
        assert threads_of(lambda args=args, found=found: found.append(in_parts(fn, *args)), monkeypatch) == 1  # type: ignore[misc]
        expected = fn(*args)
        assert found[0].dtype == expected.dtype and found[0].tobytes() == expected.tobytes()
        assert in_parts(fn, *(x[1:-1] for x in args)).tobytes() == fn(*(x[1:-1] for x in args)).tobytes()  # otherwise aligned


def test_numbers_beside_arrays_and_shapes() -> None:
    for dtype in (np.float32, np.float64):
        x = numbers(3 * (1 << 12), dtype).reshape(3, -1)
        for args in ((x, 2.5), (3, x), (x, 2), (x, x)):
            for fn in (operator.mul, operator.truediv, np.power, operator.pow):
                found, expected = in_parts(fn, *args), fn(*args)
                assert found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("args", [
    (np.ones(1 << 13)[::2],), (np.ones((1 << 6, 1 << 6)).T,), (np.broadcast_to(1.0, 1 << 13),), (np.ones(1 << 13, int),), (np.ones(1 << 13, complex),),
    (np.ones(1 << 13, np.float16),), (np.ones(1 << 13, ">f8"),), (np.ones(100),), (2.0,)], ids=str)
def test_what_is_computed_plainly(args: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert threads_of(lambda: np.testing.assert_array_equal(in_parts(np.exp, *args), np.exp(*args)), monkeypatch) == 0
    assert threads_of(lambda: in_parts(operator.lt, np.ones(1 << 13), 2.0), monkeypatch) == 0
    assert threads_of(lambda: in_parts(operator.mul, np.ones(1 << 13), np.ones((1 << 13), np.float32)), monkeypatch) == 0
    assert threads_of(lambda: in_parts(operator.mul, np.ones((2, 1 << 13)), np.ones(1 << 13)), monkeypatch) == 0


@pytest.mark.quick
def test_memory_to_write_into() -> None:
    x = numbers(1 << 13, float)
    fits = np.empty(1 << 13)
    assert in_parts(np.exp, x, out=fits) is fits
    read_only = np.empty(1 << 13)
    read_only.flags.writeable = False
    for out in (np.empty(5), np.empty(1 << 13, np.float32), np.empty(1 << 14)[::2], read_only):
        found = in_parts(np.exp, x, out=out)
        assert found is not out and not np.may_share_memory(found, out)
        np.testing.assert_array_equal(found, np.exp(x))
    square = x.reshape(1 << 6, -1)
    turned = np.empty(square.shape[::-1]).T
    assert in_parts(np.exp, square, out=turned) is not turned


@pytest.mark.parametrize("settings", [{}, {"divide": "raise"}, {"all": "ignore"}, {"all": "raise"}, {"divide": "call"}, {"under": "raise"}])
@pytest.mark.parametrize("action", ["error", "ignore", "always"])
def test_warnings_and_errors_are_numpys(settings: dict[str, Any], action: Any) -> None:
    x = numbers(1 << 14, float)
    x[1 << 13] = 0.0

    def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
        called: list[Any] = []
        with np.errstate(**settings, **({"call": lambda *what: called.append(what)})), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            try:
                found: Any = call().tobytes()
            except (FloatingPointError, RuntimeWarning) as err:
                found = type(err), str(err)
        return found, [(w.category, str(w.message)) for w in caught], called
    for fn, args in ((operator.truediv, (1.0, x)), (np.log, (x,)), (np.exp, (-1e3 * x,)), (np.exp, (1e4 * x,)), (np.sqrt, (-x,))):
        assert outcome(lambda fn=fn, args=args: in_parts(fn, *args)) == outcome(lambda fn=fn, args=args: fn(*args))  # type: ignore[misc]


def test_gradients_under_settings() -> None:
    x = numbers(1 << 18, float)  # large enough for `grad` to look after it
    x[5] = 0.0
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        tg.grad(lambda x: np.sum(np.log(x)), x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value, (_, dx) = tg.grad(lambda x: np.sum(np.log(x)), x)
    assert [str(w.message) for w in caught] == ["divide by zero encountered in log", "divide by zero encountered in divide"]
    assert value == -np.inf and np.isinf(dx[5])


def test_an_error_of_a_thread_is_raised_here() -> None:
    gate = threading.Barrier(3)

    def work() -> None:
        gate.wait()
        if threading.current_thread() is not threading.main_thread():
            raise KeyError("of another thread")
    with pytest.raises(KeyError, match="of another thread"):
        together(work, 2)
    with pytest.raises(OverflowError):
        in_parts(operator.mul, np.ones(1 << 14), 10 ** 400)


def test_an_op_of_a_long_array(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(1 << 12, float)
    assert threads_of(lambda: np.testing.assert_array_equal(tg.ops.sin(x), np.sin(x)), monkeypatch) == 1
    assert threads_of(lambda: tg.ops.sin(x[:-1]), monkeypatch) == 0


@pytest.mark.parametrize("told, expected", [("3", 3), ("2,4", 2), (" 5 ", 5), ("", None), ("0", None), ("many", None), (None, None)])
def test_how_many_threads_there_are(told: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if told is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", told)
    monkeypatch.setattr(parallel.os, "sched_getaffinity", lambda process: {1, 3, 5, 7}, raising=False)
    assert parallel.usual() == (expected or 4)
