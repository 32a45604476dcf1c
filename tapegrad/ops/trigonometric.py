"""Cosine and sine transforms along one axis, by SciPy, imported at the first call.

Each is a real matrix. Type 3 is the transpose of type 2, and types 1 and 4 are their own transposes, except for weights
at the ends, which `norm="ortho"` lacks (Makhoul, IEEE Transactions on Acoustics, Speech and Signal Processing 28,
1980).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import needed
from tapegrad.numbers.tensors import on_host
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, linear_in
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define

TRANSPOSED = {1: 1, 2: 3, 3: 2, 4: 4}


def _transform(name: str) -> Callable[..., Any]:
    def run(x: Array, type: int = 2, axis: int = -1, norm: str | None = None) -> Any:
        return getattr(needed("scipy.fft"), name)(x, type, None, axis, norm)
    return run


def _ends(x: Array, axis: int, first: float, last: float) -> Any:
    """Return the weights of a transform's elements: 1 except at its ends."""
    shape = shape_of(x)
    weights = np.ones(shape[axis])
    weights[-1] *= last
    weights[0] *= first
    return weights.reshape(tuple(-1 if i == axis % len(shape) else 1 for i in range(len(shape))))


def _cotangent(op: Callable[[], Op], cosine: bool) -> Callable[..., Any]:
    def cotangent(dy: Any, _y: Any, _x: Any, type: int = 2, axis: int = -1, norm: str | None = None) -> Any:
        def transpose(dy: Cotangent) -> Any:
            return op()(dy, type=TRANSPOSED[type], axis=axis, norm=norm)

        def ends(weight: float) -> Any:
            return _ends(_x, axis, weight, 1.0) if cosine else _ends(_x, axis, 1.0, weight)
        if norm == "ortho" or type == 4 or (type == 1 and not cosine):
            return transpose(dy)
        if type == 1:
            inner = _ends(_x, axis, 0.5, 0.5)
            return transpose(dy / inner) * inner
        return transpose(dy * ends(2.0)) if type == 2 else transpose(dy) * ends(0.5)
    return cotangent


dct = define("dct", _transform("dct"), (_cotangent(lambda: dct, True),), tangent=linear_in(0), batch=batching.along(),
             torch=on_host(_transform("dct")), memory=FRESH, spec=types.waves)
dst = define("dst", _transform("dst"), (_cotangent(lambda: dst, False),), tangent=linear_in(0), batch=batching.along(),
             torch=on_host(_transform("dst")), memory=FRESH, spec=types.waves)
