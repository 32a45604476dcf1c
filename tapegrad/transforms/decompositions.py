"""decompositions: ops as programs in simpler ops, for power series, where the number of their nested tangents would
grow with every order.

Each takes the value and the arguments of its op, and returns what the op returns; NotImplemented where it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Axis
from tapegrad.ops.reduce import reduced
from tapegrad.rules.op import Op


def _prod(y: Any, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Multiply one half with the other until one factor is left."""
    shape, over = shape_of(x), sorted(reduced(x, axis))
    kept = [k for k in range(len(shape)) if k not in over]
    count = int(np.prod([shape[k] for k in over]))
    if not count or dtype is not None:
        return NotImplemented
    x = (
        ops.reshape(ops.permute_dims(x, axes=(*over, *kept)), (count, *[shape[k] for k in kept]))
        if shape
        else ops.reshape(x, (1,))
    )
    while count > 1:
        half = count // 2
        rest = x[2 * half :]
        x = x[:half] * x[half : 2 * half]
        x = ops.concat(x, rest, axis=0) if count % 2 else x
        count -= half
    return ops.reshape(x[0], shape_of(y)) if shape_of(y) else x[0]


def _cumulative_prod(y: Any, x: Any, axis: int = 0, dtype: Any = None, include_initial: bool = False) -> Any:
    if dtype is not None:
        return NotImplemented
    x = _first(x, axis)
    n, step = shape_of(x)[0], 1
    while step < n:
        x = ops.concat(x[:step], x[step:] * x[:-step], axis=0)
        step *= 2
    if include_initial:
        x = ops.concat(np.ones((1, *shape_of(x)[1:])), x, axis=0)
    return _back(x, axis)


def _recurrence(y: Any, a: Any, b: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Compose pairs of steps until one is left (recursive doubling)."""
    a, b = (_first(ops.broadcast_to(x, shape_of(y)), axis) for x in (a, b))
    n, step = shape_of(b)[0], 1
    if reverse:  # each number follows from the next, by the factor of the next
        a, b = ops.flip(a, axis=0), ops.flip(b, axis=0)
        a = ops.concat(a[:1], a[:-1], axis=0)
    while step < n:
        b = ops.concat(b[:step], b[step:] + a[step:] * b[:-step], axis=0)
        a = ops.concat(a[:step], a[step:] * a[:-step], axis=0)
        step *= 2
    return _back(ops.flip(b, axis=0) if reverse else b, axis)


def _first(x: Any, axis: int) -> Any:
    return ops.permute_dims(x, axes=_order(x, axis))


def _back(x: Any, axis: int) -> Any:
    return ops.permute_dims(x, axes=tuple(np.argsort(_order(x, axis)).tolist()))


def _order(x: Any, axis: int) -> tuple[int, ...]:
    ndim = len(shape_of(x))
    return (axis % ndim, *[k for k in range(ndim) if k != axis % ndim])


def _vector_norm(y: Any, x: Any, ord: Any = 2, axis: Axis = None, keepdims: bool = False) -> Any:
    if not np.isfinite(ord) or not ord or not np.all(plain(y)) or (ord != int(ord) and not np.all(plain(x))):
        return NotImplemented
    if ord == 2:
        return ops.sqrt(ops.sum(ops.real(x * ops.conj(x)), axis=axis, keepdims=keepdims))
    return ops.pow(ops.sum(ops.pow(ops.abs(x), ord), axis=axis, keepdims=keepdims), 1 / ord)


def _det(y: Any, x: Any) -> Any:
    n = shape_of(x)[-1]
    if 0 < n <= 8:  # by the characteristic polynomial (Faddeev and Le Verrier), which divides by no pivot
        unit, moved, c = np.eye(n), x, y
        for k in range(1, n + 1):
            moved = x if k == 1 else x @ (moved + c * unit)
            c = ops.sum(ops.diagonal(moved), axis=-1)[..., None, None] / -k
        return (-1) ** n * c[..., 0, 0]
    s = np.linalg.svdvals(plain(x))
    if not np.all(s[..., -1:] > 1e-4 * s[..., :1]):
        return NotImplemented
    sign, size = ops.slogdet(x)
    return sign * ops.exp(size)


WRITTEN: dict[Op, Callable[..., Any]] = {
    ops.prod: _prod,
    ops.cumulative_prod: _cumulative_prod,
    ops.recurrence: _recurrence,
    ops.vector_norm: _vector_norm,
    ops.det: _det,
}
