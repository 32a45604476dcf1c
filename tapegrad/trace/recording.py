"""recording: a pass plays part of a program on proxies, and a tracer records what is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tapegrad.trace.collector import collector
from tapegrad.trace.recorder import Tracer
from tapegrad.trace.replacement import interposition


@contextmanager
def recording(tracer: Tracer) -> Iterator[None]:
    """Have a tracer record what is computed of its proxies meanwhile, and close it."""
    leave = interposition.enter(tracer, tuple, ())
    try:
        with collector:
            yield
    finally:
        tracer.close()
        leave()
