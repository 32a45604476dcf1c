"""dtensor: the proxy of torch's DTensor, of which each process has a part.

A function of DTensors is recorded whole, and DTensor's own autograd is its gradient: DTensor decides what is computed
and sent. A function that computes with DTensors is traced in each call, because other processes wait for its messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.distributed.tensor import DTensor

from tapegrad import ops
from tapegrad.frontends.torch import facts, leaves, proxy
from tapegrad.frontends.torch.generic import generic
from tapegrad.frontends.torch.write import is_in_place
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import DISTRIBUTED
from tapegrad.rules.registry import DISPATCH, means, refused
from tapegrad.trace.recorder import Tracer

DISTRIBUTED.add(DTensor)
_ASKED = (facts.__name__, leaves.__name__)  # modules whose implementations hold for DTensors too


class DTensorProxy(proxy.TensorProxy):
    """A traced DTensor, which exposes its mesh and placements."""

    __class__ = property(lambda self: DTensor)  # type: ignore[assignment]
    _spec = property(lambda self: plain(self)._spec)
    _local_tensor = property(lambda self: plain(self)._local_tensor)
    device_mesh, placements = DTensor.device_mesh, DTensor.placements
    to_local, full_tensor = DTensor.to_local, DTensor.full_tensor

    def redistribute(self, *args: Any, async_op: bool = False, **kwargs: Any) -> Any:
        """Return the tensor with other placements, synchronously."""
        return DTensor.redistribute(self, *args, **kwargs)


proxy.CLASSES[DTensor] = DTensorProxy


@means("spread")
def called(tracer: Tracer, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a call with traced DTensors as one operation."""
    meaning = DISPATCH.get(func)
    if meaning is ops.stop_gradient or getattr(meaning, "__module__", None) in _ASKED:
        return meaning(*args, **kwargs)  # type: ignore[misc]
    if is_in_place(func, kwargs) or kwargs.get("out") is not None:
        raise refused(f"{func.__name__} of a DTensor", "torch may lose a write into one",
                      "use an operation that returns a new tensor")
    return generic(tracer, func, args, kwargs)
