"""number_systems: treatment of numbers of other systems in a trace.

Values computed from constants have the precision of Decimal's or mpmath's context at that time, so the precision
belongs to the trace.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError, GuardError, UnknownFunction, user_location
from tapegrad.numbers.dtypes import NUMERIC, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.systems import (
    OPERATORS,
    PRECISION,
    System,
    check_decided,
    holds_objects,
    is_numeric,
    kind_within,
    refuse_unknown,
    system,
    system_within,
)
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Guard, Operation, value_of
from tapegrad.trace.guards import number_type

_ORDERED = frozenset(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "maximum", "minimum",
                      "max", "min", "argmax", "argmin", "sort", "argsort", "sign", "clip"])


def follow(tracer: Any, known: System | None) -> None:
    """Begin to check operations on numbers of a system, if there is one; guard the precision, and refuse a change of it
    during the trace, which neither the reverse sweep nor a replay would repeat.
    """
    if known is None or known in tracer.followed:
        return
    tracer.custom = True  # beside an array they make object arrays, which the operators' fast paths do not check
    tracer.followed = (*tracer.followed, known)
    read, push = PRECISION.get(known.precision, bool), tracer.push
    begun = read()
    if known.precision:
        tracer.guard(tracer.tape.ops[0], known.precision, begun)

    def checked(op: Operation) -> None:
        values = list(map(value_of, op.args)) if type(op.fn) is Op else []
        if known.partial and op.fn.__name__ in _ORDERED and any(map(holds_objects, values)):
            raise refused(f"{op.fn.__name__} of an array of intervals", "NumPy takes an undecided comparison for False",
                          "compare each number separately")
        if any(system(x) is known for x in values) and not any(map(holds_objects, values)):
            known.check(op.fn)
            if op.fn.pythonic:
                check_decided(op.fn.__name__, op.val)
        if read() != begun:
            raise refused(f"arithmetic in another {known.precision} than at the beginning of the trace",
                          "neither the reverse sweep nor a replay would use it",
                          "set that precision around the call that traces or differentiates")
        push(op)
    tracer.push = checked


def check_numeric(tracer: Any, args: Iterable[Any], dtype: Any, val: Any) -> None:
    """Refuse arrays of objects, text or records made from numbers with a gradient, which would be lost."""
    carried = [arg for arg in args if isinstance(arg, Operation) and number_type(arg.val) in ("f", "c", "O")
               and kind_within(plain(arg.val)) is not int]
    if not _stay_numbers(args, dtype, val) and not all(map(tracer.independent, carried)):
        raise ConcretizationError("an array of objects, text, dates or records is made from traced numbers, whose "
                                  "gradient would be lost", user_location(),
                                  "make an array of numbers or a list; tg.value(x) drops the gradient on purpose")


def _stay_numbers(args: Iterable[Any], dtype: Any, val: Any) -> bool:
    """Return whether a call's result is numeric. An object array counts if an operand belongs to a number system; made
    from floats alone, it may hold other objects too.
    """
    if not holds_objects(val):
        return ((not hasattr(dtype, "kind") or letter(dtype) in NUMERIC)
                and (type(val) is not np.ndarray or is_numeric(val)))
    return is_numeric(val) and any(system_within(value_of(arg)) is not None for arg in args)


def check_precision(guard: Guard) -> None:
    """Raise GuardError if the precision differs from that of the recording, which the tape's constants have."""
    if guard.fact in PRECISION and PRECISION[guard.fact]() != guard.expected:
        raise GuardError(f"this tape was recorded with the {guard.fact} {guard.expected}, and now it is "
                         f"{PRECISION[guard.fact]()}", guard.where,
                         "set that precision around the call, or trace again")


@functools.cache
def has_arithmetic(cls: type) -> bool:
    """Return whether a user's subclass of a Python number defines operators of its own."""
    own = cls.__mro__[:next(i for i, base in enumerate(cls.__mro__) if base in (int, float, complex))]
    return cls.__module__.partition(".")[0] != "numpy" and any(name in vars(base) for base in own for name in OPERATORS)


def plain_array(x: Any, name: str = "the program's constant") -> None:
    """Refuse a subclass of ndarray, or of a Python number, that defines operators: ops' rules do not hold for them."""
    cls: Any = type(x)
    refuse_unknown(x, name)
    if cls not in ORDINARY and issubclass(cls, (int, float, complex)) and has_arithmetic(cls):
        raise UnknownFunction(f"{name} is a {type(x).__name__}, a subclass whose operators may differ from those of a "
                              "plain number",
                              user_location(), "float(x), for the plain number")
    if isinstance(x, np.ndarray) and not isinstance(x, Traced) and type(x) not in (np.ndarray, np.memmap):
        raise UnknownFunction(f"{name} is a {type(x).__name__}, a subclass whose operators may differ from those of a "
                              "plain array",
                              user_location(), "np.asarray(x), for the plain numbers")
