"""path: one way through a function, from its first trace until it is compiled, or until it
turns out that it must not be.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import count
from types import CodeType
from typing import Any

from tapegrad.compile.backend import Backend, Step
from tapegrad.compile.choice import Choice
from tapegrad.compile.earlier_call import EarlierCalls
from tapegrad.compile.effects import Effects
from tapegrad.compile.numpy.function import compile_arguments
from tapegrad.compile.rematerialise import refilled
from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.errors import Location, user_frame
from tapegrad.optimise.roll import SAVED
from tapegrad.tape.tape import Tape
from tapegrad.trace.twins import compared
from tapegrad.transforms.dropping import drop_large
from tapegrad.tree.signature import Reached

HEARD = 2.5  # times as long as a trace that is how much longer an observed one takes, at first
FEW = 12  # calls in a row that are looked at in any case, though each takes a new path


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

    @property
    def hits(self) -> int:
        """Calls that a compiled tape served."""
        return _value(self._hits)

    @property
    def traces(self) -> int:
        """Calls that a trace served."""
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


class Pace:
    """How long compiling takes on this machine, in seconds: so much for each tape, so much for each operation
    and each kind of them; learned.
    """

    def __init__(self, once: float, each: float, observing: float, heard: float = HEARD) -> None:
        self.once, self.each, self.observing, self.heard, self.trust = once, each, observing, heard, 0.5

    def estimate(self, steps: int, kinds: int, trace: float = 0.0) -> float:
        """Return how long it will take to observe and to compile a tape of so many operations of so many kinds,
        which takes so long to trace.
        """
        return self.hearing(trace) + self.building(steps, kinds)

    def hearing(self, trace: float) -> float:
        """Return how much longer a trace takes that is observed."""
        return self.observing + self.heard * trace

    def hear(self, trace: float, seconds: float) -> None:
        """Take in how long an observed trace took of what takes so long otherwise."""
        self.heard += 0.2 * (min(max((seconds - self.observing) / trace - 1.0, 0.0), 2 * HEARD) - self.heard)

    def building(self, steps: int, kinds: int) -> float:
        """Return how long it will take to compile it. A long one becomes loops."""
        return self.once + self.each * ((steps if steps < SAVED else kinds) + kinds)

    def learn(self, expected: float, seconds: float) -> None:
        """Take in how long compiling took where so much was expected. One that was disturbed says little, and
        the first ones say most.
        """
        ratio = min(max(seconds / expected, 1 / 3), 3.0) ** self.trust
        self.trust = max(self.trust * 0.8, 0.1)
        self.once, self.each, self.observing = self.once * ratio, self.each * ratio, self.observing * ratio


class Rent:
    """What calls have cost that were traced, mostly while nobody looked which path they took: until compiling may soon
    pay, that is not worth it.

    A call that is not looked at records what `grad` does, no guards. To look costs about as much again: it is no use
    where paths are new, or are not to be compiled, and after so many that they have cost a quarter of all nobody looks
    until all has cost twice as much.
    """

    __slots__ = ("kinds", "last", "over", "spent", "steps", "total", "vain", "wait")

    def __init__(self) -> None:
        self.spent, self.last, self.total, self.wait = 0.0, 0.0, 0.0, 0.0  # spent: of paths that nobody knows
        self.steps, self.kinds, self.over, self.vain = 0, 0, False, 0

    def may_end(self, pace: Pace) -> bool:
        """Return whether the next call may be the one from which on it is time to look: the one after it is observed,
        if that takes the same path.
        """
        if self.over or not self.steps:
            return True
        soon = self.total + 1.5 * self.last
        return soon >= self.wait and soon >= pace.estimate(self.steps, self.kinds, self.last)

    def measure(self, tape: Tape) -> None:
        """Take in how long a tape is, and how many lines of the program made it, of which
        each is a kind of operation.
        """
        if self.steps != len(tape):
            self.steps, self.kinds = len(tape), len({(op.code, op.lasti) for op in tape.ops})

    def ends(self, recorded: float, pace: Pace) -> bool:
        """Return whether it is time to look, after a call that took so long to record, about half of it all; of the
        first nobody knew before.
        """
        self.over = (self.over or self.last > 0.0 or self.steps >= SAVED
                     or 3 * recorded >= pace.estimate(self.steps, self.kinds, 2 * recorded))
        return self.over

    def look(self, path: Path, recorded: float) -> None:
        """Take in which path a call took. Rest where that has been no use for too long."""
        self.vain = self.vain + 1 if not path.calls or path.refused or path.entry is not None else 0
        if self.vain > FEW and self.vain * recorded > self.total / 4:
            self.over, self.vain, self.wait = False, 0, 2 * self.total

    def begin(self, wait: float = 0.0) -> None:
        """Look no more: a path was compiled. Others have cost nothing yet; they are to cost `wait`."""
        self.spent, self.total, self.over, self.vain, self.wait = 0.0, 0.0, False, 0, wait

    def spend(self, seconds: float) -> None:
        """Count a call of a path that nobody knows."""
        self.last = seconds
        self.spent += seconds
        self.total += seconds


class Account:
    """What the calls of paths have cost that one tape may serve; `patience` is how many times
    that of compiling it must be.
    """

    __slots__ = ("patience", "spent")

    def __init__(self, spent: float) -> None:
        self.spent, self.patience = spent, 1.0

    def postpone(self) -> None:
        """Wait longer: a call was observed, and took another path."""
        self.patience *= 1.5


class Entry:
    """A tape that is kept, and the function that it is compiled to when it is used."""

    __slots__ = ("apart", "arguments", "backend", "choice", "earlier", "expected", "flat", "fresh", "lock", "loses",
                 "pace", "ran", "reached", "run", "stored", "tape")

    def __init__(self, tape: Tape, flat: Step | None, backend: Backend, fresh: Freshness | None, pace: Pace,
                 expected: float, choice: Choice | None, ran: set[CodeType]) -> None:
        self.choice, self.ran, self.loses = choice, ran, False  # it loses what NumPy may warn of
        self.stored: Effects | None = None  # what its calls write: the tape's results have the values
        self.tape, self.flat, self.backend = tape, flat, backend
        self.fresh, self.pace, self.expected = fresh, pace, expected
        reached = tape.structure.reached
        self.reached: Reached | None = reached if reached is not None and reached.may_be_among(tape.structure) else None
        # it may compare them by `is`: such a call must not pass one array twice
        self.apart = (sum(hasattr(x.val, "shape") for x in tape.inputs) > 1
                      and any(compared(code) or "id" in code.co_names for code in ran))
        self.earlier = EarlierCalls(tape.structure)
        self.arguments: Callable[..., list[Any]] | None = None
        self.run, self.lock = self.compile_and_run, threading.RLock()

    def compile_and_run(self, *args: Any, **kwargs: Any) -> Any:
        """Compile the tape, unless another thread has meanwhile, and make the call. Raises Miss where
        the tape does not fit it.
        """
        clock = self.backend.clock
        start = clock()
        with self.lock:
            mine = self.run == self.compile_and_run
            if mine:
                self.tape, self.run = self.build(args, kwargs)  # type: ignore[method-assign]
                self.flat = self.arguments = None
        result = self.run(*args, **kwargs)
        if mine:
            self.pace.learn(self.expected, clock() - start)  # with the first run, which prepares more on some backends
        return result

    def build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tape, Callable[..., Any]]:
        """Return the tape that is kept from now on, and the function that it is compiled to; what is
        kept so far stays as it is.
        """
        if self.flat is None:
            return self.backend.build(self.tape, self.fresh)
        if self.arguments is None:
            self.arguments = compile_arguments(self.tape, self.fresh)
        with refilled(self.tape, self.arguments(*args, **kwargs)) as primal:
            flat = self.flat(primal)
            drop_large(flat)
            return self.backend.build(flat, self.fresh)


class Path:
    """One way through a function: what its traces did, what they cost, and, once it is worth it, its tape.

    Every trace of it is held against the first. A path that something steers which is no input is `refused`, for good.
    """

    __slots__ = ("account", "calls", "codes", "entry", "glance", "joins", "last", "refused", "skeleton")

    def __init__(self, skeleton: Skeleton, codes: frozenset[CodeType], glance: Freshness, account: Account) -> None:
        self.skeleton, self.codes, self.glance = skeleton, codes, glance
        self.account, self.calls, self.last = account, 0, 0.0
        self.entry: Entry | None = None
        self.refused = False
        self.joins = False  # a tape that was made for another path may serve it

    def spend(self, seconds: float, trace: float) -> None:
        """Count a call that was traced, and how long a trace takes."""
        self.calls += 1
        self.account.spent += seconds
        self.last = trace

    def is_due(self, warmup: int | None, pace: Pace) -> bool:
        """Return whether it is time to compile: after so many calls, or once they have cost what
        compiling is expected to cost.
        """
        if self.refused or self.entry is not None or not self.calls:
            return False
        if warmup is not None or self.joins:
            return self.calls >= (warmup or 1)
        return self.account.spent >= pace.estimate(*self.size, self.last) * self.account.patience

    @property
    def size(self) -> tuple[int, int]:
        """Its operations, and their kinds."""
        return len(self.skeleton.steps), len(self.skeleton.kinds)

    @property
    def looks(self) -> list[Freshness]:
        """What tells whether something that was read besides the arguments has changed."""
        return [self.glance] if self.entry is None or self.entry.fresh is None else [self.glance, self.entry.fresh]


def describe(name: str, why: str, where: Location | None, cure: str = "") -> str:
    """Return why a path is not compiled, and what to do."""
    line = "" if where is None else f"\n  at {where}" + (f":  {where.source}" if where.source else "")
    return (f"{name} is not compiled where {why}. What is no input cannot be replayed: such calls are traced, each "
            f"anew, and stay right{line}"
            f"\n  try: {cure or 'pass it as an argument'}")
