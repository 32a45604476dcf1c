"""memo: a transform of the same function, with the same options, returns what it returned before.

`tg.hessian(f)(x)` in a loop then costs what a kept `tg.hessian(f)` costs.
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
MOST = 64  # transforms that are kept


class Kept:
    """A function, what a transform made of it, and whether that was asked for again since the last full collection."""

    __slots__ = ("f", "made", "used")

    def __init__(self, f: Any, made: Any) -> None:
        self.f, self.made, self.used = f, made, False


kept: dict[Any, Kept] = {}
"""By the transform, the parts of the function and the options. Nothing is kept that was not asked for again between two
full garbage collections; and of functions with one code, of which none came again, only the last: each has captured
other things.
"""


def memoised(transform: F) -> F:
    """Have a function of a function and options return what it returned before for the same ones.

    Two functions are the same if they are one object, or have the same code, globals, captured variables (the cells,
    not what is in them) and defaults: they compute the same whatever these come to hold. The tapes of what is returned
    have guards for what they read.
    """
    @functools.wraps(transform)
    def made(*args: Any, **kwargs: Any) -> Any:
        f: Any = args[0] if args else None
        parts = parts_of(f)
        options = _typed((*args[1:], *kwargs.items())) if kwargs or len(args) > 1 else ()
        key = transform, parts, options
        try:
            found = kept.get(key)
        except TypeError:  # an option that cannot be hashed
            parts = found = None
        if parts is None:  # an error of the transform's is none beside that one
            return transform(*args, **kwargs)
        # what it has kept alive has the identities of the key, unless its defaults were replaced
        if found is not None and (found.f is f or parts_of(found.f) == parts):
            found.used = True
            return found.made
        result = transform(*args, **kwargs)
        _keep(key, f, result)
        return result
    return made  # type: ignore[return-value]


def anew(transform: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a transform makes of a function, another one at each call."""
    return transform.__wrapped__(*args, **kwargs)  # type: ignore[attr-defined]


def parts_of(f: Any) -> tuple[Any, ...] | None:
    """Return by identity what a function computes with; None for a tape, which may be edited, and for a function of a
    trace that is going on.
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
    """Return options so that 1, 1.0 and True are different ones."""
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
    """Let go of what was not asked for again since the last full collection."""
    if phase == "start" and info["generation"] == 2:
        for key, entry in list(kept.items()):
            if entry.used:
                entry.used = False
            else:
                kept.pop(key, None)
