"""torch's functional collectives, which return their results; registered once they are imported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tapegrad.frontends.torch.collective import (
    SUM,
    all_gather,
    all_reduce,
    all_to_all,
    broadcast,
    check_even,
    is_mean,
    over,
    reduce_scatter,
    sum_on,
)
from tapegrad.rules.registry import means


def added(name: str) -> None:
    """Register the functions of a module that has been imported."""
    {"torch.distributed._functional_collectives": _functional, "torch.distributed.nn.functional": _nn}[name]()


def _functional() -> None:
    fc = torch.distributed._functional_collectives

    def named(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        return means(*{getattr(fc, name) for name in names if hasattr(fc, name)})

    def of(group: Any, tag: str) -> Any:
        return torch.distributed.distributed_c10d._resolve_process_group(fc._resolve_group_name(group, tag))

    @named("wait_tensor")
    def wait_tensor(tensor: Any) -> Any:
        return tensor

    @named("all_reduce")
    def reduced(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
        return all_reduce(self, group=of(group, tag), mean=is_mean("all_reduce", reduceOp.lower()))

    @named("broadcast")
    def sent(self: Any, src: int, group: Any, tag: str = "") -> Any:
        return broadcast(self, group=of(group, tag), src=src)

    @named("all_gather_tensor", "all_gather_tensor_autograd", "all_gather_single", "all_gather_single_autograd")
    def gathered(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
        return all_gather(self.movedim(gather_dim, 0), group=of(group, tag)).movedim(0, gather_dim)

    @named("reduce_scatter_tensor", "reduce_scatter_tensor_autograd", "reduce_scatter_single",
           "reduce_scatter_single_autograd")
    def scattered(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
        own, x = of(group, tag), self.movedim(scatter_dim, 0)
        check_even("reduce_scatter_tensor", x, own)
        return reduce_scatter(x, group=own, mean=is_mean("reduce_scatter_tensor", reduceOp.lower())
                              ).movedim(0, scatter_dim)

    @named("all_to_all_single", "all_to_all_single_autograd")
    def exchanged(self: Any, output_split_sizes: Any, input_split_sizes: Any, group: Any, tag: str = "") -> Any:
        own = of(group, tag)
        check_even("all_to_all_single", self, own, output_split_sizes, input_split_sizes)
        return all_to_all(self, group=own)


def _nn() -> None:
    nn = torch.distributed.nn.functional

    @means(nn.all_reduce)
    def reduced(tensor: Any, op: Any = SUM, group: Any = None) -> Any:
        return all_reduce(tensor, group=group, mean=is_mean("all_reduce", op))

    @means(nn.broadcast)
    def sent(tensor: Any, src: int, group: Any = None) -> Any:
        return broadcast(tensor, group=group, src=src)

    @means(nn.reduce)
    def summed(tensor: Any, dst: int, op: Any = SUM, group: Any = None) -> Any:
        return over(sum_on(tensor, group=group, dst=dst), group, is_mean("reduce", op))

    @means(nn.all_gather)
    def gathered(tensor: Any, group: Any = None) -> Any:
        return tuple(all_gather(tensor[None], group=group))

    @means(nn.reduce_scatter)
    def scattered(output: Any, input_list: Sequence[Any], op: Any = SUM, group: Any = None) -> Any:
        y = reduce_scatter(torch.stack(list(input_list)), group=group, mean=is_mean("reduce_scatter", op))
        return y[0]

    @means(nn.all_to_all_single)
    def exchanged(output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None,
                  group: Any = None) -> Any:
        check_even("all_to_all_single", input, group, output_split_sizes, input_split_sizes)
        return all_to_all(input, group=group)
