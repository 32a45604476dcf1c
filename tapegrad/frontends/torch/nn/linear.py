"""Linear and bilinear layers."""

from __future__ import annotations

from typing import Any

from tapegrad import ops
from tapegrad.frontends.torch.nn.common import functional, real
from tapegrad.frontends.torch.shape import ndim


@functional("nn.functional.linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if not real(input, weight, bias) or ndim(weight) != 2 or not ndim(input) or (bias is not None and ndim(bias) != 1):
        return NotImplemented
    return ops.linear(input, weight) if bias is None else ops.linear(input, weight, bias)


@functional("nn.functional.bilinear", "bilinear")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    if not real(input1, input2, weight, bias) or ndim(weight) != 3:
        return NotImplemented
    y = ops.einsum("...i,oij,...j->...o", input1, weight, input2)
    return y if bias is None else ops.add(y, bias)
