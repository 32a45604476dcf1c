"""run: measure the peers on a problem, interleaved, and compare their gradients."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

import tapegrad as tg
from bench.peers.peer import Peer
from bench.problems.problem import Problem, Size

TOLERANCE = 1e-10  # of the relative difference between two peers' gradients
LEAST = 0.005  # seconds: a faster call is repeated within one measurement


@dataclass
class Row:
    """What was measured of one peer: seconds per call, and how far its gradient lies from the first peer's.

    A row without a gradient (plain NumPy, a trace) has no `difference`; the first peer's is 0.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    difference: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        return min(self.seconds)


@dataclass
class Result:
    """All that is known of a problem of one size; `missing` says why a peer did not run."""

    size: Size
    source: str
    value: float
    norm: float
    tapes: dict[str, int]
    operations: int
    rows: list[Row]
    missing: dict[str, str]

    @property
    def gradients(self) -> list[Row]:
        return [row for row in self.rows if row.difference is not None]

    @property
    def best(self) -> float:
        """The shortest median among the gradients."""
        return min(row.median for row in self.gradients)

    @property
    def agree(self) -> bool:
        return all(row.difference <= TOLERANCE for row in self.gradients if row.difference is not None)

    def record(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        rows = [{"name": row.name, "median": row.median, "minimum": row.minimum, "seconds": row.seconds, "difference": row.difference,
                 "ratio": None if row.difference is None else row.median / self.best} for row in self.rows]
        return {"size": self.size, "source": self.source, "value": self.value, "norm": self.norm, "tapes": self.tapes,
                "operations": self.operations, "rows": rows, "missing": self.missing}


Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


def measure(problem: Problem, peers: Sequence[Peer], repeats: int, progress: Progress, skip: dict[str, str] | None = None) -> Result:
    """Measure a problem of one size. Peers take turns, so that a change of the machine's speed meets all of them.

    Each is called once before, which gives the gradients to compare. `skip` names peers to leave out, and says why.
    """
    progress("tapes", 0, repeats)
    operations, tapes = tape_lengths(problem)
    calls: dict[str, Callable[[], Any]] = {
        "numpy, value only": lambda: problem.objective(**problem.data),
        "tapegrad trace": lambda: tg.trace(problem.objective, *problem.args, **problem.given)}
    rows = {name: Row(name) for name in calls}
    missing = dict(skip or {})
    first: tuple[Any, tuple[Any, ...]] | None = None
    for peer in peers:
        if peer.name in missing or (problem.peers and peer.name not in problem.peers):
            continue
        progress(peer.name, 0, repeats)
        try:
            call = peer.prepare(problem)
        except ImportError as err:
            missing[peer.name] = str(err)
            continue
        try:
            value, found = call()
        except (TypeError, ValueError) as err:  # what a library refuses: the assignment to an element, say
            if peer.name.startswith("tapegrad"):
                raise
            missing[peer.name] = "it refuses: " + (str(err).splitlines() or [""])[0][:90]
            continue
        first = first or (value, found)
        calls[peer.name], rows[peer.name] = call, Row(peer.name, difference=difference(found, first[1]))
    if first is None:
        raise ValueError(f"no peer can run {problem.name}: {missing}")
    time_in_turns(calls, rows, repeats, progress)
    return Result(problem.size, problem.source, float(first[0]), norm(first[1]), tapes, operations, list(rows.values()), missing)


def time_in_turns(calls: dict[str, Callable[[], Any]], rows: dict[str, Row], repeats: int, progress: Progress) -> None:
    """Append `repeats` measurements to each row, one of each in every round."""
    number = {name: max(1, math.ceil(LEAST / seconds(call, 1))) for name, call in calls.items()}
    for done in range(repeats):
        for name, call in calls.items():
            progress(name, done, repeats)
            rows[name].seconds.append(seconds(call, number[name]))
    progress("", repeats, repeats)


def seconds(call: Callable[[], Any], number: int) -> float:
    """Return the seconds per call."""
    start = perf_counter()
    for _ in range(number):
        call()
    return (perf_counter() - start) / number


def tape_lengths(problem: Problem) -> tuple[int, dict[str, int]]:
    """Return how many operations a trace records, and how long the tapes are; a long primal tape's gradient is not written down."""
    _, primal = tg.trace(problem.objective, *problem.args, **problem.given)
    operations = sum(op.kind == "call" for op in primal)
    lengths = {"primal": len(primal)}
    if not problem.sweep:
        gradient = tg.gradtape(problem.objective, *problem.args, **problem.given)
        lengths |= {"gradient": len(gradient), "flat": len(tg.primitivize(gradient))}
    return operations, lengths


def norm(parts: Sequence[Any]) -> float:
    """Return the Euclidean norm of a gradient of several parts."""
    return math.hypot(*[float(np.linalg.norm(part)) for part in parts])


def difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Return the relative difference of two gradients, in the norm, of the part where it is largest; nan counts as infinite."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape:
            return math.inf
        off, scale = float(np.linalg.norm(a - b)), float(np.linalg.norm(b))
        worst = max(worst, math.inf if math.isnan(off) else off / scale if scale else math.inf if off else 0.0)
    return worst


def sweep(problem: Problem, sizes: Sequence[Size], peers: Sequence[Peer], repeats: int, progress: Progress,
          patience: float = 3.0) -> Iterator[Result]:
    """Measure a problem at growing sizes; a peer whose one call would take longer than `patience` seconds is left out.

    The prediction is linear, from the last size measured; tapegrad is never left out.
    """
    rates: dict[str, float] = {}
    for size in sizes:
        units = math.prod(size.values())
        predicted = {name: rate * units for name, rate in rates.items() if not name.startswith("tapegrad")}
        skip = {name: f"about {time:.0f} s a call, left out" for name, time in predicted.items() if time > patience}
        result = measure(problem.made(**size), peers, repeats, progress, skip)
        rates |= {row.name: row.minimum / units for row in result.gradients}
        yield result
