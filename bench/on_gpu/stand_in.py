"""stand_in: graph mode without CUDA: what would be captured runs once under a record, and again for each replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench.on_gpu.virtual import Log, Virtual, device, tensors_in
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


class Memory(TorchDispatchMode):
    """The storages that calls take, make and write to. What was made is kept, so that no address stands for two."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: set[int] = set()  # which were there before
        self.made: dict[int, torch.Tensor] = {}
        self.written: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given = storages((args, kwargs))
        self.taken |= given - self.made.keys()
        for x in tensors_in(out):
            if storage(x) not in given:
                self.made[storage(x)] = x
        for parameter, x in zip(func._schema.arguments, args):
            if parameter.alias_info is not None and parameter.alias_info.is_write:
                self.written |= storages(x)
        return out


def storage(x: torch.Tensor) -> int:
    """Return what tells the memory of a tensor from that of others."""
    return x.untyped_storage()._cdata


def storages(x: Any) -> set[int]:
    """Return the memory of the tensors in nested lists, tuples and dicts."""
    return set(map(storage, tensors_in(x)))


@dataclass(frozen=True)
class Region:
    """What was captured: the inputs with their addresses, the results, and the memory that the calls between take."""

    inputs: list[torch.Tensor]
    addresses: list[int]
    results: list[torch.Tensor]
    memory: Memory


def held(regions: list[Region]) -> Callable[[Body, list[Any]], Replay]:
    """Return a capture that notes the memory of a graph. Its replay computes nothing: what a call does then is done
    outside the graph.
    """
    def capture(body: Body, buffers: list[Any]) -> Replay:
        with Memory() as memory:
            parts = body(*buffers)
        regions.append(Region(buffers, [x.data_ptr() for x in buffers], parts, memory))
        return lambda: None, parts
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
