"""Norms of vectors; those of matrices are computed from singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.decompose import ratio
from tapegrad.ops.elementwise import abs, conj, equal, is_complex, real, sign, where
from tapegrad.ops.reduce import restore, sum
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH
from tapegrad.rules.registry import define


def _vector_norm_cotangent(dy: Cotangent, y: Array, x: Array, ord: Any = 2, axis: Axis = None,
                           keepdims: bool = False) -> Any:
    y, dy = restore(y, x, axis), restore(dy, x, axis)
    if ord == 2:
        return dy * ratio(x, y)  # 0 at 0, like abs
    if ord > 2 and ord % 2 == 0 and not is_complex(x):
        return dy * ratio(x, y) ** (ord - 1)  # smooth at 0, to any order
    return where(equal(x, 0), 0.0, dy * sign(x) * ratio(abs(x), y) ** (ord - 1))


def _vector_norm_tangent(ts: Any, y: Array, x: Array, ord: Any = 2, axis: Axis = None, keepdims: bool = False) -> Any:
    slope = _vector_norm_cotangent(np.ones(shape_of(y)), y, x, ord, axis, keepdims)
    return sum(real(conj(slope) * ts[0]), axis=axis, keepdims=keepdims)


def _vector_norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False) -> Any:
    # NumPy takes all elements, or those of a matrix, only without an order
    return np.linalg.norm(x, None if ord == 2 else ord, axis, keepdims)


def _vector_norm_tensor(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False) -> Any:
    return torch.linalg.vector_norm(x.to(tensor_dtypes.inexact_type(x)), ord, tensors.dims(x, axis) if x.ndim else None,
                                    keepdims)


vector_norm = define("vector_norm", _vector_norm, (_vector_norm_cotangent,), tangent=_vector_norm_tangent,
                     batch=batching.along(None), torch=_vector_norm_tensor, memory=FRESH, spec=types.by_norm)
