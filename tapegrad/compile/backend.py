"""backend: how a compiled function compiles and runs its tapes, for NumPy; the torch backend derives from it."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from time import perf_counter, thread_time
from typing import Any, NamedTuple

import numpy as np

from tapegrad.compile.log import compiled_text, logs, say
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.compile.skeleton import kind_of_leaf
from tapegrad.errors import ArgumentError, GuardError
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import name_of
from tapegrad.numbers.lazy import needed
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops import pack, whole_of
from tapegrad.ops.loop import is_loop
from tapegrad.optimise.pipeline import DEFAULT, EXACT, Pass, optimise
from tapegrad.optimise.roll import roll
from tapegrad.progress import Work
from tapegrad.replay.interpreter import bind
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Constant, Input, Tape, drop, operands, value_of
from tapegrad.transforms.primitivize import flattened
from tapegrad.transforms.unroll import inline
from tapegrad.transforms.value_dropping import keep_shapes
from tapegrad.transforms.walk import Walk, copy_tape
from tapegrad.tree.signature import ValueAndGradients


class First(NamedTuple):
    """The outcome of a traced call: the tape to compile, None if none is kept, and the call's result.

    `untold` is the reason, the line and the cure to report, once tapes were repeatedly not kept.
    """

    tape: Tape | None
    result: Any
    untold: tuple[str, Any, str] | None = None


Make = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], First]
"""Calls a function; returns its result and the tape to keep."""

KEPT = 256  # bytes of an array that a compiled tape keeps, for display

MODES = ("auto", "native", "numpy")
""""native" is machine code, "numpy" NumPy code; "auto" is "native" if llvmlite is installed, else "numpy"."""


class Backend:
    """How a compiled function compiles and runs its tapes, and makes its traced calls: the NumPy backend.

    `rolls`: it runs loops. `looks_up`: it has the op `choose`. `asked`: it was requested by name, rather than used for
    calls with tensors. `refuses_tensors`: it raises for tensors; otherwise no tape with a tensor among its constants is
    kept, and `met_tensor` is set: the caller traces, or, if `leaves_tensors`, passes such calls to another backend.
    """

    rolls = looks_up = refuses_tensors = asked = True
    leaves_tensors = met_tensor = False
    clock = staticmethod(thread_time)  # does not count other processes
    price = (2e-3, 6e-5)

    def profiler(self, seconds: float) -> Callable[[Any], Any]:
        """Return the function that profiles a trace in place of `sys.setprofile`; unobserved it takes so many seconds.
        """
        return sys.setprofile

    def seconds_to_compile(self, length: int) -> float:
        """Return the expected time to compile a tape of `length` operations; `price` is the time per tape and per
        operation.
        """
        # Measured: milliseconds from the second call of a path on, without traces and hits, for chains of six functions
        # of arrays, on two cores of an AMD EPYC; a gradient counts twice the operations of its function.
        #              44 operations   339   1630    formula: gradient
        # numpy                  7.7    43    197    7.3    43    198
        # native                  31   178   1061     29   206    981
        # torch (47, 369, 1780)   21   147    715     21   150    714
        return self.price[0] + self.price[1] * length

    def __init__(self, finish: Pass, mode: str = "") -> None:
        self.finish, self.mode = finish, mode

    def build(self, tape: Tape, fresh: Callable[[], bool] | None) -> tuple[Tape, Callable[..., Any]]:
        """Return the tape to keep, and its compiled function."""
        best = self.finish(tape)
        run = self.function(best, fresh)
        forget(best)
        return best, run

    def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
        """Return a finished tape as a function."""
        return compile_tape(tape, fresh=fresh)

    def runs(self, run: Callable[..., Any]) -> str:
        """Return a description of the compiled code."""
        return "NumPy's code"

    def left(self, run: Callable[..., Any]) -> int:
        """Return how many calls a compiled function passed to slower code."""
        return 0

    def first(self, run: Callable[..., Any], conditions: Sequence[Callable[[], bool]]) -> Callable[..., Any] | None:
        """Return a compiled function for a dispatcher, with further conditions; None if there is none."""
        return None

    def dispatcher(self, call: Callable[..., Any], tapes: list[Any], counts: Any) -> Callable[..., Any] | None:
        """Return a replacement for `call` that first tries the functions in the list `tapes`, and counts its hits and
        misses in `counts`; None if there is none.
        """
        return None

    def fits(self, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a tape was recorded for arguments of these kinds."""
        try:
            leaves = bind(tape, args, kwargs)
        except (ArgumentError, GuardError):
            return False
        return all(kind_of_leaf(leaf) == kind_of_leaf(x.val) for leaf, x in zip(leaves[1:], tape.inputs[1:]))

    def stores(self, samples: Sequence[Any]) -> bool:
        """Return whether values of these kinds that a program stores may be results of its tape."""
        return True

    def returns(self, samples: Sequence[Any]) -> bool:
        """Return whether values of these kinds that a program returns may be results of its tape: not tensors that it
        makes from numbers.
        """
        return not (self.refuses_tensors and any(map(is_tensor, samples)))

    def compile(self, tape: Tape) -> Callable[..., Any]:
        """Return a tape as a compiled function."""
        start = perf_counter()
        with Work("compiling", count=tape.__len__):
            best = self.finished(tape)
            keep_shapes(best)
            run = self.function(best)
        if logs("compile"):
            say(tape.name, compiled_text(len(best), perf_counter() - start, self.runs(run)))
        if best is not tape:
            forget(best)
        return run

    def finished(self, tape: Tape) -> Tape:
        """Return the tape that is compiled."""
        flat = flattened(tape)
        return self.finish(roll(flat) if self.rolls else flat)

    lowered = finished  # the tape of the code that runs

    def record(self, make: Make, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               leaves: list[Any]) -> First:
        """Make a traced call."""
        _refuse_tensors(f, leaves)
        first = make(f, args, kwargs)
        held = [op.val for op in first.tape.ops if type(op) is Constant] if first.tape is not None else []
        if not self.refuses_tensors and any(map(is_tensor, held)):
            self.met_tensor = True
            return First(None, first.result)
        _refuse_tensors(f, held)
        return first


def _refuse_tensors(f: Callable[..., Any], values: Iterable[Any]) -> None:
    if any(map(is_tensor, values)):
        raise ArgumentError(f"{name_of(f)} is compiled for NumPy, but got a tensor", None,
                            'compile it for tensors: backend="torch"')


def recorded_result(tape: Tape) -> Any:
    """Return the recorded result of a tape, in fresh memory, with the types of gradients."""
    result = tape.result
    if result.fn is pack and isinstance(into := result.kwargs["into"], ValueAndGradients):
        given = zip(result.args[1:], tape.inputs[1:])
        return into.build([_in_own_memory(result.args[0]), *[conform(value_of(dx), x.val) for dx, x in given]])
    return _in_own_memory(result)


def _in_own_memory(part: Any) -> Any:
    """Return a copy of a result, or of a nest in it (the pair of a value and an auxiliary result)."""
    if getattr(part, "fn", None) is pack:
        return part.kwargs["into"].build(list(map(_in_own_memory, part.args)))
    return own(value_of(part))


def forget(tape: Tape, kinds: tuple[type, ...] = (Call,)) -> None:
    """Drop the recorded arrays of a tape's calls, and those of its loop bodies; their types stay."""
    for op in tape.ops:
        if type(op) in kinds and _is_forgotten(op.spec):
            drop(op)
        if is_loop(op):
            body = copy_tape(op.fn.body)  # the compiled tape may share it
            forget(body, (Call, Input))
            op.fn = op.fn.with_body(body)


def _is_forgotten(x: Spec) -> bool:
    return (any(map(_is_forgotten, x.parts)) if x.type is tuple else (x.is_array or x.system == "torch")
            and x.nbytes > KEPT)


def own(x: Any) -> Any:
    """Return a copy of an array or tensor, other values unchanged."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else x.clone() if is_tensor(x) else x


def with_inlined_checkpoints(tape: Tape, passes: Sequence[Pass] = DEFAULT) -> Tape:
    """Return an optimised tape of plain calls and loops. Checkpoints are inlined last, so that no pass merges their
    calls with the repetition in the sweep.
    """
    best = optimise(tape, passes)
    flat = inline(best)
    return flat if flat is best else optimise(flat, [each for each in passes if each in EXACT])


def with_reusable_states(tape: Tape) -> Tape:
    """Return a tape on which the sweep over a long loop may overwrite the loop's kept states, if it is their only user.
    """
    if not any(hasattr(op.fn, "last") for op in tape.ops):
        return tape
    uses = Counter(arg for op in tape.ops for arg in operands(op))
    walk = Walk(tape)
    for op in tape.ops:
        made: Any = walk.keep(op)
        of = getattr(op.fn, "of", None)
        if of is not None and all(getattr(whole_of(x), "fn", None) is of and uses[x] == 1 and x is not tape.result
                                  for x in of.behind(op.args)):
            made.fn = made.fn.last
    return walk.done()


def choose(backend: str | None, device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend of a name, in a mode. Without a name: torch for a device, otherwise NumPy, which in the mode
    "auto" passes calls with tensors to torch.
    """
    if backend is None:
        found = choose("numpy" if device is None else "torch", device, mode, passes)
        if device is None and mode == "auto":
            found.refuses_tensors, found.leaves_tensors = False, True
        return found
    if backend in LATER:
        if backend in PACKAGES:
            needed(backend)
        importlib.import_module(LATER[backend])
    if backend not in BACKENDS:
        raise ArgumentError(f"there is no backend {backend!r}", None,
                            " or ".join(f'backend="{name}"' for name in ("numpy", "torch")))
    return BACKENDS[backend](device, mode, passes)


def _numpy(device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend that runs tapes as Python code that calls NumPy, or as machine code."""
    if device is not None:
        raise ArgumentError(f"NumPy has no device {device!r}", None, 'backend="torch"')
    if mode == "native" or (mode == "auto" and _is_llvm_there()):
        return choose("native", device, mode, passes)
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", None, " or ".join(f'mode="{name}"' for name in MODES))
    return Backend(lambda tape: with_reusable_states(with_inlined_checkpoints(tape, passes)), mode)


@cache
def _is_llvm_there() -> bool:
    """Return whether llvmlite is installed; cached, since the search takes longer than creating a compiled function."""
    return find_spec("llvmlite") is not None


BACKENDS: dict[str, Callable[[Any, str, Sequence[Pass]], Backend]] = {"numpy": _numpy}
"""By name, functions from a device, a mode and passes to a backend. Each backend is a folder beside this file and
registers itself here.
"""
LATER = {"torch": "tapegrad.compile.torch.backend", "mesh": "tapegrad.compile.torch.mesh",
         "native": "tapegrad.compile.native.backend"}
"""Modules of backends, and of modes of NumPy, that are imported at first use: their dependencies are optional or slow
to import.
"""
PACKAGES = frozenset(["torch"])
"""Backends that need the package of the same name."""
