"""first: one peer's first gradient of one problem, in a process that has done nothing else.

    python -m bench.first gmm "tapegrad grad" --data ../shared/data/adbench

The clock starts when libraries and data are loaded, and includes all that has to be done before a gradient is there:
tracing, compiling. Memory is what the process had beyond what it had when the clock started.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import memory
from bench.peers import PEERS
from bench.peers.peer import Gradient, Peer
from bench.problems import ALL
from bench.problems.problem import Problem

FEW = 3  # gradients after the first, for the memory


@dataclass
class First:
    """Seconds to the first gradient and of one after it; bytes at the peak of the first, and of a few after it."""

    seconds: float
    next: float
    peak: float
    peak_next: float


def first(problem: Problem, peer: Peer,
          keep: Callable[[Any, tuple[Any, ...]], None] | None = None) -> tuple[First, Gradient]:
    """Measure the first gradient and a few more; return what was measured, and the gradient to go on with.

    The first value and gradient are shown to `keep`, and given up before those that follow.
    """
    before = memory.baseline()
    start = perf_counter()
    gradient = peer.prepare(problem)
    result = gradient.call()
    seconds, peak = perf_counter() - start, memory.peak()
    if keep:
        keep(*gradient.read(result))
    del result
    memory.baseline()
    times = [timed(gradient.call, 1) for _ in range(FEW)]
    return First(seconds, min(times), peak - before, memory.peak() - before), gradient


def timed(call: Callable[[], Any], number: int) -> float:
    """Return the seconds per call."""
    start = perf_counter()
    for _ in range(number):
        call()
    return (perf_counter() - start) / number


def uncached(folder: Path) -> dict[str, str]:
    """Return the environment in which torch.compile finds nothing of earlier processes, and
    leaves what it makes in `folder`.
    """
    return {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}


def argument_parser(prog: str) -> argparse.ArgumentParser:
    """Return the parser of a problem, a peer and the data."""
    parser = argparse.ArgumentParser(prog=prog, description="One peer's first gradient of one problem.")
    parser.add_argument("problem", choices=list(ALL))
    parser.add_argument("peer", choices=list(PEERS))
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="published data; without them, data are made")
    parser.add_argument("--size", nargs="+", type=key_value, default=[], metavar="KEY=N",
                        help="the size of the data to make")
    return parser


def key_value(text: str) -> tuple[str, int]:
    """Read `K=25`."""
    key, _, value = text.partition("=")
    return key, int(value)


def main() -> None:
    """Print the measurement as JSON."""
    options = argument_parser("python -m bench.first").parse_args()
    problem, peer = ALL[options.problem].found(options.data, dict(options.size)), PEERS[options.peer]
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= uncached(Path(folder))
        peer.ready(problem)
        print(json.dumps(asdict(first(problem, peer)[0])))


if __name__ == "__main__":
    main()
