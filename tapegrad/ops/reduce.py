"""Reductions: sum, prod, mean, max, min, logsumexp, any, all, argmax, counts, and the cumulative ops.

The rule of a reduction is a formula of a cotangent that broadcasts against `x`. Conventions: max and min share equally
among ties; prod and cumulative_prod divide by nothing, so that zeros are no special case, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import update_wrapper
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.cotangents import ZERO, dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis, Cotangent, DType
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import holds_objects
from tapegrad.ops.elementwise import (
    astype,
    conj,
    constant,
    equal,
    exp,
    is_complex,
    is_inexact,
    isfinite,
    maximum,
    real,
    where,
)
from tapegrad.ops.promotion import exactly
from tapegrad.ops.shape import along, flip, pad, reshape, stretched
from tapegrad.rules import batching, types
from tapegrad.rules.facts import CONSTANT, FRESH, Tangent, linear_in
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define


def reduced(x: Array, axis: Axis = None) -> Iterable[int]:
    """Return the axes that `axis` denotes, counted from the front; a number has none, whatever `axis` is."""
    ndim = len(shape_of(x))
    return range(ndim) if axis is None or not ndim else {a % ndim
                                                         for a in (axis if isinstance(axis, tuple) else (axis,))}


def restore(y: Array, x: Array, axis: Axis = None) -> Any:
    """Restore the reduced axes of a reduction's output, or of its cotangent, to broadcast it against `x`."""
    if axis is None:
        return y
    axes = reduced(x, axis)
    shape = tuple(1 if i in axes else n for i, n in enumerate(shape_of(x)))
    return y if shape_of(y) == shape else reshape(y, shape)


def _to_integer(dtype: DType) -> bool:
    """True if `dtype=` rounds what is summed: nothing flows."""
    return dtype is not None and not is_inexact(dtype)


def _cast(x: Array, y: Array) -> Any:
    """Return `x` as `dtype=` leaves it: the real part of a complex one, where the output is real."""
    return real(x) if is_complex(x) and not is_complex(y) else x


def reduction(name: str, impl: Callable[..., Any], dtype: Callable[[Any], Any], rule: Callable[..., Any],
              on_torch: Callable[..., Any], **facts: Any) -> Op:
    """Define a reduction by `rule(dy, y, x, axis) -> dx`, where `dy` broadcasts against `x`; `dtype` gives the result's
    dtype from that of x, `on_torch` is its implementation for tensors.
    """
    def cotangent(dy: Any, y: Any, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        if axis is None and dtype is None:
            return rule(dy, y, x, None)
        return ZERO if _to_integer(dtype) else rule(restore(dy, x, axis), y, x, axis)
    def tangent(ts: Any, y: Any, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        # each number of the value depends on numbers of its own: pulling back ones gives their slopes
        shape, kind = shape_of(restore(y, x, axis)), object if holds_objects(plain(x)) else float
        slope = rule(np.full(shape, exactly(1.0, x), kind), y, x, axis)
        return sum(conj(slope) * ts[0], axis=axis, keepdims=keepdims)
    reading = update_wrapper(cotangent, rule, (), ())  # it reads what the rule reads: see residuals
    facts.setdefault("tangent", tangent)
    return define(name, impl, (reading,), torch=on_torch, spec=types.by_reduction(dtype),
                  batch=batching.along(None, "all"), **facts,
        memory=FRESH)


def over_axes(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """Make `reduce(x, axes, keepdim)` take NumPy's arguments; a number is reduced as an array of one element."""
    def impl(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        x = x if dtype is None else tensors.convert(x, dtype)
        if not x.ndim:
            return reduce(x.reshape(1), (0,), False)
        y = reduce(x, tensors.dims(x, axis), keepdims)
        return y if dtype is None else tensors.convert(y, dtype)
    return impl


def _total(x: Any) -> Any:
    """Return integers and bools in 64 bits, in which NumPy sums them."""
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.int64)


def _prod(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    x = _total(x)
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keepdim)
    return x


def _mean(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    x = x.to(tensor_dtypes.inexact_type(x))
    return x.mean(axes, keepdim)


def _extreme(name: str, impl: Callable[..., Any], neutral: float | None = None) -> Callable[..., Any]:
    """Return torch's largest or smallest; one that skips nan replaces it by `neutral`, unless all numbers are nan."""
    def reduce(x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
        if neutral is None or not x.is_floating_point():
            return getattr(torch, name)(x, axes, keepdim=keepdim)
        y = getattr(torch, name)(torch.where(torch.isnan(x), neutral, x), axes, keepdim=keepdim)
        return torch.where(torch.isnan(x).all(axes, keepdim=keepdim), math.nan, y)
    return tensors.of_reals(over_axes(reduce), impl)


def count(x: Any, axis: Any) -> int:
    """Return how many elements are reduced to each number of the output."""
    shape = shape_of(x)
    return math.prod(shape if axis is None else [shape[i] for i in reduced(x, axis)])


def _others(x: Array, axis: Axis) -> Any:
    """Return for each element the product of all others: along each axis, of those before it and those behind it."""
    total: Any = 1
    for a in reduced(x, axis):
        total = total * _before(x, a) * flip(_before(flip(x, axis=a), a), axis=a)
        x = prod(x, axis=a, keepdims=True)
    return total


def _share(dy: Cotangent, y: Array, x: Array, axis: Axis) -> Any:
    ties = equal(x, restore(y, x, axis))
    n = sum(ties, axis=axis, keepdims=True)
    # nan, not 0, where y is; an integer would make single precision double
    n = astype(n, dtype=np.dtype(np.float32)) if dtype_of(x) == np.float32 else n
    return where(ties, dy, exactly(0.0, dy)) / n


sum = reduction("sum", np.sum, types.total, lambda dy, _y, _x, _axis: stretched(dy, shape_of(_x)),
                # torch sums integers and bools in int64, too
                over_axes(lambda x, axes, keepdim: x.sum(axes, keepdim)), tangent=linear_in(0))
prod = reduction("prod", np.prod, types.total, lambda dy, _y, x, axis: dy * conj(_others(_cast(x, _y), axis)),
                 over_axes(_prod))
mean = reduction("mean", np.mean, types.inexact,
                 lambda dy, _y, _x, axis: stretched(dy / (count(_x, axis) or 1), shape_of(_x)),
                 over_axes(_mean), tangent=linear_in(0))
max = reduction("max", np.max, types.same, _share, _extreme("amax", np.max))
min = reduction("min", np.min, types.same, _share, _extreme("amin", np.min))
nanmax = reduction("nanmax", np.nanmax, types.same, _share, _extreme("amax", np.nanmax, -math.inf))
nanmin = reduction("nanmin", np.nanmin, types.same, _share, _extreme("amin", np.nanmin, math.inf))
logsumexp = reduction("logsumexp",
                      lambda x, axis=None, keepdims=False: np.logaddexp.reduce(x, axis=axis, keepdims=keepdims),
                      types.logarithmic,
                      lambda dy, y, x, axis: dy * exp(x - restore(y, x, axis)),
                      over_axes(lambda x, axes, keepdim: torch.logsumexp(x.to(tensor_dtypes.inexact_type(x)), axes,
                                                                         keepdim=keepdim)))


def _place(name: str) -> Callable[..., Any]:
    def place(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if x.is_complex():
            return tensors.on_host(getattr(np, name))(x, axis, keepdims=keepdims)
        x = x.to(torch.uint8) if x.dtype is torch.bool else x
        y = getattr(torch, name)(x, None if axis is None else int(axis), keepdim=keepdims and axis is not None)
        return y.reshape((1,) * x.ndim) if keepdims and axis is None else y
    return place


any = constant("any", np.any, on_torch=over_axes(lambda x, axes, keepdim: torch.any(x != 0, axes, keepdim=keepdim)),
               batch=batching.along(None, "all"), spec=types.by_reduction(lambda _: np.dtype(bool)))
all = constant("all", np.all, on_torch=over_axes(lambda x, axes, keepdim: torch.all(x != 0, axes, keepdim=keepdim)),
               batch=batching.along(None, "all"), spec=types.by_reduction(lambda _: np.dtype(bool)))
argmax = constant("argmax", np.argmax, on_torch=_place("argmax"), batch=batching.along(None), spec=types.by_place)
argmin = constant("argmin", np.argmin, on_torch=_place("argmin"), batch=batching.along(None), spec=types.by_place)
count_nonzero = constant("count_nonzero", np.count_nonzero,
                         on_torch=over_axes(lambda x, axes, keepdim: (x != 0).sum(axes, keepdim=keepdim)),
               batch=batching.along(None, "all"), spec=types.by_count)
nonzero = define("nonzero", np.nonzero, rule=CONSTANT, batch=False,
                 torch=lambda x: torch.nonzero(x, as_tuple=True), memory=FRESH,
                 spec=types.opaque("values decide how many there are", dynamic=True))


# -- cumulative ops


def running(name: str, ufunc: np.ufunc, rule: Callable[..., Any], tangent: Tangent) -> Op:
    """Define a cumulative op along an axis by `rule(dy, y, x, axis) -> dx`."""
    def impl(x: Any, axis: int = 0, dtype: Any = None, include_initial: bool = False) -> Any:
        y = ufunc.accumulate(x, axis=axis, dtype=dtype)
        if not include_initial:
            return y
        shape = tuple(1 if i == axis % y.ndim else n for i, n in enumerate(y.shape))
        return np.concatenate([np.full(shape, ufunc.identity, y.dtype), y], axis=axis)

    def cotangent(dy: Any, y: Any, x: Any, axis: int = 0, dtype: Any = None, include_initial: bool = False) -> Any:
        if _to_integer(dtype):
            return ZERO
        return rule(dy[along(axis, slice(1, None))] if include_initial else dy, y, x, axis)

    def on_torch(x: Any, axis: int = 0, dtype: Any = None, include_initial: bool = False) -> Any:
        x = _total(x) if dtype is None else tensors.convert(x, dtype)
        y = (torch.cumsum if ufunc is np.add else torch.cumprod)(x, axis)
        if not include_initial:
            return y
        shape = tuple(1 if i == axis % y.ndim else n for i, n in enumerate(y.shape))
        return torch.cat([torch.full(shape, ufunc.identity, dtype=y.dtype, device=y.device), y], axis)
    return define(name, impl, (update_wrapper(cotangent, rule, (), ()),), torch=on_torch, tangent=tangent,
                  batch=batching.along(0), memory=FRESH,
                  spec=types.running(types.total))


def _before(x: Array, axis: int) -> Any:
    """Return for each element the product of those before it."""
    return cumulative_prod(x, axis=axis, include_initial=True)[along(axis, slice(None, -1))]


def _back_prod(dy: Cotangent, _y: Array, x: Array, axis: int) -> Any:
    # d y[k] / d x[i] = before[i] x[i+1] ⋯ x[k] for k >= i, and the sum over k of dy[k] x[i+1] ⋯ x[k] is a recurrence
    x = _cast(x, _y)
    return conj(_before(x, axis)) * recurrence(conj(x), dy, axis=axis, reverse=True)


def _prod_tangent(ts: Any, y: Any, x: Any, axis: int = 0, dtype: Any = None, include_initial: bool = False) -> Any:
    # y[i] = x[i] y[i-1]
    x, t = _cast(x, y), _cast(ts[0], y)
    found = recurrence(x, _before(x, axis) * t, axis=axis)
    ndim = len(shape_of(y))
    return pad(found, tuple((int(i == axis % ndim), 0) for i in range(ndim))) if include_initial else found


cumulative_sum = running("cumulative_sum", np.add,
                         lambda dy, _y, _x, axis: flip(cumulative_sum(flip(dy, axis=axis), axis=axis), axis=axis),
                         linear_in(0))
cumulative_prod = running("cumulative_prod", np.multiply, _back_prod, _prod_tangent)


def _ties(y: Array, x: Array, axis: int) -> tuple[Any, Any, Any]:
    """Return where a number is the largest so far, where y equals its predecessor, and how many tie for it so far."""
    holds, ndim = equal(x, y), len(shape_of(y))
    behind = pad(equal(y[along(axis, slice(1, None))], y[along(axis, slice(None, -1))]),
                 tuple((int(i == axis % ndim), 0) for i in range(ndim)))
    same = astype(behind, dtype=dtype_of(y))
    ties = maximum(recurrence(same, astype(holds, dtype=dtype_of(y)), axis=axis), 1)  # none where y is nan
    return holds, same, ties


def _back_extreme(dy: Cotangent, y: Array, x: Array, axis: int = 0) -> Any:
    # as in max, numbers that tie for the largest so far share equally
    holds, same, ties = _ties(y, x, axis)
    return where(holds, recurrence(same, dy / ties, axis=axis, reverse=True), 0.0)


def _extreme_tangent(ts: Any, y: Array, x: Array, axis: int = 0) -> Any:
    holds, same, ties = _ties(y, x, axis)
    return recurrence(same, where(holds, ts[0], 0.0), axis=axis) / ties


def _running_extreme(name: str, ufunc: np.ufunc, on_torch: str) -> Op:
    def impl(x: Array, axis: int = 0) -> Any:
        return ufunc.accumulate(x, axis=axis)
    return define(name, impl, (_back_extreme,), tangent=_extreme_tangent,
    batch=batching.along(0), torch=tensors.of_reals(lambda x, axis=0: getattr(torch, on_torch)(x, axis).values, impl),
    memory=FRESH, spec=types.running(types.same))


cumulative_max = _running_extreme("cumulative_max", np.maximum, "cummax")
cumulative_min = _running_extreme("cumulative_min", np.minimum, "cummin")


def _shares(y: Array, x: Array, axis: int) -> tuple[Any, Any]:
    """Return the shares of this term, and of the terms before, in exp(y)."""
    shift, ndim = where(isfinite(y), y, 0.0), len(shape_of(y))
    before = exp(y[along(axis, slice(None, -1))] - shift[along(axis, slice(1, None))])
    return exp(x - shift), pad(before, tuple((int(i == axis % ndim), 0) for i in range(ndim)))


def _back_logsumexp(dy: Cotangent, y: Array, x: Array, axis: int = 0) -> Any:
    mine, before = _shares(y, x, axis)
    return mine * recurrence(before, dy, axis=axis, reverse=True)


def _logsumexp_tangent(ts: Any, y: Array, x: Array, axis: int = 0) -> Any:
    mine, before = _shares(y, x, axis)
    return recurrence(before, mine * ts[0], axis=axis)


cumulative_logsumexp = define("cumulative_logsumexp", lambda x, axis=0: np.logaddexp.accumulate(x, axis=axis),
                              (_back_logsumexp,), tangent=_logsumexp_tangent, batch=batching.along(0), memory=FRESH,
                              torch=lambda x, axis=0: torch.logcumsumexp(x, axis),
                              spec=types.running(types.logarithmic))


def _recurrence(a: Array, b: Array, axis: int = 0, reverse: bool = False) -> Any:
    dtype = np.result_type(a, b)
    a, y = (np.moveaxis(np.array(x, dtype), axis, 0) for x in np.broadcast_arrays(a, b))
    if reverse:
        a, y = np.roll(a[::-1], 1, 0), y[::-1]
    step = 1
    while step < len(y):  # doubling: y[i] includes b[i - step + 1 : i + 1], and a[i] is the product of as many
        y[step:] += a[step:] * y[:-step]
        a[step:] *= a[:-step].copy()
        step *= 2
    return np.moveaxis(y[::-1] if reverse else y, 0, axis)


def _recurrence_tensor(a: Any, b: Any, axis: int = 0, reverse: bool = False) -> Any:
    a, y = (x.movedim(axis, 0).clone() for x in torch.broadcast_tensors(*tensors.together((a, b))))
    if reverse:
        a, y = a.flip(0).roll(1, 0), y.flip(0)
    step = 1
    while step < len(y):
        y[step:] += a[step:] * y[:-step].clone()
        a[step:] *= a[:-step].clone()
        step *= 2
    return (y.flip(0) if reverse else y).movedim(0, axis)


def _by_factor(dy: Cotangent, y: Array, a: Array, _b: Array, axis: int = 0, reverse: bool = False) -> Any:
    db = recurrence(conj(a), dy, axis=axis, reverse=not reverse)
    ahead, behind = (conj(y), db) if reverse else (db, conj(y))
    ndim = len(shape_of(y))
    return ahead * pad(behind[along(axis, slice(None, -1))], tuple((int(i == axis % ndim), 0) for i in range(ndim)))


def _recurrence_tangent(ts: Any, _y: Array, a: Array, b: Array, axis: int = 0, reverse: bool = False) -> Any:
    da, db = ts
    return NotImplemented if da is not None else recurrence(a, db, axis=axis, reverse=reverse)


# y[i] = b[i] + a[i] y[i-1]; in reverse, the transposed system y[i] = b[i] + a[i+1] y[i+1]: each is the other's rule
recurrence = define("recurrence", _recurrence, (
    _by_factor, lambda dy, _y, a, _b, axis=0, reverse=False: recurrence(conj(a), dy, axis=axis, reverse=not reverse)),
    torch=_recurrence_tensor, tangent=_recurrence_tangent, batch=batching.along(0, arrays=2), memory=FRESH,
    spec=types.recurrent)
