"""Attention: by torch's kernel that never holds the matrix of scores, where it has one for the CPU;
else it is recorded whole.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from tapegrad.frontends.torch.generic import recorded_whole
from tapegrad.frontends.torch.nn.common import functional, given, number, real
from tapegrad.frontends.torch.nn.saved import saved
from tapegrad.frontends.torch.shape import ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensors import is_tensor

aten = torch.ops.aten


def _whole(q: Array, k: Any, v: Array, *, causal: bool = False, scale: Any = None) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def _fore(q: Array, k: Any, v: Array, *, causal: bool = False, scale: Any = None) -> Any:
    y, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, scale=scale)
    return y, y, sums  # the gradient's kernel asks for the value too


def _back(dy: Cotangent, y: Array, sums: Any, q: Array, k: Any, v: Array, *, causal: bool = False,
          scale: Any = None) -> Any:
    return aten._scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, y, sums, 0.0, causal, scale=scale)


def _written_out(q: Array, k: Any, v: Array, **how: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        return _whole(q, k, v, **how)


def masked_attention(query: Array, key: Array, value: Array, attn_mask: Any = None, *, scale: Any = None,
                     is_causal: bool = False, enable_gqa: bool = False) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(query, key, value, attn_mask, is_causal=is_causal, scale=scale,
                                              enable_gqa=enable_gqa)


attention_op = saved("scaled_dot_product_attention", _whole, _fore, _back, smooth=_written_out)


@functional("nn.functional.scaled_dot_product_attention")
def scaled_dot_product_attention(query: Any, key: Any, value: Array, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: Any = None, enable_gqa: bool = False) -> Any:
    parts = (query, key, value)
    if (attn_mask is not None or enable_gqa) and not number(dropout_p):  # the kernels' gradients have none of their own
        more = {"scale": scale, "is_causal": is_causal, "enable_gqa": enable_gqa}
        return recorded_whole(masked_attention, (query, key, value, attn_mask), more)
    if attn_mask is not None or number(dropout_p) or enable_gqa or not real(*parts) \
            or any(ndim(x) != 4 or 0 in shape_of(x) for x in parts) \
            or len({shape_of(x)[-1] for x in parts}) > 1 or len({tuple(shape_of(x))[:2] for x in parts}) > 1 \
            or any(is_tensor(plain(x)) and plain(x).device.type != "cpu" for x in parts):
        return NotImplemented
    return attention_op(query, key, value, **given(causal=(bool(is_causal), False), scale=(scale, None)))
