"""handing: which traced numbers may be handed on as plain ones, and the calls that take only those.

C code that asks a number for its value, by `__index__` or `__float__`, is answered by the proxy. These classes and
functions look at the type instead: what calls them by name is given code that hands them plain, guarded numbers.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.rules.activity import differentiated, give_up, is_inert
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Operation, Tape
from tapegrad.trace.views import peek
from tapegrad.tree.argnums import ALL


def loses(x: Any) -> bool:
    """True if a gradient that is wanted, of this trace or of one around it, flows through a traced value: by a plain
    one it would be lost.
    """
    return any(not is_inert(op, differentiated(tape) if partly else None) for tape, op, partly in _levels(x))


def gives_up(x: Any) -> bool:
    """True if no gradient is lost by a plain value of a traced one but those that can be given up, which then are."""
    return give_up(_levels(x))


def _levels(x: Any) -> Iterator[tuple[Tape, Operation, bool]]:
    """Yield the tape of each trace that a traced value is of, the operation on it, and whether not all of its inputs
    may be wanted.
    """
    while isinstance(x, Traced):
        tracer, signature = x._tracer, x._tracer.tape.structure
        partly = tracer.grad and signature is not None and (signature.wanted != ALL or bool(signature.kwargs)
                                                            or bool(signature.given_up))
        yield tracer.tape, peek(x), partly
        x = x._val


def taken(x: Any) -> Any:
    """Return a traced Python number as a plain one, guarded, if no gradient is lost by that; the parts of a container
    likewise, and all else as it is.
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


def of_plain(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that hands another plain numbers."""
    def call(*args: Any, **kwargs: Any) -> Any:
        return fn(*map(taken, args), **{name: taken(x) for name, x in kwargs.items()})
    return call


def _deque(*args: Any, **kwargs: Any) -> Any:
    items, limits = args[:1], {name: taken(x) if name == "maxlen" else x for name, x in kwargs.items()}
    return collections.deque(*items, *map(taken, args[1:]), **limits)


def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    return pow(base, exp) if mod is None else pow(*map(taken, (base, exp, mod)))


CALLED: dict[Any, Callable[..., Any]] = {collections.deque: _deque, pow: _pow, **{fn: of_plain(fn) for fn in (
    decimal.Decimal, decimal.Context, datetime.timedelta, np.timedelta64, np.datetime64)}}
"""What traced code calls in place of a class or a function that it names: see `conversions`."""
