"""traffic: counts the bytes that a process sends in the collectives that DTensor inserts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.distributed_c10d import _resolve_process_group
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tapegrad.numbers.tensors import is_tensor

# bytes that each of n processes sends in a ring algorithm, as a multiple of its own input
_TIMES: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n, "all_gather": lambda n: n - 1, "broadcast": lambda n: 1,
    **dict.fromkeys(("reduce_scatter", "all_to_all", "shard_dim_alltoall"), lambda n: (n - 1) / n)}


class Traffic(TorchDispatchMode):  # type: ignore[misc]
    """A context that counts in `bytes` what this process sends, computed from the sizes of the collectives' inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # DTensor then calls the operators and collectives on local tensors
        name = func.__name__ if getattr(func, "namespace", "") in ("_c10d_functional", "_dtensor") else ""
        for collective, times in _TIMES.items():
            if name.startswith(collective):
                group = args[-1] if hasattr(args[-1], "size") else _resolve_process_group(args[-1])
                given = args[0] if isinstance(args[0], (list, tuple)) else [args[0]]
                self.bytes += round(sum(x.nbytes for x in given if is_tensor(x)) * times(group.size()))
        return func(*args, **(kwargs or {}))
