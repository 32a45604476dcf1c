"""threads: several calls at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def at_once(work: Callable[[Any], None], keys: Iterable[Any]) -> None:
    """Call `work` with each of the keys, each in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
