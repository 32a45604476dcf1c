"""plain_arguments: which traced numbers may become plain ones, and stand-ins for calls that accept only plain ones.

C code converts a proxy by `__index__` or `__float__`, but the classes and functions in `CALLED` check the type instead.
Traced code that calls them by name calls a stand-in (see `conversions`), which passes plain, guarded numbers.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.rules.activity import carries_no_gradient, differentiated, give_up
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Operation, Tape
from tapegrad.trace.views import peek
from tapegrad.tree.argnums import ALL


def loses(x: Any) -> bool:
    """Return whether a wanted gradient, of this trace or of an outer one, flows through a traced value: a plain value
    would lose it.
    """
    return any(not carries_no_gradient(op, differentiated(tape) if partly else None) for tape, op, partly in _levels(x))


def gives_up(x: Any) -> bool:
    """Return whether a plain value would lose only gradients that may be given up; give these up if so."""
    return give_up(_levels(x))


def _levels(x: Any) -> Iterator[tuple[Tape, Operation, bool]]:
    """Yield the tape and operation of a value in each trace, inner first, and whether only some inputs may be wanted.
    """
    while isinstance(x, Traced):
        tracer, signature = x._tracer, x._tracer.tape.structure
        partly = tracer.grad and signature is not None and (signature.wanted != ALL or bool(signature.kwargs)
                                                            or bool(signature.given_up))
        yield tracer.tape, peek(x), partly
        x = x._val


def taken(x: Any) -> Any:
    """Return a traced Python number as a plain, guarded one unless that loses a gradient; apply to the parts of lists,
    tuples and dicts; return other objects unchanged.
    """
    kind = type(x)
    if kind in (list, tuple):
        return kind(map(taken, x))
    if kind is dict:
        return {taken(key): taken(part) for key, part in x.items()}
    number = type(plain(x))
    if not isinstance(x, Traced) or number not in PYTHON:
        return x
    read: Any = operator.index if issubclass(number, int) else number
    return read(x) if not loses(x) or gives_up(x) else x


def with_plain_arguments(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls another with plain numbers. One that stays traced, and that it does not accept, ends
    the trace: the program may handle a TypeError, which the plain number does not raise.
    """
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tuple(map(taken, args)), {name: taken(x) for name, x in kwargs.items()}
        try:
            return fn(*args, **kwargs)
        except TypeError as err:
            held = next((x for x in (*args, *kwargs.values()) if isinstance(x, Traced)), None)
            if held is None:
                raise
            said = str(err).replace(type(held).__name__, "a traced value")
            refusal = ConcretizationError(
                f"{fn.__module__}.{fn.__name__} does not accept a traced value, and raised: {said}", user_location(),
                f"compute in floats, without {fn.__name__}; tg.value(x) drops the gradient on purpose")
            held._tracer.refuse(refusal)
            raise refusal from err
    return call


def _deque(*args: Any, **kwargs: Any) -> Any:
    items, limits = args[:1], {name: taken(x) if name == "maxlen" else x for name, x in kwargs.items()}
    return collections.deque(*items, *map(taken, args[1:]), **limits)


def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    return pow(base, exp) if mod is None else pow(*map(taken, (base, exp, mod)))


_DATES = (decimal.Decimal, decimal.Context, datetime.timedelta, np.timedelta64, np.datetime64)
CALLED: dict[Any, Callable[..., Any]] = {
    collections.deque: _deque, pow: _pow, **{fn: with_plain_arguments(fn) for fn in _DATES}}
"""Stand-ins for the classes and functions that traced code calls by name: see `conversions`."""
