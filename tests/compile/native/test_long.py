"""Machine code on long arrays: programs, and where it reads and writes. tests/harness has every op."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native import backend
from tests.compile.native.test_native import code, in_python, native
from tests.harness.compare import same

pytest.importorskip("llvmlite")


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """What could not be compiled, which is nothing once a test has ended."""
    found: list[Any] = []
    monkeypatch.setattr(backend, "failed", lambda tape, err: found.append(err))
    yield found
    assert not found


# -- programs of long arrays, all of which is machine code

RNG = np.random.default_rng(0)
X, Y, A, TABLE = RNG.normal(size=1000), RNG.normal(size=1000), RNG.normal(size=(70, 90)), RNG.normal(size=(501, 3))
AT, TO = RNG.integers(-40, 40, 501), RNG.integers(0, 40, 501)
POINTS = RNG.normal(size=(40, 3))


def running(x: Any) -> Any:
    y = np.zeros(500)
    for i in range(1, 500):
        y[i] = 0.9 * y[i - 1] + x[i]
    return np.sum(y * y)


def heat(u: Any) -> Any:
    for _ in range(40):
        v = u.copy()
        v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u = v
    return np.sum(u ** 2)


def placed(x: Any, a: Any) -> Any:
    terms, last, sums = np.zeros((2, len(x))), np.empty((3, 4)), np.ones((70, 6), order="F")
    for i in range(len(x) - 1):
        terms[0, i] = x[i + 1] - x[i] ** 2
        terms[-1, -i - 1] = a[i % 70, 3] * x[i]
        last[i % 3, 1:3] = terms[0, i] + a[2:4, i % 90]
        sums[:, i % 6] = 0.5 * sums[:, (i + 1) % 6] + a[..., i % 7]
    return np.sum(terms[0] * terms[1]) + np.sum(last ** 2) + np.sum(sums ** 2)


def components(x: Any, means: Any, q: Any) -> Any:
    """Each run keeps long arrays, is given a known one, and reads rows of what it writes after it has written."""
    scores, sums = np.empty((len(means), len(x))), np.ones((len(means), len(x)))
    for k in range(len(means)):
        matrix = np.diag(np.exp(q[k, :3]))
        matrix[1:, 0] = q[k, 3:5]
        scores[k] = -0.5 * np.sum(((x - means[k]) @ matrix.T) ** 2, axis=1)
        before = sums[k]
        sums[k] = np.sin(scores[k]) * before
        sums[(k + 1) % len(means)] += np.tanh(before)
    top = np.max(scores, axis=0)
    return np.sum(top + np.log(np.sum(np.exp(scores - top), axis=0))) + np.sum(np.sin(sums))


def grown(x: Any) -> Any:
    """The first value of what is carried is needed afterwards."""
    first = np.cos(x)
    u, v = first, first * 1.0
    for i in range(60):
        u = u * v + first[i]
        v[i + 1:] = v[:-i - 1] * 0.5
        u[i] = v[i + 2] - x[i]
    return np.sum(u * first) + np.sum(v) * np.sum(first)


def picked(x: Any, n: int) -> Any:
    return x[n, 1:] @ x[:-1, n] + np.sum(x[n + 1, None, ..., ::2]) + x[n, -n]


def shifted(x: Any) -> Any:
    y = x * 1.0
    y[1:] = y[:-1]
    y[::2] = y[1::2] * 2.0
    return np.sum(y * x)


def rotated(table: Any) -> Any:
    a = np.stack([table[:, 1], -table[:, 0], np.cos(table[:, 2])], axis=1)
    b = np.concatenate([a, table[:, :1]], axis=1)
    norm = np.sqrt(np.sum(b * b, axis=1, keepdims=True))
    return np.sum(b / norm) + np.sum(np.max(a, axis=1)) + np.sum(a @ np.arange(6.0).reshape(3, 2))


def recurrent(h: Any, w: Any, rows: Any) -> Any:
    total = 0.0
    for row in rows:
        h = np.tanh(h * w + row)
        total = total + np.sum(row * h)
    return total


def through(*tables: str) -> Any:
    """Return a program that goes through the rows of global tables: constants of the tape, one by one."""
    return lambda h, w: sum(recurrent(h[:ROWS[name].shape[1]], w, ROWS[name]) for name in tables)


ROWS = {"few": TABLE, "turned": TABLE[::-1, ::-1], "many": A.T, "single": TABLE.astype(np.float32), "bool": TABLE > 0,
        "int": np.round(9 * TABLE).astype(int)}


def moved(x: Any, a: Any) -> Any:
    """Moves that are no views: of few stretches, and of many."""
    for _ in range(3):
        x = x + 0.1 * (np.roll(x, 3) - np.roll(x, -1))
    b = np.roll(a, 2, axis=1) * np.repeat(a[:1], a.shape[0], axis=0) + np.tile(a[:, :1], (1, a.shape[1]))
    return np.sum(np.pad(x, 1, mode="edge") ** 2) + np.sum(np.rot90(b) ** 2) + np.sum(np.take(a, [3, 1, 3], axis=1))


def contractions(a: Any, x: Any) -> Any:
    b = np.einsum("ij,kj->ki", np.tanh(a), a)
    c = np.einsum("i,jk->jik", x[:3], b[:4, :5])
    return np.sum(b * b) + np.sum(np.einsum("jik,jil->jkl", c, c)) + np.sum(np.linalg.norm(a, axis=1)) / np.linalg.norm(x)


def drawdown(x: Any, a: Any) -> Any:
    value = np.cumprod(1.0 + 0.01 * x)
    lowest = np.minimum.accumulate(a, axis=1)[:, ::7] + np.cumsum(a, axis=0)[:, :13]
    return np.max(1.0 - value / np.maximum.accumulate(value)) + np.sum(np.sin(np.cumsum(x)) * value) + np.sum(lowest ** 2)


def quotients(x: Any, y: Any) -> Any:
    z = (x + 1j * y) / (y * y + 1j * x + 0.3)
    return np.sum(np.abs(z / (1.0 + z * z)) ** 2)


def network(w: Any, h: Any) -> Any:
    """Matrices and vectors of twenty: the outer product of a gradient uses one array by rows and by numbers."""
    for _ in range(40):
        h = np.tanh(w @ h)
    return np.sum(h)


def descent(x: Any, y: Any) -> Any:
    """Adam: quotients of arrays whose lengths no vector divides."""
    m, v = np.zeros(len(x)), np.zeros(len(x))
    for t in range(1, 40):
        g = 2 * (x - y)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        x = x - 0.01 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-8)
    return np.sum(x * x)


def trajectory(x: Any, k: Any) -> Any:
    """Lists of what each step makes, as arrays: of rows, with the first state, and of numbers."""
    states, energies = [x], []
    for _ in range(90):
        x = x + 0.1 * np.array([x[1], -k * np.sin(x[0])])
        states.append(x)
        energies.append(x[1] ** 2 - k * np.cos(x[0]))
    path = np.array(states)
    return np.sum((path[:, 0] - 0.5) ** 2) + np.mean((np.array(energies) + 1.0) ** 2) + path[-1, 1]


def layers(x: Any, k: Any) -> Any:
    found = []
    for _ in range(90):
        x = np.tanh(x * k)
        found.append(x)
    table = np.stack(found)
    table[3:5] *= 2.0
    return np.sum(table ** 2) + np.sum(table[::7, 2] * table[1, 3])


LONG: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "chain": (lambda x: np.sum(np.exp(-x * x) * np.sin(x)), (X,)),
    "two arrays": (lambda x, y: np.sum(np.hypot(x, y) / (1.0 + y * y)), (X, Y)),
    "a result": (lambda x: np.mean(np.tanh(x)) * x[3], (X,)),
    "extrema": (lambda x: np.max(x) * np.min(x * x + 1.0), (X,)),
    "branches": (lambda x: np.sum(np.where(x > 0, np.log1p(np.abs(x)), 0.5 * x)), (X,)),
    "rows and columns": (lambda a: np.sum(a.sum(axis=0) ** 2) + np.sum(a.mean(axis=1) ** 3) + np.sum(a.max(axis=0)), (A,)),
    "broadcast": (lambda a, b: np.sum((a - b[:, None]) * b[None, :70].T), (A, X[:70])),
    "softmax": (lambda a: np.sum(np.log(np.sum(np.exp(a - np.max(a, axis=1, keepdims=True)), axis=1))), (A,)),
    "product": (lambda a, b: np.sum((a @ b) ** 2) + np.sum(np.tanh(a.T @ a)), (A, A.T[:, :40].copy())),
    "matrix and vector": (lambda a, x: np.sum(np.sin(a @ x)), (A, X[:90])),
    "table": (lambda t: np.sum(np.cross(t, t[:, ::-1]) * t), (TABLE,)),
    "rows moved": (rotated, (TABLE,)),
    "gather": (lambda p: np.sum((p[AT] - p[TO]) ** 2 * TABLE), (POINTS,)),
    "slices": (lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), (X,)),
    "rows apart": (lambda a: np.sum(np.tanh(a[1:] - a[:-1]) * a[:-1] ** 2) + np.sum(a[:, 0] ** 2), (A,)),
    "a piece in two places": (lambda x: np.sum(np.exp(-(x[1:] + x[:-1]) ** 2)), (X,)),
    "pieces of two axes": (lambda a: np.sum(np.exp(-np.sum((a[:, None, :3] - a[None, :, :3]) ** 2, axis=2))), (A,)),
    "moved": (moved, (X, A)), "contractions": (contractions, (A, X)), "network": (network, (0.2 * A[:20, :20], X[:20])),
    "descent": (descent, (X[:100], Y[:100])), "short descent": (descent, (X[:14], Y[:14])),
    "trajectory": (trajectory, (np.array([1.0, 0.2]), 0.7)), "layers": (layers, (X[:40], Y[:40])),
    "short layers": (layers, (X[:5], Y[:5])),
    "pieces with gaps": (lambda a: np.sum(np.sin(a[::2]) * a[1::2]) + np.sum(a[:, 1:] * np.cos(a[:, :-1])), (A,)),
    "a piece that is used again": (lambda x: np.sum(np.exp(-x[1:] * x[:-1])) * np.sum(x[:-1]), (X,)),
    "backwards": (lambda x: np.sum(x[::-1] * x * x[::-1]), (X,)),
    "joined": (lambda x, y: np.sum(np.concatenate([x, y, x]) ** 3), (X, Y)),
    "components": (components, (TABLE, RNG.normal(size=(24, 3)), RNG.normal(size=(24, 5)))), "grown": (grown, (X[:100],)),
    "products": (lambda x, q: np.sum(np.tanh((x - 1.0) @ q) @ q.T) + np.sum(x @ q.T @ q), (A[:, :12].copy(), A[:12, :12].copy())),
    "places": (placed, (X, A)), "places that are arguments": (picked, (A[:, :70].copy(), 7)),
    "filled": (running, (X,)), "stencil": (heat, (X,)), "overlaps": (shifted, (X,)),
    "picked": (lambda a: np.sum(a[:, [3, 1, 4, 1, 5]] ** 2) + np.sum(a[[0, 0, 2]]), (A,)),
    "known rows": (through("few", "turned"), (X[:3], 0.7)), "long known rows": (through("many"), (X[:70], 0.7)),
    "known rows of others": (through("single", "bool", "int"), (X[:3], 0.7)),
    "running": (drawdown, (X[:300], A)), "complex quotients": (quotients, (X, Y)),
    "diagonal": (lambda a: np.sum(np.diagonal(a) ** 2) + np.trace(a @ a.T), (A,)),
}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.usefixtures("failures")
def test_programs_of_long_arrays(name: str) -> None:
    f, args = LONG[name]
    step = native(f)
    for scale in (1.0, 1.0, 1.0, 0.5, -0.7):
        given = tuple(scale * x if isinstance(x, np.ndarray) else x for x in args)
        same(step(*given), tg.grad(f, *given), 1e-11, 1e-11)
    assert step.stats.hits >= 2, step.stats


@pytest.mark.parametrize("name", ["chain", "rows and columns", "softmax", "product", "table", "rows moved", "gather", "slices", "components", "grown", "products", "places", "places that are arguments", "filled", "stencil", "known rows", "long known rows", "pieces of two axes", "moved", "contractions", "network", "descent", "short descent", "trajectory", "layers", "short layers", "running", "complex quotients"])
def test_nothing_of_it_stays_in_python(name: str) -> None:
    """Nor does a call leave machine code to be made again there."""
    f, args = LONG[name]
    step = native(f)
    for _ in range(3):
        step(*args)
    assert in_python(code(step)) == 0
    assert code(step).straight._function is None


@pytest.mark.parametrize("lie", [np.asfortranarray, lambda a: a[::-1], lambda a: a[:, ::-1], lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: a.T.copy().T])
def test_arguments_that_lie_in_other_ways(lie: Any) -> None:
    f, _ = LONG["softmax"]
    step, given = native(f), lie(A)
    for _ in range(4):
        same(step(given), tg.grad(f, given), 1e-12)
    read_only = given.copy()
    read_only.flags.writeable = False
    same(step(read_only), tg.grad(f, read_only), 1e-12)
    other = given.astype(">f8")
    same(step(other), tg.grad(f, other), 1e-12)


@pytest.mark.parametrize("f", [
    lambda y: np.sum(np.broadcast_to(y, (0, len(y)))), lambda y: np.sum(np.sum(y[:0, None] * np.ones(len(y)), axis=0) * y),
    lambda y: np.sum((y[None][:0]).sum(0) * y), lambda y: np.sum(np.einsum("ij,j->i", np.zeros((0, len(y))), y)) + np.sum(np.roll(y[:0], 1))])
@pytest.mark.parametrize("n", [0, 5, 20, 100])
def test_axes_without_length(f: Any, n: int) -> None:
    step, y = native(f), np.ones(n)
    for _ in range(3):
        same(step(y), tg.grad(f, y), 1e-12)


def test_a_row_that_is_not_there_is_numpys_error() -> None:
    def f(p: Any, at: Any) -> Any:
        return np.sum(p[at] ** 2 * TABLE)
    step = native(f)
    for _ in range(4):
        same(step(POINTS, AT), tg.grad(f, POINTS, AT), 1e-12)
    assert step.stats.hits
    wrong = AT.copy()
    wrong[-1] = 40
    with pytest.raises(IndexError):
        step(POINTS, wrong)
    same(step(POINTS, TO), tg.grad(f, POINTS, TO), 1e-12)


def test_sums_lose_no_more_than_numpys() -> None:
    x = RNG.normal(size=1_000_003) * 10.0 ** RNG.integers(-8, 8, 1_000_003)
    exact, size = float(np.sum(x.astype(np.longdouble))), float(np.sum(np.abs(x)))
    step = tg.compile(lambda x: np.sum(x * 1.0), mode="native", warmup=1)
    for _ in range(3):
        found = step(x)
    assert abs(found - exact) <= 1e-15 * size


def test_nan_and_infinities_come_out_where_they_did() -> None:
    def f(x: Any) -> Any:
        return np.where(x > 0, np.sqrt(np.maximum(x, 0.0)), x) * 2.0
    step, x = tg.compile(f, mode="native", warmup=1), X.copy()
    x[::7], x[1::7], x[2::7], x[3::7], x[4::7] = np.nan, np.inf, -np.inf, -0.0, 5e-324
    for _ in range(4):
        np.testing.assert_array_equal(step(x).view(np.int64), f(x).view(np.int64))


def test_a_warning_is_given_as_ever() -> None:
    step = tg.compile(lambda x: np.sum(np.exp(x) * 2.0), mode="native", warmup=1)
    for _ in range(3):
        step(X)
    with pytest.warns(RuntimeWarning, match="overflow encountered in exp"):
        assert step(X * 1e6) == np.inf


def test_nothing_is_read_or_written_beside_an_array() -> None:
    """Arrays between values that would show: nan to the left and right of what is given."""
    def guarded(x: Any) -> Any:
        wide = np.full(x.size + 64, np.nan)
        wide[32:-32] = x.ravel()
        return wide[32:-32].reshape(x.shape), wide
    for name, (f, args) in LONG.items():
        step = native(f)
        for _ in range(3):
            step(*args)
        arrays = [x for x in args if isinstance(x, np.ndarray)]
        held = [guarded(x) for x in arrays]
        found = step(*[x for x, _ in held], *args[len(arrays):])
        same(found, tg.grad(f, *args), 1e-11, 1e-11)
        for (_, wide), x in zip(held, arrays):
            assert np.isnan(wide[:32]).all() and np.isnan(wide[-32:]).all() and np.array_equal(wide[32:-32], x.ravel()), name


def test_results_are_memory_of_their_own() -> None:
    step = tg.compile(lambda x: (x * 2.0, np.sin(x)[1:], x), mode="native", warmup=1)
    for _ in range(4):
        a, b, c = step(X)
        assert not np.shares_memory(c, X) and a.base is None
        a[:], b[:], c[:] = 0.0, 0.0, 0.0
    np.testing.assert_array_equal(step(X)[2], X)


def test_memory_does_not_grow() -> None:
    import tracemalloc
    step = native(LONG["rows moved"][0])
    for _ in range(5):
        step(TABLE)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(2000):
        step(TABLE)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000


def test_ctrl_c_ends_a_long_loop() -> None:
    program = """
import math, os, signal, tapegrad as tg
signal.signal(signal.SIGINT, signal.default_int_handler)  # where it is ignored too, in the background of a shell
from tapegrad.ops.loop import is_loop
def f(x):
    for _ in range(400):
        x = 3.7 * x * (1.0 - x) + 0.01 * math.sin(x)
    return x
tape = tg.roll(tg.trace(f, 0.3)[1])
loop = next(op for op in tape.ops if is_loop(op))
loop.fn.count = 1 << 40
fast = tg.compile(tape, mode="native")
os.system(f"(sleep 1; kill -INT {os.getpid()}) &")
try:
    fast(0.3)
except KeyboardInterrupt:
    print("interrupted")
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert out.stdout == "interrupted\n", out.stderr


def test_machine_code_that_leaves_at_every_call_is_given_up() -> None:
    step = tg.compile(lambda x: np.sum(np.exp(x) * 2.0), mode="native", warmup=1)
    for _ in range(3):
        step(X)
    assert len(step._tapes) == 1
    with np.errstate(over="ignore"):
        for number in range(200):
            assert step(X * 1e6 if number % 8 == 0 else X) > 0
        assert len(step._tapes) == 1
        for _ in range(200):
            assert step(X * 1e6) == np.inf
    assert not step._tapes and step(X) == step._entries[1][0].run(X)


@pytest.mark.parametrize("f", [lambda x: np.sin(x), lambda x: x * 2.0, lambda x: x[::-1] * 2.0, lambda x: x > 0, lambda x: x.T * 2.0])
def test_results_lie_as_the_arguments_do(f: Any) -> None:
    step, c = tg.compile(f, mode="native", warmup=1), np.arange(72.0).reshape(8, 9)
    deep = np.arange(3.0 * 4 * 5).reshape(3, 4, 5)
    for x in (c, c, c, np.asfortranarray(c), c[:, ::-1], np.repeat(c, 2, axis=1)[:, ::2], deep, deep, deep.transpose(1, 0, 2), deep.transpose(2, 1, 0)):
        assert step(x).strides == f(x).strides


def test_flags_are_those_of_all_that_is_computed() -> None:
    chosen = tg.compile(lambda x: np.where(x > 0, np.sqrt(x), 0.0).sum(), mode="native", warmup=1)
    small = tg.value_and_grad(lambda x: np.cumsum(x * x)[-1], mode="native", warmup=1)
    for _ in range(3):
        chosen(np.linspace(0.5, 1.0, 80)), small(np.ones(80))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        assert chosen(-np.ones(80)) == 0.0
    with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="underflow"):
        small(np.full(80, 1e-200))


def test_arrays_of_two_dtypes_are_joined() -> None:
    step = tg.compile(lambda x, y: np.concatenate([x, y]).sum(), mode="native", warmup=1)
    for _ in range(3):
        assert step(np.ones(70, np.float32), np.ones(80)) == 150.0


@pytest.mark.parametrize("n", [3, 40, 400])
def test_memory_that_a_nest_of_results_holds_is_not_given_to_a_later_loop(n: int) -> None:
    def f(w: Any) -> Any:
        y = np.zeros(n)
        for i in range(n):
            y[i] = np.modf(w)[0] * (i % 2 + 1.0)
        return y.sum(), {"y": y, "more": [y * 2.0]}
    tape = tg.flatgrad(tg.roll(tg.trace(f, 1.22)[1], least=3, saved=0), (1.0, None))
    native = tg.compile(tape, mode="native")
    for w in (1.22, 1.5, 1.22):
        (value, aux), (_, dw) = native(w)
        assert value == pytest.approx(f(w)[0]) and dw == pytest.approx(tape.play(w)[1][1])
        np.testing.assert_allclose(aux["y"], f(w)[1]["y"])
        np.testing.assert_allclose(aux["more"][0], f(w)[1]["more"][0])


# -- what neighbours add to each other's places

NEIGHBOURS: list[Callable[..., Any]] = [
    lambda x: np.sum((x[1:] - x[:-1]) ** 2), lambda x: np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2), lambda x: np.sum(np.cos(x[1:] + x[:-1])),
    lambda x: np.sum((x[3:-2] - x[2:-3]) ** 2 * x[4:-1]), lambda x: np.sum(x[8:] ** 2 * x[:-8])]


@pytest.mark.parametrize("f", NEIGHBOURS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.usefixtures("failures")
def test_pieces_beside_each_other_are_added_without_memory_of_their_own(f: Callable[..., Any], dtype: Any) -> None:
    for n in (25, 33, 40, 41, 1026, 2057, 4099):
        x = np.random.default_rng(n).normal(size=n).astype(dtype)
        run: Any = tg.compile(tg.gradtape(f, x), mode="native")
        same(run(x), tg.grad(f, x), *[1e-12 if dtype is np.float64 else 1e-4] * 2)
        assert in_python(run) == 0 and "alloca i8, i64 0" in run.ir


def test_memory_of_a_call_serves_the_next() -> None:
    step = native(lambda a, x: np.sum(np.exp(a @ (a @ x))))
    sizes = (300, 20, 300, 500, 40, 500, 300)
    for n in sizes * 2:
        a, x = np.full((n, n), 1.0 / n), np.linspace(0.0, 1.0, n)
        np.testing.assert_allclose(step(a, x)[0], np.sum(np.exp(a @ (a @ x))))
