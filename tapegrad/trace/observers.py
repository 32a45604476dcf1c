"""observers: what those who observe a trace are told of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.trace.recorder import Tracer
from tapegrad.tree.copies import running

SEED_CURE = ("seed before the call, or draw with generator=torch.Generator().manual_seed(n), made where it is drawn "
             "from")


def unrepeatable(what: str, cure: str = "") -> None:
    """Tell who observes this thread's trace that the program took, or did, what no replay gives again, and what to
    do instead.
    """
    for observer in running.observers:
        observer.refuse(what, cure=cure)


def asked(setting: Callable[[], Any], label: str) -> None:
    """Tell who observes this thread's trace that a library computes by a setting."""
    for observer in running.observers:
        if hasattr(observer, "asked"):
            observer.asked(setting, label)


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
