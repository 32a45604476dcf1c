"""dispatch: dispatch of library functions on traced values, through the registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import UnknownFunction, unknown, user_location
from tapegrad.numbers.formatting import spelled
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH, STAND_IN, Refusal
from tapegrad.trace.call_arguments import answers_ufuncs, call_plainly, takes
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.methods import into_out
from tapegrad.trace.plain_arguments import loses
from tapegrad.trace.recorder import Tracer
from tapegrad.tree.flatten import leaves_of


def plain(x: Any, tracer: Tracer) -> Any:
    """Return the value of a proxy of this tracer; proxies of an outer trace stay proxies."""
    return x._val if isinstance(x, Traced) and x._tracer is tracer else x


def by_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Dispatch a ufunc or a ufunc's method; return NotImplemented if another argument handles it. Raises
    UnknownFunction if it has no implementation.
    """
    if any(answers_ufuncs(type(x)) for x in inputs):
        return NotImplemented  # NumPy tries that argument next
    result = DISPATCH[np.ufunc](ufunc, method, *inputs, **kwargs)
    if result is NotImplemented:
        raise unknown(ufunc if method == "__call__" else getattr(ufunc, method))
    return result


def apply(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
          plainly: Any = None) -> Any:
    """Dispatch a foreign function; `plainly` is the original function where it has been replaced."""
    viewed, ctx = DISPATCH.get("viewed"), tracer.ctx
    if viewed is not None:
        y = viewed(lambda *a, **k: apply(tracer, func, a, k, plainly), func, args, kwargs)
        if y is not NotImplemented:
            return y
    # the context may name the function or its stand-in
    if (ctx is not DEFAULT or ctx.knows) and (ctx.is_primitive(func) or ctx.is_primitive(STAND_IN.get(func, func))):
        return ctx.op(func).run(*args, **kwargs)
    meaning = DISPATCH.get(func)
    if meaning is not None and type(meaning) is not Refusal:
        try:
            return (meaning(*args, **kwargs) if len(args) < 3 and "out" not in kwargs
                    else into_out(func, meaning, args, kwargs))
        except Exception as err:
            if type(err) is TypeError and "argument" in str(err) and takes(plainly or func, args, kwargs):
                err = UnknownFunction(f"this call of {spelled(func)} cannot be recorded: {err}", user_location(),
                                      "the same call without that argument; or tg.primitive, which records a function "
                                      "of yours as one operation")
            tracer.raised(func, args, kwargs, err)
            raise err
    if not any(map(loses, leaves_of((args, kwargs)))):
        return call_plainly(tracer, plainly or func, args, kwargs)
    try:
        if meaning is not None:
            meaning(*args, **kwargs)  # raises
        raise unknown(func)
    except Exception as err:
        tracer.raised(func, args, kwargs, err)  # the tracer of the arguments is the one that refuses
        raise


def compute(tracer: Tracer, fn: Callable[..., Any], *values: Any) -> Any:
    """Return `fn(*values)`; with value retention, into the memory of dropped values."""
    return fn(*values) if tracer.retention is None else tracer.retention.run(fn, *values)
