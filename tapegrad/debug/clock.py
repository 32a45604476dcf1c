"""Clock: when each operation of a replay ended, on the host or on a CUDA device."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from typing import Any

from tapegrad.tree import is_tensor


class Clock:
    """The host's: a stamp is a count of nanoseconds, what it takes to read the clock taken off."""

    def __init__(self) -> None:
        self.cost = min(_read(itertools.repeat(None, READINGS))[-1] for _ in range(5)) / READINGS

    def stamps(self, run: Iterable[Any]) -> list[int]:
        """Exhaust `run`; return the nanoseconds from the start to the end of each of its items.

        One reading for each: the end of an operation is the start of the next, and nothing between them is left out.
        """
        ends = _read(run)
        return list(itertools.accumulate(max(round(end - start - self.cost), 0) for start, end in zip([0, *ends], ends)))


READINGS = 1000


def _read(run: Iterable[Any]) -> list[int]:
    now = time.perf_counter_ns
    start = now()
    ends = [now() for _ in run]
    return [end - start for end in ends]


class CudaClock(Clock):
    """A CUDA device's: events in its stream, so that kernels are timed where they run, without stopping between them."""

    def __init__(self, device: Any) -> None:
        self.torch, self.device = sys.modules["torch"], device

    def stamps(self, run: Iterable[Any]) -> list[int]:
        """Exhaust `run`; return the device's nanoseconds from the start to the end of each of its items."""
        cuda = self.torch.cuda
        with cuda.device(self.device):
            cuda.synchronize()
            start = self._event()
            ends = [self._event() for _ in run]
            cuda.synchronize()
        return [round(start.elapsed_time(end) * 1e6) for end in ends]  # given in milliseconds

    def _event(self) -> Any:
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def clock_for(values: Iterable[Any]) -> Clock:
    """Return the clock of the device on which values lie."""
    for value in values:
        if is_tensor(value) and value.device.type == "cuda":
            return CudaClock(value.device)
    return Clock()
