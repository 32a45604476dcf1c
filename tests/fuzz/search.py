"""search: seeds one after the other, in several processes, for a time; what is found, shrunk, as lines of JSON."""

from __future__ import annotations

import collections
import concurrent.futures
import gc
import importlib
import linecache
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.compare import Find, Report, examine
from tests.fuzz.generate import generate
from tests.fuzz.limit import Hang, within
from tests.fuzz.shrink import shrink

CHUNK, PATIENCE = 16, 60  # seeds that a process takes at a time; seconds for one program


@dataclass
class Tally:
    """What a search has seen so far."""

    outcomes: collections.Counter[str] = field(default_factory=collections.Counter)
    compared: collections.Counter[str] = field(default_factory=collections.Counter)
    refused: collections.Counter[str] = field(default_factory=collections.Counter)
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)

    def add(self, report: Report) -> None:
        """Count one program."""
        self.outcomes[report.outcome] += 1
        self.compared += report.compared
        self.refused += report.refused
        self.kinds.update({f"{find.kind}, {find.mode}" for find in report.finds})


def explored(seed: int) -> Report:
    """Return what is found of one seed; a program that does not end is a find."""
    try:
        with warnings.catch_warnings(), within(PATIENCE):
            warnings.simplefilter("ignore")
            return examine(generate(seed))
    except Hang:
        return Report("hangs", [Find("hangs", "", 0, f"after {PATIENCE} seconds")], collections.Counter(), collections.Counter())


def work(seeds: list[int], seconds: float) -> list[tuple[int, Report]]:
    """Explore some seeds, as a process does."""
    end = time.monotonic() + seconds
    done = []
    for seed in seeds:
        if time.monotonic() > end:
            break
        done.append((seed, explored(seed)))
    linecache.clearcache()
    gc.collect()
    return done


def prepare() -> None:
    """Begin a process: it makes way for others, and imports now what must not be cut short in the middle of a program's time."""
    os.nice(10)
    importlib.import_module("torch")


def search(seeds: Iterable[int], jobs: int = 1, seconds: float = 1e9) -> Iterator[tuple[int, Report]]:
    """Explore seeds in several processes, and go through what is seen of each."""
    end = time.monotonic() + seconds
    chunks = chunked(seeds)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each process
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), prepare) as pool:
        running: set[concurrent.futures.Future[list[tuple[int, Report]]]] = set()
        while True:
            while len(running) < 2 * jobs and time.monotonic() < end and (chunk := next(chunks, None)):
                running.add(pool.submit(work, chunk, max(0.0, end - time.monotonic())))
            if not running:
                return
            done, running = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                yield from future.result()


def chunked(seeds: Iterable[int]) -> Iterator[list[int]]:
    """Go through seeds, some at a time."""
    chunk: list[int] = []
    for seed in seeds:
        chunk.append(seed)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def rows(seed: int, report: Report, shrinks: float) -> Iterator[dict[str, Any]]:
    """Return each kind of find of a program as a line is written: with the program, shrunk for as many seconds."""
    seen: list[Find] = []
    for find in report.finds:
        if any(find.is_like(other) for other in seen):
            continue
        seen.append(find)
    if seen:
        program = generate(seed)
        first = seen[0]
        small = shrink(program, first, shrinks) if shrinks and first.kind != "hangs" else program
        yield {"seed": seed, "finds": [find._asdict() for find in seen], "program": small.script()}


def first_seed(draws: Callable[[], int] = lambda: int.from_bytes(os.urandom(4), "little")) -> int:
    """Return a seed where nobody has searched yet, in all likelihood."""
    return 1_000_000 + draws() // 8 * 8
