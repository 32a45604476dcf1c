"""keywords: detects keywords of a call that are misspelt options of the transform."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.errors import ArgumentError


def check_keywords(transform: str, f: Callable[..., Any], keywords: Iterable[str], options: tuple[str, ...]) -> None:
    """Raise ArgumentError for a keyword that `f` does not take and that resembles an option of the transform.

    >>> check_keywords("grad", lambda x, scale=1.0: x, ["scale"], ("argnums", "seed"))
    """
    for name in keywords:
        option = _close(name, options)
        if option is not None and not _takes(f, name):
            raise ArgumentError(f"tg.{transform} has no option {name!r}, and the function has no such argument", None,
                                f"did you mean {option}=?")


@functools.lru_cache(maxsize=256)
def _close(name: str, options: tuple[str, ...]) -> str | None:
    from difflib import get_close_matches
    found = get_close_matches(name, options, n=1, cutoff=0.75)
    return found[0] if found else None


def _takes(f: Callable[..., Any], name: str) -> bool:
    """Return whether a function accepts a keyword; True if its signature is unknown."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return True
    return name in parameters or any(x.kind is inspect.Parameter.VAR_KEYWORD for x in parameters.values())
