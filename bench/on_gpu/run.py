"""Everything that is to be checked on a GPU, in one run: see bench/gpu.py.

Rows of tests/cases are replayed and compiled on the device, against NumPy, and the programs of
bench/on_gpu/checks.py run in each mode. Gradients of the problems are measured: by tapegrad's compiled tapes, torch,
torch.compile and JAX, each in a process of its own. All get ready at once, as many as there are cores; then, while
nothing else runs on the device, they are measured one after the other, and the profiler counts what a call waits for.
Writes gpu.json as it goes, and gpu.txt; `--minutes` limits the run, and what did not come to its turn is named.

Without a GPU `--device cpu` runs the same on the CPU, and `--device meta` on one that is not there, whose calls are
counted: try these with `--small`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import torch
from rich.console import Console

from bench.compare import difference
from bench.machine import describe
from bench.on_gpu.sizes import SIZES
from bench.tables import blank, duration, megabytes, ratio

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("optree", "networkx", "rich", "scipy", "pytest")  # of what a machine with torch may lack
PRECISIONS = ("float64", "float32")
DTYPES = ("float64", "float32", "complex128")
# of the norm: sums of 10^7 numbers, and a recurrence of 1,000 steps, in single precision
TOLERANCE = {"float64": 1e-7, "float32": 2e-2}
READY = 0.62  # of the time, in which all get ready
COMPILED = {"eager": 3, "graph": 3, "inductor": 60}  # of the cases, every so-and-so-many-th is compiled
OWN = ("tapegrad eager", "tapegrad graph", "tapegrad inductor")


@dataclass
class Row:
    """One peer's gradient of one problem: seconds to the first and of a later one, bytes at the peak, the difference to
    torch's, and what the profiler counted.
    """

    problem: str
    precision: str
    peer: str
    first: float | None = None
    seconds: float | None = None
    peak: float | None = None
    difference: float | None = None
    calls: dict[str, int] | None = None
    missing: str = ""
    parts: Any = field(default=None, repr=False)


@dataclass
class Job:
    """Cases or checks, run by one process: how many there were, those that are wrong, and those that a mode refused."""

    name: str
    arguments: list[str]
    rows: int | None = None
    wrong: list[str] = field(default_factory=list)
    refused: dict[str, int] = field(default_factory=dict)
    missing: str = ""


class Clock:
    """The time that a run has."""

    def __init__(self, minutes: float) -> None:
        self.start, self.seconds = monotonic(), 60 * minutes

    def left(self, share: float = 1.0) -> float:
        """Return the seconds that are left of a share of it."""
        return self.start + share * self.seconds - monotonic()


class Process:
    """One bench.on_gpu.worker, held ready."""

    def __init__(self, arguments: Sequence[str], folder: Path) -> None:
        environment = {**os.environ,
                       "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
                       "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TORCHINDUCTOR_CACHE_DIR": str(folder),
                       "TORCHINDUCTOR_COMPILE_THREADS": "2", "OMP_NUM_THREADS": "4"}
        self.process = subprocess.Popen([sys.executable, "-m", "bench.on_gpu.worker", *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT)

    def answer(self, limit: float) -> dict[str, Any]:
        """Return the next line, or what is missing once the limit has passed."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(max(limit, 0.1), self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        done = watchdog.is_alive()
        watchdog.cancel()
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        return {"missing": f"the process ended with {self.process.wait()}" if done else f"no result in {limit:.0f} s"}

    def ask(self, limit: float) -> dict[str, Any]:
        """Have it measure."""
        assert self.process.stdin is not None
        try:
            print(file=self.process.stdin, flush=True)
        except BrokenPipeError:
            return {"missing": f"the process ended with {self.process.wait()}"}
        return self.answer(limit)

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        with suppress(BrokenPipeError), self.process:  # waits, and closes the pipes, which it may have left
            pass


class Run:
    """One run, and its record, which is written after each result."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder, self.clock = options, folder, Clock(options.minutes)
        self.console = Console(width=150, record=True)
        self.lock = threading.Lock()
        self.jobs = jobs(options)
        self.rows = [Row(name, precision, peer) for name in options.names or SIZES for peer in options.peers
                     if fits(peer, name) for precision in options.precisions]
        self.counts: list[Any] = []
        self.head = {**describe(), "device": options.device, "cuda": torch.version.cuda}
        if options.device.startswith("cuda"):
            self.head.update(device=torch.cuda.get_device_name(), driver=driver())

    def keep(self) -> None:
        """Write the record."""
        with self.lock:
            found = {**self.head, "jobs": [asdict(job) for job in self.jobs], "counts": self.counts,
                     "rows": [{key: value for key, value in vars(row).items() if key != "parts"} for row in self.rows]}
            path = self.options.out / "gpu.json"
            path.with_suffix(".part").write_text(json.dumps(found, indent=1) + "\n")
            path.with_suffix(".part").replace(path)  # whole at any time

    def __call__(self) -> int:
        """Check and measure; return 1 if anything is wrong."""
        self.console.print(f"[bold]{self.head['device']}[/], torch {torch.__version__}, CUDA {torch.version.cuda}, "
                           f"NumPy {np.__version__}")
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.problem, row.peer), []).append(row)
        with ThreadPoolExecutor(self.options.processes) as pool:
            done: list[Future[None]] = [pool.submit(self.job, job) for job in self.jobs]
            done += [pool.submit(self.count, name) for name in self.options.names or SIZES
                     if self.options.device == "meta"]
            ready = [(rows, pool.submit(self.ready, number, rows))
                     for number, rows in enumerate(sorted(groups.values(), key=urgency))]
            for future in done:
                future.result()
            processes = [(rows, future.result()) for rows, future in ready]
        for problem in dict.fromkeys(row.problem for row in self.rows):
            for rows, process in processes:
                if process is not None and rows[0].problem == problem:
                    self.measure(rows, process)
            self.compare(problem)
            self.keep()
        self.keep()
        return self.report()

    def job(self, job: Job) -> None:
        """Run cases or checks."""
        if self.clock.left(READY) < 5:
            job.missing = "no time was left"
            return
        process = Process(job.arguments, self.folder / job.name.replace(" ", "_"))
        while job.rows is None and not job.missing:
            found = process.answer(self.clock.left(READY))
            job.rows, job.missing = found.get("rows"), found.get("missing", "")
            job.refused = found.get("refused", {})
            job.wrong += [found["wrong"]] if "wrong" in found else []
        process.stop()
        self.keep()

    def count(self, name: str) -> None:
        """Count what a problem asks of a device."""
        process = Process(["counts", name, "--device", "cpu", *self.size(),
                           "--precisions", *self.options.precisions], self.folder)
        found = process.answer(self.clock.left(READY))
        process.stop()
        with self.lock:
            self.counts += found.get("counts", [{"problem": name, **found}])
        self.keep()

    def size(self) -> list[str]:
        return ["--small"] if self.options.small else []

    def ready(self, number: int, rows: list[Row]) -> Process | None:
        """Start a process for a peer's gradients of a problem, and wait until they are ready."""
        if self.clock.left(READY) < 5:
            for row in rows:
                row.missing = "no time was left"
            return None
        gradient = self.folder / str(number)
        process = Process([rows[0].problem, rows[0].peer, "--device", self.options.device, *self.size(), "--gradient",
                           str(gradient), "--precisions", *[row.precision for row in rows]], self.folder / f"i{number}")
        for row in rows:
            found = process.answer(min(self.options.limit, self.clock.left(READY)))
            row.first, row.missing = found.get("first"), found.get("missing", "")
            path = Path(f"{gradient}.{row.precision}.npz")
            if path.is_file() and not row.missing:
                with np.load(path) as parts:
                    row.parts = [parts[f"arr_{i}"] for i in range(1, len(parts.files))]
        self.keep()
        return process

    def measure(self, rows: list[Row], process: Process) -> None:
        """Have a process measure what is ready."""
        for row in rows:
            if row.missing:
                continue
            if self.clock.left() < 5:
                row.missing = "no time was left"
                continue
            found = process.ask(min(self.options.limit, self.clock.left()))
            row.seconds, row.peak, row.calls = found.get("seconds"), found.get("peak"), found.get("calls")
            row.missing = found.get("missing", "")
        process.stop()

    def compare(self, problem: str) -> None:
        """Compare the gradients of a problem with the first that there is."""
        first: dict[str, Row] = {}
        for row in self.rows:
            if row.problem != problem or row.parts is None:
                continue
            if (reference := first.setdefault(row.precision, row)) is not row:
                row.difference = difference(row.parts, reference.parts)
        for row in self.rows:
            row.parts = None if row.problem == problem else row.parts

    def report(self) -> int:
        """Print the tables and a summary; return 1 if anything is wrong."""
        console = self.console
        for job in self.jobs:
            refused = "".join(f", {number} {why}" for why, number in job.refused.items())
            told = job.missing or f"{(job.rows or 0) - len(job.wrong)} of {job.rows} agree{refused}"
            console.print(f"{job.name}: {told}", markup=False)
            for line in job.wrong:
                console.print(f"  {line}", markup=False)
        for problem, precision in dict.fromkeys((row.problem, row.precision) for row in self.rows):
            print_table(problem, precision, [row for row in self.rows
                                             if (row.problem, row.precision) == (problem, precision)], console)
        if self.counts:
            from bench.on_gpu.account import Counts, table
            console.print(table([Counts(**found) for found in self.counts if "launches" in found]), markup=False)
        wrong = [row for row in self.rows
                 if row.difference is not None and not row.difference <= TOLERANCE[row.precision]]
        failed = [job for job in self.jobs if job.wrong or job.missing]
        lost = sum(bool(row.missing) for row in self.rows if row.peer in OWN)
        console.print(f"[bold]{len(self.rows)} gradients, {len(wrong)} wrong, {lost} of tapegrad's missing; "
                      f"{len(self.jobs)} sets of cases and checks, {len(failed)} with failures[/]")
        for row in wrong:
            console.print(f"  {row.problem}, {row.precision}, {row.peer}: {row.difference:.1e}", markup=False)
        (self.options.out / "gpu.txt").write_text(console.export_text())
        return 1 if wrong or failed else 0


def urgency(rows: list[Row]) -> int:
    """Where a peer's gradient stands among those that get ready: last what compiles for long, and may get no time."""
    peer = rows[0].peer
    return 2 if peer.startswith("torch.compile ") else 1 if peer in ("torch.compile", OWN[2]) else 0


def print_table(problem: str, precision: str, rows: list[Row], console: Console) -> None:
    """Print what the peers took for a problem, and what is missing."""
    best = min((row.seconds for row in rows if row.seconds is not None), default=1.0)
    table = blank(f"{problem}, {precision}", "median", "ratio", "first call", "MB at peak", "diff", "calls")
    for row in rows:
        if row.seconds is None:
            table.add_row(row.peer, *6 * ["–"], style="dim")
            continue
        calls = ", ".join(f"{number} {name}" for name, number in (row.calls or {}).items() if number)
        table.add_row(row.peer, duration(row.seconds), ratio(row.seconds, best), duration(row.first or 0.0),
                      "–" if row.peak is None else megabytes(row.peak),
                      "reference" if row.difference is None else f"{row.difference:.1e}", calls)
    console.print(table)
    for row in rows:
        if row.missing:
            console.print(f"  {row.peer}: {row.missing}", markup=False)


def fits(peer: str, name: str) -> bool:
    """Whether a peer has a version of a problem."""
    from bench.on_gpu.peers import fits as has
    from bench.problems import PROBLEMS
    return has(peer, PROBLEMS[SIZES[name][0]])


def driver() -> str:
    """Return the version of the driver, as nvidia-smi says it."""
    try:
        asked = ["nvidia-smi", "--query-gpu=driver_version,name,memory.total", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def jobs(options: argparse.Namespace) -> list[Job]:
    """Return the sets of cases and checks, of which each has a process."""
    from bench.on_gpu.checks import MODES
    found = []
    where = ["--device", options.device]
    if "checks" in options.parts:
        found += [Job(f"checks {mode}", ["checks", mode, *where]) for mode in MODES
                  if mode != "inductor" or not options.small]
    if "cases" in options.parts:
        found += [Job(f"cases {dtype}", ["cases", dtype, *where, "--every", "40" if options.small else "1"])
                  for dtype in DTYPES]
        found += [Job(f"cases compiled {mode}", ["cases", "float64", *where, "--mode", mode, "--every",
                                                 str(every * (40 if options.small else 1))])
                  for mode, every in COMPILED.items() if mode != "inductor" or not options.small]
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Check and measure; return 1 if a case or a gradient is wrong, 2 where it cannot run."""
    options = parse(argv)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(f"this Python has no {', '.join(missing)}: put them into a folder that PYTHONPATH names "
              f"(pip install --target FOLDER {' '.join(missing)})")
        return 2
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        print("torch finds no CUDA device here; --device cpu runs the same on the CPU, and --device meta counts calls")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        return Run(options, Path(folder))()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    from bench.on_gpu.peers import PEERS
    parser = argparse.ArgumentParser(prog="python bench/gpu.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROBLEM", help=f"of {', '.join(SIZES)}; all if there is none")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where gpu.json and gpu.txt go")
    parser.add_argument("--device", default="cuda", help="cuda; cpu; meta, where only tapegrad's peers run")
    parser.add_argument("--parts", nargs="+", default=["cases", "checks", "problems"],
                        choices=["cases", "checks", "problems"])
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), metavar="PEER", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--minutes", type=float, default=9.0, help="that the run has (9)")
    parser.add_argument("--limit", type=float, default=150.0, metavar="S",
                        help="seconds that a peer has for its first gradient (150)")
    parser.add_argument("--processes", type=int, default=max(2, (os.cpu_count() or 2) - 2), metavar="N",
                        help="that get ready at once")
    parser.add_argument("--small", action="store_true", help="small sizes and few cases, for a try without a GPU")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in SIZES:
            parser.error(f"no problem is called {name}: there are {', '.join(SIZES)}")
    if options.peers is None:
        options.peers = [peer for peer in PEERS if peer in OWN[:2] or options.device != "meta"]
    if "problems" not in options.parts:
        options.peers = []
    if options.device == "meta":
        options.parts = [part for part in options.parts if part == "problems"]
    return options
