"""Memory that this process has in use, and the most it has had."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

STATUS = Path("/proc/self/status")
FORGET = Path("/proc/self/clear_refs")


def peak() -> float:
    """Return the most bytes resident so far, or since `forget`; nan where nobody counts them."""
    if STATUS.exists():
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0 if resource else float("nan")


def baseline() -> float:
    """Forget the peak so far, and return the bytes resident now; where the system cannot do that, the peak so far.

    What has been freed is given back before: to be taken again counts as much as to be taken first.
    """
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # not in every C library
        ctypes.CDLL(None).malloc_trim(0)
    try:
        FORGET.write_text("5")
    except OSError:
        return peak()
    return _status("VmRSS")


def _status(key: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(key))
    return float(line.split()[1]) * 1024
