"""raise_on_nan: stops a program and its gradient at the first operation that makes a nan or an inf."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tapegrad.debug.execution import Executed, recorded, visit
from tapegrad.debug.find import LIMIT, MASK, NOT_FINITE, describe, first
from tapegrad.debug.values import numbers
from tapegrad.errors import NonFiniteError
from tapegrad.ops import pack
from tapegrad.rules.op import memory_of
from tapegrad.show.line import reverse_start
from tapegrad.tape.tape import Call, Constant, Input, Tape, Variable, value_of
from tapegrad.transforms.reverse import back
from tapegrad.transforms.rewrite import rewrite
from tapegrad.transforms.watched import Watch, watching


class Finite(Watch):
    """Raises at the call that makes a nan or an inf, at the program's line."""

    def record(self, tape: Tape, call: Call) -> Variable:
        """Put a call on the tape; raise if its value is not finite."""
        given = [value_of(arg) for arg in call.args]
        seen = visit(call, call.fn, given, call.val)
        if seen.fn is not pack and (kind := kind_of(seen.value)) is not None:
            for arg in call.args:
                if isinstance(arg, Input) and kind_of(arg.val) is not None:
                    raise_for(Executed(arg, None, [], arg.val), str(kind_of(arg.val)), call)
            if not memory_of(seen.fn).blank and not any(kind_of(x) is not None for x in given):
                raise_for(seen, kind, call)
        return super().record(tape, call)

    def sweep(self, tape: Tape, seed: Any) -> None:
        """Raise for the first pullback that makes a nan or an inf."""
        with np.errstate(all="ignore"):
            reverse = back(rewrite(tape.check()), seed)
        finding = first(reverse, recorded(reverse, reverse_start(reverse) + 1), NOT_FINITE)
        if finding is not None:
            raise NonFiniteError(f"{finding.kind}, backward. {finding.message}", finding.where, finding.try_ or MASK)


def kind_of(value: Any) -> str | None:
    """Return "nan" or "inf" if a value holds one, None if it is finite."""
    if type(value) in (float, np.float64) and abs(value) <= sys.float_info.max:
        return None
    return next((kind for kind, test in NOT_FINITE.items() if any(test(x).any() for x in numbers(value))), None)


def raise_for(seen: Executed, kind: str, call: Call) -> None:
    """Raise for a value that a call made or the program brought along."""
    message, cure = describe(seen, None, kind, NOT_FINITE[kind], LIMIT)
    otherwise = ("pass finite numbers" if isinstance(seen.op, (Input, Constant)) else
                 "tg.explain(f, *args) shows its effect on the gradient")
    raise NonFiniteError(f"{kind}, forward. {message}", call.where, cure or otherwise)


def raise_on_nan() -> AbstractContextManager[None]:
    """Return a context in which the first operation that makes a nan or an inf raises NonFiniteError, at the program's
    line: forward, or backward in the reverse sweep of `grad`, `gradient`, `value_and_grad` and their kin.

    Intended values, a constant or an array filled with nan, do not raise. Compiled functions are traced meanwhile;
    functions compiled from a tape, and `tape.play`, are not checked (use `tape.find("nan")`).

    >>> import tapegrad as tg
    >>> with np.errstate(all="ignore"), raise_on_nan():
    ...     tg.grad(lambda x: np.log(x) * 2, 0.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    tapegrad.errors.NonFiniteError: inf, forward. `%3 = log(%2)` is -inf: log(0.0).
    """
    return watching(Finite())
