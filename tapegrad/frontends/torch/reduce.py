"""torch's reductions: sums, products, moments, extrema, counts, running totals."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import torch

from tapegrad import ops
from tapegrad.frontends.common import keywords, static
from tapegrad.frontends.torch.common import brought, kind_of, one_dtype_of, tensors_only
from tapegrad.frontends.torch.elementwise import maximum, minimum
from tapegrad.frontends.torch.generic import whole
from tapegrad.frontends.torch.registry import torch_means
from tapegrad.frontends.torch.shape import axis_of, getitem, ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis, DType
from tapegrad.ops.reduce import count
from tapegrad.ops.shape import along
from tapegrad.rules.op import Op


def axes_of(x: Array, dim: Axis, empty: bool = False) -> Any:
    """Return the axis or axes of `dim`, None for all; an empty `dim` means all axes, unless `empty`."""
    if dim is None or (not empty and isinstance(dim, (tuple, list)) and not dim) or not ndim(x):
        for a in dim if isinstance(dim, (tuple, list)) else () if dim is None else (dim,):
            axis_of(x, a)  # IndexError, in torch's words
        return None
    if not isinstance(dim, (tuple, list)):
        return axis_of(x, dim)
    axes = tuple(axis_of(x, a) for a in dim)
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"dim {next(a for a in axes if axes.count(a) > 1)} appears multiple times in the list of "
                           "dims")
    return axes


def how(x: Any, dim: Any, keepdim: Any = False) -> dict[str, Any]:
    """Return the keyword arguments of a reduction that differ from the defaults."""
    return keywords(axis=axes_of(x, dim), keepdims=bool(keepdim) and bool(ndim(x)))


def is_kind(x: Array, kinds: str) -> bool:
    """True for a tensor with a dtype of one of these kinds."""
    return tensors_only(x) and (kind_of(plain(x).dtype) or "?") in kinds


# -- sums and products


@torch_means("sum", "Tensor.sum")
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _total(ops.sum, "sum", input, dim, keepdim, dtype)


@torch_means("prod", "Tensor.prod")
def prod(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return _total(ops.prod, "prod", input, dim, keepdim, dtype)


def _total(op: Op, name: str, input: Array, dim: Axis, keepdim: bool, dtype: DType) -> Any:
    if not is_kind(input, "bifc"):
        return whole(name, input, dim, keepdim, dtype=dtype)
    if dtype is None:
        return op(input, **how(input, dim, keepdim))
    return brought(op(brought(input, dtype), **how(input, dim, keepdim)), dtype)  # integers are summed in 64 bits


@torch_means("nansum", "Tensor.nansum")
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not is_kind(input, "f"):
        return whole("nansum", input, dim, keepdim, dtype=dtype)
    x = input if dtype is None else brought(input, dtype)
    return sum(ops.where(ops.isnan(x), 0.0, x), dim, keepdim)


@torch_means("mean", "Tensor.mean")
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = input if dtype is None else brought(input, dtype)
    return ops.mean(x, **how(x, dim, keepdim)) if is_kind(x, "fc") else whole("mean", input, dim, keepdim, dtype=dtype)


@torch_means("nanmean", "Tensor.nanmean")
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not is_kind(input, "f"):
        return whole("nanmean", input, dim, keepdim, dtype=dtype)
    there = ops.logical_not(ops.isnan(input))
    return ops.divide(nansum(input, dim, keepdim, dtype=dtype),
                      brought(ops.sum(there, **how(input, dim, keepdim)), dtype or plain(input).dtype))


# -- moments


def _spread_of(x: Array, dim: Axis, correction: Any, keepdim: bool) -> tuple[Any, Any]:
    """Return the variance, and the mean with the reduced axes kept."""
    axes = axes_of(x, dim)
    centre = ops.mean(x, **keywords(axis=axes, keepdims=bool(ndim(x))))
    far = ops.subtract(x, centre)
    squares = ops.square(far) if kind_of(plain(x).dtype) == "f" else ops.add(ops.square(ops.real(far)),
                                                                             ops.square(ops.imag(far)))
    total = ops.sum(squares, **how(x, dim, keepdim))
    return ops.divide(total, float(builtins.max(count(x, axes) - static(correction), 0))), centre


def _moments(name: str, of: Callable[[Any], Any], and_mean: bool = False) -> None:
    """Register a variance or its root; the second argument may be `dim` or `unbiased`."""
    @torch_means(name, *([] if and_mean else [f"Tensor.{name}"]))
    def meaning(input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
                correction: Any = None) -> Any:
        if isinstance(plain(dim), bool):
            dim, unbiased = None, dim
        if not is_kind(input, "fc") or (unbiased is not None and correction is not None):
            return whole(name, input, dim, unbiased, keepdim)
        less = correction if correction is not None else 1 if unbiased is None else int(static(unbiased))
        y, centre = _spread_of(input, dim, less, keepdim)
        if not and_mean:
            return of(y)
        return of(y), centre if keepdim else ops.reshape(centre, shape_of(y))


def _root(x: Array) -> Any:
    """Return the square root, with derivative 0 at 0."""
    zero = ops.equal(x, 0)
    return ops.subtract(ops.sqrt(ops.add(x, zero)), zero)


_moments("var", lambda y: y)
_moments("std", _root)
_moments("var_mean", lambda y: y, and_mean=True)
_moments("std_mean", _root, and_mean=True)


# -- extrema: over all or several axes, ties share the gradient equally; with `dim`, the first gets all of it


def _of_axes(op: Op, name: str) -> Callable[..., Any]:
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Array, dim: Axis = (), keepdim: bool = False) -> Any:
        return op(input, **how(input, dim, keepdim)) if is_kind(input, "if") else whole(name, input, dim, keepdim)
    return meaning


amax = _of_axes(ops.max, "amax")
amin = _of_axes(ops.min, "amin")


def _extreme(op: Op, place: Op, pair: Callable[..., Any], name: str) -> None:
    result = getattr(torch.return_types, name)

    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
        other = dim if tensors_only(dim) else other
        if other is not None:
            return pair(input, other)
        if not is_kind(input, "if") or type(dim) is str:
            return whole(name, input) if dim is None else whole(name, input, dim, keepdim)
        if dim is None:
            return op(input)
        if not ndim(input):
            axis_of(input, dim)
            return result((ops.copy(input), ops.argmax(input)))
        at = axis_of(input, dim)
        index = place(input, axis=at, keepdims=True)
        both = ops.take_along_axis(input, index, axis=at), index
        return result(both if keepdim else [ops.squeeze(part, axis=at) for part in both])


_extreme(ops.max, ops.argmax, maximum, "max")
_extreme(ops.min, ops.argmin, minimum, "min")


def _place(op: Op, name: str) -> None:
    @torch_means(name, f"Tensor.{name}", constant=True)
    def meaning(input: Array, dim: Axis = None, keepdim: bool = False) -> Any:
        if not is_kind(input, "if"):
            return whole(name, input, dim, keepdim)
        return op(input, **how(input, dim, keepdim))


_place(ops.argmax, "argmax")
_place(ops.argmin, "argmin")

# -- logic and counting


def _of_truth(op: Op, name: str) -> None:
    @torch_means(name, f"Tensor.{name}", constant=True)
    def meaning(input: Array, dim: Axis = None, keepdim: bool = False) -> Any:
        if not is_kind(input, "bifc") or plain(input).dtype is torch.uint8:
            return whole(name, input) if dim is None else whole(name, input, dim, keepdim)
        return op(input, **keywords(axis=axes_of(input, dim, empty=True), keepdims=bool(keepdim) and bool(ndim(input))))


_of_truth(ops.any, "any")
_of_truth(ops.all, "all")


@torch_means("count_nonzero", "Tensor.count_nonzero", constant=True)
def count_nonzero(input: Array, dim: Axis = None) -> Any:
    return ops.count_nonzero(input, **how(input, dim))


# -- running totals, and differences


def _running(op: Op, name: str) -> None:
    @torch_means(name, f"Tensor.{name}")
    def meaning(input: Any, dim: Any, *, dtype: Any = None) -> Any:
        at = axis_of(input, dim)
        if not is_kind(input, "bifc"):
            return whole(name, input, dim, dtype=dtype)
        x = input if dtype is None else brought(input, dtype)
        y = op(x, axis=at) if ndim(x) else ops.sum(x)
        return y if dtype is None else brought(y, dtype)


_running(ops.cumulative_sum, "cumsum")
_running(ops.cumulative_prod, "cumprod")


@torch_means("logcumsumexp", "Tensor.logcumsumexp")
def logcumsumexp(input: Any, dim: Any) -> Any:
    if not is_kind(input, "f") or not ndim(input):
        return whole("logcumsumexp", input, dim)
    return ops.cumulative_logsumexp(input, axis=axis_of(input, dim))


@torch_means("diff", "Tensor.diff")
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [part for part in (prepend, input, append) if part is not None]
    if not one_dtype_of(*parts) or not is_kind(input, "ifc") or not ndim(input):
        return whole("diff", input, n, dim, prepend, append)
    at, n = axis_of(input, dim), static(n)
    x = ops.concat(*parts, axis=at) if n and len(parts) > 1 else input
    for _ in range(builtins.min(n, shape_of(x)[at])):
        x = ops.subtract(getitem(x, along(at, slice(1, None))), getitem(x, along(at, slice(None, -1))))
    return x if n else ops.copy(x)
