"""What a measurement depends on besides the code: date, versions, cores, load."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import datetime
from typing import Any

LIBRARIES = ("tapegrad", "numpy", "scipy", "autograd", "torch", "jax")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """Return the number of processes that ran or waited, on average over the last minute; nan where unknown."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def high(before: float, after: float) -> bool:
    """Return True if others were at work: a quarter of the cores before; after, more than our own threads account for."""
    return before > 0.25 * cores() or after > 1.25 * cores()


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
