"""run: measure the peers on a problem, each in a process of its own, in turns."""

from __future__ import annotations

import contextlib
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.compare import difference, norm
from bench.problems.problem import Problem, Size
from bench.team import Ended, Worker

TURN = 0.02  # seconds: a faster call is repeated within one measurement
SHORT = 0.002  # where minima count: a short turn is more likely one without other processes
REST = 0.03  # seconds between turns, in which the last peer's threads stop spinning
BUDGET = 15.0  # seconds of measuring that one peer may take
LEAST = 3  # measurements, whatever they take

Progress = Callable[[str, int, int], None]
"""Is told what is being done, how much of it is done, and how much there is."""


@dataclass
class Row:
    """What was measured of one peer: seconds per call in each turn, of the first gradient, and
    bytes; or why nothing was.
    """

    name: str
    seconds: list[float] = field(default_factory=list)
    first: float = math.nan
    peak: float = math.nan  # at the first gradient
    peak_next: float = math.nan  # at those after it
    difference: float = math.nan  # of its gradient from the first peer's
    missing: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds) if self.seconds else math.nan

    @property
    def minimum(self) -> float:
        return min(self.seconds, default=math.nan)

    def record(self) -> dict[str, Any]:
        """Return it as what JSON can hold, which knows neither nan nor infinity."""
        if self.missing:
            return {"name": self.name, "missing": self.missing}
        numbers = {key: getattr(self, key) for key in ("median", "minimum", "first", "peak", "peak_next", "difference")}
        return {"name": self.name, **{key: number if math.isfinite(number) else None
                                      for key, number in numbers.items()}, "seconds": self.seconds}


@dataclass
class Result:
    """All that was measured of a problem."""

    problem: str
    size: Size
    source: str
    tolerance: float
    by: str  # what of a row counts as its time, its median or its minimum
    value: float
    norm: float
    rows: list[Row]
    behind: str = ""

    def row(self, name: str) -> Row | None:
        """Return a peer's row if it was measured."""
        return next((row for row in self.measured if row.name == name), None)

    @property
    def measured(self) -> list[Row]:
        return [row for row in self.rows if row.seconds]

    def time(self, row: Row) -> float:
        """The seconds of one gradient."""
        return row.minimum if self.by == "minimum" else row.median

    @property
    def best(self) -> float:
        """The shortest time."""
        return min(self.time(row) for row in self.measured)

    @property
    def best_first(self) -> float:
        """The shortest time to the first gradient."""
        return min(row.first for row in self.measured)

    @property
    def wrong(self) -> list[Row]:
        """The peers whose gradient differs from the first one's by more than the tolerance."""
        return [row for row in self.measured if not row.difference <= self.tolerance]

    def record(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        facts = {key: getattr(self, key)
                 for key in ("problem", "size", "source", "tolerance", "by", "value", "norm")}
        return {**facts, "rows": [row.record() for row in self.rows]}


def measure(problem: Problem, peers: Sequence[str], arguments: Sequence[str], repeats: int, limit: float,
            progress: Progress, by: str = "median") -> Result:
    """Measure a problem by the named peers; `arguments` tell a worker which data to load. Raise Ended
    if no peer gave a gradient.

    First each peer computes its first gradient, alone and no longer than `limit` seconds. Then they take turns, so that
    a change of the machine's speed meets all of them: `repeats` each, fewer of a slow one.
    """
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        workers: dict[str, Worker] = {}
        reference: list[Any] = []
        for done, peer in enumerate(peers):
            progress(f"{peer}, first gradient", done, len(peers))
            row = rows[peer] = Row(peer)
            folder = Path(name) / str(done)
            folder.mkdir()
            worker = Worker(problem.name, peer, arguments, folder)
            stack.callback(worker.stop)
            try:
                found = worker.first(limit)
            except Ended as err:
                row.missing = str(err)
                worker.stop()
                continue
            row.first, row.seconds = found["seconds"], [found["next"]]
            row.peak, row.peak_next = found["peak"], found["peak_next"]
            value_and_gradient = gradient_of(worker)
            reference = reference or value_and_gradient
            row.difference = difference(value_and_gradient[1:], reference[1:])
            workers[peer] = worker
        if not workers:
            raise Ended(f"no peer gave a gradient of {problem.name}: "
                        + "; ".join(f"{row.name}: {row.missing}" for row in rows.values()))
        take_turns(workers, rows, repeats, limit, progress, SHORT if by == "minimum" else TURN)
    return Result(problem.name, problem.size, problem.source, problem.tolerance, by, float(reference[0]),
                  norm(reference[1:]), list(rows.values()), problem.behind)


def gradient_of(worker: Worker) -> list[Any]:
    """Return the value and gradient that a worker has written, and delete the file."""
    with np.load(worker.gradient) as parts:
        found = [parts[f"arr_{i}"] for i in range(len(parts.files))]
    worker.gradient.unlink()
    return found


def take_turns(workers: dict[str, Worker], rows: dict[str, Row], repeats: int, limit: float,
               progress: Progress, turn: float = TURN) -> None:
    """Put `repeats` measurements into each row, one of each in every round, in place of the estimate that is there."""
    number = {name: max(1, math.ceil(turn / rows[name].seconds.pop())) for name in workers}
    for done in range(repeats):
        for name, worker in list(workers.items()):
            seconds = rows[name].seconds
            if len(seconds) >= LEAST and sum(seconds) * number[name] > BUDGET:
                continue
            progress(name, done, repeats)
            try:
                seconds.append(worker.ask(number[name], limit))
            except Ended as err:
                rows[name].missing, rows[name].seconds = str(err), []
                del workers[name]
            time.sleep(REST)
    progress("", repeats, repeats)
