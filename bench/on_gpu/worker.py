"""A process of bench/gpu.py: it makes one gradient ready on a device, in each precision, and measures it when told
to; or it runs the cases of tests/, or the checks.

It writes a line of JSON for each that is ready, or with what is missing, and one more for each line that it reads.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

ROUNDS = (3, 15)  # measurements, whose median counts: at least, and at most
ROUND = 0.03  # seconds that one takes at least
SPAN = 1.0  # seconds after which no further one begins


def main() -> None:
    """Serve until there is no more to read."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu.worker",
                                     description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("problem", help="a problem's name, `cases`, `checks` or `counts`")
    parser.add_argument("peer", help="a peer; the cases' dtype; the checks' mode; a problem to count")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--mode", default="replay", help="of the cases: replay, or a mode in which they are compiled")
    parser.add_argument("--precisions", nargs="+", default=["float64"])
    parser.add_argument("--small", action="store_true", help="a small size, for a try")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the cases, every N-th")
    parser.add_argument("--gradient", type=Path, metavar="PATH", help="where to put gradients (.npz), by precision")
    options = parser.parse_args()
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing else gets hold of standard output

    def tell(what: dict[str, Any]) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()
    try:
        with surroundings(options.device):
            {"cases": cases, "checks": checks, "counts": counts}.get(options.problem, serve)(options, tell)
    except Exception as err:
        tell({"missing": told(err)})


@contextmanager
def surroundings(device: str) -> Iterator[None]:
    """Let graph mode have a stand-in where there is no CUDA; on `meta`, let there be the device that is not there."""
    from bench.on_gpu.stand_in import graphs
    from bench.on_gpu.virtual import device as virtual
    with ExitStack() as stack:
        if not device.startswith("cuda"):
            stack.enter_context(graphs())
        if device == "meta":
            stack.enter_context(virtual(places=False))
        yield


def told(err: BaseException) -> str:
    """Return what a library says that it does not accept."""
    return f"{type(err).__name__}: {' '.join(str(err).split())[:200]}"


def serve(options: argparse.Namespace, tell: Any) -> None:
    """Make a gradient ready in each precision, and measure the next of them each time that a line is read."""
    import numpy as np

    from bench.on_gpu.peers import PEERS
    from bench.on_gpu.sizes import made
    problem = made(options.problem, options.small)
    clock, ready = Clock(options.device), []
    for precision in options.precisions:
        start = perf_counter()
        try:
            gradient = PEERS[options.peer](problem, options.device, precision)
            result = gradient.call()
            clock.wait()
            first = perf_counter() - start
            value, parts = gradient.read(result)
            if options.gradient is not None:
                np.savez(f"{options.gradient}.{precision}.npz", value, *parts)
            del result
            clock.release()  # for the others, which get ready beside it
        except Exception as err:
            tell({"missing": told(err)})
            continue
        ready.append(gradient)
        tell({"first": first})
    for gradient, _ in zip(ready, sys.stdin):
        try:
            tell({"seconds": clock.measure(gradient.call), "peak": clock.peak(options.peer, gradient.call),
                  "calls": clock.calls(gradient.call) if options.peer.startswith("tapegrad") else None})
        except Exception as err:
            tell({"missing": told(err)})


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

    def release(self) -> None:
        """Give the memory back that torch holds for later."""
        if self.cuda:
            self.torch.cuda.empty_cache()

    def measure(self, call: Any) -> float:
        """Return the seconds of a call: the median of several rounds of many calls."""
        begin = perf_counter()
        for _ in range(3):
            if perf_counter() - begin < SPAN:
                call()
        number = max(1, int(ROUND / self.round(call, 1)))
        begin, found = perf_counter(), []
        while len(found) < ROUNDS[0] or (len(found) < ROUNDS[1] and perf_counter() - begin < SPAN):
            found.append(self.round(call, number))
        return statistics.median(found)

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

    def calls(self, call: Any) -> dict[str, int] | None:
        """Return how often a steady call waits, allocates and copies between host and device, by the profiler."""
        if not self.cuda:
            return None
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
            call()  # the profiler itself waits at its end
            self.wait()
        counts = {event.key: event.count for event in found.key_averages()}
        named = {"kernels": ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"),
                 "graphs": ("cudaGraphLaunch",), "waits": ("cudaStreamSynchronize", "cudaEventSynchronize"),
                 "allocations": ("cudaMalloc", "cudaHostAlloc"),
                 "to the device": ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pinned -> Device)"),
                 "to the host": ("Memcpy DtoH (Device -> Pageable)", "Memcpy DtoH (Device -> Pinned)")}
        return {name: sum(counts.get(key, 0) for key in keys) for name, keys in named.items()}


def cases(options: argparse.Namespace, tell: Any) -> None:
    """Run rows of tests/cases on the device in one dtype: replayed, or compiled in a mode. Tells of each that
    fails, then how many there were, and why some cannot be captured.
    """
    from tests.cases import CASES
    from tests.cases.replay import check, compiled
    refused: Counter[str] = Counter()
    rows = CASES[::options.every]
    for case in rows:
        try:
            if options.mode == "replay":
                check(case, options.peer, options.device)
            elif (why := compiled(case, options.peer, options.device, options.mode)):
                refused[why] += 1
        except Exception as err:
            tell({"wrong": f"{case.name}: {told(err)}"})
    tell({"rows": len(rows), "refused": dict(refused)})


def checks(options: argparse.Namespace, tell: Any) -> None:
    """Run the checks in a mode; tells of each that fails, then how many there were."""
    from bench.on_gpu.checks import CHECKS, run_check
    for name in CHECKS:
        why = run_check(name, options.device, options.peer)
        if why:
            tell({"wrong": f"{name}: {why}"})
    tell({"rows": len(CHECKS)})


def counts(options: argparse.Namespace, tell: Any) -> None:
    """Tell what the gradient of a problem asks of a device, in each precision."""
    from bench.on_gpu.account import counted
    from bench.on_gpu.sizes import made
    problem = made(options.peer, options.small)
    tell({"counts": [asdict(counted(problem, precision, options.peer)) for precision in options.precisions]})


if __name__ == "__main__":
    main()
