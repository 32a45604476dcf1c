"""What has no rule for a batch: one loop over the members, against a Python loop, by all transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import expm, solve_sylvester

import tapegrad as tg
from tapegrad.errors import GuardError, MissingRule
from tapegrad.ops.each import Each
from tests.harness.run import exported

RNG = np.random.default_rng(0)
SQUARES = RNG.normal(size=(3, 2, 2)) / 2
ROWS = RNG.normal(size=(3, 5))
TALL = RNG.normal(size=(3, 4, 2))
KERNEL = RNG.normal(size=2)


@tg.primitive
def swell(x: Any, a: Any) -> Any:
    return np.exp(a * x) * x


@tg.rrule(swell)
def _(x: Any, a: Any) -> Any:
    grown = np.exp(a * x)
    return grown * x, lambda dy: (dy * grown * (1 + a * x), (dy * grown * x * x).sum())


@tg.primitive
def halves(x: Any) -> Any:
    return np.sin(x), x * x


@tg.rrule(halves)
def _(x: Any) -> Any:
    return halves(x), lambda dy: (dy[0] * np.cos(x) + 2 * dy[1] * x,)


@tg.primitive
def number(x: Any) -> Any:
    return float(tg.value(x)[0]) * x.sum()


@tg.rrule(number)
def _(x: Any) -> Any:
    def number_pullback(dy: Any) -> Any:
        dx = np.full(np.shape(x), float(x[0]))
        dx[0] += float(np.sum(x))
        return (float(dy) * dx,)
    return number(x), number_pullback


def parts(x: Any) -> Any:
    a, b = halves(x)
    return a * b


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "expm": (expm, SQUARES),
    "one of two": (lambda x: np.convolve(x, KERNEL), ROWS),
    "twice": (lambda x: np.convolve(x, x[:2]), ROWS),
    "several": (lambda a: np.linalg.lstsq(a, ROWS[0, :4])[0], TALL),
    "sylvester": (lambda a: solve_sylvester(a + 3 * np.eye(2), np.eye(2), a * a), SQUARES),
    "user": (lambda x: swell(x, 0.5), ROWS),
    "of user": (lambda x: swell(np.sin(x), x[0]), ROWS),
    "tuple": (parts, ROWS),
    "number": (lambda x: swell(x[0], 0.5), ROWS),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], Any]:
    return CASES[request.param]


def close(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol, 1e-11)


def each(f: Callable[..., Any], x: Any) -> Any:
    """Return what a Python loop gives."""
    return np.stack([f(one) for one in x])


@pytest.mark.quick
def test_a_tape_is_as_short_as_one_members(case: Any, capsys: pytest.CaptureFixture[str]) -> None:
    f, x = case
    tape = tg.batchtape(f, x)
    assert any(isinstance(op.fn, Each) for op in tape)
    assert len(tape) == len(tg.batchtape(f, np.concatenate([x, x, x])))
    for y in (x, x[::-1], x[:2] * 0.5):
        close(tape.play(y), each(f, y))
    name = next(op.fn.op.__name__ for op in tape if isinstance(op.fn, Each))
    tape.show("summary", width=200)
    tape.show(width=200)
    text = capsys.readouterr().out
    assert f"for each member of a batch alone: {name}" in text
    assert "loop over the members" in text


def test_gradients_tangents_and_those_of_these(case: Any) -> None:
    f, x = case
    w = np.cos(np.arange(each(f, x).size)).reshape(each(f, x).shape)

    def loss(x: Any) -> Any:
        return (tg.vmap(f)(x) * w).sum()

    def plain(x: Any) -> Any:
        return sum((f(x[k]) * w[k]).sum() for k in range(len(x)))

    expected = tg.gradient(plain, x)[0]
    close(tg.gradient(loss, x)[0], expected)
    tape = tg.trace(loss, x)[1]
    flat = tg.flatgrad(tape)
    close(flat.play(x * 0.9)[1][1], tg.gradient(plain, x * 0.9)[0])
    close(tg.gradtape(loss, x).play(x * 0.9)[1][1], tg.gradient(plain, x * 0.9)[0])
    close(tg.primitivize(flat).play(x * 0.9)[1][1], tg.gradient(plain, x * 0.9)[0])
    assert not any(isinstance(op.fn, Each) for op in tg.primitivize(flat))
    v = np.sin(np.arange(x.size)).reshape(x.shape)
    close(tg.jvp(loss, (x,), (v,))[1], (expected * v).sum())
    close(tg.forwardtape(loss, x).play(x, v)[1], (expected * v).sum())
    close(tg.hvp(loss)(x, v), tg.hvp(plain)(x, v), 1e-7)
    close(tg.hessian(loss)(x), tg.hessian(plain)(x), 1e-7)
    close(tg.taylor(loss, x, 2, v)[2], tg.taylor(plain, x, 2, v)[2], 1e-7)
    sparse = tg.sparse_jacobian(tg.vmap(f))(x)
    close(sparse.toarray(), tg.jacobian(tg.vmap(f))(x).reshape(sparse.shape))
    assert sparse.nnz <= sparse.shape[0] * sparse.shape[1] / len(x)


def test_nested_batches_are_one_loop(case: Any) -> None:
    f, x = case
    grid = np.stack([x, x * 0.5])
    tape = tg.batchtape(tg.vmap(f), grid)
    assert sum(isinstance(op.fn, Each) for op in tape) == sum(isinstance(op.fn, Each) for op in tg.batchtape(f, x))
    close(tape.play(grid), [each(f, one) for one in grid])
    per_example = tg.vmap(lambda x: tg.gradient(lambda x: tg.vmap(f)(x).sum(), x)[0])
    close(per_example(grid), [tg.gradient(lambda x: sum(f(row).sum() for row in x), one)[0] for one in grid])


def test_compiled_exported_and_saved(case: Any, tmp_path: Path) -> None:
    f, x = case

    def loss(x: Any) -> Any:
        return (tg.vmap(f)(x) ** 2).sum()

    expected = tg.grad(lambda x: sum((f(row) ** 2).sum() for row in x), x, argnums=0)
    fast = tg.value_and_grad(loss, argnums=0, warmup=1)
    for _ in range(4):
        for found, wanted in zip(fast(x * 1.0), expected):
            close(found, wanted)
    flat = tg.flatgrad(tg.trace(loss, x)[1])
    close(tg.compile(flat)(x)[1][1], expected[1])
    of_tensors = tg.compile(flat, backend="torch")(torch.tensor(x))
    close(of_tensors[1][1], expected[1])
    close(flat.play(torch.tensor(x))[1][1], expected[1])
    path = tmp_path / "tape"
    tape = tg.batchtape(f, x)
    tape.save(path)
    close(tg.load(path, primitives=[swell, halves]).play(x), each(f, x))


def test_exported() -> None:
    for name in ("one of two", "twice", "several"):
        f, x = CASES[name]
        close(exported(tg.batchtape(f, x))(x), each(f, x))


def test_no_members_and_one(case: Any) -> None:
    f, x = case
    made = tg.vmap(f)(x[:0])
    assert made.shape == (0, *f(x[0]).shape)
    assert tg.batchtape(f, x[:0]).play(x[:0]).shape == made.shape
    assert tg.batchtape(f, x).play(x[:0]).shape == made.shape
    assert tg.gradient(lambda x: tg.vmap(f)(x).sum(), x[:0])[0].shape == x[:0].shape
    close(tg.gradient(lambda x: tg.vmap(f)(x).sum(), x[:1])[0][0], tg.gradient(lambda x: f(x).sum(), x[0])[0])
    flat = tg.flatgrad(tg.trace(lambda x: tg.vmap(f)(x).sum(), x[:0])[1])
    assert flat.play(x[:0])[1][1].shape == x[:0].shape


def test_what_members_share_gets_the_sum() -> None:
    def loss(x: Any, a: Any, k: Any) -> Any:
        return tg.vmap(lambda x: (np.convolve(x, k) * swell(x[0], a)).sum())(x).sum()

    def plain(x: Any, a: Any, k: Any) -> Any:
        return sum((np.convolve(row, k) * swell(row[0], a)).sum() for row in x)

    for one, other in zip(tg.gradient(loss, ROWS, 0.5, KERNEL), tg.gradient(plain, ROWS, 0.5, KERNEL)):
        close(one, other)
    flat = tg.flatgrad(tg.trace(loss, ROWS, 0.5, KERNEL)[1])
    assert len(flat) == len(tg.flatgrad(tg.trace(loss, np.tile(ROWS, (4, 1)), 0.5, KERNEL)[1]))
    for one, other in zip(flat.play(ROWS, 0.7, KERNEL)[1][1:], tg.gradient(plain, ROWS, 0.7, KERNEL)):
        close(one, other)
    outer = tg.vmap(lambda a: tg.gradient(loss, ROWS, a, KERNEL)[1])(np.array([0.5, 0.7]))
    close(outer, [tg.gradient(plain, ROWS, a, KERNEL)[1] for a in (0.5, 0.7)])
    close(tg.hessian(lambda a: loss(ROWS, a, KERNEL))(0.5), tg.hessian(lambda a: plain(ROWS, a, KERNEL))(0.5))


def test_other_dtypes_and_tensors() -> None:
    x = ROWS.astype(np.float32)
    found = tg.gradient(lambda x: tg.vmap(lambda x: np.convolve(x, x[:2]))(x).sum(), x)[0]
    assert found.dtype == np.float32
    expected = tg.gradient(lambda x: sum(np.convolve(r, r[:2]).sum() for r in x), ROWS)[0]
    np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
    z = ROWS + 1j * ROWS[::-1]
    close(tg.gradient(lambda z: np.abs(tg.vmap(lambda z: np.convolve(z, z[:2]))(z)).sum(), z)[0],
          tg.gradient(lambda z: sum(np.abs(np.convolve(r, r[:2])).sum() for r in z), z)[0])
    t = torch.tensor(SQUARES)
    dt = tg.gradient(lambda x: tg.vmap(lambda a: torch.linalg.matrix_exp(a))(x).sum(), t)[0]
    close(dt, tg.gradient(lambda x: sum(expm(a).sum() for a in x), SQUARES)[0])


def test_a_rule_that_calls_c() -> None:
    expected = np.stack([tg.gradient(number, row)[0] for row in ROWS])
    close(tg.gradient(lambda x: tg.vmap(number)(x).sum(), ROWS)[0], expected)
    flat = tg.flatgrad(tg.trace(lambda x: tg.vmap(number)(x).sum(), ROWS)[1])
    close(flat.play(ROWS)[1][1], expected)
    close(tg.compile(flat)(ROWS)[1][1], expected)
    with pytest.raises((MissingRule, tg.TapeError)):
        tg.hessian(lambda x: tg.vmap(number)(x).sum())(ROWS)


def test_members_unlike_the_first() -> None:
    def shorter(x: Any) -> Any:
        return np.unique(x).sum()

    x = np.array([[1.0, 2.0, 3.0], [1.0, 1.0, 3.0], [4.0, 5.0, 6.0]])
    close(tg.vmap(shorter)(x), [6.0, 4.0, 15.0])
    close(tg.gradient(lambda x: tg.vmap(shorter)(x).sum(), x)[0], [tg.gradient(shorter, row)[0] for row in x])
    tape = tg.batchtape(lambda x: np.unique(x) * 2, x[[0, 2]])
    with pytest.raises(GuardError):
        tape.play(x[:2])


def test_a_tape_of_one_member() -> None:
    def orbit(x: Any) -> Any:
        for k in range(50):
            x = x + 0.01 * k * np.sin(x)
        return x

    rolled = tg.roll(tg.trace(orbit, ROWS[0])[1], saved=0)
    batched = tg.batchtape(rolled, ROWS)
    assert batched.name == "orbit"
    again = tg.roll(batched, saved=0)
    assert len(again) == len(rolled)
    close(again.play(ROWS * 0.5), each(orbit, ROWS * 0.5))
    summed = tg.batchtape(tg.trace(lambda x: orbit(x).sum(), ROWS[0])[1], ROWS)
    close(tg.flatgrad(tg.roll(summed, saved=0), np.ones(3)).play(ROWS)[1][1],
          each(lambda x: tg.gradient(lambda x: orbit(x).sum(), x)[0], ROWS))


@tg.primitive
def named(x: Any) -> Any:
    return {"twice": x * 2, "sum": x.sum()}


@tg.rrule(named)
def _(x: Any) -> Any:
    return named(x), lambda dy: (2 * dy["twice"] + dy["sum"],)


def test_a_dict_is_no_batch_of_dicts() -> None:
    def one(x: Any) -> Any:
        found = named(x)
        return found["twice"] * found["sum"]

    def loss(x: Any) -> Any:
        return (tg.vmap(one)(x) ** 2).sum()

    def plain(x: Any) -> Any:
        return sum((one(row) ** 2).sum() for row in x)
    close(tg.jvp(loss, (ROWS,), (ROWS,)), tg.jvp(plain, (ROWS,), (ROWS,)))
    close(tg.gradient(loss, ROWS)[0], tg.gradient(plain, ROWS)[0])
