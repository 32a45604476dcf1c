"""progress: shows on a terminal what long work is doing, and for how long."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, TextIO

from tapegrad.errors import fold

PATIENCE = 1.0  # seconds after which work is shown
TICK = 0.2  # seconds between two checks
IDLE = 25  # checks without any work, after which the thread ends


class Work:
    """A context for work that may take long: a description, the function it is for, and a count of operations. It also
    removes tapegrad's frames from the traceback of an interrupt.

    If standard error is a terminal, a thread writes one line there once the outermost work has lasted for a second. It
    writes plain text, because importing rich, which replaces `sys.stdout`, would interfere with a running trace.
    """

    __slots__ = ("__weakref__", "count", "doing", "of", "since")

    def __init__(self, doing: str, of: Any = None, count: Callable[[], int] | None = None) -> None:
        self.doing, self.of, self.count, self.since = doing, of, count, 0.0

    def __enter__(self) -> None:
        if sys.stderr is not _watch.file:
            _watch.turn_to(sys.stderr)
        if _watch.is_terminal:
            _watch.begin(self)

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: object) -> None:
        if self.since:
            _watch.end(self)
        if isinstance(err, KeyboardInterrupt):
            fold(err)

    def __str__(self) -> str:
        name = "" if self.of is None else f" {getattr(self.of, '__name__', type(self.of).__name__)}"
        count = self.count() if self.count is not None else 0
        return f"{self.doing}{name}" + (f": {count:,} operations" if count else "")


class _Watch:
    """The work in progress, outermost first, and the thread that shows it."""

    def __init__(self) -> None:
        self.works: list[weakref.ref[Work]] = []  # weak, since an interrupt between two lines may leave an entry here
        self.file: TextIO | None = None
        self.is_terminal = self.is_shown = False
        self.thread: threading.Thread | None = None
        self.lock = threading.RLock()

    def turn_to(self, file: TextIO | None) -> None:
        """Write to another file from now on."""
        try:
            self.is_terminal = file is not None and file.isatty() and os.environ.get("TERM") != "dumb"
        except ValueError:  # the file is closed
            self.is_terminal = False
        self.file = file

    def begin(self, work: Work) -> None:
        work.since = monotonic()
        self.works.append(weakref.ref(work))
        if self.thread is None:
            self.thread = threading.Thread(target=self.run, name="tapegrad's progress", daemon=True)
            self.thread.start()

    def end(self, work: Work) -> None:
        self.works.remove(weakref.ref(work))
        if self.is_shown:
            self.look()

    def run(self) -> None:
        pause, idle = threading.Event(), 0
        try:
            while idle < IDLE:
                pause.wait(TICK)
                idle = 0 if self.works else idle + 1
                self.look()
        finally:
            self.thread = None

    def look(self) -> None:
        """Write or erase the line."""
        with self.lock:
            works, line = [work for ref in self.works if (work := ref()) is not None], ""
            if works and (seconds := monotonic() - works[0].since) >= PATIENCE:
                inner = f", {works[-1]}" if works[-1] is not works[0] else ""
                from shutil import get_terminal_size  # slow to import
                line = f"tapegrad: {works[0]}{inner}, {seconds:.0f} s"[:get_terminal_size().columns - 1]
            if (line or self.is_shown) and self.file is not None:
                self.file.write(f"\r{line}\x1b[K")
                self.file.flush()
                self.is_shown = line != ""


_watch = _Watch()
