"""outside_arrays: arrays that a program reads by name, traced as constants where it writes traced values into what it
makes of them.

A plain array cannot tell that a traced value is written into it, otherwise than by refusing it: `y = TABLE.copy();
y[0] = x`. So such a program runs again, and reads proxies of its arrays, of which copies and sums are traced arrays.
From then on it does so at once. One that changes what it reads, or draws random numbers before the write, would be
another program the second time: it is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, MethodType
from typing import Any

import numpy as np

from tapegrad.errors import MutationError, TapeError, user_location
from tapegrad.numbers.dtypes import NUMERIC, letter
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.random import draw
from tapegrad.tape.tape import Operation, Tape
from tapegrad.trace.views import Storage, View
from tapegrad.tree.copies import running

WITNESSES: list[Callable[..., Any]] = []
"""What makes an observer of a run, who tells whether the program changes what it reads: filled by who watches
compiled functions. With `samples`, of large arrays it looks at some numbers.
"""

_CURES = {
    "an array": "make it inside the function, np.array(TABLE) or np.zeros(...), or pass it as an argument",
    "an array of records": "an array of numbers for each field: a dict of np.zeros(...), or a dataclass",
    "a tensor": "make it inside the function, torch.zeros(...), or pass it as an argument",
}
# code of programs that write into copies of their arrays, by id, for a code object hashes all that is in it; and of
# which package the arrays are
_known: dict[int, tuple[CodeType, bool | str]] = {}


class OutsideArray(Storage):
    """The memory of an array or a tensor that the program found by a name: it may not be written to, and comes onto
    the tape once it is used.
    """

    __slots__ = ("then", "tracer")

    def __init__(self, val: Any, tracer: Any) -> None:
        super().__init__(Operation(), val)
        del self.op
        self.then: Any = None  # what was in it when it came onto the tape
        self.tracer, self.held = tracer, "an array that the program reads by a name is written to"

    def __getattr__(self, name: str) -> Any:
        if name != "op":
            raise AttributeError(name)
        self.op = op = self.tracer.lift(self.val)
        self.then = op.val
        return op

    def check(self) -> None:
        """Raise MutationError if code that was given no proxy has written to the array since it was used."""
        x, then = self.val, self.then
        if then is not None and not (
            x.equal(then) if is_tensor(x) else np.array_equal(x, then, equal_nan=x.dtype.kind in "fc")
        ):
            raise MutationError(f"{self.held} while it is traced", user_location(), _CURES["an array"])


def is_table(x: Any) -> bool:
    """True for an array of numbers, or a tensor that has no gradient of torch's."""
    return (
        letter(x.dtype) in NUMERIC
        if type(x) is np.ndarray
        else type(x).__name__ == "Tensor" and is_tensor(x) and not x.requires_grad
    )


def stand_for(x: Any, tracer: Any) -> Any:
    """Return the proxy that a program reads in place of an array."""
    return tracer.proxy(None, x, tracer, View(OutsideArray(x, tracer), version=-1))


def write_refused(kind: str = "an array") -> MutationError:
    """Return the refusal of a traced value that is written into a plain array or tensor; it says whether the program
    may run again.
    """
    drawn = bool(running.tracers) and any(op.fn is draw for op in running.tracers[-1].tape.ops)
    err = MutationError(
        f"a traced value is written into {kind}, where no gradient flows" if kind == "an array of records" else
        f"a traced value is written into {kind} that the trace does not own, found outside or made of constants alone",
        user_location(),
        _CURES[kind],
    )
    err.outside = bool(running.tracers) and not drawn
    return err


def known(f: Any) -> bool | str:
    """Return True for a program that has once written into what it made of an array that it reads by name, the name of
    a package that did.
    """
    return _known.get(id(code_of_program(f)), (None, False))[1] if _known else False


def code_of_program(f: Any) -> CodeType | None:
    """Return the code of the function that a program begins with."""
    while type(f) is functools.partial or "__wrapped__" in getattr(f, "__dict__", ()):
        f = f.func if type(f) is functools.partial else f.__wrapped__
    f = f.__func__ if type(f) is MethodType else f
    found = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    return found if type(found) is CodeType else None


def run_again(f: Any, run: Callable[[Any, bool | str], Tape], refusal: TapeError, observer: Any) -> Tape:
    """Return what a program's `run` returns where its arrays are traced; raise the refusal where that is of no use,
    or would not be the same.
    """
    for tracer in running.tracers:
        if tracer.refusal is refusal:
            tracer.refusal = None
    witness = WITNESSES[0]()
    try:
        found = run(witness, refusal.outside)
    except TapeError as err:
        if isinstance(err, MutationError) or err.outside:
            raise refusal from None
        raise
    except Exception as err:
        if witness.result()[1]:  # it went another way the second time
            raise refusal from err
        raise
    if why := witness.result()[1]:
        raise type(refusal)(
            f"{refusal.what}; the program does not run again with these traced, because {why}",
            refusal.where,
            refusal.try_,
        )
    if (code := code_of_program(f)) is not None:
        _known[id(code)] = code, refusal.outside
    return found if observer is None else run(observer, refusal.outside)
