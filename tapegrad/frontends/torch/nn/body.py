"""Functions of torch.nn.functional that are Python of torch's own, and compositions of others: they run on traced
values as they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from tapegrad.frontends.torch.nn.common import functional
from tapegrad.frontends.torch.registry import found


def _never(*args: Any) -> bool:
    return False


_ASKED = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), _never)


def body(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Python function of torch's that does not hand itself over to others, as it does first of
    all; what it calls does.
    """
    made = FunctionType(fn.__code__, {**fn.__globals__, **_ASKED}, fn.__name__, fn.__defaults__, fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


for _name in ("multi_head_attention_forward", "gaussian_nll_loss", "normalize", "pairwise_distance", "batch_norm",
              "instance_norm"):
    for _fn in found(f"nn.functional.{_name}"):
        if isinstance(_fn, FunctionType):
            functional(f"nn.functional.{_name}")(body(_fn))
