"""Functions of SciPy that run other code on plain numbers: called with a traced value they raise, and say what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.errors import UnknownFunction, user_location
from tapegrad.rules import register


def refuse(try_: str, *functions: Callable[..., Any]) -> None:
    """Register the functions as ones that tapegrad cannot record."""
    for fn in functions:
        register(fn, _refusal(f"{fn.__module__.rpartition('._')[0] or fn.__module__}.{fn.__name__}", try_))


def _refusal(name: str, try_: str) -> Callable[..., Any]:
    def refusal(*args: Any, **kwargs: Any) -> Any:
        raise UnknownFunction(f"{name} got a traced value, and what it computes cannot be recorded", user_location(), try_)
    return refusal
