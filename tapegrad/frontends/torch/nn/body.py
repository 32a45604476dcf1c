"""Functions of torch.nn.functional that are Python of torch's own, and compositions of others: they run on traced
values as they are written.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tapegrad.frontends.torch.nn.common import functional
from tapegrad.frontends.torch.registry import found
from tapegrad.trace.interposition import with_names


def _never(*args: Any) -> bool:
    return False


# such a function asks these first of all, and would hand itself over; what it calls does
_ASKED = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), _never)

for _name in ("multi_head_attention_forward", "gaussian_nll_loss", "normalize", "pairwise_distance", "batch_norm",
              "instance_norm"):
    for _fn in found(f"nn.functional.{_name}"):
        if isinstance(_fn, FunctionType):
            functional(f"nn.functional.{_name}")(with_names(_fn, _ASKED))
