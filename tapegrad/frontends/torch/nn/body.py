"""Functions of torch.nn.functional that torch writes in Python as compositions of others: their code runs on traced
values.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tapegrad.frontends.torch.nn.common import functional
from tapegrad.frontends.torch.registry import found
from tapegrad.trace.interposition import with_names


def _never(*args: Any) -> bool:
    return False


# these functions test first whether to dispatch themselves; the functions that they call dispatch instead
_ASKED = dict.fromkeys(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"), _never)

for _name in ("multi_head_attention_forward", "gaussian_nll_loss", "normalize", "pairwise_distance", "batch_norm",
              "instance_norm"):
    for _fn in found(f"nn.functional.{_name}"):
        if isinstance(_fn, FunctionType):
            functional(f"nn.functional.{_name}")(with_names(_fn, _ASKED))
