"""Clock: the end of each operation of a replay, on the host or on a CUDA device."""

from __future__ import annotations

import itertools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.numbers.tensors import is_tensor

READING = 200  # bound in nanoseconds on the cost of one clock reading: any excess is noise, and stays in


class Clock:
    """The host's clock, in nanoseconds."""

    def measure(self, replay: Callable[[], Iterable[Any]], repeats: int) -> list[int]:
        """Exhaust `replay()` several times; return the nanoseconds from the start to the end of each item, in the
        fastest.

        The clock is read once for each item: the end of an operation is the start of the next, and nothing between them
        is left out. The cost of the readings, measured against replays without any, is subtracted in equal parts. (In
        an empty loop a reading takes a third of that.)
        """
        plain, timed = [], []
        for _ in range(repeats):  # in turn, so that other load affects both
            plain.append(self.total(replay()))
            timed.append(self.stamps(replay()))
        ends = min(timed, key=lambda ends: ends[-1])
        cost = min(max(ends[-1] - min(plain), 0) / len(ends), READING)
        return list(itertools.accumulate(max(round(end - start - cost), 0) for start, end in zip([0, *ends], ends)))

    def total(self, run: Iterable[Any]) -> int:
        """Exhaust `run`; return its nanoseconds."""
        start = time.perf_counter_ns()
        deque(run, 0)
        return time.perf_counter_ns() - start

    def stamps(self, run: Iterable[Any]) -> list[int]:
        """Exhaust `run`; return the nanoseconds from the start to the end of each of its items."""
        now = time.perf_counter_ns
        start = now()
        ends = [now() for _ in run]
        return [end - start for end in ends]


class CudaClock(Clock):
    """A CUDA device's clock: events in its stream time kernels where they run, without stopping between them."""

    def __init__(self, device: Any) -> None:
        self.torch, self.device = sys.modules["torch"], device

    def measure(self, replay: Callable[[], Iterable[Any]], repeats: int) -> list[int]:
        """Exhaust `replay()` several times; return the device's nanoseconds from the start to the end
        of each item, in the fastest.
        """
        return min((self.stamps(replay()) for _ in range(repeats)), key=lambda ends: ends[-1])

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
