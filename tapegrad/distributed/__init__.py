"""Gradients over data that is distributed over processes: NumPy programs under `torchrun`, one process per rank."""

from tapegrad.distributed.checkpoint import Checkpoint
from tapegrad.distributed.data_parallel import value_and_grad
from tapegrad.distributed.team import rank, size
from tapegrad.errors import DistributedError

__all__ = ["Checkpoint", "DistributedError", "rank", "size", "value_and_grad"]
