"""attempt: one traced call of a compiled function: the path it takes, and whether its tape is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapegrad.compile.constant_lookup import Lookup, chosen, lookup_of
from tapegrad.compile.effects import Effects
from tapegrad.compile.path import Path, spent_on
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.observer import Observer
from tapegrad.errors import Location
from tapegrad.numbers.systems import has_others
from tapegrad.ops import default_rng, draw
from tapegrad.ops.checkpoint import is_checkpoint
from tapegrad.ops.structure import unpacked
from tapegrad.replay.warning_errors import drops_warnings
from tapegrad.tape.subtape import exchanges
from tapegrad.tape.tape import Call, Guard, Input, Tape
from tapegrad.trace.guards import FIXED
from tapegrad.trace.random_state import Found, unrecorded
from tapegrad.trace.write_back import Pending

AT_ONCE = 0.05  # seconds: a path expected to compile faster is compiled at its third call
NEW = 2  # traced calls in a row on new paths, after which the next call is not observed: its path may be new too
LOST = 64  # traced calls in a row on new or refused paths, after which most calls are not compared
SWEPT = 2  # a gradient takes this many times as long to compile as the function
SPARSE = 16  # after LOST, one in so many calls is still compared with the known paths
# bytes compared in a second, or at least half as many: comparing the values that a run reads may
# take half as long as a trace
COMPARED = 2e9
LITTLE = 1 << 17  # bytes that may be compared in any case
MANY = 2000  # places: checking fewer takes less time than the code that reads them


class Attempt:
    """One traced call of `compiled`. It is observed if it may take a known path whose tape may be kept afterwards.

    A call that is not `compared` with the known paths is recorded as by `grad`, without guards: while the last path
    waits until its traced calls have cost as much as compiling, and when comparing has long been useless.
    """

    __slots__ = ("call", "changed", "choice", "compared", "compiled", "effects", "fresh", "key", "loses", "observer",
                 "path", "paths", "stale", "start", "stored", "waiting")

    def __init__(self, compiled: Any, key: Any) -> None:
        self.compiled, self.key, self.start = compiled, key, compiled.backend.clock()
        self.paths: list[Path] = compiled.paths.setdefault(key, [])  # most recently taken first
        due = list(filter(self.is_due, self.paths))
        waits = compiled.warmup is None and self.paths and self.paths[0].is_candidate and self.paths[0] not in due
        self.waiting = self.paths[0] if waits else None
        self.compared = self.waiting is None and (compiled.vain < LOST or compiled.vain % SPARSE == 0)
        self.observer: Observer | None = None
        self.path: Path | None = None
        self.fresh: Freshness | None = None
        self.choice: Lookup | None = None
        self.loses, self.stale = False, list[Path]()
        self.effects: Pending | None = None  # writes applied once the call has succeeded
        self.call: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        self.changed: tuple[str, str, str] | None = None  # a changed read: its label, old and new value
        self.stored: Effects | None = None  # the writes as results of a kept tape
        if not self.compared:
            return
        # check the known paths' reads before the program runs, which may change them itself
        looks = {id(look): look for path in self.paths for look in path.looks}
        changed = {key for key, look in looks.items() if not look()}
        if changed and compiled.log.room:  # for the most recent path
            self.changed = next((look.changed() for look in self.paths[0].looks if id(look) in changed), None)
        self.stale = [path for path in self.paths if not changed.isdisjoint(map(id, path.looks))] if changed else []
        if due and (compiled.warmup is not None or compiled.new < NEW):
            seconds = min(path.last for path in due)
            self.observer = Observer(max(seconds * COMPARED, LITTLE))
            self.observer.set_profile = compiled.backend.profiler(seconds)

    def is_due(self, path: Path) -> bool:
        """Return whether the next trace of a path may be the last."""
        return path.is_candidate and is_due(self.compiled, path, self.paths)

    def find(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found | None:
        """Return the random generators that the program can reach, with their states if its tape may be kept; None if
        the call is not compared.
        """
        if not self.compared:
            return None
        self.call = f, args, kwargs
        found = Found(f, args, kwargs, watched=self.observer is not None, near=True)
        if self.observer is not None:
            self.observer.reads.meet = found.meet
        return found

    def keeps(self, tape: Tape) -> bool:
        """Find the path taken; return whether its tape is kept and compiled. If so, the program's writes become results
        of the tape.
        """
        self.effects, tape.structure.effects = tape.structure.effects, None
        call, self.call = self.call, None
        if call is None or has_others(tape.ops):  # other number systems have no faster code
            self.compiled.vain += self.waiting is None
            return False
        stored, before = None, tape.result
        if self.effects is not None and self.effects.writes:
            stored = Effects(self.effects, *call)
            if stored.changes_key is not None:
                self.compiled.warn_key_changes(stored.changes_key.what, self.effects.line(stored.changes_key))
            if stored.why_no_subtape is None:
                stored.join(tape)
        kept = self._keeps(tape, stored)
        if stored is not None:
            stored.release()
        if kept:
            self.stored = stored
        elif tape.result is not before:
            tape.ops.pop()
            tape.result = before
        return kept

    def _keeps(self, tape: Tape, stored: Effects | None) -> bool:
        compiled, observer = self.compiled, self.observer
        self.path = path = compiled.find(self, tape, () if stored is None else tuple(stored.key))
        compiled.vain = 0 if path.is_candidate else compiled.vain + 1
        if observer is None or not self.is_due(path):
            return False
        observer.note_rules(tape)
        fresh, why, where = observer.result()
        self.fresh = fresh or None
        if not why:
            why, where = self._unrepeatable(tape, stored, fresh)
        if why:
            compiled.refuse(path, why, where, observer.cure)
            return False
        self.loses = observer.may_warn or drops_warnings(tape)
        return not compiled.join(self, path, tape)

    def _unrepeatable(self, tape: Tape, stored: Effects | None, fresh: Freshness) -> tuple[str, Location | None]:
        """Return why a tape cannot replace the program, apart from the observed reasons, and where; "" if it can."""
        assert self.path is not None
        if self.effects is not None and stored is not None:
            if stored.why_no_subtape is not None:
                return stored.why_no_subtape.what, self.effects.line(stored.why_no_subtape)
            if not self.compiled.backend.stores(stored.samples):
                return self.effects.told()
        if len(fresh.places) > MANY and self._seconds_of(fresh) > self.path.last / 2:
            return (f"comparing the {len(fresh.places):,} values that it reads besides its arguments takes as long as "
                    "tracing"), None
        if not self.compiled.backend.returns([op.val for op in unpacked(tape.result)[0] if type(op) is Call]):
            return 'it returns a tensor, for which there is backend="torch"', None
        if (branch := _branch_after(tape)) is not None:
            return ("it branches after it has exchanged numbers with other processes, and tracing again would repeat "
                    "the exchange"), branch.where
        lacking = unrecorded(tape)
        return ("" if lacking is None else f"it {lacking.expected[0]}"), None

    def _seconds_of(self, fresh: Freshness) -> float:
        """Return the time for a freshness check."""
        clock = self.compiled.backend.clock
        times: list[float] = []
        for _ in range(2):
            start = clock()
            fresh()
            times.append(clock() - start)
        return min(times)

    def general(self, tape: Tape) -> Tape:
        """Return the tape to compile for a kept tape: if other paths differ from it only in constants that follow from
        integers, one that serves them too.
        """
        compiled, path = self.compiled, self.path
        assert path is not None
        others = [other.skeleton for other in self.paths if other is not path and other.state == "traced"]
        whole = not any(map(is_checkpoint, tape.ops))  # the skeleton's operations are those of the tape
        choice = lookup_of(path.skeleton, others) if compiled.backend.looks_up and whole else None
        made = None if choice is None else chosen(tape, path.skeleton, choice)
        if made is None:
            return tape
        self.choice = choice
        return made

    def end(self) -> None:
        """Count the call and its time, after the program's writes, so that the probe does not report those as changes.
        """
        path = self.path or self.waiting
        if path is not None:
            if path is not self.waiting:
                path.probe = self.compiled.probe(path, self.paths)
            path.count(self.compiled.backend.clock() - self.start, observed=self.observer is not None)


def seconds_to_compile(compiled: Any, path: Path) -> float:
    """Return the expected time to compile the tape of a path."""
    return float(compiled.backend.seconds_to_compile(path.length * (SWEPT if compiled.sweeps else 1)))


def is_due(compiled: Any, path: Path, paths: Iterable[Path]) -> bool:
    """Return whether a path has been traced often enough: once, or, if compiling is expected to take long, for as long
    as compiling. Paths of the same length, which one tape may serve, count together.
    """
    if compiled.warmup is not None:
        return bool(path.calls >= compiled.warmup)
    seconds = seconds_to_compile(compiled, path)
    return seconds <= AT_ONCE or seconds <= spent_on(path, paths)


def draws(tape: Tape) -> bool:
    """Return whether a tape draws from a generator that it did not make: such a call must not be repeated."""
    return any((op.fn is draw and not _is_made(op.args[0])) or (is_checkpoint(op) and op.fn.drawing) for op in tape.ops)


def _branch_after(tape: Tape) -> Guard | None:
    """Return a guard at which a replay may end after an exchange with other processes, if there is one."""
    ops = iter(tape.ops)
    if not any(map(exchanges, ops)):
        return None
    return next((op for op in ops if type(op) is Guard and op.fact not in FIXED and type(op.args[0]) is not Input),
                None)


def _is_made(generator: Any) -> bool:
    return type(generator) is Call and generator.fn is default_rng
