"""compile and value_and_grad: every op, every kind of argument, paths, what a function reads, memory, threads."""

from __future__ import annotations

import gc
import linecache
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.tree.flatten import leaves_of
from tests.harness.compare import same


def test_shapes_that_values_decide() -> None:
    def f(x: Any) -> Any:
        positive = x[x > 0]
        return np.sum(positive.reshape(-1, 1) ** 2 * np.mean(positive)) + np.sum(x[np.nonzero(x < -1)[0]])
    step = tg.value_and_grad(f, argnums=None)
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = rng.normal(size=8) + 0.5
        same(step(x), tg.grad(f, x))


@pytest.mark.quick
def test_paths_and_stats() -> None:
    def f(x: float) -> Any:
        while x < 10.0:
            x = x * 2.0
        return x * x
    step = tg.value_and_grad(f, argnums=None)
    for x in (1.0, 3.0, 6.0, 20.0, 1.5, 3.5):
        same(step(x), tg.grad(f, x))
    assert step.stats.traces == 5 and step.stats.hits == len(step.tapes) == 1  # a path that came once has no tape
    for x in (1.1, 6.1, 20.1, 1.6, 3.6):
        same(step(x), tg.grad(f, x))
    assert step.stats.traces == 5 == len(step.tapes) and step.stats.hits == 6


def test_the_text_of_a_function_that_is_gone_goes_with_the_next() -> None:
    tape = tg.trace(lambda x: x * 2.0, 1.0)[1]
    fast: Any = tg.compile(tape, mode="numpy")
    file = next(name for name, entry in linecache.cache.items() if len(entry) == 4 and entry[2] == fast.source.splitlines(True))
    del fast
    gc.collect()
    linecache.checkcache()  # as a debugger does: nothing may vanish from under it
    tg.compile(tape, mode="numpy")
    assert file not in linecache.cache


def test_many_reads_of_single_elements() -> None:
    def f(x: Any, n: int) -> Any:
        total = 0.0
        for i in range(n):
            total = total * x[-i - 1] + np.sin(x[i])
        return total
    x = np.linspace(0.1, 1.0, 90)
    for n in (40, 10):
        step = tg.compile(tg.flatgrad(tg.trace(f, x, n)[1]))
        for point in (x, x[::-1], np.asfortranarray(x) * 2):
            value, (_, dx, _) = tg.grad(f, point, n)
            found, (_, found_dx, _) = step(point, n)
            assert type(found) is type(value) and found == pytest.approx(value, 1e-12)
            np.testing.assert_allclose(found_dx, dx, 1e-12)


@pytest.mark.parametrize("z", [1 + 2j, np.complex128(1 + 2j), np.array([1 + 2j, 3 - 1j])])
def test_a_conjugate_is_no_copy(z: Any) -> None:
    def f(z: Any) -> Any:
        return np.sum((z * z.conjugate() + z.conjugate()).real)
    fast, step = tg.compile(f), tg.value_and_grad(f, argnums=None)
    for _ in range(2):
        same(fast(z), f(z))
        same(step(z), tg.grad(f, z))


def test_a_power_that_turns_complex() -> None:
    def f(s: Any) -> Any:
        return abs(s ** 0.5)
    step = tg.value_and_grad(f, argnums=None)
    for s in (0.5, 0.5, -0.3, -0.3, 0.7):
        same(step(s), tg.grad(f, s))
    assert step.stats.traces == 2
    for tape in (tg.flatgrad(tg.trace(f, 0.5)[1]), tg.primitivize(tg.gradtape(f, 0.5))):
        same(tape.play(0.7), tg.grad(f, 0.7))
        with pytest.raises(tg.GuardError, match="'complex'"):
            tape.play(-0.3)


NESTED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "made on the way": (lambda x: ((x * x).sum(), {"y": np.tanh(3.0 * x)}), (1.0, None)),
    "a single precision copy": (lambda x: {"r": (x * x).sum(), "y": x.astype(np.float32)}, {"r": 1.0, "y": None}),
    "what the passes find to be an argument": (lambda x: ((x * x).sum(), [x * 1.0, x + 0.0]), (1.0, None)),
    "a constant, twice": (lambda x: ((x * x).sum(), {"a": np.ones(3), "b": {"c": np.ones(3)}}), (1.0, None)),
    "a write in place": (lambda x: ((x * x).sum(), (written(x),)), (1.0, None)),
}


def written(x: Any) -> Any:
    """Return an array that was written to after it was made."""
    y = np.zeros(3)
    y[:2] = x[0]
    y *= 1.5
    return y


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", NESTED)
def test_what_a_nested_value_holds_lies_in_memory_of_its_own(name: str, backend: str) -> None:
    f, seed = NESTED[name]
    step = tg.value_and_grad(f, argnums=None, seed=seed, backend=backend)
    points = [np.array([1.0, 2.0, 3.0]) * k for k in (1, 1, 1, 2, 3)]
    if backend == "torch":
        step(points[0])  # a program in NumPy's words is recorded with arrays
        points = [torch.from_numpy(x) for x in points]
    plain = [leaves_of(tg.grad(f, np.asarray(x), seed=seed)) for x in points]
    found = [leaves_of(step(x)) for x in points]
    for ours, theirs in zip(found, plain):
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a, b, 1e-6)
    for y in (y for ours in found for y in ours if np.ndim(y)):  # they are the caller's, who may write to them
        y[...] = -1
    np.testing.assert_array_equal(points[-1], np.array([3.0, 6.0, 9.0]))
    for a, b in zip(leaves_of(step(points[0])), plain[0]):
        np.testing.assert_allclose(a, b, 1e-6)


class Sequence:
    """A sequence that is no array: NumPy's numbers make one of it, and ask each element for its bytes."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getitem__(self, i: int) -> Any:
        return self.data[i]

    def __len__(self) -> int:
        return len(self.data)


def test_what_is_guarded_of_an_element_is_asked_of_numpys_number() -> None:
    def f(a: Any) -> Any:
        return (np.float64(2.0) * Sequence(np.rint(a))).sum() * a.sum()
    x = np.array([1.25, 0.5, 2.0])
    tape = tg.trace(f, x)[1]
    for made in (tg.compile(tape), tg.value_and_grad(f, argnums=None, warmup=1), tg.compile(tg.flatgrad(tape, 1.0)), tg.compile(tg.optimise(tg.flatgrad(tape, 1.0)))):
        for _ in range(3):
            got = made(x)
            assert (got[0] if isinstance(got, tuple) else got) == f(x)


class Pair(NamedTuple):
    a: Any
    b: Any


def scaled(k: Any) -> Callable[[Any], Any]:
    return lambda x: k * x


def shifted(f: Any, pair: Pair) -> Callable[[Any], Any]:
    return lambda x: f(x) * pair.a + pair.b


def test_what_captured_functions_captured_is_read_at_each_call() -> None:
    inner = scaled(np.array([1.0, 2.0]))
    f = shifted(inner, Pair(3.0, 1.0))
    step = tg.value_and_grad(lambda x: f(x).sum(), argnums=0, warmup=1)
    x = np.array([0.5, 1.5])

    def check(traces: int) -> None:
        value, dx = step(x)
        np.testing.assert_allclose(value, f(x).sum())
        np.testing.assert_allclose(dx, tg.gradient(lambda x: f(x).sum(), x)[0])
        assert step.stats.traces == traces
    for traces in (1, 1, 1):
        check(traces)
    cell = inner.__closure__[0]  # type: ignore[index]
    cell.cell_contents = np.array([5.0, -2.0])
    check(1)
    cell.cell_contents = 4.0  # another type
    check(2)
    cells = dict(zip(f.__code__.co_freevars, f.__closure__))  # type: ignore[arg-type]
    cells["pair"].cell_contents = Pair(2.0, np.array([1.0, 2.0]))
    check(3)
    cells["pair"].cell_contents = (2.0, 1.0)
    with pytest.raises(AttributeError):
        step(x)
    cells["pair"].cell_contents = Pair(2.0, 1.0)
    check(step.stats.traces)
    cells["f"].cell_contents = scaled(6.0)  # of the same code
    check(step.stats.traces)
    cells["f"].cell_contents = np.sin
    np.testing.assert_allclose(step(x)[1], 2.0 * np.cos(x))


def test_one_function_in_two_places() -> None:
    k, pair = np.array([2.0, 3.0]), Pair(2.0, 1.0)
    f, g = scaled(k), scaled(k)

    def compiled(f: Any, g: Any, p: Any, q: Any) -> Any:
        h = lambda x: (f(x) * p.a + g(x * q.b)).sum()  # noqa: E731
        return h, tg.value_and_grad(h, argnums=0, warmup=1)
    for parts in ((f, f, pair, pair), (f, g, pair, Pair(2.0, 1.0))):
        h, step = compiled(*parts)
        cells = dict(zip(h.__code__.co_freevars, h.__closure__))
        x = np.array([0.5, 1.5])
        for name in ("f", "g", "f", "q", "p"):
            for _ in range(2):
                np.testing.assert_allclose(step(x)[1], tg.gradient(h, x)[0])
            cells[name].cell_contents = scaled(np.array([-1.0, 5.0])) if name in "fg" else Pair(7.0, 3.0)
        np.testing.assert_allclose(step(x)[1], tg.gradient(h, x)[0])
