"""Team: the workers of one problem, one process for each peer, seen from outside."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.first import uncached

ROOT = Path(__file__).parent.parent
LOADING = 300.0  # seconds to import a library
PATIENCE = 5.0  # seconds to end


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a worker: it finds these modules from wherever it is started, and torch.compile
    nothing of earlier ones.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, **uncached(folder), "PYTHONPATH": path}


class Ended(Exception):
    """A worker can go on no longer; the message says why."""


class Worker:
    """One process of bench.worker. `ask` and the start raise Ended when it does not answer."""

    def __init__(self, problem: str, peer: str, arguments: Sequence[str], folder: Path) -> None:
        self.gradient = folder / "gradient.npz"
        command = [sys.executable, "-m", "bench.worker", problem, peer, "--gradient", str(self.gradient), *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        env=environment(folder), start_new_session=True)
        self.answers: queue.Queue[str] = queue.Queue()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()
        self.busy = True

    def first(self, limit: float) -> dict[str, float]:
        """Wait for the first gradient, no longer than `limit` seconds once the libraries are loaded."""
        self._answer(LOADING)
        return self._answer(limit)

    def ask(self, number: int, limit: float) -> float:
        """Return the seconds per call of `number` calls."""
        assert self.process.stdin is not None
        try:
            print(number, file=self.process.stdin, flush=True)
        except OSError:
            raise Ended(f"the process ended with {self.process.wait()}") from None
        return float(self._answer(limit)["seconds"])

    def stop(self) -> None:
        """End the process, and those that it started: by closing what it reads, by force if it does not listen."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if self.process.stdout.closed:
            return
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0 if self.busy else PATIENCE)
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        else:
            self.process.kill()
        self.process.wait()
        self.listener.join()
        self.process.stdout.close()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put("")

    def _answer(self, limit: float) -> dict[str, Any]:
        self.busy = True
        try:
            line = self.answers.get(timeout=limit)
        except queue.Empty:
            raise Ended(f"no result in {limit:g} s") from None
        self.busy = False
        if not line:
            raise Ended(f"the process ended with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "missing" in answer:
            raise Ended(answer["missing"])
        return answer
