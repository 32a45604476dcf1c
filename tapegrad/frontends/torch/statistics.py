"""Functions of torch that update running statistics among their arguments: on a tape they return the updated ones,
which are then written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tapegrad import ops
from tapegrad.frontends.torch.generic import generic, torch_op
from tapegrad.frontends.torch.registry import found
from tapegrad.frontends.torch.torchop import MADE
from tapegrad.frontends.torch.write import put
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import tracer_of
from tapegrad.rules.registry import DISPATCH
from tapegrad.tree.flatten import leaves_of

_STATISTICS = ("running_mean", "running_var")


@functools.cache
def _with_statistics(func: Callable[..., Any]) -> Any:
    """Return a function that leaves its statistics unchanged and also returns the updated ones."""
    def run(input: Array, weight: Array, bias: Array, mean: Any, var: Any, *args: Any, **kwargs: Any) -> Any:
        # torch has no gradient by the statistics, and some of its writes do not increment their version counters
        copies = [None if x is None else x.detach().clone() for x in (mean, var)]
        return func(input, weight, bias, *copies, *args, **kwargs), *copies
    run.__name__, run.made = func.__name__, ("statistics", func)  # type: ignore[attr-defined]
    return run


def _updates(func: Any, flag: str = "training") -> None:
    whole = _with_statistics(func)

    def call(*args: Any, **kwargs: Any) -> Any:
        tracer = tracer_of(leaves_of((args, kwargs)))
        names = ("input", "weight", "bias", *_STATISTICS, flag)
        known = dict(zip(names, args)) | kwargs
        # the overload without statistics
        if known.get(flag) is False or (len(args) > 3 and isinstance(args[3], bool)):
            return generic(tracer, func, args, kwargs)
        first = [known.pop(name, None) for name in names[:5]]
        rest, others = (args[5:], kwargs) if len(args) >= 5 else ((), known)
        y, *found = generic(tracer, whole, (*first, *rest), others)
        for x, new in zip(first[3:], found):
            if new is not None:
                put(x, ops.stop_gradient(new))
        return y
    DISPATCH[func] = call


MADE["statistics"] = lambda func: torch_op(_with_statistics(func))

for _name, _flag in (("batch_norm", "training"), ("native_batch_norm", "training"),
                     ("_native_batch_norm_legit", "training"),
                     ("ops.aten._batch_norm_with_update", ""), ("instance_norm", "use_input_stats")):
    for _fn in found(_name):
        _updates(_fn, _flag)
