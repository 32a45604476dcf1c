"""cuda_graph: captures a tape as one CUDA graph. A call copies its arguments to buffers, replays the graph, then checks
all guards at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from tapegrad.compile.numpy.function import Unfit
from tapegrad.compile.torch.function import Run, function_of
from tapegrad.compile.torch.functional_program import Whole
from tapegrad.compile.torch.memory_guards import Lowered
from tapegrad.errors import ArgumentError

WARM_UPS = 3  # runs before the capture, in which libraries select kernels and allocate workspaces


@contextmanager
def waiting_raises() -> Iterator[None]:
    """Make torch raise if a call synchronises with the device: during capture that would break the next call too."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


def graph_device(device: Any) -> Any:
    """Return the device for graphs. Raises ArgumentError if it is no CUDA device."""
    if torch.cuda.is_available() and (device is None or device.type == "cuda"):
        return device or torch.device("cuda")
    raise ArgumentError("graph mode needs CUDA"
                        + (f", not {device}" if torch.cuda.is_available() else ", which is not available here"), None,
                        'device="cuda", or mode="eager"')


def graph(lowered: Lowered, leaves: list[Any]) -> Run:
    """Return a lowered tape as the replay of a CUDA graph, specialised to the Python numbers in `leaves`.

    Raises Unfit if it computes on the host.
    """
    return replaying(lowered, leaves, captured)


def replaying(lowered: Lowered, leaves: list[Any], capture: Callable[..., tuple[Callable[[], None], list[Any]]]) -> Run:
    """Return a function that replays what `capture` recorded on buffers.

    There is one set of buffers: a lock serialises calls, and each waits until the device has finished the one before.
    """
    whole = Whole(lowered, leaves, "graph")
    body = function_of(whole.tape)
    buffers = [leaf.clone() for leaf in whole.leaves]
    try:
        replay, parts = capture(body, buffers)
    except RuntimeError as err:  # a call synchronises with the device, unexpectedly
        raise Unfit(f"{lowered.of.name} cannot be captured as a CUDA graph: {err}", None,
                    'mode="eager", or mode="inductor"') from err
    turn = threading.Lock()
    done: list[Any] = []  # the event after which any stream may write to the buffers

    def run(*args: Any, **kwargs: Any) -> Any:
        given = whole.entered(*args, **kwargs)
        with torch.no_grad(), turn:
            if done:
                done[0].wait()
            for buffer, x in zip(buffers, given):
                buffer.copy_(x)
            replay()
            own = [part.clone() for part in parts]
            if lowered.device.type == "cuda":
                done[:] = [torch.cuda.current_stream(lowered.device).record_event()]
        return whole.finish(own)
    run.source, run.lowered = body.source, lowered  # type: ignore[attr-defined]
    return run


def captured(body: Run, buffers: list[Any]) -> tuple[Callable[[], None], list[Any]]:
    """Capture a function of buffers as a CUDA graph; return the replay function and the tensors of its results."""
    device = buffers[0].device if buffers else torch.device("cuda")
    with torch.cuda.device(device), torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS - 1):
                body(*buffers)
            with waiting_raises():
                body(*buffers)
        torch.cuda.current_stream().wait_stream(side)
        found = torch.cuda.CUDAGraph()
        with torch.cuda.graph(found):
            parts = list(body(*buffers))
    return found.replay, parts
