"""A process of bench/gpu.py: it makes one gradient ready on a device, and measures it when told to; or it
replays the cases of tests/.

It writes a line of JSON when it is ready, or with what is missing, and one more for each line that it reads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

ROUNDS = 15  # measurements, whose median counts
ROUND = 0.03  # seconds that one takes at least


def main() -> None:
    """Serve until there is no more to read."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu.worker",
                                     description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("problem", help="a problem's name, or `cases`")
    parser.add_argument("peer", help="a peer's name; the dtype of the cases")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float64")
    parser.add_argument("--gradient", type=Path, metavar="PATH", help="where to put the gradient (.npz)")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else gets hold of standard output

    def tell(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()
    try:
        (cases if options.problem == "cases" else serve)(options, tell)
    except Exception as err:  # whatever a library does not accept belongs into the table
        first = (str(err).strip().splitlines() or [""])[0]
        tell({"missing": f"{type(err).__name__}: {first[:200]}"})


def serve(options: argparse.Namespace, tell: Any) -> None:
    """Make a gradient ready, and measure it each time that a line is read."""
    import numpy as np

    from bench.on_gpu.peers import PEERS
    from bench.problems import PROBLEMS
    problem = PROBLEMS[options.problem].made()
    clock = Clock(options.device)
    start = perf_counter()
    gradient = PEERS[options.peer](problem, options.device, options.precision)
    result = gradient.call()
    clock.wait()
    first = perf_counter() - start
    value, parts = gradient.read(result)
    np.savez(options.gradient, value, *parts)
    del result
    tell({"first": first})
    for _ in sys.stdin:
        tell({"seconds": clock.measure(gradient.call), "peak": clock.peak(options.peer, gradient.call)})


class Clock:
    """Takes the time of calls on a device: by CUDA's events, which stand among the kernels, or
    by the processor's clock.
    """

    def __init__(self, device: str) -> None:
        import torch
        self.torch, self.cuda = torch, device.startswith("cuda")

    def wait(self) -> None:
        """Wait until the device has done what it was given."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def measure(self, call: Any) -> float:
        """Return the seconds of a call: the median of several rounds of many calls."""
        for _ in range(3):
            call()
        number = max(1, int(ROUND / self.round(call, 1)))
        return statistics.median(self.round(call, number) for _ in range(ROUNDS))

    def round(self, call: Any, number: int) -> float:
        """Return the seconds of each of a number of calls, one after the other."""
        self.wait()
        if not self.cuda:
            start = perf_counter()
            for _ in range(number):
                call()
            return (perf_counter() - start) / number
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(number):
            call()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / number

    def peak(self, peer: str, call: Any) -> float | None:
        """Return the bytes that the device has in use at the peak of a call; None where nobody counts them."""
        if not self.cuda:
            return None
        if peer.startswith("jax"):
            import jax
            return float((jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)) or None
        self.torch.cuda.reset_peak_memory_stats()
        call()
        self.wait()
        return float(self.torch.cuda.max_memory_allocated())


def cases(options: argparse.Namespace, tell: Any) -> None:
    """Replay every row of tests/cases on the device in one dtype."""
    from tests.cases import CASES
    from tests.cases.replay import check
    failed = []
    for case in CASES:
        try:
            check(case, options.peer, options.device)
        except Exception as err:
            failed.append(f"{case.name}: {type(err).__name__}: {(str(err).strip().splitlines() or [''])[0][:120]}")
    tell({"rows": len(CASES), "failed": failed})


if __name__ == "__main__":
    main()
