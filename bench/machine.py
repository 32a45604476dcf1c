"""What a measurement depends on besides the code: date, versions, cores, and what else the machine was doing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

LIBRARIES = ("tapegrad", "numpy", "scipy", "autograd", "torch", "jax")
STAT = Path("/proc/stat")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def limited(number: int | None) -> Iterator[None]:
    """Let this process, and those that it starts, use no more than a number of cores; libraries
    then start as many threads.
    """
    if number is None:
        yield
        return
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:number])
    try:
        yield
    finally:
        os.sched_setaffinity(0, mine)


def load() -> float:
    """Return the number of processes that ran or waited, on average over the last minute; nan where unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def busy() -> float:
    """Return the seconds that all cores have worked since the machine started; nan where unknown."""
    if not STAT.exists():
        return float("nan")
    user, nice, system, _, _, *interrupts = map(int, STAT.read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def own() -> float:
    """Return the seconds that this process and the children it has waited for have worked."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@dataclass
class Watch:
    """Watches, from its making on, what else the machine does; `stop` once all children have been waited for."""

    before: float = field(default_factory=load)
    after: float = float("nan")
    others: float = float("nan")  # cores that other processes kept busy, on average
    started: tuple[float, float, float] = field(default_factory=lambda: (monotonic(), busy(), own()))

    def stop(self) -> Watch:
        """Take the second reading, and return self."""
        seconds, worked, ours = (now - then for now, then in zip((monotonic(), busy(), own()), self.started))
        self.after, self.others = load(), max(0.0, (worked - ours) / seconds) if worked == worked else float("nan")
        return self

    @property
    def disturbed(self) -> bool:
        """Whether others were at work: more than a tenth of a core; where that is unknown, a load that is not ours."""
        if self.others == self.others:
            return self.others > 0.1
        return self.before > 0.25 * cores() or self.after > 1.25 * cores()

    def record(self) -> dict[str, Any]:
        """Return it as what JSON can hold."""
        return {"load": [self.before, self.after], "others": self.others if self.others == self.others else None}

    def __str__(self) -> str:
        others = f", other processes kept {self.others:.2f} cores busy" if self.others == self.others else ""
        return f"load {self.before:.2f} before, {self.after:.2f} after, {cores()} cores{others}"


def versions() -> dict[str, str]:
    """Return the installed version of each library that may take part."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, Any]:
    """Return what a record of results begins with."""
    return {"date": datetime.now().astimezone().isoformat(timespec="seconds"), "versions": versions(), "cores": cores(),
            "machine": platform.machine(), "system": platform.system()}
