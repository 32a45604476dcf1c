"""Compiled tapes against fresh traces: memory that is used again, views of it, shapes that values decide, NumPy's promotion."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import ops
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.ops.loop import is_loop
from tapegrad.rules.user import op_of
from tapegrad.tape.tape import Tape
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import same
from tests.harness.table import STANDS_ASIDE


def agrees(f: Callable[..., Any], *points: Any, gradient: bool = True) -> None:
    """Check each way to replay a program, twice at each point, against a fresh trace, or that it is refused.

    What is returned is overwritten at once: it must lie in memory of its own.
    """
    tape = tg.trace(f, *points[0])[1]
    ways: list[tuple[Callable[..., Any], Callable[..., Any]]] = [(f, way) for way in (tg.compile(f), tg.compile(tape), tg.compile(tape, mode="numpy"), tg.optimise(tape).play)]
    if gradient:
        flat = tg.flatgrad(tape)

        def grad(*args: Any) -> Any:
            return tg.grad(f, *args)
        ways += [(grad, way) for way in (tg.value_and_grad(f, argnums=None), tg.compile(flat), tg.compile(flat, mode="numpy"), tg.optimise(flat).play)]
        with suppress(tg.ArgumentError):  # a write on a way that has no source
            ways.append((grad, exported(flat)))
    for _ in range(2):
        for args in points:
            given = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args]
            for reference, way in ways:
                expected = reference(*[x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args])
                try:
                    found = way(*given)
                except (tg.GuardError, ValueError) as err:
                    assert "recorded" in str(err) or "compiled for" in str(err)
                    continue
                same(found, expected)
                for leaf in leaves_of(found):
                    if isinstance(leaf, np.ndarray):
                        leaf[...] = 77
                for x, before in zip(given, args):
                    np.testing.assert_array_equal(x, before)


def exported(tape: Tape) -> Callable[..., Any]:
    names: dict[str, Any] = {"__name__": "exported"}
    exec(tape.to_python("exported"), names)
    return names["exported"]  # type: ignore[no-any-return]


A = np.array([[0.5, -1.0, 2.0], [1.5, 3.0, -0.25]])
W = np.arange(6.0)


def through_ravel(x: Any) -> Any:
    y = x.T * 1.0
    y.ravel()[1:] *= 1.5
    return np.sum(np.sin(y.T) * W.reshape(y.T.shape))


def argument_through_ravel(x: Any) -> Any:
    x.ravel()[1:] *= 1.5
    return np.sum(np.sin(x.T) * W.reshape(x.T.shape))


def stretched_and_written(x: Any) -> Any:
    v = np.zeros_like(x) + x[0]
    v.T[0] = 2.0
    return v.sum() * x[1].sum()


def filled_through_a_reshape(x: Any) -> Any:
    y = (x.T @ x) * 2.0
    for i in range(y.size // 2):
        y.reshape(-1)[2 * i] = y.reshape(-1)[i] * x[0, 0]
    return np.sum(np.cos(y) * y)


@pytest.mark.parametrize("x", [A, np.asfortranarray(A), A.T, A.reshape(3, 2)], ids=["C", "F", "T", "3x2"])
@pytest.mark.parametrize("f", [
    lambda x: x.max() + (np.einsum("ij->j", x) ** 2).sum(), through_ravel, argument_through_ravel, stretched_and_written, filled_through_a_reshape,
    lambda x: np.sum(np.flip(np.sin(x)).reshape(-1)[1:] * np.exp(x).ravel()[:-1])])
def test_memory_that_is_used_again(f: Any, x: Any) -> None:
    agrees(f, (x,), (x * 0.5 + 0.1,))


@pytest.mark.parametrize("f", [lambda x: 0.5 * np.imag(x * 2.0) + x, lambda x: np.zeros_like(x) + x[0], lambda x: np.broadcast_to(x[0], (4, *x.shape)) * 1.0, lambda x: x.sum() * np.ones(6000)])
def test_results_can_be_written_to(f: Any) -> None:
    agrees(f, (A,), (A * 2,), gradient=False)


def test_what_is_the_same_everywhere_can_be_written_to() -> None:
    agrees(lambda x: np.sum(stretched_and_written(x) * x), (W,), (W * 2,))
    agrees(lambda x: np.full(6, x[1]) * x[0] + stretched_and_written(x), (W,), (W * 2,), gradient=False)


@pytest.mark.parametrize("f", [lambda x: [x.T, x, x[1:]], lambda x: [y := x * 2.0, y.T, y[0], y.reshape(-1)]])
def test_results_lie_in_memory_of_their_own(f: Any) -> None:
    fast = tg.compile(f)
    for factor in (1.0, 2.0, 3.0):
        x = A * factor
        found = fast(x)
        for i, leaf in enumerate(found):
            np.testing.assert_array_equal(leaf, f(x)[i])
            leaf[...] = 77
        np.testing.assert_array_equal(x, A * factor)


def clips_numbers(x: Any) -> Any:
    return np.clip(x[0] * x[1], -0.5, 0.5) * x[2] ** 2 + np.clip(np.sin(x[2]), -0.3, 0.5) * x[0]


def of_batch(transform: Callable[[Any], Any]) -> Callable[[Any], Callable[[Any], Any]]:
    def transformed(f: Any) -> Callable[[Any], Any]:
        step = transform(f)
        return lambda x: step(np.stack([x, 0.7 * x, -x]))
    return transformed


def sparse(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    jac = tg.sparse_jacobian(lambda x: np.array([f(x), x[0] * f(x), x[2]]))
    return lambda x: jac(x).toarray()


@pytest.mark.parametrize("transform", [
    tg.hessian, lambda f: tg.jacobian(f, mode="forward"), lambda f: tg.value_and_grad(tg.forwarddiff(f), argnums=None),
    sparse, of_batch(lambda f: tg.value_and_grad(lambda xs: np.sum(tg.vmap(f)(xs) * 1.5), argnums=None)), of_batch(lambda f: tg.compile(tg.vmap(lambda x: tg.gradient(f, x)[0]))),
    of_batch(lambda f: tg.compile(tg.vmap(tg.hessian(f)))), of_batch(lambda f: tg.compile(tg.vmap(lambda x: tg.taylor(lambda t: f(x * t), 1.0, 3))))],
    ids=["hessian", "forward", "forwarddiff", "sparse", "grad of vmap", "vmap of grad", "vmap of hessian", "vmap of taylor"])
def test_a_batch_of_what_was_a_number(transform: Any) -> None:
    """`scalar` of a number is new, and of an array that array: twelve calls, with changing arguments."""
    fast, kept = transform(clips_numbers), []
    for x in np.random.default_rng(3).normal(size=(12, 3)):
        found = fast(x)
        same(found, transform(lambda x: clips_numbers(x))(x))
        kept.append((found, repr(found)))
    assert all(repr(found) == shown for found, shown in kept)


def test_a_batch_of_what_was_a_number_exported() -> None:
    xs = [np.stack([x, 0.7 * x, -x]) for x in np.random.default_rng(3).normal(size=(12, 3))]
    tape = tg.trace(tg.vmap(lambda x: tg.gradient(clips_numbers, x)[0]), xs[0])[1]
    run = exported(tape)
    for x in xs:
        same(run(x), tape.play(x))


MASKED = [np.array(row) for row in ([1.0, 2.0, -3.0, -0.5], [1.0, 2.0, 3.0, 0.5], [1.5, -1.0, -1.0, -1.0])]


def mean_in_a_loop(x: Any) -> Any:
    p, total = x[x > 0] * 2.0, x[0]
    for k in range(8):
        total = total * 0.5 + np.mean(p * total + k) * 0.01
    return total


@tg.primitive
def positive(x: Any) -> Any:
    return x[x > 0]


@tg.rrule(positive)
def _positive(x: Any) -> Any:
    def positive_pullback(dy: Any) -> tuple[Any]:
        dx = np.zeros_like(x)
        dx[x > 0] = dy
        return (dx,)
    return positive(x), positive_pullback


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", [
    lambda x: np.mean(np.sin(x[x > 0]) * 2), lambda x: np.std(x[x > 0]), lambda x: np.var(np.unique(np.floor(x))) * x[0],
    lambda x: np.mean(np.nonzero(x > 0)[0]) * x[0], mean_in_a_loop, lambda x: np.sum(x[x > 0].reshape(-1, 1) * np.ones(2)),
    lambda x: np.add(x, W[:4], where=x > 0, out=np.zeros(4)).sum(), lambda x: np.sum(np.sin(np.delete(x, np.flatnonzero(x < 0))))])
def test_shapes_that_values_decide(f: Any) -> None:
    for first in range(3):
        agrees(f, *[(x,) for x in MASKED[first:] + MASKED[:first]])


def test_shapes_that_values_decide_in_a_loop() -> None:
    for first in MASKED:
        tape = tg.roll(tg.trace(mean_in_a_loop, first)[1])
        fast, step = tg.compile(tape), tg.compile(tg.flatgrad(tape))
        assert "loop" in str(tape)
        for x in MASKED * 2:
            for way, expected in ((fast, mean_in_a_loop(x)), (step, tg.grad(mean_in_a_loop, x))):
                with suppress(tg.GuardError):
                    same(way(x), expected)


def test_shapes_that_a_function_of_the_users_decides() -> None:
    for first in range(3):
        step, tape = tg.value_and_grad(lambda x: np.mean(positive(x)) * x[0], argnums=None), tg.gradtape(lambda x: np.mean(positive(x)) * x[0], MASKED[first])
        for x in MASKED * 2:
            expected = tg.grad(lambda x: np.mean(positive(x)) * x[0], x)
            same(step(x), expected)
            try:
                same(tape.play(x), expected)
            except tg.GuardError:
                assert (x > 0).sum() != (MASKED[first] > 0).sum()


@pytest.mark.quick
def test_an_empty_array_of_places() -> None:
    same(tg.grad(lambda x: np.sum(np.delete(x, np.flatnonzero(x > 0)) ** 2), -W)[1][1], -2 * W)


DTYPES = [np.float16, np.float32, np.float64, np.complex64, np.int8, np.bool_]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("text", [
    "a * b[0]", "a[0] * b[0]", "(a[0] * 1.5 + 1) * b", "np.full(2, a[0] * 2) * b", "np.clip(a.real, b[0] * 0, b[1] * 2)", "np.arctan2(a[0], b[0]) * b",
    "(a[0] < b[0]) + (a[1] < b[1])", "~(a[0] == b[0])", "a[0] * a[1] > b[0]", "np.exp(a[0]) * b", "a ** 2 * b[0]", "a[0] ** b[0]", "a[0] % b[1]",
    "np.sum(a) * b[0]", "tg.stop_gradient(a[0]) * b", "np.where(b > 1, b, a[0])", "[a[0] * b[1], 0.1 * a[0] < b[0]]", "a[0] * 1e200 * 1e200 + b"])
def test_promotion_is_numpys(text: str) -> None:
    f = eval(f"lambda a, b: {text}", {"np": np, "tg": tg})
    for left in DTYPES:
        for right in DTYPES:
            a, b = np.array([1.25, 2.5]).astype(left), np.array([3.5, 1.25]).astype(right)
            try:
                expected = f(a, b)
            except TypeError:
                continue
            tape = tg.trace(f, a, b)[1]
            for way in (tg.compile(tape), tg.optimise(tape).play):
                found = way(a, b)
                assert [type(x) for x in leaves_of(found)] == [type(x) for x in leaves_of(expected)], (left, right)
                for x, y in zip(leaves_of(found), leaves_of(expected)):
                    assert np.asarray(x).dtype == np.asarray(y).dtype, (left, right)
                    np.testing.assert_allclose(x, y, {2: 4e-3, 4: 1e-6}.get(np.asarray(x).real.itemsize, 1e-13))


KEPT: list[Any] = []


@tg.primitive
def kept(xs: Any) -> Any:
    KEPT.extend(xs)
    return xs[0] * xs[1], xs[0]


def test_what_a_function_of_the_users_keeps_or_returns_is_not_written_to() -> None:
    def f(x: Any) -> Any:
        product, first = kept([np.sin(x), np.cos(x)])
        y = np.exp(product) * np.tan(first)
        product[0] = 5.0
        return y.sum() + product.sum()
    x = np.array([0.1, 0.2, 0.3])
    fast = tg.compile(tg.trace(f, x)[1])
    KEPT.clear()
    assert fast(x) == pytest.approx(f(x), 1e-12) and fast(x) == pytest.approx(f(x), 1e-12)
    for given, fn in zip(KEPT, (np.sin, np.cos) * 4):
        np.testing.assert_array_equal(given, fn(x))


def adds_to_it(x: Any) -> Any:
    try:
        x += 1.0
    except ValueError:
        return np.sum(x * 3.0)
    return np.sum(x * x)


def sorts_it(x: Any) -> Any:
    x.sort()
    return np.sum(x * np.arange(3.0))


def test_a_replay_writes_to_no_argument_that_is_read_only() -> None:
    free, locked = np.array([2.0, 1.0, 3.0]), np.array([2.0, 1.0, 3.0])
    locked.flags.writeable = False
    for points in ((free, locked), (locked, free)):
        step = tg.value_and_grad(adds_to_it, argnums=None)
        for x in (*points, *points, *points):
            same(step(x), tg.grad(adds_to_it, x))
        assert step.stats.traces == 2 or step.stats.guards[STANDS_ASIDE]
    step, tape = tg.value_and_grad(sorts_it, argnums=None), tg.trace(sorts_it, free)[1]
    for _ in range(2):
        same(step(free), tg.grad(sorts_it, free))
        with pytest.raises(ValueError, match="read-only"):
            step(locked)
    for way in (tape.play, tg.compile(tape), tg.optimise(tape).play):
        with pytest.raises(tg.GuardError, match="writeable"):
            way(locked)


@pytest.mark.parametrize("options", [{}, {"passes": ()}, {"backend": "torch"}])
def test_nests_in_results_hold_memory_of_their_own(options: Any) -> None:
    """A value that is a dict, and the gradients that the gradient of a gradient tape returns."""
    x = np.array([1.0, 2.0, 3.0])

    def nested(x: Any) -> Any:
        return {"one": np.ones(3), "x": x, "parts": (x[1:], x[1:]), "sin": np.sin(x)}
    second = tg.flatgrad(tg.flatgrad(tg.trace(lambda x: x.sum(), x)[1]), seed=(1.0, (None, x)))
    tapes = [second, tg.flatgrad(tg.trace(nested, x)[1], seed={"one": x, "x": x, "parts": (x[1:], x[1:]), "sin": x})]
    for tape in tapes:
        run = tg.compile(tape, **options)
        given, expected = x.copy(), repr(run(x.copy()))
        for _ in range(3):
            found = run(given)
            assert repr(found) == expected
            leaves = [leaf for leaf in leaves_of(found) if np.ndim(leaf)]
            for leaf in leaves:
                leaf[:] += 100.0
            np.testing.assert_array_equal(given, x)
    names: dict[str, Any] = {}
    exec(second.to_python(), names)
    assert repr(names["function"](x)) == repr(second.play(x))


def test_what_a_function_of_the_users_keeps_is_not_written_to() -> None:
    """In the body of a loop, where a carried array is written in place as long as nobody keeps it."""
    kept: list[Any] = []

    @tg.primitive
    def keeps(x: Any) -> Any:
        kept.append(x)
        return np.sum(x)

    def halved(x: Any) -> Any:
        z, total = x * 1.0, 0.0
        for _ in range(40):
            z[0] = z[0] * 0.5 + 1.0
            total = total + np.sum(z)
        return total
    x = np.arange(1.0, 5.0)
    tape = tg.roll(tg.trace(halved, x)[1], saved=0)
    (loop,) = filter(is_loop, tape.ops)
    for op in loop.fn.body.ops:
        if op.fn is ops.sum:
            op.fn = op_of(keeps)
    assert compile_tape(tape)(x) == halved(x)
    assert [part[0] for part in kept[:3]] == [1.75, 1.875, 1.9375] and x[0] == 1.0
