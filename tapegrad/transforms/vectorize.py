"""vectorize: calls of a Python function on each number of arrays, as a batch of one trace.

It serves functions whose code does nothing but compute. Numbers that take another branch are traced and run apart, like
members of any batch; the remaining ones are called one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.numbers.formatting import name_of, plain
from tapegrad.tape.tape import Tape
from tapegrad.trace.checkpoint import Written, why_no_subtape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.effects import Reach
from tapegrad.trace.tracer import record
from tapegrad.transforms.vmap import Batched, Group

PER_TRACE = 32  # number of single calls that take as long as a trace and a batch of its operations


def of_each_number(call: Callable[..., Any], fixed: Sequence[Any], columns: Sequence[Any]) -> Any:
    """Return what `call(*fixed, *numbers)` returns for the numbers of each place, in arrays; None where calls may do
    more than compute, or return no numbers.

    A column is an array of Python numbers with one axis, or one number for all places.
    """
    reach = Reach(*fixed)
    if not reach.pure:
        return None
    sizes = [len(plain(x)) if np.ndim(plain(x)) else 0 for x in columns]
    batch = _Numbers((*[None] * len(fixed), *[0 if size else None for size in sizes]), 0, name_of(fixed[0]))
    batch.left = 2 + max(sizes) // PER_TRACE
    try:
        found = batch.call(call, (*fixed, *columns), {})
    except Exception:  # single calls tell which number raises first
        found = None
    if reach.is_as_before():
        return found
    reach.put_back()
    return None


class _Apart(TapeError):
    """Raised where a tape does not determine what a function does for a number."""


class _Numbers(Batched):
    """A batch of Python numbers, each of which must follow one of a few tapes."""

    left = 0  # number of traces that may still be made

    def first(self, x: Any, size: int) -> Any:
        return x[0].item()

    def recorded(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], observer: Any) -> Tape:
        self.left -= 1
        if self.left < 0:
            raise _Apart("most numbers take ways of their own", None, "")
        done = Written()
        tape = record(fn, args, kwargs, DEFAULT, done=done)
        if done.why or done.finals or why_no_subtape(tape, [], done):
            raise _Apart("a call does more than compute", None, "")
        return tape

    def alone(self, *args: Any) -> Group:
        raise _Apart("a call takes plain numbers of traced ones", None, "")
