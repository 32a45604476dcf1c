"""cache: compiled functions. Each keeps several tapes, one for each path through the program and kind of arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from types import BuiltinFunctionType, FunctionType
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakMethod

from tapegrad.compile.attempt import LOST, SPARSE, Attempt, draws
from tapegrad.compile.backend import KEPT, Backend, First
from tapegrad.compile.derived_function import DerivedFunction
from tapegrad.compile.effects import apart
from tapegrad.compile.log import compiled_text, failed, logs, say
from tapegrad.compile.numpy.function import Miss, Unfit
from tapegrad.compile.path import FIRST, STRICT, Entry, Path, Stats, describe, warn
from tapegrad.compile.reasons import CURES, IDLE, Log, Reason, Reasons, reason_of, state_of
from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.probe import codes_of, probe
from tapegrad.errors import GuardError, fold
from tapegrad.numbers.formatting import count_of
from tapegrad.numbers.tensors import is_tensor
from tapegrad.optimise.checked import CHECKED, check_call
from tapegrad.replay.warning_errors import strict
from tapegrad.rules.op import Traced
from tapegrad.tape.subtape import exchanges
from tapegrad.tape.tape import Tape
from tapegrad.trace.guards import SURROUNDINGS, surrounded
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.shared_arguments import is_doubled
from tapegrad.trace.tracer import record
from tapegrad.trace.write_back import settle
from tapegrad.transforms.value_dropping import drop_large, keep_shapes
from tapegrad.transforms.watched import WATCHES, context, watch
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import Walk, leaves_of

WARMUP: int | None = None  # default for functions without `warmup`
SEEN = 4  # remembered paths for each kept tape
CHANGING = 3  # calls that change what tapes are specialised to, before a warning
NONE: Any = object()  # no result: no tape fits

P = ParamSpec("P")
R = TypeVar("R")
Make = Callable[[Attempt, Callable[..., Any], tuple[Any, ...], dict[str, Any]], First]


class Compiled(DerivedFunction, Generic[P, R]):
    """A function that runs the tape that fits a call, or is traced if none fits. `Path` defines when a path is
    compiled.

    Thread-safe: tapes are kept in tuples that are replaced, never changed; each call has its own buffers.
    """

    def __init__(self, f: Callable[..., Any], make: Make, plainly: Callable[..., Any], max_tapes: int, backend: Backend,
                 warmup: int | None, sweeps: bool, again: Callable[..., Any]) -> None:
        self.named(f, again)
        self.__wrapped__, self._make, self._plainly, self.backend = f, make, plainly, backend
        self.max_tapes, self.stats = max_tapes, Stats()
        self.of_tensors: Compiled[P, R] | None = None  # for torch, made at the first call with tensors; shares stats
        self._warmup, self.sweeps = warmup, sweeps
        self._entries: dict[Any, tuple[Entry, ...]] = {}
        self.paths: dict[Any, list[Path]] = {}
        self.new = self.vain = 0  # compared calls in a row on new paths; useless traced calls in a row
        self.missed = ""  # why the last tape tried did not fit
        self._changing = 0  # calls that changed what tapes are specialised to
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self.log = Log()
        self._tapes: list[Any] = []  # machine code of the most recently used tapes, tried first

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._called(*args, **kwargs)  # type: ignore[no-any-return]

    def _called(self, *args: Any, **kwargs: Any) -> Any:
        if self.of_tensors is not None and (self.backend.met_tensor or any(map(is_tensor, args))):
            return self.of_tensors(*args, **kwargs)
        found = self.kept(args, kwargs)
        return self.traced(args, kwargs) if found is NONE else found

    def kept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a tape that fits a call, NONE if there is none."""
        key: Any = (len(args), *kwargs) if kwargs else len(args)  # in the order of `**kwargs`
        if SURROUNDINGS:
            key = surrounded(key)
        if WATCHES and watch() is not None:
            return NONE
        for entry in self._entries.get(key, ()):
            if entry.reached is not None and not self._reaches(entry, args, kwargs):
                continue
            if entry.apart and is_doubled(flatten_call(self.__wrapped__, args, kwargs)[1]):
                self._missed("whether two arguments are the same array")
                continue
            if entry.loses and strict():
                self._missed(STRICT)
                continue
            found = entry.stored.find(args, kwargs) if entry.stored is not None else ([], [])
            if found is None:
                self._missed("which objects are written to")
                continue
            tape = entry.tape  # another thread may compile it meanwhile
            tried, exchanged = entry.first in self._tapes, running.exchanged
            try:
                result = (entry.run.straight if tried else entry.run)(*args, **kwargs)  # type: ignore[attr-defined]
            except Miss as miss:
                if miss.tape is not tape and miss.tape is not entry.tape:
                    raise  # raised by another compiled function that the program calls
                self._missed(miss.describe(), partial(self._failed, miss, entry, args, kwargs))
                if running.exchanged > exchanged:
                    raise GuardError(f"{self.__name__}: a compiled call exchanged numbers with other processes, then "
                                     f"{miss.describe()} differed from its trace; tracing it again would repeat the "
                                     "exchange", None,
                                     "use tg.grad, which always traces, or branch before the exchange") from miss
                continue
            except Unfit:
                raise
            except Exception as err:  # the program might catch it, so the program itself must run
                if running.exchanged > exchanged:
                    raise
                self._missed(f"whether it raises {type(err).__name__}")
                continue
            if entry.stored is not None:
                result, stored = apart(result, self.sweeps)
                entry.stored.settle(stored, *found)
            next(self.stats._hits)
            if CHECKED and entry.stored is None and not (entry.exchanges or draws(entry.tape)):
                fresh = self.backend.record(lambda _, *given: First(None, self._fresh(*given)), self.__wrapped__, args,
                                            kwargs, leaves_of((args, kwargs)))
                check_call(self.__name__, result, fresh.result)
            if tried:
                entry.note_bailout(self.stats.hits, self._tapes)
            elif self._entries[key][:1] != (entry,) or entry.first is not None:
                self._to_front(key, entry)
            return result
        return NONE

    @property
    def warmup(self) -> int | None:
        """The number of traced calls of a path before it is compiled; None for the rule of `Attempt.is_due`."""
        return WARMUP if self._warmup is None else self._warmup

    def explain(self) -> Reasons:
        """Return why calls were traced (which argument, read or branch differed, its old and new value), and how far
        each path is from being compiled; to be printed.
        """
        paths = [state_of(self, path, known) for known in self.paths.values() for path in known]
        if self.of_tensors is not None:
            paths += self.of_tensors.explain().paths
        return Reasons(self.__name__, self.stats.hits, self.stats.traces, self.log, paths)

    def how(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, int]:
        """Return a description of the last call's code, for this many arguments, and its number of operations."""
        if self.of_tensors is not None:
            return self.of_tensors.how(args, kwargs)
        key = surrounded((len(args), *kwargs) if kwargs else len(args))
        entry = self._by_use(self._entries[key])[0]
        return self.backend.runs(entry.run), len(entry.tape)

    def directly(self, why: str) -> None:
        """Count a call that was made directly, without this function, and log the reason."""
        next(self.stats._traces)
        self._note(Reason("direct", why))

    @property
    def tapes(self) -> list[Tape]:
        """The kept tapes, by number of arguments, most recently used first."""
        found = [entry.tape for entries in self._entries.values() for entry in self._by_use(entries)]
        return found if self.of_tensors is None else found + self.of_tensors.tapes

    def _by_use(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return entries by last use, most recent first."""
        places = {id(first): place for place, first in enumerate(self._tapes)}
        return sorted(entries, key=lambda entry: places.get(id(entry.first), FIRST))

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}: {count_of(len(self.tapes), 'tape')}, {self.stats!r}>"

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace a call that no tape fits, and return its result; the tape may be kept, or compiled and run."""
        key = surrounded((len(args), *kwargs) if kwargs else len(args))
        leaves = leaves_of((args, kwargs))
        if not (type(self.__wrapped__) is FunctionType and self.__wrapped__.__closure__ is None):
            leaves += leaves_of(self.__wrapped__)
        if any(isinstance(leaf, Traced) for leaf in leaves):
            return self._plainly(*args, **kwargs)  # inside another trace: record on that tape
        if watch() is not None:
            next(self.stats._traces)  # a watch inspects each value of the program
            return self._fresh(args, kwargs)
        if self.backend.leaves_tensors and any(map(is_tensor, leaves)):
            return self._on_tensors()(*args, **kwargs)
        with self._lock:
            attempt = Attempt(self, key)
        try:
            first = self.backend.record(partial(self._make, attempt), self.__wrapped__, args, kwargs, leaves)
        except BaseException as err:
            next(self.stats._traces)
            fold(err)
            raise
        if self.backend.met_tensor and self.backend.leaves_tensors:
            self._on_tensors()  # it takes the next calls
        if first.untold:
            self._warn("refused", describe(self.__name__, *first.untold))
        entry = None if first.tape is None else self._keep(attempt, first.tape)
        if attempt.effects is not None:
            attempt.effects.settle()
        reason, self.missed = reason_of(attempt), ""
        attempt.end()
        if (entry is not None and self.warmup is not None and entry.stored is None
                and not (entry.exchanges or draws(entry.tape))):
            try:
                result = entry.run(*args, **kwargs)
                next(self.stats._hits)
                return result
            except Unfit:
                raise
            except Exception as err:
                self._missed(f"whether it raises {type(err).__name__}")
        next(self.stats._traces)
        self._note(reason)
        return first.result

    def trace_once(self, *args: Any, **kwargs: Any) -> Any:
        """Make a call by a trace whose tape is not kept."""
        return self._fresh(args, kwargs)

    def _fresh(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call traced without keeping the tape."""
        if self.sweeps:
            return self._plainly(*args, **kwargs)
        tape = record(self.__wrapped__, args, kwargs, context(), replays=False)
        settle(tape)
        return tape.result.val

    def _on_tensors(self) -> Compiled[P, R]:
        """Return the same function compiled for torch."""
        with self._lock:
            if self.of_tensors is None:
                self.of_tensors = made = self._again(backend="torch")
                made.stats, made._warned, made.log = self.stats, self._warned, self.log
                made.backend.asked = False
            return self.of_tensors

    def find(self, attempt: Attempt, tape: Tape, stored: tuple[Any, ...]) -> Path:
        """Return the path that a trace took. Refuse known paths that differ from it without an explanation: a hidden
        input decides between them.

        A stale path may differ: its reads had changed before this trace began.
        """
        skeleton, paths = Skeleton(tape, stored), attempt.paths
        with self._lock:
            belied = None
            for path in sorted(paths, key=lambda path: path.skeleton.digest != skeleton.digest):
                if not skeleton.is_like(path.skeleton):
                    continue
                apart = path.skeleton.difference(skeleton)
                if apart is False:
                    paths.remove(path)
                    paths.insert(0, path)
                    self.new = 0
                    if path in attempt.stale:  # its reads have changed but the path is the same
                        self._drop(path.entry)
                    return path
                if apart is not True and path not in attempt.stale:
                    belied = path
                    if path.state != "refused":
                        self.refuse(path, "a value that is not an argument changes from call to call: it was "
                                          f"{apart.was}, and is now {apart.now}",
                                    apart.where)
            if belied is not None:
                return belied
            self.new += 1
            if self.new == LOST and "idle" not in self._warned:
                self._warn("lost", f"the last {LOST} traced calls of {self.__name__} all had new argument types, "
                                   f"shapes or branches: from now on only one such call in {SPARSE} is considered for "
                                   "compilation. Pass numbers that change as floats or arrays, or use tg.grad")
            path = Path(skeleton, codes_of(self.__wrapped__, skeleton))
            paths.insert(0, path)
            if sum(map(len, self.paths.values())) > SEEN * self.max_tapes:
                max(self.paths.values(), key=len).pop()  # its tape may stay in use
            return path

    def _keep(self, attempt: Attempt, tape: Tape) -> Entry | None:
        """Keep the tape of a path whose traces agree."""
        path = attempt.path
        if path is None or attempt.observer is None or path.state != "traced":
            return None
        drop_large(tape, KEPT)
        keep_shapes(tape)
        fresh = self._shared(attempt.fresh, [entry.fresh for entries in self._entries.values() for entry in entries])
        entry = Entry(tape, self.backend, fresh, attempt.choice, attempt.observer.ran, attempt.loses,
                      any(map(exchanges, tape.ops)), attempt.stored, WeakMethod(self._built))
        with self._lock:
            path.keep(entry)
            self._entries[attempt.key] = (entry, *self._entries.get(attempt.key, ()))
            if sum(map(len, self._entries.values())) > self.max_tapes:
                self._evict()
        return entry

    def join(self, attempt: Attempt, path: Path, tape: Tape) -> bool:
        """Let a tape with a lookup table serve another path too that differs only in constants looked up, if the same
        code ran; return whether one does.
        """
        observer = attempt.observer
        with self._lock:
            for other in attempt.paths:
                entry = other.entry
                if (entry is None or entry.choice is None or observer is None or observer.ran != entry.ran
                        or (attempt.loses and not entry.loses)):
                    continue
                spots = other.skeleton.variation(path.skeleton)
                if (spots is not None and entry.choice.serves(spots) and (entry.fresh is None or entry.fresh())
                        and entry.choice.add(tape, path.skeleton)):
                    path.keep(entry)
                    return True
        return False

    def probe(self, path: Path, paths: Sequence[Path]) -> Freshness | None:
        """Return a freshness check of the reads of a path's code."""
        known = dict.fromkeys(other.probe for other in paths if other.codes == path.codes)
        return (next((look for look in known if look is not None and look()), None)
                or probe(self.__wrapped__, path.codes, path.skeleton.structure))

    @staticmethod
    def _shared(fresh: Freshness | None, known: Iterable[Freshness | None]) -> Freshness | None:
        """Return a known freshness check with the same places and values, else the given one."""
        if fresh is None:
            return None
        keys = fresh.keys
        return next((other for other in dict.fromkeys(known) if other is not None and other.keys == keys and other()),
                    fresh)

    def refuse(self, path: Path, why: str, where: Any, cure: str = "") -> None:
        """Refuse to compile a path from now on, and warn once."""
        self._drop(path.entry)
        path.refuse(why)
        self._warn("refused", describe(self.__name__, why, where, cure))

    def warn_key_changes(self, what: str, where: Any) -> None:
        """Warn, once, that each call changes what tapes are specialised to, so that no path recurs."""
        self._changing += 1
        if self._changing == CHANGING:
            self._warn("refused", describe(self.__name__, f"{what}, and each new value needs a new tape", where,
                                           "return the new value and store it outside, or keep a count in an array or "
                                           "tensor"))

    def _reaches(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the program reaches the same parts of the arguments by its own names as when the tape was
        recorded.
        """
        if entry.earlier.leaves_of(args, kwargs) is not None:
            return True
        walks: list[Walk] = []
        flatten_call(self.__wrapped__, args, kwargs, walks)
        if entry.reached.among(walks) == entry.reached.places:  # type: ignore[union-attr]
            entry.earlier.note(args, kwargs)
            return True
        self._missed("which arguments the program also reads through globals or captured variables")
        return False

    def _evict(self) -> None:
        """Drop the least recently used tape."""
        self._drop(self._by_use(max(self._entries.values(), key=len))[-1])
        often = self.stats.guards.most_common(1)
        because = f"; most often because this changes: {often[0][0]}" if often else ""
        self._warn("evicted",
                   f"{self.__name__} has more than {self.max_tapes} tapes, and keeps tracing new ones{because}. If it "
                   "is data, pass it as an array or a float; or raise max_tapes")

    def _drop(self, entry: Entry | None) -> None:
        """Drop a tape, on all paths that it serves."""
        if entry is None:
            return
        with self._lock:
            self._tapes[:] = [first for first in self._tapes if first is not entry.first]
            for key, entries in self._entries.items():
                self._entries[key] = tuple([other for other in entries if other is not entry])
            for path in chain.from_iterable(self.paths.values()):
                if path.entry is entry:
                    path.let_go()

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn(message)

    def _note(self, reason: Reason) -> None:
        """Log why a call was traced; warn once if a function never runs compiled."""
        log, stats = self.log, self.stats
        log.note(self.__name__, reason, stats.calls)
        if (not stats.hits and not self._warned and not stats.guards[STRICT] and (most := log.most) is not None
            and log.counts[most.kind, most.what] >= IDLE[most.kind]):
            self._warn("idle", f"all {stats.calls} calls of {self.__name__} were traced, none ran compiled: each took "
                               f"a new path or read a changed value. Most frequent change: {most}. "
                               f"{self.__name__}.explain() lists the others\n  try: {CURES[most.kind]}")

    def _missed(self, what: str, told: Callable[[], str] | None = None) -> None:
        next(self.stats._misses)
        self.stats.guards[what] += 1
        self.missed = what
        if logs("guards"):
            self._say(f"a guard failed: {told() if told is not None else what}")

    def _failed(self, miss: Miss, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Describe the guard of a tape that failed, with its old and new value."""
        path = next((path for path in chain.from_iterable(self.paths.values()) if path.entry is entry), None)
        return failed(miss, entry.fresh, None if path is None else path.skeleton, args, kwargs)

    def _built(self, size: int, seconds: float, runs: str) -> None:
        if logs("compile"):
            self._say(compiled_text(size, seconds, runs))

    def _say(self, what: str) -> None:
        say(self.__name__, f"call {self.stats.calls + 1}: {what}")

    def _to_front(self, key: Any, entry: Entry) -> None:
        with self._lock:
            entries = self._entries[key]
            if entry in entries:
                self._entries[key] = (entry, *(other for other in entries if other is not entry))
                if entry.first is not None:
                    if not isinstance(vars(type(self)).get("__call__"), BuiltinFunctionType):
                        self._dispatch()
                    self._tapes[:] = [entry.first, *(x for x in self._tapes if x is not entry.first)][:FIRST]

    def _dispatch(self) -> None:
        """Start calls in machine code that tries the most recently used tapes."""
        if (dispatcher := self.backend.dispatcher(self._called, self._tapes, self.stats.dispatched)) and not CHECKED:
            self.__class__ = type(type(self).__name__, (type(self),), {"__call__": dispatcher, "__module__": __name__})
