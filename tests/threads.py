"""threads: several calls at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any


def at_once(work: Callable[[Any], None], keys: Iterable[Any], interval: float | None = None) -> None:
    """Call `work` with each of the keys, each in a thread of its own, and wait for all; `interval` seconds after which
    Python goes on with another thread.
    """
    threads, before = [threading.Thread(target=work, args=(key,)) for key in keys], sys.getswitchinterval()
    sys.setswitchinterval(before if interval is None else interval)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
