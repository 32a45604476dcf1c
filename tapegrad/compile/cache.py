"""cache: compiled functions. Each keeps several tapes, one per path through the program and per kind of arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any

from tapegrad.compile.backend import Backend, First, Step, choose, recorded_result
from tapegrad.compile.by_name import ByName
from tapegrad.compile.effects import apart
from tapegrad.compile.numpy.function import Miss, Unfit
from tapegrad.compile.path import Account, Entry, Pace, Path, Rent, Stats, describe, warn
from tapegrad.compile.rematerialise import is_refillable, remains, strip
from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.visit import LOST, Visit, draws
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.recorded_names import codes_of, glance
from tapegrad.errors import ArgumentError, fold
from tapegrad.numbers.systems import systems_of
from tapegrad.optimise.pipeline import DEFAULT as PASSES
from tapegrad.optimise.pipeline import Pass
from tapegrad.optimise.roll import roll
from tapegrad.replay.warning_errors import strict
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Tape
from tapegrad.trace.collector import collector
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import SURROUNDINGS, surrounded
from tapegrad.trace.inputs import flatten_call
from tapegrad.trace.tracer import record
from tapegrad.trace.twins import is_doubled
from tapegrad.trace.value_retention import Economy
from tapegrad.transforms.dropping import drop_large
from tapegrad.transforms.flat_gradient import flatgrad
from tapegrad.transforms.grad import grad, gradients_of
from tapegrad.transforms.loop_types import NoLoop
from tapegrad.tree.argnums import Argnums, wanted
from tapegrad.tree.flatten import Walk, leaves_of

WARMUP: int | None = None  # of functions that were not told
SEEN = 4  # paths that are remembered, for each tape that is kept
CHANGING = 3  # calls that change what tapes are told apart by, after which that is said
PRIMAL = 0.3  # of what it takes to compile a gradient tape
NONE: Any = object()  # no result: no tape fits

_paces: dict[Any, Pace] = {}
Make = Callable[[Visit, Callable[..., Any], tuple[Any, ...], dict[str, Any]], First]


class Compiled(ByName):
    """A function that is traced where its tapes do not fit, and runs one of them where it does.

    A path is compiled when its traces agree, and have cost what compiling is expected to cost. Thread-safe: the tapes
    are kept in tuples that are replaced, never changed; each call has buffers of its own.
    """

    def __init__(self, f: Callable[..., Any], make: Make, plainly: Callable[..., Any], max_tapes: int, backend: Backend,
                 warmup: int | None, sweeps: bool, again: Callable[[], Any]) -> None:
        self.named(f, again)
        self.__wrapped__, self._make, self._plainly, self._backend = f, make, plainly, backend
        self.max_tapes, self.stats = max_tapes, Stats()
        self._warmup, self._sweeps = warmup, sweeps
        self._entries: dict[Any, tuple[Entry, ...]] = {}
        self._paths: dict[Any, list[Path]] = {}
        self._rents: dict[Any, Rent] = {}
        share = 1.0 if sweeps else PRIMAL
        once, each, observing = backend.price
        self._pace = _paces.setdefault((type(backend), backend.mode, sweeps),
                                       Pace(once * share, each * share, observing))
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        # calls in a row that took a path which was not known; calls that changed what tapes are told apart by
        self._lost = self._changing = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        found = self.kept(args, kwargs)
        return self.traced(args, kwargs) if found is NONE else found

    def kept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what a tape that fits a call makes of it, NONE where there is no such tape."""
        key: Any = (len(args), *kwargs) if kwargs else len(args)  # in the order that `**kwargs` has
        if SURROUNDINGS:
            key = surrounded(key)
        for entry in self._entries.get(key, ()):
            if entry.reached is not None and not self._reaches(entry, args, kwargs):
                continue
            if entry.apart and is_doubled(flatten_call(self.__wrapped__, args, kwargs)[1]):
                self._missed("whether two arguments are one array")
                continue
            if entry.loses and strict():
                self._missed("that NumPy's warnings are errors")
                continue
            found = entry.stored.find(args, kwargs) if entry.stored is not None else ([], [])
            if found is None:
                self._missed("which objects are written to")
                continue
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
            if entry.stored is not None:
                result, stored = apart(result, self._sweeps)
                entry.stored.settle(stored, *found)
            next(self.stats._hits)
            self._lost = 0
            if self._entries[key][0] is not entry:
                self._to_front(key, entry)
            return result
        return NONE

    @property
    def warmup(self) -> int | None:
        """How many calls of a path are traced before it is compiled; None where that is what costs least."""
        return WARMUP if self._warmup is None else self._warmup

    @property
    def backend(self) -> Backend:
        return self._backend

    @property
    def tapes(self) -> list[Tape]:
        """The tapes that are kept, the most recently used first among those of as many arguments."""
        return [entry.tape for entries in self._entries.values() for entry in entries]

    def __repr__(self) -> str:
        return f"<compiled {self.__name__}: {len(self.tapes)} tapes, {self.stats!r}>"

    def traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Trace a call that no tape fits, and return its result; the tape is kept, or compiled and run."""
        key = surrounded((len(args), *kwargs) if kwargs else len(args))
        leaves = leaves_of((args, kwargs))
        if not (type(self.__wrapped__) is FunctionType and self.__wrapped__.__closure__ is None):
            leaves += leaves_of(self.__wrapped__)
        if any(isinstance(leaf, Traced) for leaf in leaves):
            return self._plainly(*args, **kwargs)  # inside another trace: what it computes goes on that tape
        with self._lock:
            visit = Visit(self, key)
        try:
            first = self._backend.record(lambda *call: self._make(visit, *call), self.__wrapped__, args, kwargs, leaves)
        except BaseException as err:
            next(self.stats._traces)
            fold(err)
            raise
        if first.untold:
            self._warn("refused", describe(self.__name__, *first.untold))
        entry = self._keep(visit, first.tape, first.flat)
        visit.spend()
        if visit.effects is not None:
            visit.effects.settle()
        if entry is not None and self.warmup is not None and entry.stored is None and not draws(entry.tape):
            try:
                result = entry.run(*args, **kwargs)
                next(self.stats._hits)
                return result
            except Unfit:
                raise
            except Exception as err:
                self._missed(f"whether it raises {type(err).__name__}")
        next(self.stats._traces)
        return first.result

    def _find(self, visit: Visit, tape: Tape, stored: tuple[Any, ...]) -> Path:
        """Return the path that a trace took. Refuse those of which it shows that something
        steers them which is no input.

        A stale one may differ: what it read was another thing when this trace began.
        """
        skeleton = Skeleton(tape)
        skeleton.stored = stored
        with self._lock:
            paths = self._paths.setdefault(visit.key, [])
            belied = None
            for path in sorted(paths, key=lambda path: path.skeleton.digest != skeleton.digest):
                if not skeleton.is_like(path.skeleton):
                    continue
                apart = path.skeleton.difference(skeleton)
                if apart is False:
                    paths.remove(path)
                    paths.insert(0, path)
                    self._lost = 0
                    if path in visit.stale and path.entry is not None:  # what it read has changed, and led the same way
                        self._forget(path, paths=False)
                        path.account.spent = 0.0
                    return path
                if apart is not True and path not in visit.stale:
                    belied = path
                    if not path.refused:
                        self._refuse(path, f"what keeps changing is no input: {apart.was} before, and {apart.now} now",
                                     apart.where)
            self._lost += 1
            if self._lost == LOST:
                self._give_up()
            if belied is not None:
                return belied
            codes = codes_of(self.__wrapped__, skeleton)
            look = next((path.glance for path in paths if path.codes == codes and path.glance()),
                        None) or glance(self.__wrapped__, skeleton)
            kin = next((path for path in paths if path.skeleton.variation(skeleton)), None)
            path = Path(skeleton, codes, look, Account(0.0) if kin is None else kin.account)
            path.account.spent += visit.rent.spent
            visit.rent.spent = 0.0  # it is this path's
            path.joins = kin is not None and any(self._may_join(path, other.entry, other) for other in paths)
            if self._lost < LOST:
                paths.insert(0, path)
            if sum(map(len, self._paths.values())) > SEEN * self.max_tapes:
                self._forget(max(self._paths.values(), key=len)[-1])
            return path

    def _keep(self, visit: Visit, tape: Tape | None, flat: Step | None) -> Entry | None:
        """Keep the tape of a path whose traces agree."""
        path = visit.path
        if tape is None or path is None or path.entry is not None:
            return None
        drop_large(tape)
        entry = Entry(tape, flat, self._backend, self._shared(visit.fresh), self._pace, self._pace.building(*path.size),
                      visit.choice, set() if visit.observer is None else visit.observer.ran)
        entry.loses, entry.stored = visit.loses, visit.stored
        with self._lock:
            path.entry, path.account.patience = entry, 1.0
            for other in self._paths[visit.key] if visit.choice is not None else ():
                other.joins = other.entry is None and self._may_join(other, entry, path)
            rows = sum(other.joins for other in self._paths[visit.key])
            visit.rent.begin(rows * self._pace.hearing(path.last))  # each is observed, to join
            self._entries[visit.key] = (entry, *self._entries.get(visit.key, ()))
            if len(self.tapes) > self.max_tapes:
                self._evict()
        return entry

    def _may_join(self, path: Path, entry: Entry | None, other: Path) -> bool:
        """Return whether the tape of another path may serve one: its trace differs in nothing
        but what that tape looks up.
        """
        if entry is None or entry.choice is None:
            return False
        spots = other.skeleton.variation(path.skeleton)
        return spots is not None and entry.choice.serves(spots)

    def _join(self, visit: Visit, path: Path, tape: Tape) -> bool:
        """Let the tape of another path serve one too, where the same code ran; return whether it does."""
        with self._lock:
            for other in self._paths[visit.key]:
                entry = other.entry
                if entry is None or entry.choice is None or not self._may_join(path, entry, other):
                    continue
                if visit.observer is None or visit.observer.ran != entry.ran or (entry.fresh is not None
                                                                                 and not entry.fresh()):
                    continue
                if entry.choice.add(tape, path.skeleton):
                    path.entry = entry
                    return True
        return False

    def _shared(self, fresh: Freshness | None) -> Freshness | None:
        """Return what another tape asks already that looks at the same places and finds the
        same there, or what is given.
        """
        known = {id(path.entry.fresh): path.entry.fresh for paths in self._paths.values() for path in paths
                 if path.entry is not None}
        return next((other for other in known.values() if other is not None and fresh is not None
                     and other.keys == fresh.keys and other()), fresh)

    def _refuse(self, path: Path, why: str, where: Any, cure: str = "") -> None:
        """Never compile a path, and say why, once."""
        path.refused = True
        self._forget(path, paths=False)
        self._warn("refused", describe(self.__name__, why, where, cure))

    def _parted(self, what: str, where: Any) -> None:
        """Say, once, that each call changes what tapes are told apart by, where several did: no path comes again."""
        self._changing += 1
        if self._changing == CHANGING:
            self._warn("refused", describe(self.__name__, f"{what}, by which its tapes are told apart", where,
                                           "return what is to be kept, and store it outside; count in a buffer"))

    def _give_up(self) -> None:
        """Compile nothing more: every call takes a path of its own."""
        self._entries, self._paths = {}, {}
        self._warn("lost", f"each of the last {LOST} calls of {self.__name__} that were looked at took another path "
                           "than those before, by its "
                   "arguments or its branches: from now on it is not compiled. Pass numbers that change as floats or "
                   "arrays, or use tg.grad")

    def _postpone(self, key: Any) -> None:
        """Let the paths that are due wait: another one was taken."""
        for account in {path.account for path in self._paths.get(key, ())}:
            account.postpone()

    def _reaches(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether the same objects among the arguments have names of their own in the program as
        when a tape was recorded.
        """
        if entry.earlier.leaves_of(args, kwargs) is not None:
            return True
        walks: list[Walk] = []
        flatten_call(self.__wrapped__, args, kwargs, walks)
        if entry.reached.among(walks) == entry.reached.places:  # type: ignore[union-attr]
            entry.earlier.note(args, kwargs)
            return True
        self._missed("which of the arguments the program reaches by other names")
        return False

    def _evict(self) -> None:
        key = max(self._entries, key=lambda k: len(self._entries[k]))
        last = self._entries[key][-1]
        for path in [path for path in self._paths.get(key, ()) if path.entry is last]:
            path.calls, path.account.spent = 0, 0.0
            self._forget(path, paths=False)
        often = self.stats.guards.most_common(1)
        because = f": what keeps changing is {often[0][0]}" if often else ""
        self._warn("evicted",
                   f"{self.__name__} has more than {self.max_tapes} tapes, and traces again and again{because}. "
                   "Pass it as an array or a float if it is data, or raise max_tapes")

    def _forget(self, path: Path, paths: bool = True) -> None:
        """Give up the tape of a path, and what is known of it."""
        with self._lock:
            for key, entries in self._entries.items():
                self._entries[key] = tuple(entry for entry in entries if entry is not path.entry)
            gone = path.entry
            for other in [path,
                          *(other for paths_ in self._paths.values() for other in paths_)] if gone is not None else ():
                if other.entry is gone:
                    other.entry, other.joins = None, False
            for known in self._paths.values() if paths else ():
                if path in known:
                    known.remove(path)

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn(message)

    def _missed(self, what: str) -> None:
        next(self.stats._misses)
        self.stats.guards[what] += 1

    def _to_front(self, key: Any, entry: Entry) -> None:
        with self._lock:
            entries = self._entries[key]
            if entry in entries:
                self._entries[key] = (entry, *(other for other in entries if other is not entry))


def compile(f: Callable[..., Any] | Tape, *, backend: str = "numpy", device: Any = None, mode: str = "auto",
            passes: Sequence[Pass] = PASSES, max_tapes: int = 16, warmup: int | None = None) -> Callable[..., Any]:
    """Return a fast version of a function, traced at its first call, or of a tape, for arguments like
    those it was recorded with.

    A function keeps several tapes: for each kind of arguments (nesting, types, dtypes, shapes, static values) and each
    path through its branches; at most `max_tapes`, the least recently used leaves first. What it reads besides its
    arguments is looked at again at every call. A path is compiled when its traces agree: something that steers it and
    is no input (a counter, a clock, a file) keeps it traced, with a RetraceWarning. It is compiled after `warmup`
    calls, or, where that is None, once its calls have cost what compiling is expected to cost. A tape's function raises
    GuardError where a guard does not hold; `.source` is its text. Results are fresh arrays.

    Elementwise calls of arrays of 2¹⁸ elements or more are computed together, block by block. `mode` says how: "auto"
    by several threads, and torch's kernels on the same memory where those are faster (sin, cos, hypot, logaddexp; the
    last bit of a sine may differ) and torch is imported, which compiling such calls of arrays of 2²² elements or more
    does by itself, a second, if torch is installed; "threads" by NumPy alone, "blocks" by NumPy in one thread, "plain"
    one whole array after the other. Raises ArgumentError for another mode.

    With `backend="torch"` it runs on tensors: arrays and tensors may be given, and tensors of `device` are returned (of
    the arguments' device where that is None). Program and tape may be NumPy's, or torch's. `mode` is "eager" ("auto"
    too: torch's calls, one after the other), "graph" (one CUDA graph; Python's numbers are fixed) or "inductor"
    (torch's compiler).

    >>> import tapegrad as tg
    >>> fast = tg.compile(lambda a, b: a / (a + b * b), warmup=1)
    >>> fast(2.0, 3.0), fast(4.0, 6.0), fast.stats
    (0.18181818181818182, 0.1, Stats(traces=1, hits=1, misses=0))
    """
    chosen = choose(backend, device, mode, passes)
    if isinstance(f, Tape):
        if systems_of(f.ops):
            raise ArgumentError(f"{f.name} computes with exact numbers, or others of their own arithmetic, for which "
                                "there is no faster code", None,
                                "tape.play, or compile the function, which then traces at each call")
        return chosen.compile(f)

    # until it is known that a user's function must be run again for the values that are dropped
    economical = chosen.refills

    def rolled(primal: Tape) -> Tape:
        return roll(primal) if chosen.rolls else primal

    def make(visit: Visit, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        nonlocal economical
        economy = Economy(sweeps=False)
        tape = record(fn, args, kwargs, DEFAULT, once=economy if economical else None, observer=visit.observer,
                      found=visit.find(fn, args, kwargs), replays=visit.looks)
        result = recorded_result(tape)
        if not visit.keeps(tape):
            return First(None, result)
        refills = chosen.refills and is_refillable(tape)
        economical = economical and (refills or not economy.begun)
        if economy.begun and not refills:
            return First(None, result)
        tape = visit.general(tape)
        if economy.begun:
            strip(tape)
            return First(tape, result, rolled)
        short = rolled(tape)
        if short is not tape or not refills:
            return First(short, result)
        strip(tape)
        return First(tape, result, lambda primal: primal)
    again = partial(compile, f, backend=backend, device=device, mode=mode, passes=passes, max_tapes=max_tapes,
                    warmup=warmup)
    return Compiled(f, make, f, max_tapes, chosen, warmup, sweeps=False, again=again)


def value_and_grad(f: Callable[..., Any], argnums: Argnums = None, has_aux: bool = False, *, captured: bool = True,
                   seed: Any = 1,
                   backend: str = "numpy", device: Any = None, mode: str = "auto", passes: Sequence[Pass] = PASSES,
                   max_tapes: int = 16, warmup: int | None = None) -> Callable[..., Any]:
    """Return a function that returns what `grad(f, *args)` does, `(value, (df, *dargs))`, from compiled gradient tapes.

    As `compile` does, it traces where no tape fits, and runs one where one does: branches may change from call to call.
    `backend`, `device` and `mode` and `warmup` are those of `compile`. A call that traces costs what `grad` does.
    `argnums` and `captured` are those of `grad`: `value_and_grad(f, argnums=0)` returns `(value, dx)`, as
    `scipy.optimize` takes it. With `has_aux` the function returns a pair, of which the first is differentiated, and the
    second only returned: `((value, aux), gradients)`.

    >>> import tapegrad as tg
    >>> step = tg.value_and_grad(lambda a, b: a * b if a > 0 else b, warmup=1)
    >>> step(2.0, 3.0), step(-2.0, 3.0), step(4.0, 3.0)
    ((6.0, (None, 3.0, 2.0)), (3.0, (None, 0.0, 1.0)), (12.0, (None, 3.0, 4.0)))
    >>> step.stats
    Stats(traces=2, hits=1, misses=0)
    """
    chosen, asked = choose(backend, device, mode, passes), wanted(argnums, captured)
    seed = (seed, None) if has_aux else seed

    # until it is known that a user's function must be run again for the values that are dropped
    economical = chosen.refills

    def make(visit: Visit, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> First:
        nonlocal economical
        economy, begun = Economy(), seed

        def differentiated(primal: Tape) -> Tape:
            return flatgrad(primal, begun, release=True, unrolls=False)

        def flat(primal: Tape) -> Tape:  # of a tape that lacked the values to look for loops
            return shortened(roll(primal), differentiated) or differentiated(primal)

        with collector:
            found = visit.find(fn, args, kwargs)
            tape = record(fn, args, kwargs, DEFAULT, grad=True, once=economy if economical or not visit.looks else None,
                          observer=visit.observer, found=found, wanted=asked, replays=visit.looks)
            if not visit.keeps(tape):
                value = recorded_result(tape)
                return First(None, (value, gradients_of(tape, seed, economy=economy)))
            begun = seed if visit.stored is None else (seed, None)
            tape = tape if economy.begun else visit.general(tape)
            rolled = roll(tape) if chosen.rolls and not economy.begun else tape
            refills = chosen.refills and is_refillable(tape)
            short = None if refills or rolled is tape else shortened(rolled, differentiated)
            if not (short or refills or economy.begun):
                tape = differentiated(tape)
                result = recorded_result(tape)
                return First(tape, result if visit.stored is None else apart(result, True)[0])
            value = recorded_result(tape)
            gradients = gradients_of(tape, begun, economy=economy, left=remains if refills else None)
            value = value if visit.stored is None else value[0]
            economical = economical and (refills or not economy.begun)
            if refills and rolled is not tape:  # once the values are given up
                short = shortened(rolled, differentiated)
            if short or not refills:
                return First(short, (value, gradients))
            return First(tape, (value, gradients), flat if economy.begun else differentiated)

    def plainly(*args: Any, **kwargs: Any) -> Any:
        return grad(f, *args, seed=seed, argnums=argnums, captured=captured, **kwargs)
    again = partial(value_and_grad, f, argnums, has_aux, captured=captured, seed=seed[0] if has_aux else seed,
                    backend=backend, device=device, mode=mode, passes=passes, max_tapes=max_tapes, warmup=warmup)
    return Compiled(f, make, plainly, max_tapes, chosen, warmup, sweeps=True, again=again)


def shortened(rolled: Tape, flat: Step) -> Tape | None:
    """Return the flat tape of a rolled one, which is short and soon made; None where a loop has no gradient."""
    try:
        return flat(rolled)
    except NoLoop:
        return None
