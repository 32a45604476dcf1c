"""sweep: a problem at growing sizes, its peers in turns within this process; what one recorded operation costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tapegrad as tg
from bench.compare import difference, norm
from bench.first import timed
from bench.peers.peer import Gradient, Missing, Peer
from bench.problems.problem import Problem, Size
from bench.run import Progress, Row

TURN = 0.005  # seconds: a faster call is repeated within one measurement


@dataclass
class Step:
    """What was measured at one size. A row that is no gradient (plain NumPy, a trace) has nan as its `difference`."""

    size: Size
    tolerance: float
    value: float
    norm: float
    operations: int
    rows: list[Row]

    @property
    def gradients(self) -> list[Row]:
        return [row for row in self.rows if not math.isnan(row.difference)]

    @property
    def best(self) -> float:
        """The shortest median among the gradients."""
        return min(row.median for row in self.gradients)

    @property
    def wrong(self) -> list[Row]:
        """The peers whose gradient differs from the first one's by more than the tolerance."""
        return [row for row in self.gradients if not row.difference <= self.tolerance]

    def record(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        facts = {key: getattr(self, key) for key in ("size", "tolerance", "value", "norm", "operations")}
        return {**facts, "rows": [row.record() for row in self.rows]}


def sweep(problem: Problem, sizes: Sequence[Size], peers: Sequence[Peer], repeats: int, progress: Progress,
          patience: float = 3.0) -> Iterator[Step]:
    """Measure a problem at growing sizes; a peer whose one call would take longer than `patience` seconds is left out.

    The prediction is linear, from the last size measured; tapegrad is never left out.
    """
    rates: dict[str, float] = {}
    for size in sizes:
        units = math.prod(size.values())
        predicted = {name: rate * units for name, rate in rates.items() if not name.startswith("tapegrad")}
        skip = {name: f"about {time:.0f} s a call, left out" for name, time in predicted.items() if time > patience}
        step = measure(problem.made(**size), peers, repeats, progress, skip)
        rates |= {row.name: row.minimum / units for row in step.gradients}
        yield step


def measure(problem: Problem, peers: Sequence[Peer], repeats: int, progress: Progress, skip: dict[str, str]) -> Step:
    """Measure a problem of one size. Peers take turns, so that a change of the machine's speed meets all of them.

    Each is called once before, which gives the gradients to compare. `skip` names peers to leave out, and says why.
    """
    progress("trace", 0, repeats)
    operations = sum(op.kind == "call" for op in tg.trace(problem.objective, *problem.args, **problem.given)[1])
    calls: dict[str, Callable[[], Any]] = {
        "numpy, value only": lambda: problem.objective(**problem.data),
        "tapegrad trace": lambda: tg.trace(problem.objective, *problem.args, **problem.given)}
    rows = [Row(name) for name in calls]
    reference: tuple[Any, tuple[Any, ...]] | None = None
    for peer in peers:
        progress(peer.name, 0, repeats)
        row = Row(peer.name, missing=skip.get(peer.name, ""))
        rows.append(row)
        if row.missing:
            continue
        try:
            gradient, found = begun(peer, problem)
        except (ImportError, Missing) as err:
            row.missing = str(err)
            continue
        calls[peer.name], reference = gradient.call, reference or found
        row.difference = difference(found[1], reference[1])
    if reference is None:
        raise ValueError(f"no peer can run {problem.name}: {skip}")
    take_turns(calls, {row.name: row for row in rows}, repeats, progress)
    return Step(problem.size, problem.tolerance, float(reference[0]), norm(reference[1]), operations, rows)


def begun(peer: Peer, problem: Problem) -> tuple[Gradient, tuple[Any, tuple[Any, ...]]]:
    """Return a peer's gradient and what it gives; raise Missing where the library refuses: the
    assignment to an element, say.
    """
    try:
        peer.ready(problem)
        gradient = peer.prepare(problem)
        return gradient, gradient.read(gradient.call())
    except (TypeError, ValueError) as err:
        if peer.name.startswith("tapegrad"):
            raise
        raise Missing("it refuses: " + (str(err).splitlines() or [""])[0][:90]) from err


def take_turns(calls: dict[str, Callable[[], Any]], rows: dict[str, Row], repeats: int, progress: Progress) -> None:
    """Append `repeats` measurements to each row, one of each in every round."""
    number = {name: max(1, math.ceil(TURN / timed(call, 1))) for name, call in calls.items()}
    for done in range(repeats):
        for name, call in calls.items():
            progress(name, done, repeats)
            rows[name].seconds.append(timed(call, number[name]))
    progress("", repeats, repeats)
