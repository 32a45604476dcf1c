"""Everything that is to be checked on a GPU, in one run: see bench/gpu.py.

First every row of tests/cases is replayed on the device, value and gradient, against NumPy. Then gradients of the
problems are measured: by tapegrad's compiled tapes, torch, torch.compile and JAX, each in a process of its own. All get
ready at once, as many as there are cores, and are then measured one after the other, so that nothing else runs on the
device meanwhile. Writes gpu.json and gpu.txt.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.compare import difference
from bench.machine import describe
from bench.on_gpu.peers import PEERS, fits
from bench.problems import PROBLEMS
from bench.tables import blank, duration, megabytes, ratio

ROOT = Path(__file__).resolve().parents[2]
PRECISIONS = ("float64", "float32")
PROBLEM_NAMES = ("recurrence", "tr_mul", "mlp", "gmm", "lstm", "gp", "elementwise")
DTYPES = ("float64", "float32", "complex128")
# of the norm: sums of 10^7 numbers, and a recurrence of 1,000 steps, in single precision
TOLERANCE = {"float64": 1e-7, "float32": 2e-2}


@dataclass
class Row:
    """One peer's gradient of one problem: seconds to the first and of a later one, bytes at the peak,
    and the difference to torch's.
    """

    problem: str
    precision: str
    peer: str
    first: float | None = None
    seconds: float | None = None
    peak: float | None = None
    difference: float | None = None
    missing: str = ""
    parts: Any = field(default=None, repr=False)


class Process:
    """One bench.on_gpu.worker, held ready."""

    def __init__(self, arguments: Sequence[str], limit: float, folder: Path) -> None:
        self.limit = limit
        environment = {**os.environ,
                       "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
                       "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TORCHINDUCTOR_CACHE_DIR": str(folder),
                       "OMP_NUM_THREADS": "4"}
        self.process = subprocess.Popen([sys.executable, "-m", "bench.on_gpu.worker", *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=environment, cwd=ROOT)

    def answer(self) -> dict[str, Any]:
        """Return the next line, or what is missing once the limit has passed."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(self.limit, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        done = watchdog.is_alive()
        watchdog.cancel()
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        return {"missing": f"the process ended with {self.process.wait()}" if done
                else f"no result in {self.limit:g} s"}

    def ask(self) -> dict[str, Any]:
        """Have it measure."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        return self.answer()

    def stop(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


def main(argv: Sequence[str] | None = None) -> int:
    """Check and measure; return 1 if a case or a gradient is wrong."""
    options = parse(argv)
    console = Console(width=150, record=True)
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        console.print("torch finds no CUDA device here; --device cpu runs the same code on the CPU")
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else "CPU"
    record: dict[str, Any] = {**describe(), "device": device, "cuda": torch.version.cuda}
    console.print(f"[bold]{device}[/], torch {torch.__version__}, CUDA {torch.version.cuda}, NumPy {np.__version__}")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} of {task.total}"),
               TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True))
    with bar as progress, tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.processes) as pool:
        checks = [pool.submit(checked, dtype, options, Path(folder)) for dtype in (() if options.no_cases else DTYPES)]
        rows = measured(options, progress, pool, Path(folder))
        record["cases"] = [check.result() for check in checks]
    record["rows"] = [{key: value for key, value in asdict(row).items() if key != "parts"} for row in rows]
    report(record, rows, console)
    (options.out / "gpu.json").write_text(json.dumps(record, indent=1) + "\n")
    (options.out / "gpu.txt").write_text(console.export_text())
    wrong = [row for row in rows if row.difference is not None and not row.difference <= TOLERANCE[row.precision]]
    return 1 if wrong or any(check.get("failed", True) for check in record["cases"]) else 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python bench/gpu.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="PROBLEM",
                        help=f"of {', '.join(PROBLEM_NAMES)}; all if there is none")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where gpu.json and gpu.txt go")
    parser.add_argument("--device", default="cuda", help="cuda; cpu runs the same code without a GPU")
    parser.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), metavar="PEER",
                        help=f"of {', '.join(PEERS)}")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--limit", type=float, default=150.0, metavar="S",
                        help="seconds that a peer has for its first gradient (150)")
    parser.add_argument("--processes", type=int, default=max(2, (os.cpu_count() or 2) - 2), metavar="N",
                        help="that get ready at once")
    parser.add_argument("--no-cases", action="store_true", help="without the rows of tests/cases")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in PROBLEM_NAMES:
            parser.error(f"no problem is called {name}: there are {', '.join(PROBLEM_NAMES)}")
    return options


def checked(dtype: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Replay all cases in one dtype."""
    process = Process(["cases", dtype, "--device", options.device], 2 * options.limit, folder)
    found = process.answer()
    process.stop()
    return {"dtype": dtype, **found}


def measured(options: argparse.Namespace, progress: Progress, pool: ThreadPoolExecutor, folder: Path) -> list[Row]:
    """Let all get ready, then measure one after the other."""
    rows = [Row(name, precision, peer) for name in options.names or PROBLEM_NAMES for precision in options.precisions
            for peer in options.peers
            if fits(peer, PROBLEMS[name])]
    task = progress.add_task("getting ready", total=len(rows))

    def ready(numbered: tuple[int, Row]) -> Process:
        number, row = numbered
        gradient = folder / f"{number}.npz"
        process = Process([row.problem, row.peer, "--device", options.device, "--precision", row.precision,
                           "--gradient", str(gradient)],
                          options.limit, folder / str(number))
        found = process.answer()
        row.first, row.missing = found.get("first"), found.get("missing", "")
        if gradient.is_file() and not row.missing:
            with np.load(gradient) as parts:
                row.parts = [parts[f"arr_{i}"] for i in range(1, len(parts.files))]
        progress.advance(task)
        return process
    processes = list(pool.map(ready, enumerate(rows)))
    task = progress.add_task("measuring", total=len(rows))
    for row, process in zip(rows, processes):
        if not row.missing:
            found = process.ask()
            row.seconds, row.peak, row.missing = found.get("seconds"), found.get("peak"), found.get("missing", "")
        process.stop()
        progress.advance(task)
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row.parts is not None and (reference := first.setdefault((row.problem, row.precision), row)) is not row:
            row.difference = difference(row.parts, reference.parts)
    return rows


def report(record: dict[str, Any], rows: Sequence[Row], console: Console) -> None:
    """Print the tables."""
    for check in record["cases"]:
        failed = check.get("failed")
        said = check["missing"] if failed is None else f"{check['rows'] - len(failed)} of {check['rows']} agree"
        console.print(f"cases in {check['dtype']}: {said}")
        for line in failed or ():
            console.print(f"  {line}", markup=False)
    for problem, precision in dict.fromkeys((row.problem, row.precision) for row in rows):
        own = [row for row in rows if (row.problem, row.precision) == (problem, precision)]
        best = min((row.seconds for row in own if row.seconds is not None), default=1.0)
        table = blank(f"{problem}, {precision}", "median", "ratio", "first call", "MB at peak", "diff")
        for row in own:
            if row.seconds is None:
                table.add_row(row.peer, *5 * ["–"], style="dim")
                continue
            table.add_row(row.peer, duration(row.seconds), ratio(row.seconds, best), duration(row.first or 0.0),
                          "–" if row.peak is None else megabytes(row.peak),
                          "reference" if row.difference is None else f"{row.difference:.1e}")
        console.print(table)
        for row in own:
            if row.missing:
                console.print(f"  {row.peer}: {row.missing}", markup=False)
