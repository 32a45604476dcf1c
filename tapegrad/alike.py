"""alike: are two things that a tape holds fixed the same, and what of a mutable one must stay as it is?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import numpy as np


def alike(a: Any, b: Any) -> bool:
    """True if no program can tell two things apart: 1, 1.0 and True differ, 0.0 and -0.0, and dicts of another order."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list, set, frozenset)):  # sets by the order that they have
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return alike(list(a), list(b)) and all(alike(part, b[key]) for key, part in a.items())
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and not a.dtype.hasobject and a.tobytes() == b.tobytes()
    if isinstance(a, (float, complex, np.generic)):
        return repr(a) == repr(b)
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return False


def changes(x: Any) -> bool:
    """True for what may be another thing at the next call, though it is the same object: Python hashes no such thing, or it is used up."""
    return isinstance(x, (Iterator, Mapping)) or (type(x).__hash__ is None and not isinstance(x, slice))


def snapshot(x: Any) -> Any:
    """Return a copy of what is in a thing that changes, to be compared by `alike`; of what cannot be copied, something that nothing is like."""
    try:
        if isinstance(x, np.ndarray) and x.dtype.hasobject and x.dtype.names is None:
            return x.shape, [snapshot(part) if changes(part) else part for part in x.flat]
        if isinstance(x, Iterator):
            return object()
        return deepcopy(dict(x) if isinstance(x, Mapping) else getattr(x, "__dict__", x))  # a matrix's == is no truth value
    except Exception:  # whatever a class of the user's may raise
        return object()
