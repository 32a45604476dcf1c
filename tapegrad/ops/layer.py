"""Layers of neural networks: products with weights.

`linear(x, w, b)` is x wᵀ + b for a stack of rows. `linear`, `matmul(dy, w)` and `linear_weight(dy, x)` are the three
derivatives of one trilinear form, so that the rule of each consists of the other two.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.elementwise import conj
from tapegrad.ops.linalg import matmul
from tapegrad.ops.reduce import sum
from tapegrad.rules import types
from tapegrad.rules.batching import Members
from tapegrad.rules.facts import EACH, FRESH, direct
from tapegrad.rules.op import OPS
from tapegrad.rules.registry import define


def _linear(x: Any, w: Any, b: Any = None) -> Any:
    y = np.matmul(x, np.swapaxes(w, -1, -2))
    return y if b is None else y + b


def _linear_tensor(x: Any, w: Any, b: Any = None) -> Any:
    if not (x.dtype is w.dtype and (b is None or b.dtype is x.dtype)):
        x, w, *bias = tensors.together((x, w) if b is None else (x, w, b))
        b = bias[0] if bias else None
    return torch.nn.functional.linear(x, w, b)


def _rows(x: Any) -> Any:
    return x.reshape(-1 if x.size else math.prod(x.shape[:-1]), x.shape[-1])


def _linear_weight(dy: Cotangent, x: Array) -> Any:
    return np.matmul(_rows(dy).T, _rows(x))


def _linear_weight_tensor(dy: Any, x: Any) -> Any:
    dy, x = (dy, x) if dy.dtype is x.dtype else tensors.together((dy, x))
    n = math.prod(x.shape[:-1])
    return torch.mm(dy.reshape(n, dy.shape[-1]).t(), x.reshape(n, x.shape[-1]))


def _by_bias(dy: Cotangent, _y: Array, _x: Array, _w: Any, _b: Array) -> Any:
    axes = tuple(range(len(shape_of(dy)) - 1))
    return sum(dy, axis=axes) if axes else dy


def _linear_tangent(ts: Any, _y: Array, x: Any, w: Any, b: Any = None) -> Any:
    dx, dw, db = (*ts, None)[:3]
    parts = [linear(dx, w)] if dx is not None else []
    parts += [linear(x, dw)] if dw is not None else []
    return functools.reduce(operator.add, parts if db is None else [*parts, db])


# -- batching: for shared weights the members are more rows


def _linear_members(members: Members, x: Any, w: Any, b: Any = None) -> Any:
    """Batch `linear`."""
    if members.only(0):
        return members.op.run(x, w) if b is None else members.op.run(x, w, b)
    if members.ndim(1) != 2:
        return NotImplemented
    last = OPS["permute_dims"](w, axes=(0, 2, 1) if members.batched[1] else (1, 0))
    call = Members(matmul, members.size, (members.args[0], members.args[1].T), members.batched[:2], members.y)
    y = matmul.batch(call, x, last) if any(members.batched[:2]) else matmul.run(x, last)
    return y if b is None else OPS["add"].run(y, members.aligned(2, b, len(members.result) - 1))


def _linear_weight_members(members: Members, dy: Cotangent, x: Array) -> Any:
    """Batch `linear_weight`: a product for each member."""
    rows = [
        OPS["reshape"](members.full(i, part), (members.size, math.prod(members.shape(i)[:-1]), members.shape(i)[-1]))
        for i, part in enumerate((dy, x))
    ]
    return matmul.run(OPS["permute_dims"](rows[0], axes=(0, 2, 1)), rows[1])


linear = define("linear", _linear, direct(lambda dy, _y, _x, w, _b=None: matmul(dy, conj(w)),
                                    lambda dy, _y, x, _w, _b=None: linear_weight(dy, conj(x)), _by_bias),
                torch=_linear_tensor, tangent=_linear_tangent, batch=_linear_members, memory=FRESH,
                spec=types.linear)
linear_weight = define("linear_weight", _linear_weight,
                       direct(lambda dw, _y, _dy, x: linear(conj(x), dw),
                       lambda dw, _y, dy, _x: matmul(conj(dy), dw)), torch=_linear_weight_tensor, tangent=EACH,
                       batch=_linear_weight_members, memory=FRESH,
                       spec=types.linear_weight)
