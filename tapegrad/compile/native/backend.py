"""backend: NumPy's tapes as machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad import ops
from tapegrad.compile.backend import BACKENDS, Backend, last_uses_told, unfolded
from tapegrad.compile.native.entry import LEFT, Compiled, compile_native
from tapegrad.compile.native.function import Function, Refused
from tapegrad.compile.native.guards import Guards
from tapegrad.compile.native.machine import machine, shared_function
from tapegrad.compile.native.values import Object
from tapegrad.compile.numpy.blocked_executor import Blocks
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.compile.numpy.fusion import fuse
from tapegrad.compile.numpy.memory_plan import is_known
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import ArgumentError
from tapegrad.ops.fused import Fused
from tapegrad.optimise.pipeline import Pass
from tapegrad.replay.random_state import sources_of
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.trace.guards import SURROUNDINGS


class Native(Backend):
    """The backend that runs tapes as machine code."""

    price = (3e-3, 3e-4)
    decided: tuple[Tape | None, bool] = None, False

    def decide(self, tape: Tape) -> bool:
        """Return whether a tape is to become native code, and keep that in mind."""
        if self.decided[0] is not tape:
            self.decided = tape, pays(tape)
        return self.decided[1]

    def function(self, tape: Tape, fresh: Any = None) -> Callable[..., Any]:
        """Return a finished tape as a function."""
        if not self.decide(tape):
            return compile_tape(tape, fresh=None if fresh is None else native_fresh(fresh))
        return NativeFunction.made(tape, fresh)  # type: ignore[no-any-return]

    def first(self, run: Callable[..., Any], conditions: Sequence[Callable[[], bool]]) -> Callable[..., Any] | None:
        """Return the machine code of a function alone."""
        return run.compiled.alone(conditions) if isinstance(run, NativeFunction) else None

    def dispatcher(self, call: Callable[..., Any], tapes: list[Any], counts: Any) -> Callable[..., Any] | None:
        """Return machine code that tries the functions of a list, and makes other calls in Python."""
        return shared_function("tapegrad_dispatch", (call, tapes, SURROUNDINGS, counts, LEFT, None))  # type: ignore[no-any-return]


def native_fresh(fresh: Freshness) -> Callable[[], bool]:
    """Return a freshness as machine code."""
    guards = Guards(fresh)
    return shared_function("tapegrad_is_fresh", (guards.table, guards.ask))  # type: ignore[no-any-return]


def pays(tape: Tape) -> bool:
    """True for a tape of which more calls become native code than stay in Python.

    One that draws random numbers, or runs the user's code, stays there: no call of these is made twice.
    """
    tape.check()
    if sources_of(tape) or any(isinstance(op, Call) and op is not tape.result and not is_known(op.fn)
                               for op in tape.ops) or any(type(getattr(op, "fn", None)) is Fused for op in tape.ops):
        return False
    refused: set[Operation] = set()
    while True:
        written = Function(tape, refused)
        written.env |= {x: Object("null", None) for x in tape.inputs}
        try:
            for op in tape.ops:
                if not (op is tape.result and isinstance(op, Call) and op.fn is ops.pack):
                    written.operation(op)
            return written.gained > written.left
        except Refused as err:
            refused.add(err.args[0])


class NativeFunction:
    """A tape as machine code: `source` is the straight-line Python that answers where native code leaves, `ir` LLVM's
    text.
    """

    tape: Tape
    compiled: Compiled
    _straight: Straight

    @staticmethod
    def made(tape: Tape, fresh: Callable[[], bool] | None) -> Any:
        """Compile a tape. Each has a class of its own, whose `__call__` is the machine code."""
        straight = Straight(tape, fresh)
        compiled = compile_native(tape, fresh)
        call = compiled.function(straight)
        new: NativeFunction = object.__new__(type("NativeFunction", (NativeFunction,), {"__call__": call}))
        new.tape, new.compiled, new._straight = tape, compiled, straight
        new.__name__ = tape.name  # type: ignore[attr-defined]
        return new

    @property
    def ir(self) -> str:
        """LLVM's text."""
        return self.compiled.code.text

    @property
    def straight(self) -> Callable[..., Any]:
        """The straight-line Python as a function."""
        return self._straight

    @property
    def source(self) -> str:
        """The text of that."""
        return self._straight.function.source  # type: ignore[no-any-return]


class Straight:
    """The straight-line function of a tape, compiled when it is first called."""

    def __init__(self, tape: Tape, fresh: Callable[[], bool] | None) -> None:
        self.tape, self.fresh, self._function = tape, fresh, None

    @property
    def function(self) -> Any:
        """The function."""
        if self._function is None:
            self._function = compile_tape(self.tape, fresh=self.fresh)  # type: ignore[assignment]
        return self._function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def native(device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend of machine code. Raises ArgumentError where there can be none."""
    if device is not None:
        raise ArgumentError(f"machine code has no device {device!r}", None, 'backend="torch"')
    machine()

    def finish(tape: Tape) -> Tape:
        best = last_uses_told(unfolded(tape, passes))
        return best if backend.decide(best) else fuse(best, Blocks)
    backend = Native(finish, mode)
    return backend


BACKENDS["native"] = native
