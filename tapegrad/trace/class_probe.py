"""class_probe: finds the classes of a NumPy function's results for arrays of a program's class.

NumPy decides function by function (`x.sum()` has the class, `x.dot(x)` and `np.concatenate([x, x])` do not), so the
function runs on arrays of a probe class that records what is looked up on it.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.formatting import plain


class Found(NamedTuple):
    """A result that has a class: the array it inherits the class from; whether it is that array itself (`same`), or was
    made without one (`fresh`); and whether `__array_wrap__` made it, with its ufunc context.
    """

    origin: Any
    same: bool
    fresh: bool
    wrapped: bool
    context: Any


class Answer(NamedTuple):
    """A NumPy function's result, with Found for each part that has a class, and the overridden names that it looked up.
    """

    result: Any
    asked: set[str]

    @property
    def wrapped(self) -> bool:
        """True if `__array_wrap__` made every part that has a class, directly from the arguments and as the last step.
        """
        parts = self.result if type(self.result) is list else [self.result]
        return all(type(part) is Found and part.wrapped
                   and not any(isinstance(arg, Probe) for arg in (part.context or ((), ()))[1])
                   for part in parts)


class Probe(np.ndarray):
    """An array of a probe class; views and results inherit its origin."""

    origin: Any = None
    asked: set[str] = set()  # noqa: RUF012
    wrapped, context = False, None

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, Probe):
            self.origin, self.asked = obj.origin, obj.asked


def probed(fn: Callable[..., Any], args: Any, kwargs: Any, viewed: type,
           names: Callable[[Any], frozenset[str]]) -> Answer:
    """Run a NumPy function on probes of the `viewed` arguments; `names` returns the names that a class overrides."""
    asked: set[str] = set()
    probes: dict[int, Any] = {}

    def probe(x: Any) -> Any:
        if issubclass(type(x), viewed):
            if id(x) not in probes:
                own: Any = x
                kind = _kind(names(type(x)), own.__array_priority__)
                probes[id(x)] = made = np.array(plain(own), subok=False).view(kind)
                made.origin, made.asked = x, asked
                made.flags.writeable = False
            return probes[id(x)]
        if type(x) in (tuple, list):
            return type(x)(map(probe, x))
        return plain(x)
    given = probe(tuple(args)), {key: probe(x) for key, x in kwargs.items()}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = fn(*given[0], **given[1])
    except Exception:  # it writes to its arguments, or raises for the traced values too
        return Answer(None, asked)
    return Answer(_found(result, probes), asked)


def _found(x: Any, probes: dict[int, Any]) -> Any:
    if isinstance(x, Probe) and x.origin is not None:
        return Found(x.origin, any(x is probe for probe in probes.values()), False, x.wrapped,
                     _given(x.context, probes))
    if isinstance(x, Probe):
        return Found(max(probes.values(), key=lambda probe: probe.__array_priority__).origin, False, True, False, None)
    return [_found(part, probes) for part in x] if type(x) in (tuple, list) or hasattr(x, "_fields") else None


def _given(context: Any, probes: dict[int, Any]) -> Any:
    """Return the context passed to `__array_wrap__`, with probes replaced by their arrays; None for generalised ufuncs.
    """
    known = {id(probe): probe.origin for probe in probes.values()}
    return None if context is None or context[0].signature else (context[0], tuple(known.get(id(arg), arg)
                                                                                   for arg in context[1]), *context[2:])


@functools.lru_cache(maxsize=256)
def _kind(names: frozenset[str], priority: float) -> type[Probe]:
    """Return a probe class that records lookups of these names."""
    own: dict[str, Any] = {name: _trap(name) for name in names}
    return type("Probe", (Probe,), {**own, "__array_priority__": priority})


def _trap(name: str) -> Any:
    meant = getattr(np.ndarray, name)

    def get(self: Any) -> Any:
        self.asked.add(name)
        return meant.__get__(self)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked.add(name)
        y = meant(self, *args, **kwargs)
        if name == "__array_wrap__" and isinstance(y, Probe):
            y.wrapped, y.context = True, args[1] if len(args) > 1 else None
        return y
    return call if callable(meant) else property(get)
