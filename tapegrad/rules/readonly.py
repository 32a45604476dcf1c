"""readonly: arrays that a user's function may read, and not write to.

A primitive and its rule are known to a tape by what they return. What they wrote into an argument would be in the
caller's array or in another operation's value, would happen again at each replay, and no gradient would know of it.
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
    """Return a view of an array that cannot be written to; other values as they are."""
    if type(x) not in _ARRAYS or not x.flags.writeable:
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def apart(dxs: Any, dy: Any) -> Any:
    """Return the cotangents of a user's pullback, a copy of each array that somebody holds on to: it may be
    another by the next call.
    """
    if type(dxs) not in (tuple, list):
        return dxs
    # of one that returns several arrays
    given = [part for part in (dy if type(dy) is tuple else (dy,)) if type(part) is np.ndarray]
    return type(dxs)([_own(dx, getrefcount(dx) > _ALONE, given) for dx in dxs])


def _own(dx: Cotangent, held: bool, given: list[Any]) -> Any:
    if type(dx) is not np.ndarray or not (held or dx.base is not None) or any(np.may_share_memory(dx, dy)
                                                                              for dy in given):
        return dx
    return dx.copy(order="K")


_ALONE = [getrefcount(x) for x in (np.empty(1),)][0]  # noqa: RUF015


def reading(fn: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function that calls `fn` with its arrays lent; what comes back as it was given is the array itself.

    Raises MutationError where `fn` writes to one.
    """
    @functools.wraps(fn)
    def read(*args: Any, **kwargs: Any) -> Any:
        given = tuple(map(lent, args))
        try:
            y = fn(*given, **kwargs)
        except ValueError as err:
            if "read-only" not in str(err):
                raise
            raise MutationError(f"{name} writes to its argument, which is not its own", user_location(),
                                "x = x.copy() in it, first") from err

        def own(part: Any) -> Any:
            return next((x for x, view in zip(args, given) if part is view), part)
        return tuple(map(own, y)) if type(y) is tuple else own(y)
    return read
