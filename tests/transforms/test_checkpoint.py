"""checkpoint: the same values and gradients as without, in less memory, on every way that a tape can go."""

from __future__ import annotations

import copy
import math
import re
import threading
import warnings
import weakref
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import tapegrad as tg
from tapegrad.tree.flatten import leaves_of
from tests.harness.run import peak

X = np.array([0.3, 0.5, -1.0])
W = np.arange(9.0).reshape(3, 3) / 9
RNG = np.random.default_rng(0)
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def plainly(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def assert_same(found: Any, expected: Any) -> None:
    a, b = leaves_of(found), leaves_of(expected)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        assert type(x) is type(y)
        np.testing.assert_allclose(x, y, 1e-12, 1e-14)


class Layer:
    def __init__(self) -> None:
        self.w, self.b = W.copy(), np.ones(3)

    def __call__(self, x: Any) -> Any:
        return np.tanh(self.w @ x + self.b)

    def apply(self, x: Any) -> Any:
        return self(x) * self.b


def layers(wrap: Wrap) -> Any:
    layer = wrap(lambda x: np.sin(np.sin(x)) * x)
    return lambda x: np.sum(layer(layer(x)))


def capturing(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        k = x[0] * 2
        return wrap(lambda y: np.tanh(W @ y) * k)(x).sum()
    return f


def writing(wrap: Wrap) -> Any:
    def f(x: Any) -> Any:
        y = x * 1.0

        def g(y: Any) -> Any:
            y[0] = y[1] * y[2]
            y *= 2
            return y.sum()
        return wrap(g)(y) * y[0] + y.sum()
    return f


def filling(wrap: Wrap) -> Any:
    def g(x: Any) -> Any:
        y = np.zeros(50)
        y[0] = x[0]
        for i in range(1, 50):
            y[i] = y[i - 1] * x[1] + x[2]
        return y
    return lambda x: wrap(g)(x).sum()


PROGRAMS: list[tuple[Callable[[Wrap], Any], tuple[Any, ...]]] = [
    (layers, (X,)), (capturing, (X,)), (writing, (X,)), (filling, (X,)),
    (lambda wrap: lambda x: wrap(lambda x, a: {"y": a * x, "z": (x.sum(), 2.0, "s")})(x, 3.0)["y"].sum(), (X,)),
    (lambda wrap: lambda x: wrap(lambda x, *, a: a * x * x)(x, a=2.0).sum(), (X,)),
    (lambda wrap: lambda layer, x: (wrap(layer)(x) * wrap(layer.apply)(x)).sum(), (Layer(), X)),
    (lambda wrap: lambda x: (wrap(lambda x: x * 2 if x[0] > 0 else -x)(x) ** 2).sum(), (X,)),
    (lambda wrap: lambda x: wrap(lambda x: wrap(np.sin)(x) * wrap(np.cos)(x))(x).sum(), (X,)),
    (lambda wrap: lambda a, b: wrap(lambda a, b: math.sin(a) * b ** 2 + math.exp(a))(a, b), (2.0, 3.0)),
    (lambda wrap: lambda x: wrap(lambda x: x)(x).sum() + (wrap(lambda x: x.T)(x[None])[0] ** 2).sum(), (X,)),
    (lambda wrap: lambda z: abs(wrap(lambda z: np.exp(z) * z)(z)), (1 + 2j,)),
    (lambda wrap: lambda x: wrap(lambda x: np.linalg.solve(W + np.eye(3), x) * x)(x).sum(), (X.astype(np.float32),)),
    (lambda wrap: lambda x: wrap(lambda x: x[x > 0] ** 2)(x).sum(), (X,)), (lambda wrap: lambda x: wrap(np.sum)(x ** 2), (np.zeros(0),)),
    (lambda wrap: lambda x: wrap(lambda x: np.linalg.svd(x.reshape(1, 3)))(x)[1].sum(), (X,)),
    (lambda wrap: lambda x: x.sum() * len(wrap(lambda: "abc")()), (X,)),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS)
def test_it_changes_nothing(program: Any, args: tuple[Any, ...]) -> None:
    f, g = program(tg.checkpoint), program(plainly)
    expected, tape = tg.grad(g, *args), tg.trace(f, *args)[1]
    assert f(*args) == g(*args)
    assert_same(tg.grad(f, *args), expected)
    assert_same(tg.gradtape(f, *args).play(*args), expected)
    assert_same(tg.flatgrad(tape).play(*args), expected)
    assert_same(tg.primitivize(tg.gradtape(f, *args)).play(*args), expected)
    assert_same(tg.flatgrad(tg.optimise(tape)).play(*args), expected)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for _ in range(3):
        assert_same(step(*args), expected)
    assert step.stats.hits >= 2  # type: ignore[attr-defined]


@pytest.mark.quick
def test_a_call_that_carries_a_subtape() -> None:
    tape = tg.trace(layers(tg.checkpoint), X)[1]
    assert str(tape).count("checkpoint(<lambda>)(") == 2 and "| %3 = sin(%2)" in str(tape)
    assert tape.check() is tape
    flat = tg.flatgrad(tape)
    calls = [op.fn.__name__ for op in flat if op.kind == "call"]
    assert calls.count("checkpoint(<lambda>)") == 2 and calls.count("sin") == 4  # computed again in the sweep, before its part of it
    source = flat.to_python().replace("test_checkpoint", "")
    assert len(re.findall(r"^ +(?:v\d+ = )?np\.sin\(", source, re.MULTILINE)) == 8 and "checkpoint" not in source


def test_derivatives_of_any_order() -> None:
    f, g = layers(tg.checkpoint), layers(plainly)
    np.testing.assert_allclose(tg.hessian(f)(X), tg.hessian(g)(X), 1e-12)
    np.testing.assert_allclose(tg.hvp(f)(X, X), tg.hvp(g)(X, X), 1e-12)
    twice = [tg.gradient(lambda x, h=h: tg.gradient(h, x)[0].sum(), X)[0] for h in (f, g)]
    np.testing.assert_allclose(*twice, 1e-12)
    assert_same(tg.jvp(f, (X,), (X,)), tg.jvp(g, (X,), (X,)))
    assert_same(tg.forwardtape(f, X).play(2 * X, X), tg.jvp(g, (2 * X,), (X,)))
    assert_same(tg.linearize(f, X)[1](X), tg.linearize(g, X)[1](X))
    np.testing.assert_allclose(tg.jacobian(tg.checkpoint(np.sin))(X), np.diag(np.cos(X)))
    assert tg.gradient(tg.checkpoint(lambda a: a * a * a), Fraction(1, 3)) == (Fraction(1, 3),)


def test_batches() -> None:
    rows = np.stack([X, 2 * X, -X])
    for program in (layers, capturing, PROGRAMS[7][0]):
        f, g = program(tg.checkpoint), program(plainly)
        np.testing.assert_allclose(tg.vmap(f)(rows), tg.vmap(g)(rows))
        np.testing.assert_allclose(tg.vmap(lambda x, f=f: tg.gradient(f, x)[0])(rows), [tg.gradient(g, x)[0] for x in rows])
        np.testing.assert_allclose(tg.gradient(lambda rows, f=f: tg.vmap(f)(rows).sum(), rows)[0], [tg.gradient(g, x)[0] for x in rows])


def test_branches_inside_are_guarded() -> None:
    f = PROGRAMS[7][0](tg.checkpoint)
    step = tg.value_and_grad(f, argnums=None, warmup=1)
    for sign in (1, 1, -1, -1, 1, -1, 1):
        np.testing.assert_array_equal(step(sign * X)[1][1], 8 * sign * X if sign > 0 else -2 * X)
    assert step.stats.traces == 2  # type: ignore[attr-defined]
    with pytest.raises(tg.GuardError, match="test_checkpoint"):
        tg.gradtape(f, X).play(-X)


def test_errors_inside_are_guarded() -> None:
    def inverse(x: Any) -> Any:
        try:
            return tg.checkpoint(lambda x: np.linalg.inv(x.reshape(1, 1)))(x[:1]).sum()
        except np.linalg.LinAlgError:
            return x.sum() * 2

    def strict(x: Any) -> Any:
        with np.errstate(all="raise"):
            try:
                return tg.checkpoint(lambda x: 1 / x)(x).sum()
            except FloatingPointError:
                return x.sum() * 5
    for f, slope in ((inverse, 2.0), (strict, 5.0)):
        step, good = tg.value_and_grad(f, argnums=None, warmup=1), tg.gradient(f, X)[0]
        for k in (1, 1, 1, 0, 0, 0, 1, 0, 1):
            np.testing.assert_array_equal(step(k * X)[1][1], good if k else np.full(3, slope))
        assert step.stats.traces == 2  # type: ignore[attr-defined]
        for k in (0, 1):
            with pytest.raises(tg.TapeError):
                tg.trace(f, k * X)[1].play((1 - k) * X)


def noisy(wrap: Wrap) -> Any:
    return lambda x, rng: (wrap(lambda x: x * rng.normal(size=3))(x) ** 2).sum()


def globally_noisy(wrap: Wrap) -> Any:
    return lambda x: (wrap(lambda x: x * RNG.normal(size=3) + np.random.normal())(x) ** 2).sum()


def test_random_numbers_are_drawn_once_and_repeated() -> None:
    found = []
    for wrap in (tg.checkpoint, plainly):
        f, rng = noisy(wrap), np.random.default_rng(1)
        step = tg.value_and_grad(f, argnums=None, warmup=1)
        tape, flat = tg.gradtape(f, X, rng), tg.flatgrad(tg.trace(f, X, rng)[1])
        found.append([*[tg.grad(f, X, rng)[1][1] for _ in range(2)], *[step(X, rng)[1][1] for _ in range(4)], tape.play(X, rng)[1][1],
                      tape.play(X, rng, redraw=False)[1][1], flat.play(X, rng)[1][1], tg.hvp(f)(X, X, rng), tg.hessian(f)(X, rng)[0],
                      tg.jvp(f, (X, rng), (X, None))[1] * X, rng.normal(size=3)])
    np.testing.assert_allclose(*found, 1e-12)


def test_generators_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for wrap in (tg.checkpoint, plainly):
        monkeypatch.setitem(globals(), "RNG", np.random.default_rng(1))
        np.random.seed(2)
        f = globally_noisy(wrap)
        step = tg.value_and_grad(f, argnums=None, warmup=1)
        found.append([*[step(X)[1][1] for _ in range(4)], tg.gradtape(f, X).play(X)[1][1], tg.gradient(f, X)[0],
                      tg.vmap(lambda x, f=f: tg.gradient(f, x)[0])(np.stack([X, X]))[1], RNG.normal(size=3)])
    np.testing.assert_allclose(*found, 1e-12)


def loss(wrap: Wrap) -> Any:
    return lambda net, x: (wrap(net)(x) ** 2).sum()


def by_torch(net: Any) -> Any:
    return lambda x: torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)


@pytest.mark.parametrize("wrap", [tg.checkpoint, by_torch])
def test_modules_and_dropout(wrap: Any) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 3)).double()
    x, found = torch.randn(4, 3, dtype=torch.float64), []
    for each in (wrap, plainly):
        f = loss(each)
        step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
        tape = tg.gradtape(f, net, x)
        torch.manual_seed(1)
        found.append([tg.grad(f, net, x)[1][1], *[step(net, x)[1][1] for _ in range(4)], tape.play(net, x)[1][1], {"state": torch.rand(3)}])
    for a, b in zip(*found):
        for name, dx in b.items():
            torch.testing.assert_close(a[name], dx)
    assert "checkpoint(Sequential)" in str(tg.trace(loss(wrap), net, x)[1])
    if wrap is tg.checkpoint:
        leaf = x.clone().requires_grad_()
        torch.manual_seed(1)
        torch.utils.checkpoint.checkpoint(net, leaf, use_reentrant=False).pow(2).sum().backward()
        torch.manual_seed(1)
        torch.testing.assert_close(tg.grad(loss(wrap), net, x)[1][2], leaf.grad)


def test_new_statistics_of_a_module_are_those_of_the_trace() -> None:
    net, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).double(), torch.randn(4, 3, dtype=torch.float64)
    same = copy.deepcopy(net)

    def f(wrap: Wrap) -> Any:
        def g(net: Any, x: Any) -> Any:
            y = (wrap(net)(x) ** 2).sum()
            return y, dict(net.named_buffers())
        return g
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        (a, found), gradient = tg.grad(f(tg.checkpoint), net, x, seed=(1.0, None))
        (b, expected), other = tg.grad(f(plainly), same, x, seed=(1.0, None))
    torch.testing.assert_close(a, b)
    for name, buffer in expected.items():
        torch.testing.assert_close(found[name], buffer)
    torch.testing.assert_close(net.state_dict(), same.state_dict())
    torch.testing.assert_close(gradient[2], other[2])


def test_a_tape_of_arrays_replays_on_tensors() -> None:
    f = layers(tg.checkpoint)
    expected, t = tg.grad(f, X), torch.tensor(X)
    step = tg.value_and_grad(f, argnums=None, backend="torch", warmup=1)
    for found in (tg.gradtape(f, X).play(t), step(t), step(t), step(t)):
        np.testing.assert_allclose(found[0], expected[0])
        np.testing.assert_allclose(found[1][1], expected[1][1])


def test_a_file_keeps_it(tmp_path: Path) -> None:
    tape = tg.trace(capturing(tg.checkpoint), X)[1]
    tape.save(tmp_path / "f.tape")
    loaded = tg.load(tmp_path / "f.tape")
    assert loaded.play(2 * X) == tape.play(2 * X) and "checkpoint(<lambda>)" in str(loaded)
    np.testing.assert_allclose(tg.gradtape(loaded).play(2 * X)[1][1], tg.gradient(capturing(plainly), 2 * X)[0])


def test_it_takes_less_memory() -> None:
    def deep(wrap: Wrap) -> Any:
        def block(x: Any) -> Any:
            for _ in range(8):
                x = np.sin(x) * 1.01
            return x

        def f(x: Any) -> Any:
            for _ in range(16):
                x = wrap(block)(x)
            return x.sum()
        return f
    x, peaks = np.random.default_rng(0).random(100_000), []
    for f in (deep(tg.checkpoint), deep(plainly)):
        flat = tg.flatgrad(tg.trace(f, x)[1])
        for run in (lambda f=f: tg.gradient(f, x), lambda flat=flat: flat.play(x)):
            peaks.append(peak(run)[0] / x.nbytes)
    one_shot, replay, plain, plain_replay = peaks
    assert one_shot < 40 and replay < 30 and plain > 100 and plain_replay > 100  # 16 arguments, and one block's 8 to 16 values


def test_threads() -> None:
    f, found = layers(tg.checkpoint), {}
    step = tg.value_and_grad(f, argnums=None, warmup=1)

    def work(k: int) -> None:
        found[k] = [step(X * k)[1][1] for _ in range(5)]
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, dxs in found.items():
        for dx in dxs:
            np.testing.assert_allclose(dx, tg.gradient(layers(plainly), X * k)[0], 1e-12)


def test_what_a_second_run_would_do_again_is_refused() -> None:
    def appends(x: Any) -> Any:
        found: list[Any] = []

        def g(x: Any) -> Any:
            found.append(x * 2)
            return x
        return (tg.checkpoint(g)(x) * found[0]).sum()

    def assigns(x: Any) -> Any:
        k = 0.0

        def g(x: Any) -> Any:
            nonlocal k
            k = x[0]
            return x
        return (tg.checkpoint(g)(x) * k).sum()

    def by_another_name(layer: Layer, x: Any) -> Any:
        return tg.checkpoint(lambda x: x * SHARED.b)(x).sum()

    def overlapping(x: Any) -> Any:
        y = x * 1.0

        def g(y: Any, z: Any) -> Any:
            y[:] = 0.0
            return z.sum()
        return tg.checkpoint(g)(y, y[1:])

    def outside(x: Any) -> Any:
        y = np.zeros(3)

        def g(x: Any) -> Any:
            TABLE[0] = x[0]
            return x.sum()
        return tg.checkpoint(g)(x) + y.sum()
    for f, args, message in ((appends, (X,), "writes to found"), (assigns, (X,), "writes to k"),
                             (by_another_name, (SHARED, X), "neither arguments nor captured variables"), (overlapping, (X,), "shares memory"), (outside, (X,), "")):
        with pytest.raises(tg.TapeError, match=message or None):
            tg.grad(f, *args)
    with pytest.raises(tg.ArgumentError, match=r"tg\.checkpoint\(f\)\(x\)"):
        tg.checkpoint(X)  # type: ignore[arg-type]


SHARED = Layer()
TABLE = np.zeros(3)


def test_views_of_arguments_are_known_in_traces_in_traces() -> None:
    def f(x: Any) -> Any:
        x = x.copy()
        part = tg.checkpoint(lambda x: x[1:])(x)
        part[0] = 9.0 * x[0]
        return (x * x).sum() + part.sum()
    for run in (lambda: tg.grad(f, X), lambda: tg.gradient(lambda x: tg.gradient(f, x)[0].sum(), X),
                lambda: tg.vmap(lambda x: tg.gradient(f, x)[0])(np.stack([X, X])), lambda: tg.jvp(lambda x: tg.gradient(f, x)[0], (X,), (X,))):
        with pytest.raises(tg.MutationError, match="share memory"):
            run()


@pytest.mark.filterwarnings("ignore:f is not compiled, because it sets the state of torch's global generator:tapegrad.RetraceWarning")
@pytest.mark.parametrize("seeded", ["around", "inside"])
def test_a_seed_that_the_program_sets_is_a_checkpoints_too(seeded: str) -> None:
    def noisy(v: Any) -> Any:
        if seeded == "inside":
            torch.manual_seed(3)
        return nn.functional.dropout(torch.sin(v), 0.5)

    def f(x: Any, wrap: Any = tg.checkpoint) -> Any:
        if seeded == "around":
            torch.manual_seed(3)
        y = wrap(noisy)(x)
        return (y * y).sum()
    x = torch.linspace(0.1, 2.0, 8, requires_grad=True)
    f(x, lambda fn: fn).backward()
    step = tg.value_and_grad(f, argnums=0, backend="torch", warmup=1)
    for _ in range(4):
        torch.randn(3)
        torch.testing.assert_close(step(x.detach())[1], x.grad)
        torch.testing.assert_close(tg.grad(f, x.detach(), argnums=0)[1], x.grad)


def test_a_checkpoint_in_a_checkpoint_draws_once() -> None:
    def noisy(x: Any) -> Any:
        return np.sin(np.random.normal(size=3) * x)

    def loss(wrap: Wrap, around: Wrap) -> Callable[[Any], Any]:
        return around(lambda x: wrap(noisy)(x).sum() * x + wrap(noisy)(x)[0])
    found = []
    for wrap, around in ((plainly, plainly), (tg.checkpoint, plainly), (tg.checkpoint, tg.checkpoint),
                         (lambda f: tg.checkpoint(tg.checkpoint(f)), tg.checkpoint)):
        f = loss(wrap, around)
        values: list[Any] = []
        for call in (lambda x: tg.grad(f, x), lambda x: tg.hessian(f)(x), tg.compile(f), tg.compile(f, warmup=1),  # noqa: B023
                     lambda x: tg.vmap(lambda k: f(k))(np.array([x, x + 1.0]))):  # noqa: B023
            np.random.seed(0)
            values += [call(2.0), call(2.0), np.random.get_state()[2]]
        found.append(values)
    for values in found[1:]:
        assert_same(values, found[0])


def test_a_checkpoint_follows_what_leads_past_its_copies() -> None:
    class Kept(list[Any]):
        pass

    def counted(second: Callable[[Any], Any], read: Callable[[Any], Any]) -> Callable[[Any], Any]:
        kept = Kept([1.0])
        way = second(kept)

        def f(x: Any) -> Any:
            read(way).append(2.0)
            return x * len(kept)
        return f
    for second, read in ((weakref.ref, lambda way: way()), (weakref.proxy, lambda way: way)):
        with pytest.raises(tg.MutationError):
            tg.grad(tg.checkpoint(counted(second, read)), 2.0)
        with pytest.raises(tg.MutationError):
            tg.grad(lambda x: tg.checkpoint(counted(second, read))(x) * x, 2.0)  # noqa: B023

    class Counter:
        n = 0
    counter = Counter()
    counter.n, way = 0, weakref.ref(counter)

    def f(x: Any) -> Any:
        way().n += 1  # type: ignore[union-attr]
        return x * counter.n
    with pytest.raises(tg.MutationError, match=r"writes to|changes a Counter"):
        tg.grad(lambda x: tg.checkpoint(f)(x), 2.0)
    assert counter.n == 0


@pytest.mark.filterwarnings("ignore:.*is not compiled:tapegrad.RetraceWarning")
def test_a_compiled_checkpoint_of_what_is_no_function_counts() -> None:
    calls = []
    step = tg.compile(tg.checkpoint(np.vectorize(lambda x: calls.append(1) or x * x, otypes=[float])))
    for number in range(1, 6):
        step(2.0)
        assert len(calls) == number
