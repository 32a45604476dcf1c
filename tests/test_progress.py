"""Long work: what a terminal shows of it, and what an interrupt leaves behind."""

from __future__ import annotations

import gc
import io
import math
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def errors_to(file: io.StringIO, patience: float, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """Replace standard error, and say how many seconds are long."""
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setattr(progress, "PATIENCE", patience)
    return file


def shows(text: str) -> None:
    """Wait for a text to appear on standard error."""
    terminal: Any = sys.stderr
    until = time.monotonic() + 30.0
    while not re.search(text, terminal.getvalue()) and time.monotonic() < until:
        time.sleep(0.01)
    assert re.search(text, terminal.getvalue())


def test_the_line_says_what_goes_on_and_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = errors_to(Terminal(), 0.0, monkeypatch)

    def slow(x: float) -> float:
        y = x * x * x
        shows("tapegrad: tracing slow: 4 operations, [0-9]+ s")
        return y
    assert tg.grad(slow, 2.0) == (8.0, (None, 12.0))
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_outer_and_inner_work_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    errors_to(Terminal(), 0.0, monkeypatch)

    def slow(x: float) -> float:
        shows("tapegrad: explaining slow, tracing slow: 2 operations")
        return x * x
    assert tg.explain(slow, 3.0).gradient == (None, 6.0)
    with progress.Work("measuring"):
        shows("tapegrad: measuring, [0-9]+ s")


def test_quick_work_is_silent_and_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for file, patience in ((Terminal(), 100.0), (io.StringIO(), 0.0)):
        errors_to(file, patience, monkeypatch)
        with progress.Work("measuring"):
            time.sleep(2 * progress.TICK)
        assert file.getvalue() == ""


def chain(x: Any) -> Any:
    y = x
    for _ in range(600):
        y = math.sin(y) * 1.0001 if type(y) is float else np.sin(y) * 1.0001
    return y


CALLS: dict[str, Callable[[], Any]] = {
    "grad": lambda: tg.grad(chain, 0.5),
    "gradtape": lambda: tg.gradtape(chain, 0.5),
    "explain": lambda: tg.explain(chain, 0.5),
    "find": lambda: tg.trace(chain, 0.5)[1].find("nan", 0.25),
    "profile": lambda: tg.trace(chain, 0.5)[1].profile(0.25),
    "check_grads": lambda: tg.check_grads(chain, 0.5),
}


@pytest.fixture
def alarms() -> Iterator[None]:
    """Let a timer do what Ctrl-C does."""
    def interrupt(number: int, frame: Any) -> None:
        handler: Any = signal.getsignal(signal.SIGINT)
        handler(signal.SIGINT, frame)
    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers that interrupt")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python drops one in a finalizer
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_leaves_everything_as_it_was(name: str, alarms: None) -> None:
    call, expected = CALLS[name], tg.grad(chain, 0.5)
    call()
    start = time.perf_counter()
    call()
    takes = time.perf_counter() - start
    before = (math.sin, np.zeros, np.geterr(), gc.isenabled(), warnings.showwarning, list(warnings.filters))
    interrupted = 0
    for k in range(1, 12):
        try:
            signal.setitimer(signal.ITIMER_REAL, takes * k / 12)
            call()
            signal.setitimer(signal.ITIMER_REAL, 0)
            for thread in threading.enumerate():  # an interrupt that waits
                if isinstance(thread, threading.Timer):
                    thread.join()
        except KeyboardInterrupt as err:
            interrupted += 1
            last = traceback.extract_tb(err.__traceback__)[-1].filename  # a public function's, or the program's
            assert not {"tape", "replay", "ops", "rules", "numbers"} & set(Path(last).parts), last
        assert before == (math.sin, np.zeros, np.geterr(), gc.isenabled(), warnings.showwarning, list(warnings.filters))
        assert not progress._watch.works and threading.current_thread() is threading.main_thread()
        assert tg.grad(chain, 0.5) == expected
    assert interrupted
