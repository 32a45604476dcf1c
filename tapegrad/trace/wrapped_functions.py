"""wrapped_functions: functions that numba compiles, and those whose results functools keeps: of traced values, the
Python function inside is called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.formatting import plain as behind
from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import FOREIGN
from tapegrad.trace import views
from tapegrad.trace.interposition import StandIn, standing_for
from tapegrad.tree.copies import running


def is_compiled(kind: type) -> bool:
    """True for the class of a function, or of a ufunc, that numba compiles when it is called."""
    return kind.__name__ in ("CPUDispatcher", "DUFunc") and kind.__module__.startswith("numba.")


def given_function(fn: Any) -> Any:
    """Return the Python function that numba was given."""
    return getattr(fn, "_dispatcher", fn).py_func


def uncompiled(fn: Any) -> StandIn:
    """Return what stands in for such a function: of traced values it is the Python function that numba was given, of a
    ufunc for each number.
    """
    each = type(fn).__name__ == "DUFunc"

    def shim(*args: Any, **kwargs: Any) -> Any:
        if not (running.tracers and holds_traced((args, tuple(kwargs.values())))):
            return fn(*args, **kwargs)
        return (FOREIGN["frompyfunc"](fn, *args, **kwargs) if each and any(map(shape_of, args)) else
                given_function(fn)(*args, **kwargs))
    return standing_for(fn, shim)


def uncached(fn: Any) -> StandIn:
    """Return what stands in for a function whose results functools keeps: of traced numbers, of which each has its own
    gradient, a pure function computes them anew. A caller may not write to them: the program would find that later.
    """
    def shim(*args: Any, **kwargs: Any) -> Any:
        if not (running.tracers and holds_traced((args, tuple(kwargs.values())))):
            return fn(*args, **kwargs)
        found = FOREIGN["purely"](fn.__wrapped__, args, kwargs)
        parts = found if type(found) is tuple else (found,)
        if not all(isinstance(x, Traced) or type(x) in PYTHON for x in parts):
            return fn(*args, **kwargs)  # refuses
        for x in parts:
            if isinstance(x, Traced) and isinstance(behind(x), np.ndarray):
                views.place(x).storage.held = "an array that functools.lru_cache keeps is written to"
        return found
    return standing_for(fn, shim)
