"""reasons: why a compiled function traced, call by call, and how far its paths are from being compiled."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from itertools import accumulate, islice
from typing import Any, NamedTuple

from tapegrad.compile.attempt import is_due, seconds_to_compile
from tapegrad.compile.log import kind_text, logs, say
from tapegrad.compile.path import Path, spent_on
from tapegrad.compile.skeleton import Skeleton
from tapegrad.errors import Location
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.show.display import Told

LAST = 32  # calls whose reasons are kept
SHOWN = 12  # reasons, and kinds of paths, shown in the text
IDLE = {"read": 10, "branch": 30, "arguments": 30}
"""By kind of reason: the number of such calls of a function that never ran compiled, before a warning."""


class Reason(NamedTuple):
    """Why one call was traced: the kind of reason, what differed, its old and new value, and the program's line."""

    kind: str
    what: str
    was: str = ""
    now: str = ""
    where: Location | None = None

    def __str__(self) -> str:
        values = f": was {self.was}, now {self.now}" if self.was else ""
        values = ": its content has changed" if self.was and self.was == self.now else values
        line = f", at {self.where}" if self.where else ""
        line += f":  {self.where.source}" if self.where and self.where.source else ""
        return f"{self.what}{values}{line}"


class Reasons(Told):
    """The report of a compiled function: `print(step.explain())`.

    `calls` counts all calls, `hits` the compiled ones; `last` are the reasons of the last traced ones, in order,
    `counts` the number of calls by reason. `paths` has one line about each path.
    """

    def __init__(self, name: str, hits: int, traces: int, log: Log, paths: list[str]) -> None:
        self.name, self.hits, self.traces, self.calls = name, hits, traces, hits + traces
        self.last, self.counts, self.paths = list(log.last), Counter(log.counts), paths

    def texts(self) -> Iterator[str]:
        yield f"{self.name}: {count_of(self.calls, 'call')}, {self.hits} compiled, {self.traces} traced"
        if self.counts:
            yield "why calls were traced"
            last = {(reason.kind, reason.what): reason for reason in self.last}
            yield from _counted({last.get(key, key[1]): count for key, count in self.counts.most_common()}, "reason")
        if self.paths:
            yield "its paths, by the types and shapes of their arguments"
            yield from _counted(Counter(self.paths), "kind")


def _counted(counts: Mapping[Any, int], noun: str) -> Iterator[str]:
    """Yield the first lines with their counts, and how many more there are."""
    yield from (f"  {count:>4}  {what}" for what, count in islice(counts.items(), SHOWN))
    if len(counts) > SHOWN:
        yield f"  and {count_of(len(counts) - SHOWN, f'more {noun}')}"


class Log:
    """The reasons of one function's traced calls."""

    def __init__(self) -> None:
        self.last: deque[Reason] = deque(maxlen=LAST)
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, name: str, reason: Reason, call: int) -> None:
        """Keep the reason of a call, and print it if TAPEGRAD_LOG selects "retrace"."""
        self.last.append(reason)
        self.counts[reason.kind, reason.what] += 1
        if logs("retrace"):
            say(name, f"traced call {call}: {reason}")

    @property
    def room(self) -> bool:
        """True while reasons are worked out in full: for the first calls, and while they are printed."""
        return sum(self.counts.values()) < LAST or logs("retrace")

    @property
    def most(self) -> Reason | None:
        """The most frequent reason that a program can avoid, in its latest form."""
        found = next((key for key, _ in self.counts.most_common() if key[0] in CURES), None)
        return next((reason for reason in reversed(self.last) if (reason.kind, reason.what) == found), None)


CURES = {
    "arguments": "calls with arguments of few kinds and shapes (pad them, say), or tg.grad",
    "read": "pass it as an argument",
    "branch": "pass numbers that change as floats or arrays, or use tg.grad",
}


def reason_of(attempt: Any) -> Reason:
    """Return why an attempt traced."""
    path: Path | None = attempt.path
    if path is None:
        waiting: Path | None = attempt.waiting
        if waiting is not None:
            return Reason("waits", "its path is long: it is compiled once tracing it has taken as long as compiling "
                                   "would")
        return Reason("branch", "many calls in a row took new paths, so this one is only traced")
    if path.state == "refused":
        return Reason("refused", path.reason)
    if attempt.changed is not None and (path.calls == 0 or path in attempt.stale):
        label, was, now = attempt.changed
        return Reason("read", label, was, now)
    if path.calls > 1 and attempt.compiled.missed:
        return Reason("missed", f"a guard of its tape failed: {attempt.compiled.missed}")
    if path.calls:
        return Reason("again", "a path's second call is traced and compared with its first")
    others = [other for other in attempt.paths if other is not path]
    if others:
        return _of_new_path(others[0].skeleton, path.skeleton)
    known = [key for key, paths in attempt.compiled.paths.items() if paths and key != attempt.key]
    return (Reason("arguments", "the number of arguments, their keywords, or the context of the call",
                   brief(known[-1]), brief(attempt.key)) if known else Reason("first", "the first call"))


def _of_new_path(last: Skeleton, new: Skeleton) -> Reason:
    """Return how a new path differs from the last one."""
    if not new.is_like(last):
        for label, was, now in zip(new.labels, last.leaves, new.leaves):
            if was != now:
                return Reason("arguments", f"the type or shape of {label}", kind_text(was), kind_text(now))
        told = last.structure.difference(new.structure)
        return Reason("arguments", f"the nesting of the arguments, or a non-numeric one ({told})")
    found = last.first_difference(new)
    return Reason("branch", "the branch that was taken" if found.guards else "the operations that were recorded",
                  found.was, found.now,
                  found.where)


def _progress(compiled: Any, path: Path, paths: list[Path]) -> str:
    """Return the condition under which a traced path is compiled."""
    if compiled.warmup is not None:
        return f"{compiled.warmup} of its calls were traced ({path.calls} so far)"
    return (f"its traced calls have taken {seconds_to_compile(compiled, path):.2g} s, the estimated time to compile it "
            f"({spent_on(path, paths):.2g} s so far)")


def state_of(compiled: Any, path: Path, paths: list[Path]) -> str:
    """Return one line about the state of a path."""
    kinds = [f"{label}: {kind_text(kind)}" for label, kind in zip(path.skeleton.labels, path.skeleton.leaves)]
    fitting = max(sum(end < 80 for end in accumulate(len(kind) + 2 for kind in kinds)), 1)
    head = f"({', '.join(kinds if fitting >= len(kinds) else [*kinds[:fitting], '...'])})"
    state = path.state
    if state == "refused":
        return f"{head} is always traced: {path.reason}"
    if state == "observed":
        return f"{head} has a tape that its next call compiles"
    if state == "compiled":
        left = path.entry.backend.left(path.entry.run)  # type: ignore[union-attr]
        return f"{head} runs compiled" + (f"; {count_of(left, 'call')} left machine code (overflow, division by zero, "
                                          "or a failed guard) and ran as NumPy code" if left else "")
    if is_due(compiled, path, paths):
        return f"{head} is observed by its next call, and compiled by the one after it"
    return f"{head} is traced until {_progress(compiled, path, paths)}"
