"""value_retention: large values that `grad` drops while it traces."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from bench.problems import PROBLEMS
from tapegrad.tape.tape import Call, has_value
from tapegrad.testing import contract
from tapegrad.trace import value_retention
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tests.cases import CASES
from tests.harness.compare import same
from tests.harness.run import peak
from tests.harness.sample import differentiable

ALL = 1 << 60  # bytes: no array is large


def both(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a call gives with each array looked after, and with none: a dropped value that is read raises."""
    found = []
    for large in (0, ALL):
        monkeypatch.setattr(value_retention, "LARGE", large)
        found.append(call())
    return found[0], found[1]


def test_a_rule_that_reads_what_was_dropped_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    raised = 0
    for case in CASES:
        for args in case.samples[:1]:
            if not differentiable(case, args):
                continue

            def f(*xs: Any, fn: Any = case.fn) -> Any:
                return contract(fn(*xs))
            expected = tg.grad(f, *args)
            with monkeypatch.context() as patch:
                patch.setattr(value_retention, "LARGE", 0)
                patch.setattr(value_retention, "needed", lambda call, active: ())
                try:
                    found = tg.grad(f, *args)
                except (TypeError, AttributeError):
                    raised += 1
                else:
                    same(found, expected)
    assert raised > 250


N = 1 << 18  # doubles: twice what is looked after
WEIGHTS = np.linspace(1.0, 2.0, N)


def dropped(f: Callable[..., Any], *args: Any) -> list[str]:
    """Return the calls whose values `grad` drops while it traces."""
    tape = record(f, args, {}, DEFAULT, grad=True, once=value_retention.Retention())
    return [op.fn.__name__ for op in tape if isinstance(op, Call) and not has_value(op)]


def test_what_is_dropped() -> None:
    x = np.linspace(0.1, 1.0, N)
    assert dropped(PROBLEMS["elementwise"].objective, x) == ["multiply", "negative", "multiply"]
    assert dropped(lambda x: np.sum(np.exp(x) + x), x) == ["add"]
    assert dropped(lambda x: np.exp(2.0 * x), x) == ["multiply"]  # not the result
    assert dropped(lambda x: (x + 1.0, [x - 1.0]), x) == []
    assert dropped(lambda x: np.sum(2.0 * (x + 1.0)), np.ones(5)) == []
    assert dropped(lambda x: np.sum(np.outer(x, x) + 1.0), np.ones(1 << 10)) == ["multiply", "add"]  # the product is large, the input is not
    assert dropped(lambda x: np.sum((x + WEIGHTS) + 1.0), 2.0) == ["add", "add"]  # nor here
    assert dropped(lambda x, k: np.sum((x + 1.0) * k), x, 3.0) == ["multiply"]  # k has a gradient
    assert dropped(lambda x: np.sum((x + 1.0) * WEIGHTS), x) == ["add", "multiply"]  # a constant has none


def test_of_what_is_only_looked_at_nothing_is_kept() -> None:
    table = np.linspace(0.1, 1.0, N).reshape(512, 512)
    assert dropped(lambda x: np.sum((x + 1.0) @ WEIGHTS.reshape(512, 512)), table) == ["add", "matmul"]  # a product with a constant reads that alone
    assert dropped(lambda x: np.sum(np.cumsum(x + 1.0, axis=0)), table) == ["add", "cumulative_sum"]
    assert dropped(lambda x: np.sum(x + 1.0, dtype=np.float32), table) == ["add"]  # which casts


def test_a_value_that_is_used_later_stays() -> None:
    def f(x: Any) -> Any:
        y = x + 1.0  # no rule reads it for long
        total = 0.0
        for k in range(20):
            total = total + np.sum(k * y)
        return total + np.sum(y * y)
    x = np.linspace(0.1, 1.0, N)
    value, (_, dx) = tg.grad(f, x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(dx, 190.0 + 2.0 * (x + 1.0))


def with_views(x: Any) -> Any:
    y = x + 1.0
    half, table = y[: N // 2], y.reshape(2, -1)
    del y
    z = x - 1.0
    z *= 3.0  # may take the memory of what was dropped
    return np.sum(np.sin(half)) + np.sum(table[1] ** 2) + np.sum(z * z)


def with_writes(x: Any) -> Any:
    y = x + 1.0
    y[: N // 2] *= 2.0
    z = np.zeros(N)
    z[1:] = y[:-1]
    z += np.exp(y)
    y[0] = 5.0
    w = x * 2.0
    w[:] = w + 1.0
    row = w[3:]
    row -= 1.0
    return np.sum(z * y) + np.sum(np.cos(w))


def with_a_write_that_fails(x: Any) -> Any:
    y = x + 1.0
    with contextlib.suppress(ValueError):
        y[:3] = np.ones(4)
    z = x + 2.0
    return np.sum(y * z)


@pytest.mark.parametrize("f", [with_views, with_writes, with_a_write_that_fails])
def test_views_and_writes(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(0.1, 1.0, N)
    found, expected = both(monkeypatch, lambda: tg.grad(f, x))
    same(found, expected)
    monkeypatch.undo()
    same(tg.grad(f, x), expected)


def test_gradients_are_in_memory_of_their_own() -> None:
    x, seed = np.linspace(0.1, 1.0, N), np.ones(N)
    _, (_, da, db) = tg.grad(lambda a, b: np.sum(np.exp(a + b)), x, x + 1.0)
    assert not np.may_share_memory(da, db)
    np.testing.assert_array_equal(da, db)
    for f, args in ((lambda x: x + 1.0, (x,)), (lambda x: np.exp(x), (x,)), (lambda x: x * WEIGHTS, (x,)), (lambda x, y: x * y, (x, WEIGHTS))):
        value, (_, *dxs) = tg.grad(f, *args, seed=seed)
        for dx in dxs:
            assert dx.flags.writeable and dx.flags.owndata
            assert not any(np.may_share_memory(dx, other) for other in (x, seed, WEIGHTS, value))
    _, back = tg.pullback(lambda x: np.sum(x * x + np.sin(x)), x)
    first, second = back(1.0)[1], back(1.0)[1]
    assert not np.may_share_memory(first, second)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(tg.grad(lambda x: np.sum(x + x + x * 2.0 + x), x)[1][1], np.full(N, 5.0))


def test_gradients_of_gradients() -> None:
    x = np.linspace(0.1, 1.0, N)
    _, (_, dx) = tg.grad(lambda x: np.sum(tg.gradient(lambda x: np.sum(np.exp(x) * x + x), x)[0] ** 2), x)
    first = np.exp(x) * (1.0 + x) + 1.0
    np.testing.assert_allclose(dx, 2.0 * first * np.exp(x) * (2.0 + x), rtol=1e-12)


def test_a_rule_of_the_users() -> None:
    @tg.primitive
    def cube(x: Any) -> Any:
        return x ** 3

    @tg.rrule(cube)
    def _(x: Any) -> Any:
        return cube(x), lambda dy: (3.0 * x * x * dy,)
    x = np.linspace(0.1, 1.0, N)
    _, (_, dx) = tg.grad(lambda x: np.sum(cube(x + 1.0) + 1.0), x)
    np.testing.assert_allclose(dx, 3.0 * (x + 1.0) ** 2)


@pytest.mark.parametrize("f", [
    lambda x, y: np.sum(x / y), lambda x, y: np.sum(np.maximum(x, y)), lambda x, y: np.sum(np.where(x > 0.5, x, y) ** 2), lambda x, y: np.mean(x + y),
    lambda x, y: np.sum(np.abs(x)) + np.sum(np.deg2rad(y)), lambda x, y: np.sum(np.copysign(x, -y)), lambda x, y: np.sum(np.hypot(x, y))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cotangent_that_is_one_number_all_over(f: Callable[..., Any], dtype: Any) -> None:
    x, y = np.linspace(0.1, 1.0, N, dtype=dtype), np.linspace(1.0, 2.0, N, dtype=np.float32)
    for args in ((x, y), (x, y.astype(dtype))):
        found, expected = tg.grad(f, *args)[1], tg.gradtape(f, *args).result.val[1]
        for a, b in zip(found[1:], expected[1:]):
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


def test_how_much_memory_a_gradient_takes() -> None:
    problem = PROBLEMS["elementwise"].made(n=1 << 22)
    array = problem.args[0].nbytes
    assert peak(lambda: tg.grad(problem.objective, *problem.args))[0] < 6.1 * array
    x = np.ones(1 << 22)
    array = x.nbytes
    assert peak(lambda: tg.grad(lambda x: np.sum(((x + 1.0) * 2.0 - 3.0) + 4.0), x))[0] < 2.1 * array  # no rule needs anything
    table = np.ones((1 << 9, 1 << 9))  # 2 MiB

    def products(x: Any) -> Any:
        return sum(np.sum(x @ table) for _ in range(30))
    assert peak(lambda: tg.grad(products, table))[0] < 12 * table.nbytes  # the values of 30 products are not kept
