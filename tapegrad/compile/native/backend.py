"""backend: compiles NumPy tapes to machine code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tapegrad.compile.backend import BACKENDS, Backend, with_inlined_checkpoints, with_reusable_states
from tapegrad.compile.known_functions import is_known
from tapegrad.compile.native.batches import grouped
from tapegrad.compile.native.draws import MOST
from tapegrad.compile.native.entry import LEFT, Compiled, NotWorthwhile, compile_native
from tapegrad.compile.native.guards import Guards
from tapegrad.compile.native.machine import machine, shared_function
from tapegrad.compile.native.profiler import set_profile
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import ArgumentError
from tapegrad.ops import draw
from tapegrad.optimise.pipeline import DEFAULT, Pass
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace.guards import UNLIKE

LONG = 0.02  # seconds of a trace that is worth machine code to observe it


class Native(Backend):
    """The backend that compiles tapes to machine code."""

    price = (3e-3, 3e-4)

    def profiler(self, seconds: float) -> Callable[[Any], Any]:
        return set_profile if seconds > LONG and there_is() else super().profiler(seconds)

    def function(self, tape: Tape, fresh: Any = None) -> Callable[..., Any]:
        """Return a finished tape as a function; as NumPy code if little or none of it becomes machine code."""
        if not there_is():
            return compile_tape(tape, fresh=fresh)
        if suits(tape):
            try:
                return NativeFunction.made(tape, fresh)  # type: ignore[no-any-return]
            except NotWorthwhile:
                pass
            except Exception as err:  # an error in tapegrad or LLVM must not stop the program
                failed(tape, err)
        return compile_tape(tape, fresh=None if fresh is None else native_fresh(fresh))

    def first(self, run: Callable[..., Any], conditions: Sequence[Callable[[], bool]]) -> Callable[..., Any] | None:
        """Return the machine code of a function without its fallback."""
        return run.compiled.alone(conditions) if isinstance(run, NativeFunction) else None

    def runs(self, run: Callable[..., Any]) -> str:
        """Return "machine code" for a native function."""
        return "machine code" if isinstance(run, NativeFunction) else super().runs(run)

    def left(self, run: Callable[..., Any]) -> int:
        """Return how many calls native code left to Python: after an overflow, a division by zero, a failed guard."""
        straight = run.straight if isinstance(run, NativeFunction) else run
        return straight.calls if isinstance(straight, Straight) else 0

    def dispatcher(self, call: Callable[..., Any], tapes: list[Any], counts: Any) -> Callable[..., Any] | None:
        """Return machine code that tries the functions of a list in turn, then calls Python."""
        if not there_is():
            return None
        return shared_function("tapegrad_dispatch",  # type: ignore[no-any-return]
                               (call, tapes, UNLIKE, counts, LEFT, None))


def native_fresh(fresh: Freshness) -> Callable[[], bool]:
    """Return a freshness check as machine code."""
    guards = Guards(fresh)
    return shared_function("tapegrad_is_fresh", (guards.table, guards.ask))  # type: ignore[no-any-return]


@lru_cache(1)
def there_is() -> bool:
    """Return whether native code is available for this Python on this processor."""
    try:
        machine()
    except ArgumentError:
        return False
    return True


def failed(tape: Tape, err: Exception) -> None:
    """Warn that compiling a tape to machine code failed, so that it runs as NumPy code."""
    warnings.warn(f"{tape.name} could not be compiled to machine code and runs as NumPy code instead: "
                  f"{type(err).__name__}: {str(err)[:200]} (please report this)", RuntimeWarning, stacklevel=2)


def suits(tape: Tape) -> bool:
    """Return whether a tape suits native code: it calls no user code, since a call that bails out is repeated, and
    draws no more than `MOST` bytes of random numbers.
    """
    tape.check()
    return sum(op.spec.nbytes for op in tape.ops if op.fn is draw) <= MOST and all(
        not isinstance(op, Call) or op is tape.result or is_known(op.fn) for op in tape.ops)


def to_llvm(tape: Tape) -> str:
    """Return the LLVM IR of a tape's machine code; see `Tape.to_llvm`."""
    run = native(None, "native", DEFAULT).compile(tape)
    if not isinstance(run, NativeFunction):
        raise ArgumentError(f"hardly any operation of {tape.name} can be compiled to machine code: it runs as NumPy "
                            "code", None,
                            "tape.to_python()")
    return run.ir


class NativeFunction:
    """A tape as machine code. `source` is the straight-line Python code to which native code bails out, `ir` the LLVM
    IR.
    """

    tape: Tape
    compiled: Compiled
    straight: Straight

    @staticmethod
    def made(tape: Tape, fresh: Callable[[], bool] | None) -> Any:
        """Compile a tape. Each one gets its own class, whose `__call__` is the machine code."""
        straight = Straight(tape, fresh)
        compiled = compile_native(grouped(tape), fresh)
        call = compiled.function(straight)
        new: NativeFunction = object.__new__(type("NativeFunction", (NativeFunction,), {"__call__": call}))
        new.tape, new.compiled, new.straight = tape, compiled, straight
        new.__name__ = tape.name  # type: ignore[attr-defined]
        return new

    @property
    def ir(self) -> str:
        """The LLVM IR."""
        return self.compiled.code.text

    @property
    def asm(self) -> str:
        """The assembly code."""
        return self.compiled.code.assembly

    @property
    def source(self) -> str:
        """The source of the straight-line Python code."""
        return self.straight.function.source  # type: ignore[no-any-return]


class Straight:
    """The straight-line function of a tape, compiled at its first call."""

    def __init__(self, tape: Tape, fresh: Callable[[], bool] | None) -> None:
        self.tape, self.fresh, self._function = tape, fresh, None
        self.calls = 0

    @property
    def function(self) -> Any:
        """The compiled function."""
        if self._function is None:
            self._function = compile_tape(self.tape, fresh=self.fresh)  # type: ignore[assignment]
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.function(*args, **kwargs)
        self.calls += 1  # a call that the tape does not fit raises before this
        return found


def native(device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend for machine code. Raises ArgumentError if native code is unavailable."""
    if device is not None:
        raise ArgumentError(f"NumPy has no device {device!r}", None, 'backend="torch"')
    if mode == "native":
        machine()

    return Native(lambda tape: with_reusable_states(with_inlined_checkpoints(tape, passes)), mode)


BACKENDS["native"] = native
