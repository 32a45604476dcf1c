"""stand_in: graph mode without CUDA: what would be captured runs once under a record, and again for each replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.on_gpu.virtual import Log, Virtual, device
from tapegrad.compile.torch import backend
from tapegrad.compile.torch.cuda_graph import replaying

Body = Callable[..., list[Any]]
Replay = tuple[Callable[[], None], list[Any]]


def repeated(body: Body, buffers: list[Any]) -> Replay:
    """Compute the same again, from the same buffers into the same tensors."""
    parts = body(*buffers)

    def replay() -> None:
        for part, found in zip(parts, body(*buffers)):
            part.copy_(found)
    return replay, parts


def recorded(logs: list[Log]) -> Callable[[Body, list[Any]], Replay]:
    """Return a capture that keeps a log of what a graph would hold, and refuses what none can, as CUDA does."""
    def capture(body: Body, buffers: list[Any]) -> Replay:
        with device() as log:
            body(*[x if isinstance(x, Virtual) else Virtual(x) for x in buffers])
        outside = log.of("read", "upload", "host", "mixed")
        if outside:
            raise RuntimeError(f"operation not permitted when stream is capturing: {outside[0].name}")
        logs.append(log)
        return repeated(body, buffers)
    return capture


@contextmanager
def graphs(capture: Callable[[Body, list[Any]], Replay] = repeated) -> Iterator[None]:
    """Let graph mode run on any device, by a capture of this kind."""
    mode, chosen = backend.MODES["graph"], backend.graph_device
    backend.MODES["graph"] = lambda lowered, leaves: replaying(lowered, leaves, capture)
    backend.graph_device = lambda device: device
    try:
        yield
    finally:
        backend.MODES["graph"], backend.graph_device = mode, chosen
