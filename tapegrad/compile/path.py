"""path: one way through a function, from its first trace until it is compiled, or until it
turns out that it must not be.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from time import perf_counter
from types import CodeType
from typing import Any

import numpy as np

from tapegrad.compile.backend import Backend
from tapegrad.compile.choice import Choice
from tapegrad.compile.earlier_call import EarlierCalls
from tapegrad.compile.effects import Effects
from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import Location, user_frame
from tapegrad.progress import Work
from tapegrad.replay.warning_errors import is_calm
from tapegrad.tape.tape import Tape
from tapegrad.tree.signature import Reached

STRICT = "that NumPy's warnings are errors"
FIRST = 4  # tapes that a dispatcher tries
LEFT_OFTEN = 32  # calls that machine code leaves, after which it is asked how many it answers


class RetraceWarning(UserWarning):
    """A compiled function traces again and again: what its tapes are specialised to keeps changing, or
    something steers it that is no input.
    """


def warn(message: str) -> None:
    """Give a RetraceWarning at the user's line."""
    frame = user_frame()
    warnings.warn_explicit(message, RetraceWarning, frame.f_code.co_filename, frame.f_lineno,
                           registry=frame.f_globals.setdefault("__warningregistry__", {}))


class Stats:
    """How often a compiled function traced, found a tape that fits, and met a guard that did not hold."""

    def __init__(self) -> None:
        self._hits, self._traces, self._misses = count(), count(), count()
        self.guards: Counter[str] = Counter()
        self.dispatched: Any = np.zeros(2, np.int64)  # hits and misses that a dispatcher has counted

    @property
    def hits(self) -> int:
        """Calls that a compiled tape served."""
        return _value(self._hits) + int(self.dispatched[0])

    @property
    def traces(self) -> int:
        """Calls that a trace served."""
        return _value(self._traces)

    @property
    def calls(self) -> int:
        """All calls: hits and traces."""
        return self.hits + self.traces

    @property
    def misses(self) -> int:
        """Tapes that were tried and did not fit."""
        return _value(self._misses) + int(self.dispatched[1])

    def __repr__(self) -> str:
        return f"Stats(traces={self.traces}, hits={self.hits}, misses={self.misses})"


def _value(counter: Any) -> int:
    """Return how far a counter has come; counting with `next` is atomic, and `+= 1` is not."""
    return int(repr(counter)[len("count("):-1])  # nothing else tells without counting on


class Path:
    """One way through a function, for one kind of arguments. Its `state` says how its calls are answered:

    "traced"    Each call traces. A path begins here, with its first trace (`Path(...)`), which later ones are compared
                with. `count` adds up what its calls cost; `Attempt.is_due` says when the next one may be observed: the
                second, of a long path the first after they have cost as much as compiling will.
    "observed"  That trace agreed with the first, and the observer found nothing that a replay could not repeat: its
                tape is kept (`keep`), and the next call that it fits compiles it.
    "compiled"  Its calls run compiled (`Entry.compile_and_run`). Where something has changed that the path reads, or
                its tape is evicted, it is "traced" again (`let_go`).
    "refused"   Something steers it that is no input, the `reason`: it is traced for good (`refuse`).
    """

    __slots__ = ("calls", "codes", "entry", "last", "probe", "reason", "skeleton", "spent")

    def __init__(self, skeleton: Skeleton, codes: frozenset[CodeType]) -> None:
        self.skeleton, self.codes = skeleton, codes
        self.probe: Freshness | None = None  # of what its code reads, since a call was last held against it
        # traced calls, their seconds, and those of the last that was not observed
        self.calls, self.spent, self.last = 0, 0.0, 0.0
        self.entry: Entry | None = None  # several paths may have one
        self.reason = ""

    @property
    def state(self) -> str:
        """How its calls are answered."""
        if self.reason:
            return "refused"
        return "traced" if self.entry is None else "compiled" if self.entry.is_compiled else "observed"

    @property
    def is_candidate(self) -> bool:
        """Whether it may be compiled, and is not: one of its calls was traced before."""
        return self.entry is None and not self.reason and self.calls > 0

    def count(self, seconds: float, observed: bool) -> None:
        """Count a call that was traced."""
        self.calls += 1
        self.spent += seconds
        self.last = self.last if observed and self.last else seconds

    def keep(self, entry: Entry) -> None:
        """Have a tape, its own or one that serves another path too."""
        self.entry = entry

    def let_go(self) -> None:
        """Have no tape any more; the calls so far count no longer."""
        self.entry, self.calls, self.spent = None, 0, 0.0

    def refuse(self, reason: str) -> None:
        """Be traced for good."""
        self.entry, self.reason = None, reason

    @property
    def length(self) -> int:
        """The operations that are compiled, those of a loop once."""
        return self.skeleton.length

    @property
    def looks(self) -> list[Freshness]:
        """What tells whether something that was read besides the arguments has changed."""
        known = [self.probe, None if self.entry is None else self.entry.fresh]
        return [look for look in known if look is not None]


def spent_on(path: Path, paths: Iterable[Path]) -> float:
    """Return the seconds that traced calls of a path took, and of others as long, which one tape may serve."""
    return sum(other.spent for other in paths if other.length == path.length)


class Entry:
    """A tape that is kept, and the function that it is compiled to by the first call that it fits."""

    __slots__ = ("apart", "backend", "built", "choice", "earlier", "exchanges", "first", "fresh", "hits", "is_compiled",
                 "left", "lock", "loses", "ran", "reached", "run", "stored", "tape")

    def __init__(self, tape: Tape, backend: Backend, fresh: Freshness | None, choice: Choice | None,
                 ran: set[CodeType], loses: bool, exchanges: bool, stored: Effects | None,
                 built: Callable[[], Callable[[int, float, str], None] | None]) -> None:
        self.tape, self.backend, self.fresh, self.choice, self.ran = tape, backend, fresh, choice, ran
        self.built = built  # refers to what is told how many operations were compiled, in how many seconds, and to what
        self.loses = loses  # what NumPy may warn of
        self.exchanges = exchanges  # calls for which other processes wait
        self.stored = stored  # what its calls write: the tape's results have the values
        reached = tape.structure.reached
        self.reached: Reached | None = reached if reached is not None and reached.may_be_among(tape.structure) else None
        # it may compare their ids: such a call must not pass one array twice
        self.apart = (sum(hasattr(x.val, "shape") for x in tape.inputs) > 1
                      and any("id" in code.co_names for code in ran))
        self.earlier = EarlierCalls(tape.structure)
        self.first: Any = None  # what a dispatcher calls, which has to ask for nothing more
        self.left = self.hits = 0  # calls that it left to Python, and hits when that was last looked at
        self.run, self.is_compiled, self.lock = self.compile_and_run, False, threading.RLock()

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the tape, unless another thread has meanwhile, and make the call. Raises Miss where
        the tape does not fit it.
        """
        with self.lock:
            if not self.is_compiled:
                if not ((self.fresh is None or self.fresh()) and self.backend.fits(self.tape, args, kwargs)):
                    raise Miss(self.tape, None)
                # warnings of the values that passes compute are nobody's
                start = perf_counter()
                with Work("compiling", count=self.tape.__len__), np.errstate(all="ignore"):
                    self.tape, self.run = self.backend.build(self.tape, self.fresh)  # type: ignore[method-assign]
                if not (self.reached or self.apart or self.stored):
                    self.first = self.backend.first(self.run, [is_calm] if self.loses else [])
                self.is_compiled = True
                if (built := self.built()) is not None:
                    built(len(self.tape), perf_counter() - start, self.backend.runs(self.run))
        return self.run(*args, **kwargs)


    def note_left(self, hits: int, tapes: list[Any]) -> None:
        """Note a call that machine code left to Python though the tape fits, where numbers overflow, say; give it up
        where it leaves every second one.
        """
        self.left += 1
        if self.left % LEFT_OFTEN == 0:
            if hits - self.hits < 2 * LEFT_OFTEN:
                tapes[:] = [x for x in tapes if x is not self.first]
                self.first, self.run = None, self.run.straight  # type: ignore[attr-defined, method-assign]
            self.hits = hits


def describe(name: str, why: str, where: Location | None, cure: str = "") -> str:
    """Return why a path is not compiled, and what to do."""
    line = "" if where is None else f"\n  at {where}" + (f":  {where.source}" if where.source else "")
    return (f"{name} is not compiled where {why}. What is no input cannot be replayed: such calls are traced, each "
            f"anew, and stay right{line}"
            f"\n  try: {cure or 'pass it as an argument'}")
