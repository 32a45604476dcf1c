"""memo: a transform of the same function with the same options returns its earlier result.

`tg.hessian(f)(x)` in a loop then costs as much as a kept `tg.hessian(f)`.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar

from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Tape

F = TypeVar("F", bound=Callable[..., Any])
MOST = 64  # kept transforms, at most


class Kept:
    """A function, a transform's result, and whether it was requested since the last full garbage collection."""

    __slots__ = ("f", "made", "used")

    def __init__(self, f: Any, made: Any) -> None:
        self.f, self.made, self.used = f, made, False


kept: dict[Any, Kept] = {}
"""The cache, by transform, parts of the function, and options. An entry is dropped if it is not requested between two
full garbage collections. Of functions with the same code that were not requested again, only the last is kept, since
each has other captured variables.
"""


def memoised(transform: F) -> F:
    """Make a transform of a function and options return its earlier result for the same ones.

    Two functions are the same if they are one object, or have the same code, globals, captured variables (the cells,
    not their content) and defaults: they compute the same whatever these come to hold. The tapes of the results have
    guards on the values read.
    """
    @functools.wraps(transform)
    def made(*args: Any, **kwargs: Any) -> Any:
        f: Any = args[0] if args else None
        parts = parts_of(f)
        options = _typed((*args[1:], *kwargs.items())) if kwargs or len(args) > 1 else ()
        key = transform, parts, options
        try:
            found = kept.get(key)
        except TypeError:  # an unhashable option
            parts = found = None
        if parts is None:  # outside the `except`, whose error would otherwise be its context
            return transform(*args, **kwargs)
        # the kept function's parts have the ids of the key, unless its defaults were replaced
        if found is not None and (found.f is f or parts_of(found.f) == parts):
            found.used = True
            return found.made
        result = transform(*args, **kwargs)
        _keep(key, f, result)
        return result
    return made  # type: ignore[return-value]


def anew(transform: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a transform without the cache: each call returns a new result."""
    return transform.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]


def parts_of(f: Any) -> tuple[Any, ...] | None:
    """Return the ids of the parts that a function computes with; None for a tape, which may be edited, and for a
    function of a running trace.
    """
    kind = type(f)
    if kind is FunctionType:
        if f.__dict__:
            return id(f.__code__), id(f)
        cells, defaults = f.__closure__ or (), f.__defaults__ or ()
        if any(isinstance(x, Traced) for x in (*map(_content, cells), *defaults)):
            return None
        named = f.__kwdefaults__
        return (id(f.__code__), id(f.__globals__), *map(id, cells), "defaults", *map(id, defaults),
                *([] if named is None else [(name, id(x)) for name, x in named.items()]))
    if kind is MethodType:
        parts = parts_of(f.__func__)
        return None if parts is None else (*parts, "of", id(f.__self__))
    if f is None or isinstance(f, (Tape, Traced)):
        return None
    return None, id(f)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _typed(x: Any) -> Any:
    """Return options with their types, which distinguishes 1, 1.0 and True."""
    return tuple(map(_typed, x)) if type(x) is tuple else (type(x), x)


def _keep(key: Any, f: Any, made: Any) -> None:
    if _collected not in gc.callbacks:
        gc.callbacks.append(_collected)
    transform, (code, *_), options = key
    if code is not None:
        for other, entry in list(kept.items()):
            if not entry.used and other[0] is transform and other[1][0] == code and other[2] == options:
                kept.pop(other, None)
    if len(kept) >= MOST:
        unused = (other for other, entry in list(kept.items()) if not entry.used)
        kept.pop(next(unused, None) or next(iter(list(kept)), None), None)
    kept[key] = Kept(f, made)


def _collected(phase: str, info: dict[str, int]) -> None:
    """Drop the entries that were not requested since the last full collection."""
    if phase == "start" and info["generation"] == 2:
        for key, entry in list(kept.items()):
            if entry.used:
                entry.used = False
            else:
                kept.pop(key, None)
