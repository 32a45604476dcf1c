"""visit: one call of a compiled function that traces: whether it is looked at, observed, and settles
that its path is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.compile.choice import Choice, choice_of, chosen
from tapegrad.compile.effects import Effects
from tapegrad.compile.path import Path, Rent
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.observer import Observer
from tapegrad.numbers.systems import systems_of
from tapegrad.ops import default_rng, draw
from tapegrad.ops.checkpoint import is_checkpoint
from tapegrad.replay.warning_errors import may_lose
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace.random_state import Found, unrecorded_draws
from tapegrad.trace.write_back import Pending

LOST = 64  # calls in a row of which each took another path: no path will come again
# bytes that are compared in a second, half of that at least: to look whether what is read is the same
# may take half of a trace
COMPARED = 2e9
LITTLE = 1 << 17  # bytes that may be compared in any case
MANY = 2000  # places: fewer take less than anything that reads them


class Visit:
    """One call that traces: it is observed if that may settle that its path can be compiled.

    What calls cost is `rent` at first, and nobody looks which path they take. It is a call of
    `compiled`, which keeps the paths.
    """

    __slots__ = ("aside", "call", "choice", "compiled", "effects", "fresh", "key", "looks", "loses", "observer", "path",
                 "rent", "stale", "start", "stored")

    def __init__(self, compiled: Any, key: Any) -> None:
        self.compiled, self.key, self.start = compiled, key, compiled._backend.clock()
        self.rent = rent = compiled._rents.get(key) or compiled._rents.setdefault(key, Rent())
        self.looks = compiled._lost < LOST and (compiled.warmup is not None or rent.may_end(compiled._pace))
        self.observer: Observer | None = None
        self.path: Path | None = None
        self.fresh: Freshness | None = None
        self.choice: Choice | None = None
        self.loses, self.stale, self.aside = False, list[Path](), 0.0
        self.effects: Pending | None = None  # what the program writes once the call has ended well
        self.call: tuple[Any, tuple[Any, ...], dict[str, Any]] | None = None
        self.stored: Effects | None = None  # the same for the calls of a tape, whose results have what is stored then
        if self.looks:
            self.look(compiled._paths.get(key, ()))

    def look(self, paths: Sequence[Path]) -> None:
        """Look what has changed that known paths read, and whether one of them is to be compiled,
        before the program runs.
        """
        compiled = self.compiled
        # as it stands before the program runs, and may change it
        looks = {id(look): look for path in paths for look in path.looks}
        changed = {key for key, look in looks.items() if not look()}
        self.stale = [path for path in paths if not changed.isdisjoint(map(id, path.looks))] if changed else []
        # where one new path comes after the other, so may this call's be
        known = compiled.warmup is not None or compiled._lost < 2
        due = [path for path in paths if path.is_due(compiled.warmup, compiled._pace)] if known else []
        if due:
            self.observer = Observer(max(min(path.last for path in due) * COMPARED, LITTLE),
                                     reads=not all(path.joins for path in due))

    def find(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found | None:
        """Return the random generators that the program can reach, with their states if its tape may be kept; None
        where nobody looks at it.
        """
        if not self.looks:
            return None
        self.call = f, args, kwargs
        found = Found(f, args, kwargs, watched=self.observer is not None, near=True)
        if self.observer is not None:
            self.observer.reads.meet = found.meet
        return found

    def keeps(self, tape: Tape) -> bool:
        """Find the path that was taken, and return whether its tape is to be kept, and compiled: what it stores is a
        result of it then.
        """
        compiled = self.compiled
        self.effects, tape.structure.effects = tape.structure.effects, None
        self.rent.measure(tape)
        if not self.looks or systems_of(tape.ops):  # there is no faster code for numbers of other systems
            return False
        recorded = compiled._backend.clock()
        if compiled.warmup is None and not self.rent.ends(recorded - self.start, compiled._pace):
            return False
        stored, before, call = None, tape.result, self.call
        self.call = None
        if self.effects is not None and self.effects.writes and call is not None:
            stored = Effects(self.effects, *call)
            if stored.parts_ways is not None:
                compiled._parted(stored.parts_ways.what, self.effects.line(stored.parts_ways))
            if stored.unfit is None:
                stored.join(tape)
        kept = self._keeps(tape, recorded, stored)
        if stored is not None:
            stored.release()
        if kept:
            self.stored = stored
        elif tape.result is not before:
            tape.ops.pop()
            tape.result = before
        return kept

    def _keeps(self, tape: Tape, recorded: float, stored: Effects | None) -> bool:
        compiled, observer = self.compiled, self.observer
        self.path = path = compiled._find(self, tape, () if stored is None else tuple(stored.key))
        self.aside = compiled._backend.clock() - recorded
        self.rent.look(path, recorded - self.start)
        if observer is None or path.refused or path.entry is not None:
            return False
        if not path.is_due(compiled.warmup, compiled._pace):
            compiled._postpone(self.key)
            return False
        observer.note_rules(tape)
        fresh, why, where = observer.result()
        self.fresh = fresh or None
        if not why and self.effects is not None and stored is not None and stored.unfit is not None:
            why, where = stored.unfit.what, self.effects.line(stored.unfit)
        if not why and self.effects is not None and stored is not None and not compiled._backend.stores(stored.samples):
            why, where = self.effects.told()
        if not why and len(fresh.places) > MANY and self.looking(fresh) > path.last / 2:
            why = (f"the {len(fresh.places):,} places that it reads besides its arguments take as long to look at "
                   "again as it takes to trace")
        if not why and (lacking := unrecorded_draws(tape)) is not None:
            why = f"it {lacking.expected} that no stand-in was found for"
        if why:
            compiled._refuse(path, why, where, observer.cure)
            return False
        if path.joins and compiled._join(self, path, tape):
            return False
        path.joins, self.loses = False, may_lose(tape)
        return observer.notes and path.is_due(compiled.warmup, compiled._pace)

    def looking(self, fresh: Freshness) -> float:
        """Return how long it takes to look at all places again."""
        clock = self.compiled._backend.clock
        times: list[float] = []
        for _ in range(2):
            start = clock()
            fresh()
            times.append(clock() - start)
        return min(times)

    def general(self, tape: Tape) -> Tape:
        """Return the tape that is compiled of one that is kept: where others differ from it in constants that follow
        from integers, for those too.
        """
        compiled, path = self.compiled, self.path
        assert path is not None
        others = [other.skeleton for other in compiled._paths[self.key] if other is not path and not other.refused
                  and other.entry is None]
        whole = not any(map(is_checkpoint, tape.ops))  # the operations of a skeleton are those of the tape
        choice = choice_of(path.skeleton, others) if compiled._backend.refills and whole else None
        made = None if choice is None else chosen(tape, path.skeleton, choice)
        if made is None:
            return tape
        self.choice = choice
        return made

    def spend(self) -> None:
        """Count what the call took; a trace that is neither observed nor held against others takes less."""
        path, seconds = self.path, self.compiled._backend.clock() - self.start
        if path is None:
            self.rent.spend(seconds)
            return
        if heard := self.observer is not None and path.last:
            self.compiled._pace.hear(path.last, seconds - self.aside)
        path.spend(seconds, path.last if heard else seconds - self.aside)
        self.rent.total += seconds


def draws(tape: Tape) -> bool:
    """Return whether a call of a tape draws random numbers from a generator that it did not
    make: it must not be made twice.
    """
    return any(type(op) is Call and ((op.fn is draw and not _is_made(op.args[0]))
                                     or (is_checkpoint(op) and op.fn.drawing)) for op in tape.ops)


def _is_made(generator: Any) -> bool:
    return type(generator) is Call and generator.fn is default_rng
