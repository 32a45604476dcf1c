"""hook and nestlevel: what the reverse sweep calls, and how deep it stands."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg

X = np.array([1.0, -2.0, 3.0])
LIMIT = 1.0
SEEN: list[float] = []
LEVELS: list[int] = []


def clipped(x: Any) -> Any:
    return np.sum(tg.hook(lambda dx: np.clip(dx, -1, 1), x) ** 2 * 3) + x.sum()


def limited(x: Any) -> Any:
    return (tg.hook(lambda dx: np.clip(dx, -LIMIT, LIMIT), x) ** 2).sum()


def scaled_to_one(x: Any) -> Any:
    return np.sum(tg.hook(lambda dx: dx / np.sqrt(np.sum(dx * dx)), x) ** 2)


@pytest.mark.quick
def test_a_hook_changes_the_cotangent_on_every_way() -> None:
    expected = np.clip(6 * X, -1, 1) + 1
    assert tg.gradient(lambda x: tg.hook(lambda dx: -dx, x) * x, 3.0) == (0.0,)
    value, tape = tg.trace(clipped, X)
    assert "hook(%2, fn=<lambda>)" in str(tape)
    for found in (tg.gradient(clipped, X)[0], tg.pullback(clipped, X)[1](1.0)[1], tg.gradtape(clipped, X).play(X)[1][1], tg.gradtape(tape).play(X)[1][1],
                  tg.flatgrad(tape).play(X)[1][1], tg.primitivize(tg.gradtape(clipped, X)).play(X)[1][1],
                  tg.jacobian(clipped)(X), tg.gradtape(tg.optimise(tape)).play(X)[1][1]):
        np.testing.assert_array_equal(found, expected)
    assert value == clipped(X)
    assert tg.hook(print, X) is not X
    np.testing.assert_array_equal(tg.vmap(tg.hook, in_axes=(None, 0))(np.negative, X), X)


def test_two_hooks_are_two_calls() -> None:
    def f(x: Any) -> Any:
        clip = lambda dx: np.clip(dx, -1, 1)  # noqa: E731
        return 3 * tg.hook(clip, x) + 4 * tg.hook(clip, x)
    for found in (tg.gradient(f, 1.0), tg.gradtape(tg.optimise(tg.trace(f, 1.0)[1])).play(1.0)[1][1:], tg.value_and_grad(f, argnums=None, warmup=0)(1.0)[1][1:]):
        assert found == (2.0,)


def test_compiled_calls_do_what_grad_does() -> None:
    step = tg.value_and_grad(clipped, argnums=None, warmup=1)
    for k in range(4):
        value, (_, dx) = step(X * (k + 0.1))
        assert value == pytest.approx(clipped(X * (k + 0.1)), rel=1e-14)
        np.testing.assert_array_equal(dx, tg.gradient(clipped, X * (k + 0.1))[0])
    assert step.stats.hits == 3  # type: ignore[attr-defined]


def test_what_a_hook_reads_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    step = tg.value_and_grad(limited, argnums=None, warmup=1)
    for limit in (1.0, 1.0, 1.0, 0.5, 0.5, 2.0):
        monkeypatch.setitem(globals(), "LIMIT", limit)
        np.testing.assert_array_equal(step(X)[1][1], np.clip(2 * X, -limit, limit))
    assert step.stats.traces == 3  # type: ignore[attr-defined]


class Scale:
    factor = 2.0

    def __call__(self, dx: Any) -> Any:
        return dx * self.factor


def test_hooks_that_do_what_no_replay_does_are_not_compiled() -> None:
    rng, scale = np.random.default_rng(0), Scale()
    noisy: Any = tg.value_and_grad(lambda x: (tg.hook(lambda dx: dx + rng.normal(size=3), x) ** 2).sum(), argnums=None, warmup=1)
    with pytest.warns(tg.RetraceWarning, match="a hook calls"):
        found = [noisy(X)[1][1] for _ in range(4)]
    again = np.random.default_rng(0)
    np.testing.assert_array_equal(found, [2 * X + again.normal(size=3) for _ in range(4)])
    scaled: Any = tg.value_and_grad(lambda x: (tg.hook(scale, x) ** 2).sum(), argnums=None, warmup=1)
    heard: Any = tg.value_and_grad(lambda x: (tg.hook(lambda dx: SEEN.append(float(dx[0])), x) ** 2).sum(), argnums=None, warmup=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tg.RetraceWarning)
        for k in range(4):
            scale.factor = float(k)
            np.testing.assert_array_equal(scaled(X)[1][1], 2 * k * X)
            heard(X * k)
    assert SEEN == [0.0, 2.0, 4.0, 6.0]


def test_a_hook_may_capture_what_is_traced() -> None:
    limit = 0.5

    def f(x: Any, scale: Any) -> Any:
        return (tg.hook(lambda dx: scale * np.clip(dx, -limit, limit), x) ** 2).sum() * scale
    expected = 2.0 * np.clip(4 * X, -limit, limit)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for found in (tg.grad(f, X, 2.0), tg.gradtape(f, X, 2.0).play(X, 2.0), tg.flatgrad(tg.trace(f, X, 2.0)[1]).play(X, 2.0),
                  *[step(X, 2.0) for _ in range(3)]):
        np.testing.assert_array_equal(found[1][1], expected)
        assert found[1][2] == 14.0
    np.testing.assert_array_equal(tg.vmap(lambda x, scale: tg.gradient(f, x, scale)[0], in_axes=(None, 0))(X, np.array([2.0, 2.0])), [expected] * 2)
    assert tg.gradient(lambda scale: tg.gradient(f, X, scale)[0].sum(), 2.0) == (0.5,)
    t = torch.tensor(X)
    torch.testing.assert_close(tg.gradient(lambda x, s: (tg.hook(lambda dx: dx.clamp(-limit, limit) * s, x) ** 2).sum(), t, torch.tensor(2.0))[0],
                               2 * (2 * t).clamp(-limit, limit))


def test_in_a_batch_each_member_has_its_own() -> None:
    rows = np.arange(6.0).reshape(2, 3) + 1
    expected = [tg.gradient(scaled_to_one, row)[0] for row in rows]
    np.testing.assert_allclose(tg.vmap(lambda x: tg.gradient(scaled_to_one, x)[0])(rows), expected, 1e-15)
    np.testing.assert_allclose(tg.gradient(lambda rows: tg.vmap(scaled_to_one)(rows).sum(), rows)[0], expected, 1e-15)


def test_the_innermost_sweep_calls_it() -> None:
    def cube(x: Any) -> Any:
        return np.sum(tg.hook(lambda dx: 2 * dx, x) ** 3)
    np.testing.assert_allclose(tg.hessian(cube)(X), np.diag(12 * X))
    np.testing.assert_allclose(tg.hvp(cube)(X, np.ones(3)), 12 * X)
    np.testing.assert_allclose(tg.gradient(lambda x: tg.gradient(cube, x)[0].sum(), X)[0], 12 * X)
    with pytest.raises(tg.ArgumentError, match="forward mode has none"):
        tg.jvp(cube, (X,), (X,))
    with pytest.raises(tg.ArgumentError, match="test_hook"):
        tg.forwardtape(cube, X)


def test_torch() -> None:
    t = torch.tensor(X)

    def f(x: Any) -> Any:
        return (tg.hook(lambda dx: dx.clip(-1, 1), x) ** 2).sum()
    leaf = t.clone().requires_grad_()
    leaf.register_hook(lambda dx: dx.clamp(-1, 1))
    (leaf ** 2).sum().backward()
    torch.testing.assert_close(tg.gradient(f, t)[0], leaf.grad)
    step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for _ in range(3):
        torch.testing.assert_close(step(t)[1][1], leaf.grad)
    torch.testing.assert_close(tg.gradtape(clipped, X).play(t)[1][1], torch.tensor(tg.gradient(clipped, X)[0]))


def test_the_result_is_in_memory_of_its_own() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        z = tg.hook(lambda dx: 10 * dx, y)
        y[0] = 5.0
        return z.sum() + y.sum()
    np.testing.assert_array_equal(tg.gradient(f, X)[0], [20.0, 22.0, 22.0])
    assert f(X) == tg.grad(f, X)[0] == tg.trace(f, X)[1].play(X)


def test_none_leaves_a_cotangent_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    np.testing.assert_array_equal(tg.gradient(lambda x: (tg.hook(print, x) ** 2).sum(), X)[0], 2 * X)
    assert capsys.readouterr().out == "[ 2. -4.  6.]\n"
    assert tg.gradient(lambda z: (tg.hook(lambda dz: dz * 1j, z) * 2).real, 1 + 1j) == (2j,)


@pytest.mark.parametrize(("fn", "error", "message"), [
    (lambda dx: "a", tg.ArgumentError, "returned 'a'"), (lambda dx: dx[:2], tg.ArgumentError, r"shape \(2,\)"),
    (lambda dx: dx.fill(0), tg.MutationError, "writes to its argument")])
def test_what_a_hook_may_not_do(fn: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        tg.gradient(lambda x: (tg.hook(fn, x) ** 2).sum(), X)


def test_a_hook_takes_a_function_and_an_array() -> None:
    for args in ((X, print), (print, [1.0, 2.0]), (print, "a")):
        with pytest.raises(tg.ArgumentError, match="use one hook for each"):
            tg.gradient(lambda x, args=args: tg.hook(*args), X)


def test_nestlevel_is_the_order_of_differentiation() -> None:
    LEVELS.clear()

    def f(x: Any) -> Any:
        LEVELS.append(tg.nestlevel())
        return x ** 3
    tg.gradient(lambda x: tg.gradient(lambda y: tg.gradient(f, y)[0], x)[0] + f(x), 2.0)
    tg.jvp(f, (2.0,), (1.0,))
    tg.vmap(f)(X)
    tg.gradient(lambda x: tg.vmap(f)(x).sum(), X)
    f(2.0)
    assert LEVELS == [3, 1, 1, 0, 0, 0, 1, 1, 1, 0]  # a batch writes once for each member


def by_level(x: Any) -> Any:
    return x ** 3 * tg.nestlevel()


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_asks_for_the_level_holds_for_that_level(backend: str) -> None:
    step = tg.value_and_grad(by_level, argnums=None, warmup=1, backend=backend)
    for x in (2.0, 3.0, 4.0):
        value, (_, dx) = step(x)
        assert float(value) == x ** 3 and float(dx) == 3 * x ** 2
    if backend == "numpy":
        assert tg.gradient(lambda y: y * step(2.0)[0], 1.0) == tg.gradient(lambda y: y * tg.grad(by_level, 2.0)[0], 1.0) == (16.0,)
    tape = tg.trace(by_level, 2.0)[1]
    assert tape.play(3.0) == 0.0
    with pytest.raises(tg.GuardError, match="nestlevel"):
        tg.gradient(lambda x: tape.play(3.0) * x, 1.0)
    text = tg.gradtape(by_level, 2.0).to_python()  # the program's lines are comments of it
    assert not [line for line in text.splitlines() if "nestlevel" in line and not line.strip().startswith("#")]


def test_a_hook_that_writes_to_what_was_captured_is_refused() -> None:
    seen: list[Any] = []
    numbers, count = [2.0], 0.0

    def counting(dy: Any) -> None:
        nonlocal count
        count += 1.0
    for fn in (lambda dy: seen.append(dy), seen.append, numbers.append, lambda dy: numbers.__setitem__(0, dy), counting):
        with pytest.raises(tg.MutationError, match=r"writes to an object that the program captured[\s\S]*a global list"):
            tg.grad(lambda x: tg.hook(fn, x * x) * numbers[0] + len(seen) + count, 2.0)  # noqa: B023
    assert (seen, numbers, count) == ([], [2.0], 0.0)
