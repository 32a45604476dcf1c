"""global_arrays: arrays that a program reads by name, traced as constants if it writes traced values into copies.

A plain array can only refuse a traced value that is written into it: `y = TABLE.copy(); y[0] = x`. Such a program runs
again and reads proxies of its arrays, whose copies and sums are traced arrays; later traces do so at once. A program
that changes what it reads, or draws random numbers before the write, would behave differently the second time and is
refused.
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

OBSERVERS: list[Callable[..., Any]] = []
"""Constructors of observers that tell whether a run changes what it reads, registered by the code that watches compiled
functions. With `samples` they compare only some elements of large arrays.
"""

_CURES = {
    "an array": "make it inside the function, np.array(TABLE) or np.zeros(...), or pass it as an argument",
    "an array of records": "use an array of numbers for each field: a dict of np.zeros(...), or a dataclass",
    "a tensor": "make it inside the function, torch.zeros(...), or pass it as an argument",
}
# by id (a code object's hash reads all its contents): code of programs that write into copies of their arrays, and True
# or the name of the package that holds the arrays
_known: dict[int, tuple[CodeType, bool | str]] = {}


class OutsideArray(Storage):
    """The memory of an array or tensor that the program read by name: it may not be written to, and becomes a constant
    of the tape once it is used.
    """

    __slots__ = ("then", "tracer")

    def __init__(self, val: Any, tracer: Any) -> None:
        super().__init__(Operation(), val)
        del self.op
        self.then: Any = None  # its content when it became a constant
        self.tracer, self.held = tracer, "an array from outside the function is written to"

    def __getattr__(self, name: str) -> Any:
        if name != "op":
            raise AttributeError(name)
        self.op = op = self.tracer.lift(self.val)
        self.then = op.val
        return op

    def check(self) -> None:
        """Raise MutationError if untraced code has written to the array since it was used."""
        x, then = self.val, self.then
        if then is not None and not (
            x.equal(then) if is_tensor(x) else np.array_equal(x, then, equal_nan=x.dtype.kind in "fc")
        ):
            raise MutationError(f"{self.held} while it is traced", user_location(), _CURES["an array"])


def is_table(x: Any) -> bool:
    """Return whether `x` is a numeric array, or a tensor without requires_grad."""
    return (
        letter(x.dtype) in NUMERIC
        if type(x) is np.ndarray
        else type(x).__name__ == "Tensor" and is_tensor(x) and not x.requires_grad
    )


def stand_for(x: Any, tracer: Any) -> Any:
    """Return the proxy that a program reads in place of an array."""
    return tracer.proxy(None, x, tracer, View(OutsideArray(x, tracer), version=-1))


def write_refused(kind: str = "an array") -> MutationError:
    """Return the error for writing a traced value into a plain array or tensor; `outside`: whether to run again."""
    drawn = bool(running.tracers) and any(op.fn is draw for op in running.tracers[-1].tape.ops)
    err = MutationError(
        f"a traced value is written into {kind}, which carries no gradient" if kind == "an array of records" else
        f"a traced value is written into {kind} that the trace does not own: it comes from outside the function, or was"
        " made from constants",
        user_location(),
        _CURES[kind],
    )
    err.outside = bool(running.tracers) and not drawn
    return err


def known(f: Any) -> bool | str:
    """Return True if a program writes traced values into copies of arrays it reads by name; for a package, its name."""
    return _known.get(id(code_of_program(f)), (None, False))[1] if _known else False


def code_of_program(f: Any) -> CodeType | None:
    """Return the code of the function that a program starts with."""
    while type(f) is functools.partial or "__wrapped__" in getattr(f, "__dict__", ()):
        f = f.func if type(f) is functools.partial else f.__wrapped__
    f = f.__func__ if type(f) is MethodType else f
    found = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    return found if type(found) is CodeType else None


def run_again(f: Any, run: Callable[[Any, bool | str], Tape], refusal: TapeError, observer: Any) -> Tape:
    """Run the program again with its arrays traced and return the tape; raise the refusal if that does not help or the
    run would not be the same.
    """
    for tracer in running.tracers:
        if tracer.refusal is refusal:
            tracer.refusal = None
    witness = OBSERVERS[0]()
    try:
        found = run(witness, refusal.outside)
    except TapeError as err:
        if isinstance(err, MutationError) or err.outside:
            raise refusal from None
        raise
    except Exception as err:
        if witness.result()[1]:  # the second run took another path
            raise refusal from err
        raise
    if why := witness.result()[1]:
        raise type(refusal)(
            f"{refusal.what}; running it again with these arrays traced is impossible, because {why}",
            refusal.where,
            refusal.try_,
        )
    if (code := code_of_program(f)) is not None:
        _known[id(code)] = code, refusal.outside
    return found if observer is None else run(observer, refusal.outside)
