"""observers: what those who observe a trace are told of it."""

from __future__ import annotations

from tapegrad.trace.recorder import Tracer
from tapegrad.tree.copies import running


def unrepeatable(what: str) -> None:
    """Tell who observes this thread's trace that the program took what no replay gives again."""
    for observer in running.observers:
        observer.refuse(what)


def drawn(tracer: Tracer) -> None:
    """Tell who observes this thread's trace that torch has drawn random numbers, which are on the tape of this
    tracer.
    """
    for observer in running.observers:
        if hasattr(observer, "drawn"):
            observer.drawn(tracer)


def written() -> None:
    """Tell who observes this thread's trace that the program took the text of a number, which is on no tape."""
    for observer in running.observers:
        if hasattr(observer, "written"):
            observer.written()
