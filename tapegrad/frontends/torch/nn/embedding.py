"""Embedding: rows of a table, by their numbers; the cotangent of the table is added up row by row."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.torch.nn.common import functional, given, number, real
from tapegrad.frontends.torch.nn.saved import saved
from tapegrad.frontends.torch.shape import ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent


def _of(w: Any, at: Any, padding: int = -1, by_frequency: bool = False) -> Any:
    return F.embedding(at, w, padding if padding >= 0 else None, scale_grad_by_freq=by_frequency)


def _back(dy: Cotangent, w: Array, at: Any, padding: int = -1, by_frequency: bool = False) -> Any:
    return torch.ops.aten.embedding_dense_backward(dy, at, len(w), padding, by_frequency), None


embedding_op = saved("embedding", _of, lambda w, at, **how: (_of(w, at, **how),), _back)


@functional("nn.functional.embedding")
def embedding(input: Array, weight: Array, padding_idx: Any = None, max_norm: Any = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Any:
    if max_norm is not None:
        raise UnknownFunction("embedding with max_norm cannot be recorded: it writes the norm of its weights while it "
                              "reads them", user_location(),
                              "weight = weight * (max_norm / weight.norm(dim=1, keepdim=True)).clamp(max=1) before it, "
                              "and no max_norm")
    if not real(weight) or ndim(weight) != 2:
        return NotImplemented
    padding = -1 if padding_idx is None else number(padding_idx)
    rows = shape_of(weight)[0]
    if padding_idx is not None and not -rows <= padding < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    padding += rows if padding_idx is not None and padding < 0 else 0
    return embedding_op(weight, input, **given(padding=(padding, -1), by_frequency=(scale_grad_by_freq, False)))
