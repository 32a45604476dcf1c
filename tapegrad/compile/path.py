"""path: one path through a function, from its first trace until it is compiled or refused."""

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
from tapegrad.compile.constant_lookup import Lookup
from tapegrad.compile.effects import Effects
from tapegrad.compile.flatten_cache import FlattenCache
from tapegrad.compile.numpy.function import Miss
from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import Location, user_frame
from tapegrad.progress import Work
from tapegrad.replay.warning_errors import is_calm
from tapegrad.tape.tape import Tape
from tapegrad.tree.signature import NamedObjects

STRICT = "that NumPy's warnings are errors"
FIRST = 4  # tapes that a dispatcher tries, at most
LEFT_OFTEN = 32  # calls that machine code leaves to Python, after which its share of hits is checked


class RetraceWarning(UserWarning):
    """A compiled function traces again and again: what its tapes are specialised to keeps changing, or something other
    than its inputs decides what it computes.
    """


def warn(message: str) -> None:
    """Issue a RetraceWarning at the user's line."""
    frame = user_frame()
    warnings.warn_explicit(message, RetraceWarning, frame.f_code.co_filename, frame.f_lineno,
                           registry=frame.f_globals.setdefault("__warningregistry__", {}))


class Stats:
    """Counts of a compiled function's traces, compiled calls and failed guards."""

    def __init__(self) -> None:
        self._hits, self._traces, self._misses = count(), count(), count()
        self.guards: Counter[str] = Counter()
        self.dispatched: Any = np.zeros(2, np.int64)  # hits and misses counted by a dispatcher

    @property
    def hits(self) -> int:
        """The number of calls that ran compiled."""
        return _value(self._hits) + int(self.dispatched[0])

    @property
    def traces(self) -> int:
        """The number of traced calls."""
        return _value(self._traces)

    @property
    def calls(self) -> int:
        """The number of all calls: hits and traces."""
        return self.hits + self.traces

    @property
    def misses(self) -> int:
        """The number of tapes that were tried and did not fit."""
        return _value(self._misses) + int(self.dispatched[1])

    def __repr__(self) -> str:
        return f"Stats(traces={self.traces}, hits={self.hits}, misses={self.misses})"


def _value(counter: Any) -> int:
    """Return the value of a counter. `next` counts atomically, `+= 1` does not."""
    return int(repr(counter)[len("count("):-1])  # nothing else reads it without counting


class Path:
    """One path through a function, for one kind of arguments. Its `state` tells how its calls run:

    "traced"    Each call is traced. A path starts in this state with its first trace (`Path(...)`), with which later
                ones are compared. `count` adds up the cost of its calls; `Attempt.is_due` decides when the next one may
                be observed: the second, or for a long path the first after they have cost as much as compiling will.
    "observed"  The observed trace agreed with the first, and the observer found nothing that a replay could not repeat:
                its tape is kept (`keep`), and the next call that it fits compiles it.
    "compiled"  Its calls run compiled (`Entry.compile_and_run`). If a value that the path reads has changed, or its
                tape is evicted, it is "traced" again (`let_go`).
    "refused"   Something other than inputs decides what it computes (`reason`): all calls are traced (`refuse`).
    """

    __slots__ = ("calls", "codes", "entry", "last", "probe", "reason", "skeleton", "spent")

    def __init__(self, skeleton: Skeleton, codes: frozenset[CodeType]) -> None:
        self.skeleton, self.codes = skeleton, codes
        self.probe: Freshness | None = None  # freshness check of its code's reads since the last compared call
        # traced calls, their total seconds, and the seconds of the last one that was not observed
        self.calls, self.spent, self.last = 0, 0.0, 0.0
        self.entry: Entry | None = None  # several paths may share one
        self.reason = ""

    @property
    def state(self) -> str:
        """The state, as described above."""
        if self.reason:
            return "refused"
        return "traced" if self.entry is None else "compiled" if self.entry.is_compiled else "observed"

    @property
    def is_candidate(self) -> bool:
        """Whether it may still be compiled: one of its calls was traced before."""
        return self.entry is None and not self.reason and self.calls > 0

    def count(self, seconds: float, observed: bool) -> None:
        """Count a traced call."""
        self.calls += 1
        self.spent += seconds
        self.last = self.last if observed and self.last else seconds

    def keep(self, entry: Entry) -> None:
        """Use a tape, its own or one that serves another path too."""
        self.entry = entry

    def let_go(self) -> None:
        """Drop the tape; the calls so far no longer count."""
        self.entry, self.calls, self.spent = None, 0, 0.0

    def refuse(self, reason: str) -> None:
        """Trace all further calls."""
        self.entry, self.reason = None, reason

    @property
    def length(self) -> int:
        """The number of operations to compile; those of a loop count once."""
        return self.skeleton.length

    @property
    def looks(self) -> list[Freshness]:
        """The freshness checks of values read besides the arguments."""
        known = [self.probe, None if self.entry is None else self.entry.fresh]
        return [look for look in known if look is not None]


def spent_on(path: Path, paths: Iterable[Path]) -> float:
    """Return the seconds of traced calls of a path, and of others of its length, which one tape may serve."""
    return sum(other.spent for other in paths if other.length == path.length)


class Entry:
    """A kept tape, and its function, compiled at the first call that it fits."""

    __slots__ = ("apart", "backend", "built", "choice", "earlier", "exchanges", "first", "fresh", "hits", "is_compiled",
                 "left", "lock", "loses", "ran", "reached", "run", "stored", "tape")

    def __init__(self, tape: Tape, backend: Backend, fresh: Freshness | None, choice: Lookup | None,
                 ran: set[CodeType], loses: bool, exchanges: bool, stored: Effects | None,
                 built: Callable[[], Callable[[int, float, str], None] | None]) -> None:
        self.tape, self.backend, self.fresh, self.choice, self.ran = tape, backend, fresh, choice, ran
        self.built = built  # returns the callback that reports operations compiled, seconds, and kind of code
        self.loses = loses  # NumPy may warn in calls that the tape drops, or of constants
        self.exchanges = exchanges  # has calls that other processes wait for
        self.stored = stored  # the writes of its calls, whose values are results of the tape
        reached = tape.structure.reached
        among = reached is not None and reached.may_be_among(tape.structure)
        self.reached: NamedObjects | None = reached if among else None
        # the program may compare ids, so no call may pass one array twice
        self.apart = (sum(hasattr(x.val, "shape") for x in tape.inputs) > 1
                      and any("id" in code.co_names for code in ran))
        self.earlier = FlattenCache(tape.structure)
        self.first: Any = None  # the function that a dispatcher calls without further checks
        self.left = self.hits = 0  # calls left to Python, and hits at the last check
        self.run, self.is_compiled, self.lock = self.compile_and_run, False, threading.RLock()

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the tape, unless another thread has done so, and make the call. Raises Miss if the tape does not fit.
        """
        with self.lock:
            if not self.is_compiled:
                if not ((self.fresh is None or self.fresh()) and self.backend.fits(self.tape, args, kwargs)):
                    raise Miss(self.tape, None)
                # values that passes compute must not cause warnings
                start = perf_counter()
                with Work("compiling", count=self.tape.__len__), np.errstate(all="ignore"):
                    self.tape, self.run = self.backend.build(self.tape, self.fresh)  # type: ignore[method-assign]
                if not (self.reached or self.apart or self.stored):
                    self.first = self.backend.first(self.run, [is_calm] if self.loses else [])
                self.is_compiled = True
                if (built := self.built()) is not None:
                    built(len(self.tape), perf_counter() - start, self.backend.runs(self.run))
        return self.run(*args, **kwargs)


    def note_bailout(self, hits: int, tapes: list[Any]) -> None:
        """Note a call that machine code left to Python though the tape fits, such as on overflow; stop using machine
        code if it leaves every second call.
        """
        self.left += 1
        if self.left % LEFT_OFTEN == 0:
            if hits - self.hits < 2 * LEFT_OFTEN:
                tapes[:] = [x for x in tapes if x is not self.first]
                self.first, self.run = None, self.run.straight  # type: ignore[attr-defined, method-assign]
            self.hits = hits


def describe(name: str, why: str, where: Location | None, cure: str = "") -> str:
    """Return why a path is not compiled, and what to try."""
    line = "" if where is None else f"\n  at {where}" + (f":  {where.source}" if where.source else "")
    return (f"{name} is not compiled, because {why}. A compiled call could not repeat that: its calls are traced each "
            f"time, slower but correct{line}\n  try: {cure or 'pass it as an argument'}")
