"""Large products beside each other: on any number of threads the same bits, errors and warnings; beside other threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.compile.native import machine
from tests.threads import at_once

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(0)
N = 230  # a product takes 2.4e7 flops: two of them gain by two threads


def matrices(count: int, shape: tuple[int, ...] = (N, N), dtype: Any = np.float64) -> list[Any]:
    return [(RNG.normal(size=shape) / N).astype(dtype) for _ in range(count)]


A, B = matrices(4), matrices(4)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = tg.get_num_threads()
    tg.set_num_threads(2)
    yield
    tg.set_num_threads(before)


# -- the same bits


def branches(a: Any, b: Any) -> Any:
    return sum(np.tanh(x @ y).sum() for x, y in zip(a, b))


def layers(a: Any, b: Any) -> Any:
    x = b[0]
    for w in a:
        x = np.tanh(x @ w)
    return x.sum()


def chain(a: Any, b: Any) -> Any:
    """Each product needs the one before."""
    return np.sum(a[0] @ a[1] @ a[2] @ a[3] @ b[0])


def views(a: Any, b: Any) -> Any:
    """Views of products that wait, and of what they need."""
    p, q = a[0] @ b[0], a[1].T @ b[1].T
    r = p.T[::-1] @ b[2]
    s = q[:, ::2] @ b[3][::2]
    return np.sum(r * s) + p[3, 4] + q.diagonal().sum() + np.sum(p.reshape(-1)[::7])


def written(a: Any, b: Any) -> Any:
    """What a product reads, or gives, is written into afterwards."""
    x = np.exp(a[0])
    p, q = x @ b[0], x @ b[1]
    x[3] = p[0]
    p[2] = 0.0
    q += x @ p
    return np.sum(p * q) + np.sum(x[3])


def wide(a: Any, b: Any) -> Any:
    """Of three axes."""
    x, y = np.stack(a), np.stack(b)
    return np.sum((x @ y) * (y @ x)) + np.sum(x[:2] @ a[0])


def looped(a: Any, b: Any) -> Any:
    p, q = a[0] @ b[0], a[1] @ b[1]
    for _ in range(30):
        p = 0.5 * p + 0.1 * q
    return np.sum(p * (a[2] @ b[2]) * (a[3] @ p))


def between(a: Any, b: Any) -> Any:
    """A call that stays in Python needs what waits."""
    p, q = a[0] @ b[0], a[1] @ b[1]
    r = np.sort(p, axis=1) @ b[2]
    return np.sum(r * (q @ b[3])) + np.linalg.solve(np.eye(N) + p, q[0]).sum()


def steered(a: Any, b: Any) -> Any:
    p = a[0] @ b[0]
    q = a[1] @ b[1] if p[0, 0] < 1e9 else a[2]
    return np.sum(p * q * (a[2] @ b[2]))


PROGRAMS = [branches, layers, chain, views, written, wide, looped, between, steered]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [tg.compile, lambda f, **kw: tg.value_and_grad(f, argnums=(0, 1), **kw)], ids=["value", "gradient"])
def test_the_bits_are_the_same_on_any_number_of_threads(f: Any, make: Any) -> None:
    step = make(f, mode="native", warmup=1)
    expected = tg.tree.leaves((make(f, mode="numpy", warmup=9)(A, B),))
    found = []
    for threads in (2, 1, 3, 2):
        tg.set_num_threads(threads)
        found.append(tg.tree.leaves((step(A, B),)))
    assert step.stats.hits == 3
    for x, y, *others in zip(expected, *found):
        np.testing.assert_allclose(y, x, rtol=1e-9, atol=1e-12)
        assert {np.asarray(each).tobytes() for each in others} == {np.asarray(others[0]).tobytes()}


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.complex64])
def test_other_dtypes(dtype: Any) -> None:
    a, b = matrices(3, (280, 280), dtype), matrices(3, (280, 280), dtype)
    step = tg.compile(lambda a, b: [x @ y.T for x, y in zip(a, b)], mode="native", warmup=1)
    for _ in range(3):
        for x, y, z in zip(a, b, step(a, b)):
            assert z.dtype == dtype
            np.testing.assert_array_equal(z, x @ y.T)
    assert step.stats.hits == 2


def test_other_shapes() -> None:
    """A call that does not fit one tape falls over to another."""
    step, small = tg.value_and_grad(branches, argnums=(0, 1), mode="native", warmup=1), matrices(4, (50, 50))
    for _ in range(3):
        for args in ((A, B), (small, small)):
            assert step(*args)[0] == pytest.approx(branches(*args))
    assert step.stats.traces == 2 and step.stats.hits == 4


# -- where threads are started


def compiled(f: Callable[..., Any], *args: Any) -> str:
    """Return what a compiled function consists of."""
    step = tg.compile(tg.trace(f, *args)[1], mode="native")
    np.testing.assert_array_equal(step(*args), f(*args))
    return step.ir


@pytest.mark.parametrize("f, n, gains", [
    (lambda a, b: (a @ b) * (b @ a), N, True), (lambda a, b: (a @ b) * (b @ a), 120, False), (lambda a, b: (a @ b) @ a, N, False),
    (lambda a, b: a @ b, N, False), (lambda a, b: (a @ b) * (b @ a[:, :2] @ a[:2]), N, False), (lambda a, b: (a @ b) * (b @ np.abs(a)), N, True)])
def test_sizes_decide(f: Any, n: int, gains: bool) -> None:
    text = compiled(f, *matrices(2, (n, n)))
    assert ("call void @tapegrad_together" in text) == gains


def test_where_blas_has_threads_of_its_own() -> None:
    code = """
import ctypes, numpy as np, tapegrad as tg
from tapegrad.compile.native import machine
tg.set_num_threads(2)
a = np.random.default_rng(0).normal(size=(300, 300))
step = tg.compile(lambda a: (a @ a) * (a @ a.T), mode="native", warmup=1)
for threads in (1, 2, 1):
    machine.blas("scipy_openblas_set_num_threads64_")(threads)
    for _ in range(3):
        np.testing.assert_allclose(step(a), (a @ a) * (a @ a.T), rtol=1e-9)
"""
    try:
        machine.blas(machine.THREADS_OF_BLAS)
    except (OSError, AttributeError):
        pytest.skip("another BLAS")
    subprocess.run([sys.executable, "-c", code], check=True)


# -- errors and warnings


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("settings", [{}, {"over": "raise"}, {"invalid": "raise"}, {"all": "ignore"}, {"all": "raise"}], ids=str)
def test_errors_and_warnings_are_those_of_one_thread(settings: dict[str, Any]) -> None:
    step = tg.compile(branches, mode="native", warmup=1)
    large, nothing = [a.copy() for a in A], [a.copy() for a in A]
    large[2][:] = 1e300
    nothing[1][0, 0], nothing[3][0, 0] = np.inf, -np.inf
    for _ in range(3):
        step(A, B)

    def outcome(*args: Any) -> Any:
        with np.errstate(**settings), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found: Any = np.float64(step(*args)).tobytes()
            except FloatingPointError as err:
                found = str(err)
        return found, [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    for args in ((large, [1e300 * b for b in B]), (nothing, [np.ones_like(b) for b in B]), (A, B)):
        found = []
        for threads in (1, 3):
            tg.set_num_threads(threads)
            found.append(outcome(*args))
        assert found[0] == found[1]


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "2", None])
def test_a_number_that_is_none(n: Any) -> None:
    with pytest.raises(tg.ArgumentError, match="set_num_threads"):
        tg.set_num_threads(n)
    assert tg.get_num_threads() == 2


# -- beside other threads and processes


def test_threads_call_one_function() -> None:
    step, wrong = tg.value_and_grad(branches, argnums=(0, 1), mode="native", warmup=1), []
    args = [(A[k:] + A[:k], B) for k in range(4)]
    expected = [[np.asarray(x).tobytes() for x in tg.tree.leaves((step(*each),))] for each in args]
    expected = [[np.asarray(x).tobytes() for x in tg.tree.leaves((step(*each),))] for each in args]

    def work(number: int) -> None:
        for k in range(5):
            at = (number + k) % 4
            if [np.asarray(x).tobytes() for x in tg.tree.leaves((step(*args[at]),))] != expected[at]:
                wrong.append(at)
    at_once(work, range(4))
    assert not wrong


@pytest.mark.parametrize("f", [lambda a, b: a @ b, lambda a, b: (a @ b) * (b @ a)], ids=["one", "two"])
def test_other_threads_run_meanwhile(f: Any) -> None:
    """The lock is asked for once in ten seconds: it is free while products are computed, or not at all."""
    a, b = matrices(2, (900, 900))
    step = tg.compile(f, mode="native", warmup=1)
    for _ in range(2):
        step(a, b)
    ticks, stop = [0], threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks[0] += 1
            time.sleep(1e-4)
    other, before = threading.Thread(target=tick), sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        other.start()
        for _ in range(50):
            count = ticks[0]
            step(a, b)
            if ticks[0] > count:
                break
        else:
            pytest.fail("no other thread ran")
    finally:
        sys.setswitchinterval(before)
        stop.set()
        other.join()


def test_ctrl_c_and_fork() -> None:
    """An interrupt arrives once products have been computed, and the next call is as ever; so are calls of a child."""
    code = """
import os, signal, threading, numpy as np, tapegrad as tg
tg.set_num_threads(2)
a = np.random.default_rng(0).normal(size=(600, 600))
step = tg.compile(lambda a: ((a @ a) * (a @ a.T)).sum(), mode="native", warmup=1)
values = [step(a) for _ in range(3)][1:]
for attempt in range(5):
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        while True:
            step(a)
    except KeyboardInterrupt:
        timer.join()
    assert step(a) == values[0] == values[1]
child = os.fork()
if not child:
    os._exit(0 if step(a) == values[0] else 1)
assert os.waitpid(child, 0)[1] == 0 and step(a) == values[0]
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120)
