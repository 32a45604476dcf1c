"""observers: notifications to the observers of this thread's trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from tapegrad.trace.recorder import Tracer
from tapegrad.tree.copies import running

SEED_CURE = ("seed before the call, or draw with generator=torch.Generator().manual_seed(n), made next to the draw")


def unrepeatable(what: str, cure: str = "") -> None:
    """Report that the program read or did something that no replay can repeat, with a suggestion."""
    for observer in running.observers:
        observer.refuse(what, cure=cure)


def asked(setting: Callable[[], Any], label: str) -> None:
    """Report that results depend on a library's setting."""
    for observer in running.observers:
        if hasattr(observer, "asked"):
            observer.asked(setting, label)


def drawn(tracer: Tracer) -> None:
    """Report that torch drew random numbers, which are recorded on this tracer's tape."""
    for observer in running.observers:
        if hasattr(observer, "drawn"):
            observer.drawn(tracer)


def written() -> None:
    """Report that the program formatted a number, which no tape records."""
    for observer in running.observers:
        if hasattr(observer, "written"):
            observer.written()


def named(owner: Any, name: Any) -> None:
    """Report that a function looks up an attribute by `getattr` or `hasattr`."""
    for observer in running.observers:
        if hasattr(observer, "named"):
            observer.named(owner, name, sys._getframe(2))


HANDED: list[Callable[[Any], None]] = []  # called with objects that traced code finds by computed names


def handed(x: Any) -> None:
    """Report an object that traced code found by a computed name and may call."""
    for hear in HANDED:
        hear(x)


def _looked_up(name: Any) -> None:
    for observer in running.observers:
        if hasattr(observer, "looked_up"):
            observer.looked_up(name, sys._getframe(2))


class Modules:
    """Stands for `sys.modules` and reports the names that a function looks up; None for an access to all of them."""

    def __getitem__(self, name: Any) -> Any:
        _looked_up(name)
        return sys.modules[name]

    def __contains__(self, name: Any) -> bool:
        _looked_up(name)
        return name in sys.modules

    def get(self, name: Any, *default: Any) -> Any:
        """Return a module, or the default."""
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
