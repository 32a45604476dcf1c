"""readonly: read-only arrays for user functions.

A tape knows a primitive and its rule by their results only. A write to an argument would change the caller's array or
another operation's value, be repeated at each replay, and escape differentiation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import getrefcount
from typing import Any

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.kinds import Cotangent

_ARRAYS = (np.ndarray, np.memmap)


def lent(x: Any) -> Any:
    """Return a read-only view of an array; other values unchanged."""
    if type(x) not in _ARRAYS or not x.flags.writeable:
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def apart(dxs: Any, dy: Any) -> Any:
    """Return a user's cotangents, copying each array with other references, since the next call may change it."""
    if type(dxs) not in (tuple, list):
        return dxs
    # the cotangents of several results come as a tuple
    given = [part for part in (dy if type(dy) is tuple else (dy,)) if type(part) is np.ndarray]
    return type(dxs)([_own(dx, getrefcount(dx) > _ALONE, given) for dx in dxs])


def _own(dx: Cotangent, held: bool, given: list[Any]) -> Any:
    if type(dx) is not np.ndarray or not (held or dx.base is not None) or any(np.may_share_memory(dx, dy)
                                                                              for dy in given):
        return dx
    return dx.copy(order="K")


_ALONE = [getrefcount(x) for x in (np.empty(1),)][0]  # noqa: RUF015


def reading(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that calls `fn` with read-only views of its arrays; a view that `fn` returns is replaced by its
    array.

    Raises MutationError if `fn` writes to an argument.
    """
    @functools.wraps(fn)
    def read(*args: Any, **kwargs: Any) -> Any:
        given = tuple(map(lent, args))
        try:
            y = fn(*given, **kwargs)
        except ValueError as err:
            if "read-only" not in str(err):
                raise
            raise MutationError(f"{name} writes to its argument, which other code uses too", user_location(),
                                "copy the argument first, x = x.copy()") from err

        def own(part: Any) -> Any:
            return next((x for x, view in zip(args, given) if part is view), part)
        return tuple(map(own, y)) if type(y) is tuple else own(y)
    return read
