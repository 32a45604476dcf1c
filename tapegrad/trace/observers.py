"""observers: what those who observe a trace are told of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
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


def named(owner: Any, name: Any) -> None:
    """Tell who observes this thread's trace that a function asks, by `getattr` or `hasattr`, for an attribute."""
    for observer in running.observers:
        if hasattr(observer, "named"):
            observer.named(owner, name, sys._getframe(2))


HANDED: list[Callable[[Any], None]] = []  # what is called with what traces reach by computed names


def handed(x: Any) -> None:
    """Tell that traced code has taken what it may call by a name that it computes."""
    for hear in HANDED:
        hear(x)


def _looked_up(name: Any) -> None:
    for observer in running.observers:
        if hasattr(observer, "looked_up"):
            observer.looked_up(name, sys._getframe(2))


class Modules:
    """Stands for `sys.modules`, and tells who observes a trace for which of them a function asks; None for all."""

    def __getitem__(self, name: Any) -> Any:
        _looked_up(name)
        return sys.modules[name]

    def __contains__(self, name: Any) -> bool:
        _looked_up(name)
        return name in sys.modules

    def get(self, name: Any, *default: Any) -> Any:
        """Return a module, or what stands for one that is not there."""
        _looked_up(name)
        return sys.modules.get(name, *default)

    def __iter__(self) -> Iterator[Any]:
        _looked_up(None)
        return iter(sys.modules)

    def __len__(self) -> int:
        _looked_up(None)
        return len(sys.modules)

    def __setitem__(self, name: Any, module: Any) -> None:
        sys.modules[name] = module

    def __delitem__(self, name: Any) -> None:
        del sys.modules[name]

    def __getattr__(self, name: str) -> Any:
        _looked_up(None)
        return getattr(sys.modules, name)
