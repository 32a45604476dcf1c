"""python -m bench.scaling: the mixture's gradient on one and two processes, of one thread each.

Strong: the same points, by half as many for each process. Weak: as many points for each process. The processes are
started anew for each round, alternately, and the shortest call of all rounds counts: by the clock, and in seconds that
the processor worked for rank 0, which other programs on the machine change less. What a process sends in a call is
counted on the loopback device, and held against the projection: 2 (N - 1) / N of a bucket of 8 bytes for each number.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table

import tapegrad as tg
from bench.machine import describe, load
from bench.problems import gmm

POINTS, D, K = 100_000, 10, 25
NUMBERS = 1 + K * (1 + D + D * (D + 1) // 2)  # value and gradient
HEADER = 20
NET = Path("/sys/class/net/lo/statistics/tx_bytes")
ONE = "one"  # the argument by which a process knows that it is measured


def likelihood(alphas: Any, means: Any, icf: Any, x: Any) -> Any:
    """Return the mixture's logarithm without its prior: a sum over points."""
    return gmm.objective(alphas, means, icf, x, 1.0, 0) - gmm.objective(alphas, means, icf, x[:0], 1.0, 0)


def measured(points: int, calls: int) -> None:
    """Print the shortest time of a call on rank 0, and the bytes that a process sent in one."""
    data = gmm.make(D, K, points)
    args = [data[name] for name in ("alphas", "means", "icf", "x")]
    step = tg.distributed.value_and_grad(likelihood, (0, 1, 2), batch="x", check=False)
    for _ in range(4):
        step(*args)
    times, work, before = [], [], sent()
    for _ in range(calls):
        start, begun = perf_counter(), process_time()
        step(*args)
        times.append(perf_counter() - start)
        work.append(process_time() - begun)
    if tg.distributed.rank() == 0:
        print(json.dumps({"seconds": min(times), "worked": min(work),
                          "bytes": (sent() - before) / calls / tg.distributed.size()}))


def sent() -> int:
    """Return how many bytes went through the loopback device, 0 where nobody counts them."""
    return int(NET.read_text()) if NET.exists() else 0


def started(ranks: int, points: int, calls: int) -> dict[str, float]:
    """Return what so many processes measure."""
    environment = {**os.environ, **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m",
               "bench.scaling", ONE, str(points), str(calls)]
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])  # type: ignore[no-any-return]


def main() -> None:
    """Print a table, and write it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=POINTS)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    cases = {"one process": (1, options.points), "two, the same points": (2, options.points),
             "two, as many points each": (2, 2 * options.points)}
    rounds = [{name: started(*case, options.calls) for name, case in cases.items()} for _ in range(options.rounds)]
    best = {name: {key: min(each[name][key] for each in rounds) for key in ("seconds", "worked", "bytes")}
            for name in cases}
    table = Table("", "ms a call", "speed", "ms that rank 0 worked", "speed by that", "kB a rank sends", "projected")
    for name, (ranks, points) in cases.items():
        projected = 2 * (ranks - 1) / ranks * 8 * (NUMBERS + HEADER)
        best[name] |= {"points": points, "ranks": ranks, "projected": projected}
        speeds = {key: best["one process"][key] / best[name][key] * points / options.points
                  for key in ("seconds", "worked")}
        table.add_row(name, *[cell for key, speed in speeds.items()
                              for cell in (f"{1e3 * best[name][key]:.1f}", f"{speed:.2f}")],
                      f"{best[name]['bytes'] / 1e3:.1f}", f"{projected / 1e3:.1f}")
    Console().print(table)
    if options.json:
        record: dict[str, Any] = {**describe(), "load": load(), **best}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == [ONE]:
        measured(*map(int, sys.argv[2:]))
    else:
        main()
