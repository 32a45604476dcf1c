"""torch's reductions: sums, products, moments, extremes, norms, counts, running totals."""

from __future__ import annotations

import builtins
import math
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
from tapegrad.ops.reduce import count, restore
from tapegrad.ops.shape import along
from tapegrad.rules.op import Op


def axes_of(x: Array, dim: Axis, empty: bool = False) -> Any:
    """Return the axis or axes of a `dim`, None for all; for most functions no axes are all of them too."""
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
    """Return the keyword arguments of a reduction, those that say something."""
    return keywords(axis=axes_of(x, dim), keepdims=bool(keepdim) and bool(ndim(x)))


def is_kind(x: Array, kinds: str) -> bool:
    """True for a tensor of numbers of one of these kinds."""
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
    """Return the variance, and the mean with its axes kept."""
    axes = axes_of(x, dim)
    centre = ops.mean(x, **keywords(axis=axes, keepdims=bool(ndim(x))))
    far = ops.subtract(x, centre)
    squares = ops.square(far) if kind_of(plain(x).dtype) == "f" else ops.add(ops.square(ops.real(far)),
                                                                             ops.square(ops.imag(far)))
    total = ops.sum(squares, **how(x, dim, keepdim))
    return ops.divide(total, float(builtins.max(count(x, axes) - static(correction), 0))), centre


def _moments(name: str, of: Callable[[Any], Any], and_mean: bool = False) -> None:
    """Say what a variance, or its root, means: `dim`, or `unbiased`, comes first."""
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
    """Return the root, with the derivative 0 at 0."""
    zero = ops.equal(x, 0)
    return ops.subtract(ops.sqrt(ops.add(x, zero)), zero)


_moments("var", lambda y: y)
_moments("std", _root)
_moments("var_mean", lambda y: y, and_mean=True)
_moments("std_mean", _root, and_mean=True)


@torch_means("logsumexp", "Tensor.logsumexp", "special.logsumexp")
def logsumexp(input: Array, dim: Axis, keepdim: bool = False) -> Any:
    if not is_kind(input, "f") or not ndim(input) or (isinstance(dim, (tuple, list)) and not dim):
        return whole("logsumexp", input, dim, keepdim)
    return ops.logsumexp(input, **how(input, dim, keepdim))


# -- the largest and the smallest: of all, and over several axes, ties share equally; with `dim`, the first has all


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


# -- norms


def _norm(x: Array, ord: Any, dim: Axis, keepdim: bool) -> Any:
    """Return the norm of vectors along axes: the sum of |x| ** ord, to the power of 1 / ord."""
    axes, options = axes_of(x, dim), how(x, dim, keepdim)
    if ord == 2 and (not isinstance(axes, tuple) or len(axes) < 3):
        return ops.vector_norm(x, **options)
    simple = {math.inf: ops.max, -math.inf: ops.min, 1: ops.sum}.get(ord)
    if simple is not None:
        return simple(ops.abs(x), **options)
    if ord == 0:
        there = ops.not_equal(x, 0)
        return ops.sum(brought(there, plain(x).abs().dtype), **options)
    if not isinstance(axes, tuple) and axes is not None:
        return ops.vector_norm(x, ord=ord, **options)
    axes = tuple(range(ndim(x))) if axes is None else axes
    rest = tuple(i for i in range(ndim(x)) if i not in axes)
    shape = shape_of(x)
    rows = x if not rest else ops.permute_dims(x, axes=(*rest, *axes))
    flat = ops.reshape(rows, (*[shape[i] for i in rest], -1) if 0 not in shape
                       else (*[shape[i] for i in rest], math.prod(shape[i] for i in axes)))
    y = ops.vector_norm(flat, axis=-1, **({} if ord == 2 else {"ord": ord}))
    return restore(y, x, axes) if keepdim else y


def _is_wider(dtype: DType, x: Array) -> bool:
    """True for no dtype, and one that holds the numbers of `x`: to a narrower one torch takes no norm."""
    return dtype is None or (tensors_only(x) and torch.promote_types(plain(x).dtype, dtype) is dtype)


def _is_order(ord: Any) -> bool:
    return type(ord) in (int, float) and ord == ord


@torch_means("linalg.vector_norm")
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not _is_wider(dtype, x) or not is_kind(x, "fc") or not _is_order(ord) or 0 in shape_of(x):
        return whole("linalg.vector_norm", x, ord, dim, keepdim, dtype=dtype)
    return _norm(x if dtype is None else brought(x, dtype), ord, dim, keepdim)


@torch_means("linalg.matrix_norm")
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    x = A if dtype is None or not _is_wider(dtype, A) else brought(A, dtype)
    known = _is_wider(dtype, A) and is_kind(x, "fc") and ndim(x) > 1 and 0 not in shape_of(x) and len(dim) == 2
    if not known or ord not in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf):
        return whole("linalg.matrix_norm", A, ord, dim, keepdim, dtype=dtype)
    rows, columns = (axis_of(x, a) for a in dim)
    if ord == "fro":
        return _norm(x, 2, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        rest = [i for i in range(ndim(x)) if i not in (rows, columns)]
        values = ops.svdvals(ops.permute_dims(x, axes=(*rest, rows, columns)))
        y = {"nuc": ops.sum, 2: ops.max, -2: ops.min}[ord](values, axis=-1)
        return restore(y, x, (rows, columns)) if keepdim else y
    totals = ops.sum(ops.abs(x), axis=rows if ord in (1, -1) else columns, keepdims=True)
    return (ops.max if ord > 0 else ops.min)(totals, **keywords(axis=(rows, columns), keepdims=bool(keepdim)))


@torch_means("linalg.norm")
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    axes = range(ndim(A)) if dim is None else dim if isinstance(dim, (tuple, list)) else [dim]
    if len(axes) == 1 and not isinstance(ord, str):
        return vector_norm(A, ord, tuple(axes), keepdim, dtype=dtype)
    if len(axes) == 2:
        return matrix_norm(A, ord, tuple(axes), keepdim, dtype=dtype)
    return whole("linalg.norm", A, ord, dim, keepdim, dtype=dtype)


@torch_means("norm", "Tensor.norm")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None) -> Any:
    """Return torch.norm: of vectors, over any axes, except for the nuclear norm."""
    if p == "nuc":
        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    ord = 2.0 if p in ("fro", None) else p
    return vector_norm(input, int(ord) if ord in (0, 1, 2) else ord, dim, keepdim, dtype=dtype)


@torch_means("dist", "Tensor.dist")
def dist(input: Any, other: Any, p: Any = 2) -> Any:
    return (vector_norm(ops.subtract(input, other), p) if one_dtype_of(input, other) and is_kind(input, "fc")
            else whole("dist", input, other, p))
