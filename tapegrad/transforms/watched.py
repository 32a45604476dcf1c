"""watched: records programs as usual, or in a context that checks each value (`raise_on_nan`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Tape
from tapegrad.trace.context import DEFAULT, Context
from tapegrad.trace.guards import UNLIKE
from tapegrad.tree.flatten import leaves_of


class Watch(Context):
    """A context that checks the values of a program, and the reverse sweep of its tape."""

    def sweep(self, tape: Tape, seed: Any) -> None:
        """Check the reverse sweep of a primal tape with values."""
        raise NotImplementedError


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
WATCHES: list[Watch] = []  # of all threads; if there are none, compiled functions skip the check


def watch() -> Watch | None:
    """Return the watch on this thread's programs, None if there is none."""
    return _watch.get() if WATCHES else None


def context() -> Context:
    """Return the context in which programs are recorded."""
    return watch() or DEFAULT


@contextmanager
def watching(by: Watch) -> Iterator[None]:
    """Record the programs of this thread in a context, and make compiled functions trace."""
    WATCHES.append(by)
    UNLIKE.append(watch)
    token = _watch.set(by)
    try:
        yield
    finally:
        _watch.reset(token)
        WATCHES.remove(by)
        UNLIKE.remove(watch)


def check_sweep(tape: Tape, seed: Any) -> None:
    """Have the watch check the reverse sweep of a tape, unless a trace under the watch records that sweep."""
    by = watch()
    if by is not None and not any(isinstance(x, Traced) for x in leaves_of((seed, [op.val for op in tape.inputs[1:]]))):
        by.sweep(tape, seed)
