"""How mpmath's functions are written in ops. They take numbers only, so no dispatch protocol reaches them: they are
replaced while a trace runs that has an mpmath number among its inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import mpmath
from mpmath import ctx_mp_python, iv, mp

from tapegrad import ops
from tapegrad.numbers.exact import register_mpmath
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.systems import INTERPOSED, OWNERS, system
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.registry import DISPATCH, refused
from tapegrad.tree.flatten import OPAQUE

register_mpmath(mp, ctx_mp_python._mpf, ctx_mp_python._mpc)
OWNERS.add(type(mp))


def number(x: Any, *others: Any) -> Any:
    """Return an argument as an mpmath function converts it: a number of another kind to an mpf, or to an interval if
    one of the `others` is an interval.
    """
    kind = iv.mpf if any(isinstance(plain(other), iv.mpf) for other in others) else mp.mpf
    return x if system(x) is not None else ops.convert(x, to=kind)


def means(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated composite for the mpmath function `name`. It is called with mpmath numbers, without the
    context.
    """
    # when another library makes a context, mpmath gives the class new functions, while the module keeps the first ones
    methods = [getattr(place, name, None) for place in (mp, mpmath, iv)]
    fns = [fn for fn in dict.fromkeys(getattr(method, "__func__", method) for method in methods)
           if type(fn) is FunctionType and fn not in DISPATCH]

    def decorate(composite: Callable[..., Any]) -> Callable[..., Any]:
        def meaning(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                raise refused(f"mpmath.{name} with {', '.join(kwargs)}=",
                              "it would compute with another precision than the trace",
                              "put `with mp.workdps(...):` around the call that is differentiated")
            return composite(*[number(x, *args) for x in args if type(x) not in (type(mp), type(iv))])
        DISPATCH.update(dict.fromkeys(fns, meaning))
        OPAQUE.update(fns)
        INTERPOSED.extend(fns)
        return composite
    return decorate


def _one(op: Op) -> Callable[[Any], Any]:
    return lambda x: op(x)


for _name, _op in {"ln": ops.log, "nint": ops.rint, "conj": ops.conjugate, "re": ops.real, "im": ops.imag,
                   "fabs": ops.abs, **{
        name: OPS[name] for name in ("sqrt", "cbrt", "exp", "expm1", "log10", "log1p", "sin", "cos", "tan", "asin",
                                     "acos", "atan", "sinh",
                                         "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "sign", "isnan",
                                     "isinf", "isfinite")}}.items():
    means(_name)(_one(_op))


@means("log")
def log(x: Any, b: Any = None) -> Any:
    return ops.log(x) if b is None else ops.log(x) / ops.log(b)


@means("atan2")
def atan2(y: Array, x: Array) -> Any:
    return ops.atan2(y, x)


@means("hypot")
def hypot(x: Array, y: Array) -> Any:
    return ops.hypot(x, y)


@means("power")
def power(x: Array, y: Array) -> Any:
    return x ** y
