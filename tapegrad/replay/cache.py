"""cache: compiled functions. Each keeps several tapes, one per path through the program and per kind of arguments."""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from tapegrad.context import DEFAULT
from tapegrad.errors import ArgumentError
from tapegrad.grad import grad
from tapegrad.passes import flatgrad, optimise
from tapegrad.passes.optimise import DEFAULT as PASSES
from tapegrad.passes.optimise import Pass
from tapegrad.replay.compiled import Miss, compile_tape
from tapegrad.replay.watch import watch
from tapegrad.rules import Traced
from tapegrad.tape import Constant, Tape
from tapegrad.tensors import is_tensor
from tapegrad.trace import record
from tapegrad.tree import leaves_of


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
    return int(counter.__reduce__()[1][0])


class _Entry:
    """One tape, and the function that it was compiled to."""

    __slots__ = ("run", "tape")

    def __init__(self, tape: Tape, run: Callable[..., Any]) -> None:
        self.tape, self.run = tape, run


class Compiled:
    """A function that is traced where its tapes do not fit, and runs one of them where it does.

    Thread-safe: the tapes are kept in tuples that are replaced, never changed; each call has buffers of its own.
    """

    def __init__(self, f: Callable[..., Any], make: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Tape],
                 plainly: Callable[..., Any], max_tapes: int, build: Callable[..., Callable[..., Any]]) -> None:
        self.__wrapped__, self._make, self._plainly, self._build = f, make, plainly, build
        self.__name__ = getattr(f, "__name__", type(f).__name__)
        self.__doc__ = f.__doc__
        self.max_tapes, self.stats = max_tapes, Stats()
        self._entries: dict[Any, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()
        self._warned = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        key = (len(args), *sorted(kwargs)) if kwargs else len(args)
        for entry in self._entries.get(key, ()):
            try:
                result = entry.run(*args, **kwargs)
            except Miss as miss:
                if miss.tape is not entry.tape:
                    raise  # of another compiled tape, in a function of the user's
                self._missed(miss)
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
        self._refuse_tensors(leaves)
        next(self.stats._traces)
        tape = self._make(self.__wrapped__, args, kwargs)
        self._refuse_tensors(op.val for op in tape.ops if type(op) is Constant)
        entry = _Entry(tape, self._build(tape, watch(self.__wrapped__, args, kwargs, tape.structure)))
        with self._lock:
            entries = (entry, *self._entries.get(key, ()))
            self._entries[key] = entries
            evicted = len(self.tapes) > self.max_tapes
            if evicted:
                self._evict()
        if evicted and not self._warned:
            self._warn()
        return entry.run(*args, **kwargs)

    def _refuse_tensors(self, values: Iterable[Any]) -> None:
        if any(map(is_tensor, values)):
            raise ArgumentError(f"{self.__name__} is compiled for NumPy, and meets a tensor", None,
                                "record a tape with NumPy arrays, tape = tg.trace(f, *arrays)[1] or tg.gradtape(f, *arrays), "
                                "and tape.play(*tensors); there is no backend=\"torch\" yet")

    def _evict(self) -> None:
        key = max(self._entries, key=lambda k: len(self._entries[k]))
        self._entries[key] = self._entries[key][:-1]

    def _warn(self) -> None:
        self._warned = True
        often = self.stats.guards.most_common(1)
        because = f": what keeps changing is {often[0][0]}" if often else ""
        warnings.warn(f"{self.__name__} has more than {self.max_tapes} tapes, and traces again and again{because}. "
                      "Pass it as an array or a float if it is data, or raise max_tapes", RetraceWarning, stacklevel=4)

    def _missed(self, miss: Miss) -> None:
        next(self.stats._misses)
        self.stats.guards[miss.describe()] += 1

    def _to_front(self, key: Any, entry: _Entry) -> None:
        with self._lock:
            entries = self._entries[key]
            if entry in entries:
                self._entries[key] = (entry, *(other for other in entries if other is not entry))


def compile(f: Callable[..., Any] | Tape, *, backend: str = "numpy", passes: Sequence[Pass] = PASSES, max_tapes: int = 16) -> Callable[..., Any]:
    """Return a fast version of a function, traced at its first call, or of a tape, for arguments like those it was recorded with.

    A function keeps several tapes: for each kind of arguments (nesting, types, dtypes, shapes, static values) and each path through its branches;
    at most `max_tapes`, the least recently used leaves first. What it reads besides its arguments is looked at again at every call.
    A tape's function raises GuardError where a guard does not hold; `.source` is its text. Results are fresh arrays.

    >>> import tapegrad as tg
    >>> fast = tg.compile(lambda a, b: a / (a + b * b))
    >>> fast(2.0, 3.0), fast(4.0, 6.0), fast.stats
    (0.18181818181818182, 0.1, Stats(traces=1, hits=1, misses=0))
    """
    _check_backend(backend)
    if isinstance(f, Tape):
        return compile_tape(optimise(f, passes))
    return Compiled(f, lambda fn, args, kwargs: optimise(record(fn, args, kwargs, DEFAULT), passes), f, max_tapes, _build)


def value_and_grad(f: Callable[..., Any], *, seed: Any = 1, backend: str = "numpy", passes: Sequence[Pass] = PASSES, max_tapes: int = 16) -> Callable[..., Any]:
    """Return a function that returns what `grad(f, *args)` does, `(value, (df, *dargs))`, from compiled gradient tapes.

    As `compile` does, it traces where no tape fits, and runs one where one does: branches may change from call to call.

    >>> import tapegrad as tg
    >>> step = tg.value_and_grad(lambda a, b: a * b if a > 0 else b)
    >>> step(2.0, 3.0), step(-2.0, 3.0), step(4.0, 3.0)
    ((6.0, (None, 3.0, 2.0)), (3.0, (None, 0.0, 1.0)), (12.0, (None, 3.0, 4.0)))
    >>> step.stats
    Stats(traces=2, hits=1, misses=1)
    """
    _check_backend(backend)

    def make(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tape:
        return optimise(flatgrad(record(fn, args, kwargs, DEFAULT, grad=True), seed), passes)

    def plainly(*args: Any, **kwargs: Any) -> Any:
        return grad(f, *args, seed=seed, **kwargs)
    return Compiled(f, make, plainly, max_tapes, _build)


def _build(tape: Tape, fresh: Callable[[], bool] | None) -> Callable[..., Any]:
    return compile_tape(tape, fresh=fresh)


def _check_backend(backend: str) -> None:
    if backend != "numpy":
        raise ArgumentError(f"there is no backend {backend!r}", None, 'backend="numpy"')
