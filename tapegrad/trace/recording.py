"""recording: lets passes record computations on proxies, as `trace` does for a program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tapegrad.trace.collector import collector
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.replacement import interposition


@contextmanager
def recording(tracer: Tracer) -> Iterator[None]:
    """Record computations on a tracer's proxies within the block, then close the tracer."""
    leave = interposition.enter(tracer, tuple, ())
    try:
        with collector:
            yield
    finally:
        tracer.close()
        leave()
