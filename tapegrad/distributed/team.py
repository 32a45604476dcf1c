"""team: the ranks that sum their buckets, and detect by digests that they do not do the same."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import DistributedError
from tapegrad.numbers.lazy import needed

HALF = 1 << 16  # digests are sent as halves: a double holds the sum of their squares exactly, for up to 2**21 ranks
WEIGHT, FAILED, WHO, GROWS, DIGESTS = range(5)  # positions in a bucket's header


def rank() -> int:
    """Return the rank of this process under `torchrun`, 0 if it is the only one.

    >>> rank(), size()
    (0, 1)
    """
    return int(_dist().get_rank()) if _begun() else int(os.environ.get("RANK", 0)) if size() > 1 else 0


def size() -> int:
    """Return the number of processes that `torchrun` has started, 1 without it."""
    return int(_dist().get_world_size()) if _begun() else int(os.environ.get("WORLD_SIZE", 1))


def _dist() -> Any:
    return needed("torch.distributed")


def _begun() -> bool:
    dist = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and dist.is_initialized()


def _end() -> None:
    """Release all groups and destroy the process's own: gloo's threads must not outlive the interpreter."""
    team.cache_clear()
    if _begun():
        _dist().destroy_process_group()


class SharedValue(NamedTuple):
    """A value that all ranks must have in common: its digest, the error message if it differs, and what to try."""

    digest: int
    what: str
    cure: str


class Team:
    """The ranks of a group, which sum all their buckets once per call.

    A bucket has a header, then numbers. Its length is the same on all ranks: the longest so far. A rank that needs a
    longer one says so in the header (`GROWS`), and all ranks sum once more. So buckets always have equal lengths, and
    one sum suffices unless the length grows.

    The header also has digests, as halves and their squares: by the Cauchy-Schwarz inequality all are equal if and only
    if n Σd² = (Σd)², which every rank finds alike.
    """

    def __init__(self, timeout: float) -> None:
        self.group, self.timeout, self.room = None, timeout, 0
        self.rank, self.size = rank(), size()
        self.world: Any = None  # the process's default group, from which `group` was made
        self.ended = ""  # the reason why no further sum is possible

    def sum(self, agreed: Sequence[SharedValue], weight: float, numbers: np.ndarray, failed: bool = False
            ) -> tuple[float, np.ndarray]:
        """Return the sums of weights and numbers over all ranks, which must all make the same calls.

        Raises DistributedError, on each rank, if a rank has `failed`, digests differ, or a rank does not join.
        """
        self._together(self._begin)
        halves = [half for part in agreed for half in divmod(part.digest, HALF)]
        start = DIGESTS + 2 * len(halves)
        while True:
            fits = len(numbers) <= self.room
            bucket = np.zeros(start + self.room)
            bucket[:DIGESTS] = weight, failed, failed * (self.rank + 1), not fits
            bucket[DIGESTS:start] = [*halves, *(half * half for half in halves)]
            if fits:
                bucket[start:start + len(numbers)] = numbers
            self._together(lambda bucket=bucket: _dist().all_reduce(  # type: ignore[misc]
                needed("torch").from_numpy(bucket), group=self.group))
            if bucket[FAILED]:
                raise DistributedError(self._who(int(bucket[FAILED]), int(bucket[WHO])), None,
                                       "see that rank's error in its own output")
            sums = [int(x) for x in bucket[DIGESTS:start]]
            count = len(halves)
            differ = [self.size * squares != half * half for half, squares in zip(sums[:count], sums[count:])]
            for i, part in enumerate(agreed):
                if any(differ[2 * i:2 * i + 2]):
                    raise DistributedError(f"rank {self.rank} of {self.size}: {part.what}", None, part.cure)
            if fits:
                return float(bucket[WEIGHT]), bucket[start:start + len(numbers)]
            self.room = len(numbers)

    def _who(self, count: int, sum_of_numbers: int) -> str:
        what = "raised an error; nothing was summed"
        return f"rank {sum_of_numbers - 1} {what}" if count == 1 else f"{count} of {self.size} ranks: each {what}"

    def _begin(self) -> None:
        """Make the group of all ranks, if there is none yet or the process has a new default group."""
        dist, timeout = _dist(), timedelta(seconds=self.timeout)
        if not _begun():
            dist.init_process_group("gloo", timeout=timeout)
            atexit.register(_end)
        if self.world is not dist.group.WORLD:
            self.group, self.room = dist.new_group(backend="gloo", timeout=timeout), 0
            self.rank, self.size, self.world = rank(), size(), dist.group.WORLD

    def _together(self, call: Callable[[], Any]) -> None:
        """Make a collective call; raise DistributedError if a rank does not join."""
        if self.ended:
            raise DistributedError(f"an earlier sum over ranks failed: {self.ended}", None, "restart all ranks")
        try:
            call()
        except RuntimeError as err:
            self.ended = str(err).partition("\n")[0]
            raise DistributedError(
                f"rank {self.rank}: the sum with the other {self.size - 1} ranks failed: one has ended, or did not "
                f"arrive within {self.timeout:g} s ({self.ended})", None,
                "look for the first error in the other ranks' output; or set timeout=, in seconds, if a rank may take "
                "longer") from err


@functools.cache
def team(timeout: float) -> Team:
    """Return the team of all processes, which waits up to `timeout` seconds for each of them."""
    return Team(timeout)
