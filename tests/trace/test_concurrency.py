"""Programs of several threads, coroutines and tasks: their gradients; processes that they start are refused."""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import multiprocessing
import multiprocessing.pool
import os
import queue
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tests.threads import at_once


def channel(x: Any, y: Any) -> Any:
    values: queue.Queue[Any] = queue.Queue(2)

    def produce() -> None:
        for k in range(1000):
            values.put(x * (k % 3))
        values.put(None)
    producer, total = threading.Thread(target=produce), 0.0
    producer.start()
    while (value := values.get()) is not None:
        total += value * y
    producer.join()
    return total


def there_and_back(x: Any, y: Any) -> Any:
    """Each thread waits for the other a hundred times."""
    there, back = queue.Queue[Any](), queue.Queue[Any]()

    def answer() -> None:
        for _ in range(100):
            back.put(there.get() * 0.5 + y)
    other = threading.Thread(target=answer)
    other.start()
    for _ in range(100):
        there.put(x)
        x = back.get()
    other.join()
    return x


def mapped(x: Any, y: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return sum(pool.map(lambda k: x * y * k, range(50)))


def completed(x: Any, y: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return sum(each.result() for each in concurrent.futures.as_completed([pool.submit(lambda k: x * x * k + y, k) for k in range(20)]))


def cancelled_future(x: Any, y: Any) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        first = pool.submit(lambda: (time.sleep(0.01), x * y)[1])
        second = pool.submit(lambda: x * 100.0)
        return first.result() if second.cancel() else None


def pool_of_threads(x: Any, y: Any) -> Any:
    with multiprocessing.pool.ThreadPool(2) as pool:
        return sum(pool.map(lambda k: x * k * y, range(10)))


def locked(x: Any, y: Any) -> Any:
    total, lock = [0.0], threading.RLock()

    def work(k: int) -> None:
        for _ in range(20):
            with lock:
                total[0] = total[0] + x * y * k
    at_once(work, range(4))
    return total[0]


def conditions(x: Any, y: Any) -> Any:
    ready, box = threading.Condition(), list[Any]()

    def work() -> None:
        with ready:
            box.append(x * y)
            ready.notify()
    with ready:
        other = threading.Thread(target=work)
        other.start()
        ready.wait_for(lambda: box)
    other.join()
    return box[0] * 2.0


def barriers(x: Any, y: Any) -> Any:
    barrier, first, second = threading.Barrier(3), [0.0] * 3, [0.0] * 3

    def work(k: int) -> None:
        first[k] = x * k
        barrier.wait()
        second[k] = first[k] + first[(k + 1) % 3] * y
    at_once(work, range(3))
    return sum(second)


def own_variables(x: Any, y: Any) -> Any:
    mine, found = threading.local(), dict[int, Any]()

    def work(k: int) -> None:
        mine.value = x * k
        found[k] = mine.value * y
    at_once(work, range(5))
    return sum(found[k] for k in range(5))


def timed(x: Any, y: Any) -> Any:
    found = list[Any]()
    timer = threading.Timer(0.005, lambda: found.append(x * y))
    timer.start()
    timer.join()
    return found[0]


def coroutine(x: Any, y: Any) -> Any:
    def adding() -> Any:
        total = 0.0
        while True:
            value = yield total
            total = total + value
    adder, total = adding(), 0.0
    next(adder)
    for _ in range(1000):
        total = adder.send(x * y)
    adder.close()
    return total


def thrown(x: Any, y: Any) -> Any:
    """An error that is thrown into a generator, and what it returns."""
    def inner() -> Any:
        try:
            yield x
        except KeyError:
            yield x * y
        return y * y

    def outer() -> Any:
        last = yield from inner()
        yield last
    g = outer()
    return next(g) + g.throw(KeyError()) + next(g)


def gathered(x: Any, y: Any) -> Any:
    async def one(k: int) -> Any:
        await asyncio.sleep(0)
        return x * y * k

    async def main() -> Any:
        return sum(await asyncio.gather(*map(one, range(30))))
    return asyncio.run(main())


def cancelled(x: Any, y: Any) -> Any:
    async def slow() -> Any:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return x * y * 7.0

    async def never() -> Any:
        await asyncio.sleep(10)
        return x * 100.0

    async def main() -> Any:
        first, second = asyncio.create_task(slow()), asyncio.create_task(never())
        await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        found = await first
        try:
            await second
        except asyncio.CancelledError:
            return found + x
    return asyncio.run(main())


def too_late(x: Any, y: Any) -> Any:
    async def main() -> Any:
        try:
            return await asyncio.wait_for(asyncio.sleep(10, x * 100.0), 0.001)
        except asyncio.TimeoutError:
            return x * y
    return asyncio.run(main())


def queued(x: Any, y: Any) -> Any:
    async def produce(values: asyncio.Queue[Any]) -> None:
        for k in range(1000):
            await values.put(x * (k % 3))
        await values.put(None)

    async def main() -> Any:
        values: asyncio.Queue[Any] = asyncio.Queue(3)
        producer, total = asyncio.create_task(produce(values)), 0.0
        while (value := await values.get()) is not None:
            total += value * y
        await producer
        return total
    return asyncio.run(main())


def asynchronous_generator(x: Any, y: Any) -> Any:
    async def values() -> Any:
        for k in range(100):
            await asyncio.sleep(0)
            yield x * k

    async def main() -> Any:
        return sum([value * y async for value in values()])
    return asyncio.run(main())


def in_a_thread_of_a_task(x: Any, y: Any) -> Any:
    async def main() -> Any:
        return await asyncio.to_thread(lambda: x * y * 3.0) + await asyncio.get_running_loop().run_in_executor(None, lambda: x * x)
    return asyncio.run(main())


PROGRAMS = [channel, there_and_back, mapped, completed, cancelled_future, pool_of_threads, locked, conditions, barriers, own_variables, timed, coroutine,
            thrown, gathered, cancelled, too_late, queued, asynchronous_generator, in_a_thread_of_a_task]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f: Callable[..., Any]) -> None:
    """Each product is of degree two: central differences are exact but for rounding."""
    step, h = tg.value_and_grad(f, argnums=(0, 1)), 1e-3
    for k, (x, y) in enumerate([(2.0, 3.0)] * 4 + [(0.5, -1.5)] * 3):
        expected = f(x, y)
        slopes = (f(x + h, y) - f(x - h, y)) / (2 * h), (f(x, y + h) - f(x, y - h)) / (2 * h)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tg.RetraceWarning)
            found = step(x, y)
        if not k:
            value, (_, *gradients) = tg.grad(f, x, y)
            assert (value, *gradients) == pytest.approx((found[0], *found[1]), rel=1e-12)
        assert found[0] == pytest.approx(expected, rel=1e-12)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-6, atol=1e-6)


# -- processes

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")


def forked(x: Any) -> Any:
    if not os.fork():
        os._exit(0)
    return x * x


def process(x: Any) -> Any:
    child = multiprocessing.get_context("fork").Process(target=print)
    child.start()
    return x * x


def shared(x: Any) -> Any:
    """The child would compute with a traced value, and the parent read a number that nobody wrote."""
    fork = multiprocessing.get_context("fork")
    number = fork.Value("d", 0.0)

    def work() -> None:
        number.value = x * 2.0
    child = fork.Process(target=work)
    child.start()
    child.join()
    return number.value * x


def pool(x: Any) -> Any:
    with multiprocessing.get_context("fork").Pool(1) as workers:
        return workers.map(abs, [x])[0]


def executor(x: Any) -> Any:
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as workers:
        return workers.submit(abs, x).result()


def swallowed(x: Any) -> Any:
    try:
        return forked(x)
    except TypeError:
        return x


@needs_fork
@pytest.mark.parametrize("f", [forked, process, shared, pool, executor, swallowed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("run", [lambda f: tg.grad(f, 2.0), lambda f: tg.trace(f, 2.0), lambda f: tg.value_and_grad(f)(2.0)], ids=["grad", "trace", "compiled"])
def test_processes_are_refused(f: Any, run: Any) -> None:
    with pytest.raises(tg.UnknownFunction, match=r"os\.fork starts another process[^\n]*\n  at .*test_concurrency"):
        run(f)


def sent_to_pool(spawn: Any, x: Any) -> Any:
    with spawn.Pool(1) as workers:
        return workers.map(abs, [x])


def sent_to_executor(spawn: Any, x: Any) -> Any:
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as workers:
        return workers.submit(abs, x).result()


def sent_by_pipe(spawn: Any, x: Any) -> Any:
    here, there = spawn.Pipe()
    with here, there:
        here.send(x)


@pytest.mark.parametrize("start", [lambda spawn, x: spawn.Process(target=print, args=(x,)).start(), sent_to_pool, sent_to_executor, sent_by_pipe])
def test_what_is_sent_to_a_process_is_refused(start: Any) -> None:
    """By a process that is started anew, which is sent what it computes with."""
    with pytest.raises(tg.ConcretizationError, match="multiprocessing sent a traced value to another process"):
        tg.grad(lambda x: (start(multiprocessing.get_context("spawn"), x), x)[1], 2.0)


FORKING = """
import os, threading, warnings
import tapegrad as tg

found, started, done = [], threading.Event(), threading.Event()

def other():
    started.wait()
    child = os.fork()
    if not child:
        os._exit(7)
    found.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    done.set()

def f(x):
    started.set()
    done.wait(10.0)
    return x * x

thread = threading.Thread(target=other)
thread.start()
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    assert tg.grad(f, 3.0) == (9.0, (None, 6.0))
thread.join()
assert found == [7]
"""


@needs_fork
def test_other_threads_may_fork() -> None:
    """In a process that has loaded little: libraries have handlers for forks that do not expect other threads."""
    subprocess.run([sys.executable, "-c", FORKING], check=True, timeout=60)


def test_a_trace_begins_while_another_thread_imports(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a module that is being imported finds is what stands there without traces, and the other trace needs what is replaced."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "imported_slowly.py").write_text("import sys\nsys.modules['the_test'].waits()\n")
    imported, traced = threading.Event(), threading.Event()
    the_test = types.ModuleType("the_test")
    the_test.waits = lambda: (imported.set(), traced.wait(20))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "the_test", the_test)
    found = list[Any]()

    def importing(x: float) -> float:
        import imported_slowly  # type: ignore[import-not-found]  # noqa: F401
        return math.sqrt(x)
    other = threading.Thread(target=lambda: found.append(tg.grad(importing, 4.0)))
    other.start()
    assert imported.wait(20)
    try:
        found.append(tg.grad(lambda x: math.log(x), 2.0))
    finally:
        traced.set()
        other.join()
    assert [dx for _, (_, dx) in found] == [0.5, 0.25]
    assert type(math) is types.ModuleType
