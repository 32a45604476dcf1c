"""cache: compiled functions. Each keeps several tapes, one per path through the program and per kind of arguments."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from tapegrad.brief import type_name
from tapegrad.context import DEFAULT
from tapegrad.economy import Economy
from tapegrad.errors import ArgumentError
from tapegrad.grad import grad, gradients_of
from tapegrad.ops import pack
from tapegrad.passes import flatgrad, optimise
from tapegrad.passes.blank import drop, is_released, typed
from tapegrad.passes.loop import Loop
from tapegrad.passes.loopgrad import NoLoop
from tapegrad.passes.optimise import DEFAULT as PASSES
from tapegrad.passes.optimise import Pass
from tapegrad.passes.primitivize import flattened
from tapegrad.passes.roll import roll
from tapegrad.passes.walk import copy_tape
from tapegrad.replay.blocks import Blocks
from tapegrad.replay.compiled import Miss, Unfit, compile_arguments, compile_tape
from tapegrad.replay.fuse import fuse
from tapegrad.replay.fused import Fused, Made
from tapegrad.replay.refill import Bare, is_refillable, refilled, strip
from tapegrad.replay.watch import watch
from tapegrad.rules import Traced
from tapegrad.tangent import conform
from tapegrad.tape import Call, Constant, Input, Tape, Unknown, value_of
from tapegrad.tensors import ORDINARY, is_tensor
from tapegrad.trace import collector, record
from tapegrad.tree import ValueAndGradients, leaves_of

Step = Callable[[Tape], Tape]


class First(NamedTuple):
    """What a first call gives: what is kept of it, what it returns, and what makes the tape to compile of that tape once it is `refilled`.

    Without `flat`, it is the one to compile, and has the values that it was recorded with. There is no tape where the sweep has used it up.
    """

    tape: Tape | None
    result: Any
    flat: Step | None = None


Make = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], First]

KEPT = 256  # bytes of an array that stays on a tape once it is compiled, to be shown

MODES: dict[str, Made | None] = {
    "auto": Blocks,
    "threads": partial(Blocks, torch=False),
    "blocks": partial(Blocks, torch=False, threads=False),
    "plain": None,
}
"""How long arrays are computed: what executes groups of elementwise calls, None where there are no groups."""


class RetraceWarning(UserWarning):
    """A compiled function traces again and again: something that its tapes are specialised to keeps changing."""


class Stats:
    """How often a compiled function traced, found a tape that fits, and met a guard that did not hold."""

    def __init__(self) -> None:
        self._hits, self._traces, self._misses = count(), count(), count()
        self.guards: Counter[str] = Counter()

    @property
    def hits(self) -> int:
        """Calls that a tape served."""
        return _value(self._hits)

    @property
    def traces(self) -> int:
        """Calls that traced."""
        return _value(self._traces)

    @property
    def misses(self) -> int:
        """Tapes that were tried and did not fit."""
        return _value(self._misses)

    def __repr__(self) -> str:
        return f"Stats(traces={self.traces}, hits={self.hits}, misses={self.misses})"


def _value(counter: Any) -> int:
    """Return how far a counter has come; counting with `next` is atomic, and `+= 1` is not."""
    return int(repr(counter)[len("count("):-1])  # nothing else tells without counting on


class _Entry:
    """One tape, and the function that it is compiled to when it is used a second time.

    The first call has its result from the trace: a function that meets other arguments at every call compiles nothing. A tape that
    was left without values gets those of the second call, if it fits that.
    """

    __slots__ = ("arguments", "backend", "flat", "fresh", "lock", "run", "tape")

    def __init__(self, tape: Tape, flat: Step | None, backend: Backend, fresh: Callable[[], bool] | None) -> None:
        self.tape, self.flat, self.backend, self.fresh = tape, flat, backend, fresh
        self.arguments: Callable[..., list[Any]] | None = None
        self.run, self.lock = self.compile_and_run, threading.RLock()

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the tape, unless another thread has meanwhile, and make the call. Raises Miss where the tape does not fit it."""
        with self.lock:
            if self.run == self.compile_and_run:
                self.tape, self.run = self.build(args, kwargs)  # type: ignore[method-assign]
                self.flat = self.arguments = None
        return self.run(*args, **kwargs)

    def build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tape, Callable[..., Any]]:
        """Return the tape that is kept from now on, and the function that it is compiled to; what is kept so far stays as it is."""
        if self.flat is None:
            return self.backend.build(self.tape, self.fresh)
        if self.arguments is None:
            self.arguments = compile_arguments(self.tape, self.fresh)
        with refilled(self.tape, self.arguments(*args, **kwargs)) as primal:
            flat = self.flat(primal)
            drop(flat)
            return self.backend.build(flat, self.fresh)


class Backend:
    """What a compiled function does with its tapes: how one is made a function, and what the first call returns. This one: NumPy.

    `refills` says whether a tape is left without values between the first call and the second, `rolls` whether it runs loops.
    """

    refills = rolls = True

    def __init__(self, finish: Pass) -> None:
        self.finish = finish

    def build(self, tape: Tape, fresh: Callable[[], bool] | None) -> tuple[Tape, Callable[..., Any]]:
        """Return the tape that is kept, and the function that it is compiled to."""
        best = self.finish(typed(tape))
        run = self.function(best, fresh)
        forget(best)
        return best, run

    def function(self, tape: Tape, fresh: Callable[[], bool] | None = None) -> Callable[..., Any]:
        """Return a finished tape as a function."""
        return compile_tape(tape, fresh=fresh)

    def compile(self, tape: Tape) -> Callable[..., Any]:
        """Return a tape as a function."""
        best = self.finish(typed(copy_tape(tape.check())) if is_released(tape) else flattened(tape))
        run = self.function(best)
        if best is not tape:
            forget(best)
        return run

    def record(self, make: Make, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Any]) -> First:
        """Make a first call."""
        _refuse_tensors(f, leaves)
        first = make(f, args, kwargs)
        _refuse_tensors(f, (op.val for op in first.tape.ops if type(op) is Constant) if first.tape is not None else ())
        return first


def _refuse_tensors(f: Callable[..., Any], values: Iterable[Any]) -> None:
    if any(map(is_tensor, values)):
        raise ArgumentError(f"{getattr(f, '__name__', type(f).__name__)} is compiled for NumPy, and meets a tensor", None,
                            'compile it for tensors: backend="torch"')


class Compiled:
    """A function that is traced where its tapes do not fit, and runs one of them where it does.

    Thread-safe: the tapes are kept in tuples that are replaced, never changed; each call has buffers of its own.
    """

    def __init__(self, f: Callable[..., Any], make: Make, plainly: Callable[..., Any], max_tapes: int, backend: Backend) -> None:
        self.__wrapped__, self._make, self._plainly, self._backend = f, make, plainly, backend
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.__doc__ = f.__doc__
        self.max_tapes, self.stats = max_tapes, Stats()
        self._entries: dict[Any, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()
        self._warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = (len(args), *kwargs) if kwargs else len(args)  # in the order that `**kwargs` has
        for entry in self._entries.get(key, ()):
            tape = entry.tape  # another thread may compile it meanwhile
            try:
                result = entry.run(*args, **kwargs)
            except Miss as miss:
                if miss.tape is not tape and miss.tape is not entry.tape:
                    raise  # of another compiled tape, in a function of the user's
                self._missed(miss.describe())
                continue
            except Unfit:
                raise
            except Exception as err:  # the program may catch it: only the program itself can tell
                self._missed(f"whether it raises {type(err).__name__}")
                continue
            next(self.stats._hits)
            if self._entries[key][0] is not entry:
                self._to_front(key, entry)
            return result
        return self._trace(key, args, kwargs)

    @property
    def tapes(self) -> list[Tape]:
        """The tapes that are kept, the most recently used first among those of as many arguments."""
        return [entry.tape for entries in self._entries.values() for entry in entries]

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}: {len(self.tapes)} tapes, {self.stats!r}>"

    def _trace(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = leaves_of((self.__wrapped__, args, kwargs))
        if any(isinstance(leaf, Traced) for leaf in leaves):
            return self._plainly(*args, **kwargs)  # inside another trace: what it computes goes on that tape
        next(self.stats._traces)
        tape, result, flat = self._backend.record(self._make, self.__wrapped__, args, kwargs, leaves)
        if tape is None:
            return result
        fresh = watch(self.__wrapped__, args, kwargs, tape.structure)
        drop(tape)
        entry = _Entry(tape, flat, self._backend, fresh)
        with self._lock:
            entries = (entry, *self._entries.get(key, ()))
            self._entries[key] = entries
            evicted = len(self.tapes) > self.max_tapes
            if evicted:
                self._evict()
        if evicted and not self._warned:
            self._warn()
        return result

    def _evict(self) -> None:
        key = max(self._entries, key=lambda k: len(self._entries[k]))
        self._entries[key] = self._entries[key][:-1]

    def _warn(self) -> None:
        self._warned = True
        often = self.stats.guards.most_common(1)
        because = f": what keeps changing is {often[0][0]}" if often else ""
        warnings.warn(f"{self.__name__} has more than {self.max_tapes} tapes, and traces again and again{because}. "
                      "Pass it as an array or a float if it is data, or raise max_tapes", RetraceWarning, stacklevel=4)

    def _missed(self, what: str) -> None:
        next(self.stats._misses)
        self.stats.guards[what] += 1

    def _to_front(self, key: Any, entry: _Entry) -> None:
        with self._lock:
            entries = self._entries[key]
            if entry in entries:
                self._entries[key] = (entry, *(other for other in entries if other is not entry))


def compile(f: Callable[..., Any] | Tape, *, backend: str = "numpy", device: Any = None, mode: str = "auto", passes: Sequence[Pass] = PASSES,
            max_tapes: int = 16) -> Callable[..., Any]:
    """Return a fast version of a function, traced at its first call, or of a tape, for arguments like those it was recorded with.

    A function keeps several tapes: for each kind of arguments (nesting, types, dtypes, shapes, static values) and each path through its branches;
    at most `max_tapes`, the least recently used leaves first. What it reads besides its arguments is looked at again at every call.
    A tape's function raises GuardError where a guard does not hold; `.source` is its text. Results are fresh arrays.

    Elementwise calls of arrays of 2¹⁸ elements or more are computed together, block by block. `mode` says how: "auto" by several threads, and
    torch's kernels on the same memory where those are faster (sin, cos, hypot, logaddexp; the last bit of a sine may differ) and torch is
    imported, which compiling such calls of arrays of 2²² elements or more does by itself, a second, if torch is installed; "threads" by NumPy
    alone, "blocks" by NumPy in one thread, "plain" one whole array after the other. Raises ArgumentError for another mode.

    With `backend="torch"` it runs on tensors: arrays and tensors may be given, and tensors of `device` are returned (of the arguments' device
    where that is None). Program and tape may be NumPy's, or torch's. `mode` is "eager" ("auto" too: torch's calls, one after the other),
    "graph" (one CUDA graph; Python's numbers are fixed) or "inductor" (torch's compiler).

    >>> import tapegrad as tg
    >>> fast = tg.compile(lambda a, b: a / (a + b * b))
    >>> fast(2.0, 3.0), fast(4.0, 6.0), fast.stats
    (0.18181818181818182, 0.1, Stats(traces=1, hits=1, misses=0))
    """
    chosen = _backend(backend, device, mode, passes)
    if isinstance(f, Tape):
        return chosen.compile(f)

    def make(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        tape = record(fn, args, kwargs, DEFAULT)
        result = recorded_result(tape)
        short = roll(tape) if chosen.rolls else tape
        if short is not tape:
            return First(short, result)
        if not (chosen.refills and is_refillable(tape)):
            return First(tape, result)
        strip(tape)
        return First(tape, result, lambda primal: primal)
    return Compiled(f, make, f, max_tapes, chosen)


def value_and_grad(f: Callable[..., Any], *, seed: Any = 1, backend: str = "numpy", device: Any = None, mode: str = "auto",
                   passes: Sequence[Pass] = PASSES, max_tapes: int = 16) -> Callable[..., Any]:
    """Return a function that returns what `grad(f, *args)` does, `(value, (df, *dargs))`, from compiled gradient tapes.

    As `compile` does, it traces where no tape fits, and runs one where one does: branches may change from call to call. `backend`, `device` and
    `mode` are those of `compile`. A call that traces costs what `grad` does; the second call of a tape makes and compiles the gradient tape.

    >>> import tapegrad as tg
    >>> step = tg.value_and_grad(lambda a, b: a * b if a > 0 else b)
    >>> step(2.0, 3.0), step(-2.0, 3.0), step(4.0, 3.0)
    ((6.0, (None, 3.0, 2.0)), (3.0, (None, 0.0, 1.0)), (12.0, (None, 3.0, 4.0)))
    >>> step.stats
    Stats(traces=2, hits=1, misses=2)
    """
    chosen = _backend(backend, device, mode, passes)

    economical = chosen.refills  # until it is known that a user's function must be run again for the values that are dropped

    def differentiated(primal: Tape) -> Tape:
        return flatgrad(primal, seed, release=True, unrolls=False)

    def flat(primal: Tape) -> Tape:  # of a tape that lacked the values to look for loops
        return shortened(roll(primal), differentiated) or differentiated(primal)

    def make(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        nonlocal economical
        economy = Economy()
        with collector:
            tape = record(fn, args, kwargs, DEFAULT, grad=True, once=economy if economical else None)
            rolled = roll(tape) if chosen.rolls and not economy.begun else tape
            refills = chosen.refills and is_refillable(tape)
            short = None if refills or rolled is tape else shortened(rolled, differentiated)
            if not (short or refills or economy.begun):
                tape = differentiated(tape)
                return First(tape, recorded_result(tape))
            value = recorded_result(tape)
            gradients = gradients_of(tape, seed, economy=economy, left=Bare() if refills else None)
            economical = economical and (refills or not economy.begun)
            if refills and rolled is not tape:  # once the values are given up
                short = shortened(rolled, differentiated)
            if short or not refills:
                return First(short, (value, gradients))
            return First(tape, (value, gradients), flat if economy.begun else differentiated)

    def plainly(*args: Any, **kwargs: Any) -> Any:
        return grad(f, *args, seed=seed, **kwargs)
    return Compiled(f, make, plainly, max_tapes, chosen)


def shortened(rolled: Tape, flat: Step) -> Tape | None:
    """Return the flat tape of a rolled one, which is short and soon made; None where a loop has no gradient."""
    try:
        return flat(rolled)
    except NoLoop:
        return None


def recorded_result(tape: Tape) -> Any:
    """Return what a tape returned while it was recorded, in memory of its own and of the types that a gradient has."""
    result = tape.result
    assert result is not None
    if not (isinstance(result, Call) and result.fn is pack):
        return own(result.val)
    into = result.kwargs["into"]
    parts = list(map(value_of, result.args))
    if isinstance(into, ValueAndGradients):
        return into.build([own(parts[0]), *[conform(dx, x.val) for dx, x in zip(parts[1:], tape.inputs[1:])]])
    return into.build(list(map(own, parts)))


def forget(tape: Tape, kinds: tuple[type, ...] = (Call,)) -> None:
    """Drop the arrays that a tape's calls gave while it was recorded, and those of the bodies of its loops; their types stay."""
    for op in tape.ops:
        if type(op) in kinds:
            op.val = _forgotten(op.val)
        if type(op) is Call and type(op.fn) is Loop:
            body = copy_tape(op.fn.body)  # which the tape that was compiled may have too
            forget(body, (Call, Input))
            op.fn = op.fn.with_body(body)
        elif type(op) is Call and isinstance(op.fn, Fused):
            for inner in op.fn.tape.ops:
                if type(inner.val) is np.ndarray:  # its shape and dtype are asked for
                    inner.val = np.broadcast_to(np.zeros((), inner.val.dtype), inner.val.shape)


def _forgotten(x: Any) -> Any:
    if type(x) is tuple:
        return tuple(map(_forgotten, x))
    if (type(x) is np.ndarray or (type(x) not in ORDINARY and is_tensor(x))) and x.nbytes > KEPT:
        return Unknown(type_name(x), len(x) if x.ndim else 0)
    return x


def own(x: Any) -> Any:
    """Return a copy of an array or a tensor, and other values as they are."""
    return x.copy(order="K") if isinstance(x, np.ndarray) else x.clone() if is_tensor(x) else x


def _backend(backend: str, device: Any, mode: str, passes: Sequence[Pass]) -> Backend:
    """Return the backend of a name, in a mode."""
    if backend == "torch":
        from tapegrad.replay.torch.backend import Torch
        return Torch(device, mode, passes)
    if backend != "numpy":
        raise ArgumentError(f"there is no backend {backend!r}", None, 'backend="numpy" or backend="torch"')
    if device is not None:
        raise ArgumentError(f"NumPy has no device {device!r}", None, 'backend="torch"')
    if mode not in MODES:
        raise ArgumentError(f"there is no mode {mode!r}", None, " or ".join(f'mode="{name}"' for name in MODES))
    executor = MODES[mode]

    def finish(tape: Tape) -> Tape:
        best = optimise(tape, passes)
        return best if executor is None else fuse(best, executor)
    return Backend(finish)
