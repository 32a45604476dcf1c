"""wrapped_functions: replaces numba's compiled functions by their Python functions when an argument is traced."""

from __future__ import annotations

from typing import Any

from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.op import holds_traced
from tapegrad.rules.registry import DISPATCH, StandIn
from tapegrad.trace.interposition import standing_for
from tapegrad.tree.copies import running


def is_compiled(kind: type) -> bool:
    """Return whether a class is that of numba's compiled functions or ufuncs."""
    return kind.__name__ in ("CPUDispatcher", "DUFunc") and kind.__module__.startswith("numba.")


def given_function(fn: Any) -> Any:
    """Return the Python function that numba compiles."""
    return getattr(fn, "_dispatcher", fn).py_func


def uncompiled(fn: Any) -> StandIn:
    """Return a stand-in that calls the Python function if an argument is traced, for each element in case of a ufunc.
    """
    each = type(fn).__name__ == "DUFunc"

    def shim(*args: Any, **kwargs: Any) -> Any:
        if not (running.tracers and holds_traced((args, tuple(kwargs.values())))):
            return fn(*args, **kwargs)
        return (DISPATCH["frompyfunc"](fn, *args, **kwargs) if each and any(map(shape_of, args)) else
                given_function(fn)(*args, **kwargs))
    return standing_for(fn, shim)
