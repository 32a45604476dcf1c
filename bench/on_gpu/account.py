"""account: what each problem of bench/gpu.py asks of a device, counted without one, and the time an H100 would take.

`python -m bench.on_gpu.account` prints docs/gpu.md's table. The problems run on the device that is not there
(bench/on_gpu/virtual.py).
"""

from __future__ import annotations

import argparse
import sys
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import tapegrad as tg
from bench.on_gpu.peers import gradient_tape, replayed
from bench.on_gpu.sizes import SIZES, made
from bench.on_gpu.virtual import DEVICE, Event, Virtual, device
from bench.problems import PROBLEMS
from bench.problems.problem import Problem, Size
from tapegrad.ops.loop import is_loop
from tapegrad.optimise.memory import is_given, root
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.tape import Call, Constant, Operation, Tape, operands
from tapegrad.tree.flatten import leaves_of

# NVIDIA's figures for the H100 SXM; launches as PyTorch's developers measure them
BANDWIDTH = 3.35e12
FLOPS = {8: (34e12, 67e12), 4: (67e12, 67e12)}  # a second, by the bytes of a number: plain, and of products
EAGER, GRAPH = 4e-6, 0.8e-6  # seconds that a launch takes from Python, and within a graph
SCALED: dict[str, tuple[Size, int]] = {"elementwise": ({"n": 10 ** 6}, 100)}
"""Problems that no memory of a host need hold: the size that is counted, and how many times as long it is measured."""
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul")


@dataclass(frozen=True)
class Counts:
    """What one gradient asks of the device, and the seconds that are expected."""

    problem: str
    precision: str
    launches: int  # which a graph holds as they are
    views: int
    size: int  # bytes read and written by the launches
    flops: float
    reads: int  # times that the host waits for a number, between the launches
    uploads: int
    peak: int  # bytes of what the program holds at once, besides arguments and constants
    eager: float
    graph: float


def counted(problem: Problem, precision: str, name: str = "", times: int = 1) -> Counts:
    """Count what the compiled gradient of a problem asks of a device, for arrays that are so many times as long."""
    tape = gradient_tape(problem, precision)
    with device() as log:
        args, given = replayed(problem, str(DEVICE), precision)
        run = tg.compile(tape, backend="torch", device=DEVICE)
        for _ in range(2):
            log.events.clear()
            run(*args, **given)
        steady = list(log.events)
    launches = [replace(event, size=event.size * times, flops=event.flops * times)
                for event in steady if event.kind == "launch"]

    def number(kind: str) -> int:
        return sum(event.kind == kind for event in steady)
    return Counts(name or problem.name, precision, len(launches), number("view"),
                  sum(event.size for event in launches), sum(event.flops for event in launches), number("read"),
                  number("upload"), profiled(run, args, given) * times, expected(launches, precision, EAGER),
                  expected(launches, precision, GRAPH))


def expected(launches: Iterable[Event], precision: str, launch: float) -> float:
    """Return the seconds that launches take by a roofline: each its delay, its traffic or its arithmetic."""
    plain, product = FLOPS[getattr(torch, precision).itemsize]
    return sum(max(launch, event.size / BANDWIDTH, event.flops / (product if event.name in PRODUCTS else plain))
               for event in launches)


# -- the memory of a program


def planned(tape: Tape) -> int:
    """Return the bytes that the values of a program take at once, by the specs on its tape and the last uses: each is
    dropped there, as the program's text does it. What a loop collects is not among them.
    """
    held: dict[Operation, int] = {}
    users: dict[Operation, set[Operation]] = {}
    now = peak = 0
    for op, dead in zip(tape.ops, last_uses(tape)[1:]):
        if type(op) is Call and op is not tape.result:
            owner = root(op)
            if op is owner and not is_given(op) and isinstance(op.spec.dtype, torch.dtype):
                held[op] = op.spec.size * op.spec.dtype.itemsize
                now += held[op]
            if is_loop(op):
                peak = max(peak, now + planned(op.fn.body))
            users.setdefault(owner, set()).add(op)
        peak = max(peak, now)
        for number in dead:
            gone = tape.ops[number - 1]
            owner = root(gone)
            if owner in users:
                users[owner].discard(gone)
                if not users[owner] and owner in held and owner not in map(root, operands(tape.result)):
                    now -= held.pop(owner)
    return peak


class Profile:
    """Follows the memory of the tensors of a device: how many bytes live at the peak, besides those of some tensors."""

    def __init__(self, apart: Iterable[Any]) -> None:
        self.now = self.peak = 0
        self.known: dict[int, int] = {x.untyped_storage()._cdata: 1 for x in apart}

    def __call__(self, x: Any) -> None:
        """Note a tensor that was made."""
        storage = x.untyped_storage()
        key = storage._cdata
        self.known[key] = self.known.get(key, 0) + 1
        if self.known[key] == 1:
            self.now += storage.nbytes()
            self.peak = max(self.peak, self.now)
        weakref.finalize(x, self.gone, key, storage.nbytes())

    def gone(self, key: int, size: int) -> None:
        self.known[key] -= 1
        if not self.known[key]:
            del self.known[key]
            self.now -= size


def profiled(run: Any, args: Sequence[Any], given: dict[str, Any]) -> int:
    """Return the bytes of device memory that a call makes at once, results included."""
    constants = [op.val for op in run.runs[0].lowered.tape.ops if type(op) is Constant]
    profile = Profile([x for x in leaves_of((args, given, constants)) if isinstance(x, torch.Tensor)])
    Virtual.made = profile
    try:
        with device():
            result = run(*args, **given)
        del result
    finally:
        Virtual.made = None
    return profile.peak


# -- the table


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.on_gpu.account",
                                     description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="PROBLEM", help=f"of {', '.join(SIZES)}; all if there is none")
    parser.add_argument("--small", action="store_true", help="in sizes for a try")
    parser.add_argument("--precision", default="float64", choices=("float64", "float32"))
    options = parser.parse_args(argv)
    print(HEAD, flush=True)
    for name in options.names or SIZES:
        size, times = ({}, 1) if options.small else SCALED.get(name, ({}, 1))
        problem = PROBLEMS[name].made(**size) if size else made(name, options.small)
        print(line(counted(problem, options.precision, name, times)), flush=True)
    return 0


HEAD = ("| problem | launches | views | MB moved | GFLOP | host reads | copies from the host | "
        "MB held | eager, ms | graph, ms |\n|---|" + 9 * "---:|")


def table(rows: Sequence[Counts]) -> str:
    """Return counts as Markdown."""
    return "\n".join([HEAD, *map(line, rows)])


def line(row: Counts) -> str:
    """Return a row of the table."""
    cells = (row.launches, row.views, f"{row.size / 1e6:.3g}", f"{row.flops / 1e9:.3g}", row.reads,
             row.uploads, f"{row.peak / 1e6:.3g}", f"{row.eager * 1e3:.3g}", f"{row.graph * 1e3:.3g}")
    return f"| {row.problem} | {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    sys.exit(main())
