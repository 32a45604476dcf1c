"""Collectives of torch.distributed: each is an operation of the tape, whose gradient is its transpose.

Each rank differentiates its own result; the gradient is that of the sum over all ranks, as in torch.distributed.nn. The
ops are treated like the user's functions: no pass drops, merges or moves a call, because the other ranks wait for it.
They work on whole tensors along the first axis; torch's functions that write to a tensor write the op's result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import torch

from tapegrad.frontends.torch.write import copy_
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.facts import FRESH, LINEAR, direct
from tapegrad.rules.op import Op
from tapegrad.rules.registry import CONSTRUCTORS, DISPATCH, means, of_frontend, refuse, refused
from tapegrad.rules.types.family import opaque
from tapegrad.trace.observers import unrepeatable
from tapegrad.tree.copies import running

dist = torch.distributed
SUM, AVG = dist.ReduceOp.SUM, dist.ReduceOp.AVG


class Collective(Op):
    """An op that is linear in its tensor, with its transpose. Other ranks wait for each call, so a rank that does not
    use the result calls the transpose too, on the zeros of `absent`.
    """

    exchanges = True

    @staticmethod
    def absent(y: Any) -> Any:
        """Return zeros as the cotangent of an unused value."""
        return nothing(y)

    def __init__(self, fn: Callable[..., Any], transpose: Callable[..., Any]) -> None:
        def run(x: Any, **options: Any) -> Any:
            if not is_tensor(x):
                raise refused(f"torch.distributed.{fn.__name__} of a {type(x).__name__}", "it needs a tensor",
                              "pass torch.from_numpy(x); or use tg.distributed.value_and_grad for NumPy programs")
            running.exchanged += 1
            tracers, running.tracers = running.tracers, []  # calls inside torch are not the program's
            try:
                with torch.no_grad():
                    return fn(x.detach(), **options)
            finally:
                running.tracers = tracers
        run.__name__ = fn.__name__
        super().__init__(fn.__name__, run, direct(lambda dy, _y, _x, **options: transpose(dy, **options)),
                         spec=opaque("it depends on the number of ranks"), memory=FRESH, tangent=LINEAR,
                         batch=False, torch=run)
        self.__doc__, self.__wrapped__ = fn.__doc__, fn  # passes treat it like a foreign function


def _zeros(y: Any) -> Any:
    return torch.zeros_like(y, dtype=y.dtype if y.is_floating_point() or y.is_complex() else torch.get_default_dtype())


# linear, not constant: gradients of gradients call the transposes of collectives that use these zeros
nothing = of_frontend(Op("nothing", _zeros, direct(lambda dy, _y, _x: nothing(dy)), spec=opaque("it needs a tensor"),
                         memory=FRESH, tangent=LINEAR, batch=False, torch=_zeros))


def _linear(transpose: Callable[..., Any]) -> Callable[[Callable[..., Any]], Op]:
    """Return a decorator that makes an op of a function that is linear in its tensor."""
    return lambda fn: of_frontend(Collective(fn, transpose))


@_linear(lambda dy, **options: all_reduce(dy, **options))
def all_reduce(x: Any, *, group: Any, mean: bool) -> Any:
    y = x.contiguous().clone()
    dist.all_reduce(y, AVG if mean else SUM, group)
    return y


@_linear(lambda dy, group: reduce_scatter(dy, group=group, mean=False))
def all_gather(x: Any, *, group: Any) -> Any:
    """Return the tensors of all ranks, concatenated along the first axis."""
    count = dist.get_world_size(group)
    y = x.new_empty((count * x.shape[0], *x.shape[1:]))
    dist.all_gather(list(y.chunk(count)), x.contiguous(), group)
    return y


@_linear(lambda dy, group, mean: over(all_gather(dy, group=group), group, mean))
def reduce_scatter(x: Any, *, group: Any, mean: bool) -> Any:
    """Return this rank's part, along the first axis, of the sum of all ranks' tensors."""
    count = dist.get_world_size(group)
    y = x.new_empty((x.shape[0] // count, *x.shape[1:]))
    dist.reduce_scatter(y, [part.contiguous() for part in x.chunk(count)], SUM, group)
    return over(y, group, mean)


def over(x: Any, group: Any, mean: bool) -> Any:
    """Return a sum over ranks, divided by their number if `mean`."""
    return x / dist.get_world_size(group) if mean else x


@_linear(lambda dy, group, src: sum_on(dy, group=group, dst=src))
def broadcast(x: Any, *, group: Any, src: int) -> Any:
    y = x.contiguous().clone()
    dist.broadcast(y, src, group)
    return y


@_linear(lambda dy, group, dst: broadcast(dy, group=group, src=dst))
def sum_on(x: Any, *, group: Any, dst: int) -> Any:
    """Return the sum of all ranks' tensors on rank `dst`, zeros on the others."""
    y = x.contiguous().clone()
    dist.reduce(y, dst, SUM, group)
    return y if dist.get_rank() == dst else torch.zeros_like(y)


@_linear(lambda dy, group: all_to_all(dy, group=group))
def all_to_all(x: Any, *, group: Any) -> Any:
    """Return this rank's parts, along the first axis, of all ranks' tensors, in the order of ranks."""
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x.contiguous(), group=group)
    return y


# -- torch.distributed's functions, which write results into tensors


class Done:
    """The handle of an asynchronous call that has completed."""

    def wait(self, timeout: Any = None) -> bool:
        """Return True: the call has completed."""
        return True

    def is_completed(self) -> bool:
        """Return True: the call has completed."""
        return True


def is_mean(name: str, op: Any) -> bool:
    """Return whether a reduction is the mean; raise UnknownFunction unless it is a mean or a sum."""
    if op in (SUM, AVG, "sum", "avg"):
        return op in (AVG, "avg")
    raise refused(f"torch.distributed.{name} with op={op}", "it is not linear, and torch has no gradient for it either",
                  "op=ReduceOp.SUM; or x.detach() if no gradient is needed")


def check_even(name: str, x: Any, group: Any, *splits: Any) -> None:
    """Raise UnknownFunction for parts of unequal length."""
    if any(split is not None and len({*split}) > 1 for split in splits) or x.shape[0] % dist.get_world_size(group):
        raise refused(f"torch.distributed.{name} with parts of unequal length",
                      "only parts of equal length can be recorded",
                      "pad the tensors to one length")


def _written(out: Any, y: Any, async_op: bool) -> Done | None:
    copy_(out, y.reshape(out.shape))
    return Done() if async_op else None


@means(dist.all_reduce)
def _all_reduce(tensor: Array, op: Any = SUM, group: Any = None, async_op: bool = False) -> Any:
    return _written(tensor, all_reduce(tensor, group=group, mean=is_mean("all_reduce", op)), async_op)


@means(dist.broadcast)
def _broadcast(tensor: Array, src: int | None = None, group: Any = None, async_op: bool = False,
               group_src: int | None = None) -> Any:
    return _written(tensor, broadcast(tensor, group=group, src=_global(src, group, group_src)), async_op)


@means(dist.reduce)
def _reduce(tensor: Array, dst: int | None = None, op: Any = SUM, group: Any = None, async_op: bool = False,
            group_dst: int | None = None) -> Any:
    """Reduce to rank `dst`. Other ranks' tensors stay as they are; torch leaves their content undefined."""
    at = _global(dst, group, group_dst)
    y = over(sum_on(tensor, group=group, dst=at), group, is_mean("reduce", op))
    return _written(tensor, y if dist.get_rank() == at else tensor, async_op)


def _global(rank: int | None, group: Any, in_group: int | None) -> int:
    return rank if rank is not None else dist.get_global_rank(group or dist.group.WORLD, in_group or 0)


@means(dist.all_gather)
def _all_gather(tensor_list: Sequence[Array], tensor: Array, group: Any = None, async_op: bool = False) -> Any:
    for out, y in zip(tensor_list, all_gather(tensor[None], group=group)):
        copy_(out, y)
    return Done() if async_op else None


@means(*{dist.all_gather_into_tensor, getattr(dist, "all_gather_single", dist.all_gather_into_tensor)})
def _all_gather_into_tensor(output_tensor: Array, input_tensor: Array, group: Any = None,
                            async_op: bool = False) -> Any:
    return _written(output_tensor, all_gather(input_tensor, group=group), async_op)


@means(dist.reduce_scatter)
def _reduce_scatter(output: Array, input_list: Sequence[Array], op: Any = SUM, group: Any = None,
                    async_op: bool = False) -> Any:
    y = reduce_scatter(torch.stack(list(input_list)), group=group, mean=is_mean("reduce_scatter", op))
    return _written(output, y, async_op)


@means(*{dist.reduce_scatter_tensor, getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)})
def _reduce_scatter_tensor(output: Array, input: Array, op: Any = SUM, group: Any = None,
                           async_op: bool = False) -> Any:
    check_even("reduce_scatter_tensor", input, group)
    return _written(output, reduce_scatter(input, group=group, mean=is_mean("reduce_scatter_tensor", op)), async_op)


@means(dist.all_to_all_single)
def _all_to_all_single(output: Array, input: Array, output_split_sizes: Any = None, input_split_sizes: Any = None,
                       group: Any = None, async_op: bool = False) -> Any:
    check_even("all_to_all_single", input, group, output_split_sizes, input_split_sizes)
    return _written(output, all_to_all(input, group=group), async_op)


_OTHERS = (dist.scatter, dist.gather, dist.all_to_all, dist.send, dist.recv, dist.isend, dist.irecv, dist.barrier,
           dist.batch_isend_irecv, dist.all_reduce_coalesced, dist.all_gather_coalesced, dist.all_gather_object,
           dist.broadcast_object_list, dist.gather_object, dist.scatter_object_list, dist.monitored_barrier)
refuse(*_OTHERS, why="a tape holds the operations of its own rank only",
       try_="all_reduce, all_gather, reduce_scatter, broadcast, all_to_all_single; or x.detach() if no gradient is "
            "needed")


def untraced(_tracer: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a collective of plain tensors and note that no replay repeats it: such a path is traced in each call."""
    unrepeatable(f"it calls torch.distributed.{fn.__name__} with a value that does not depend on its arguments, while "
                 "other processes wait for it", "make the tensor inside the function, or pass it as an argument")
    return fn(*args, **kwargs)


CONSTRUCTORS.update(dict.fromkeys([*_OTHERS, *(fn for fn in DISPATCH if isinstance(fn, FunctionType) and fn.__module__
                                               == dist.all_reduce.__module__)], untraced))
