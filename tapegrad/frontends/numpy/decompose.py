"""NumPy's matrix decompositions, solvers, inverses, determinants, powers and norms."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.linalg import _linalg, _umath_linalg

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.frontends.numpy.reduce import how, kind_of
from tapegrad.frontends.numpy.shape import moveaxis, numpy_dtype, rank, ravel
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.ops.linalg import adjoint
from tapegrad.rules.registry import means
from tapegrad.trace.guards import option


def _ones(x: Array) -> Any:
    """Return a plain array of the same shape and dtype, which makes a NumPy function raise its own error."""
    return np.ones(shape_of(x), numpy_dtype(x))


# -- solutions and inverses


@means(np.linalg.solve)
def solve(a: Array, b: Array) -> Any:
    return ops.solve(as_array(a), as_array(b))


# private parts of NumPy that libraries call, to solve as an older or a later version does


@means(_linalg._makearray)  # type: ignore[attr-defined]
def _makearray(a: Any) -> tuple[Any, Any]:
    return as_array(a), as_array


@means(_umath_linalg.solve)
def _solve_matrices(a: Array, b: Array) -> Any:
    return ops.solve(as_array(a), as_array(b))


@means(_umath_linalg.solve1)
def _solve_vectors(a: Array, b: Array) -> Any:
    return ops.solve(as_array(a), as_array(b)[..., None])[..., 0]


@means(np.linalg.inv)
def inv(a: Array) -> Any:
    return ops.inv(as_array(a))


@means(np.linalg.pinv)
def pinv(a: Array, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    x = as_array(a)
    if rtol is not np._NoValue:
        if rcond is not None:
            raise ValueError("`rtol` and `rcond` can't be both set.")
        rcond = max(shape_of(x)[-2:]) * np.finfo(numpy_dtype(x)).eps if rtol is None else rtol
    return ops.pinv(x, *([] if rcond is None else [as_array(rcond)]), **keywords(hermitian=bool(hermitian)))


@means(np.linalg.lstsq)
def lstsq(a: Array, b: Array, rcond: Any = None) -> Any:
    return ops.lstsq(as_array(a), as_array(b), *([] if rcond is None else [rcond]))


@means(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = as_array(a), as_array(b)
    ndim = rank(a)
    if axes is not None:
        order = list(range(ndim))
        for k in static(tuple(axes)):
            order.remove(k)
            order.insert(ndim, k)
        a = ops.permute_dims(a, axes=tuple(order))
    shape = shape_of(a)[-(ndim - rank(b)):]
    n = math.prod(shape)
    if math.prod(shape_of(a)) != n ** 2:
        np.linalg.tensorsolve(_ones(a), _ones(b))  # LinAlgError, in NumPy's words
    return ops.reshape(ops.solve(ops.reshape(a, (n, n)), ravel(b)), shape)


@means(np.linalg.matrix_power)
def matrix_power(a: Array, n: Any) -> Any:
    x, n = as_array(a), operator.index(n)
    one = np.linalg.matrix_power(_ones(x), 0)  # LinAlgError unless x is square
    if n == 0:
        return one
    if n < 0:
        x, n = ops.inv(x), -n
    if n == 3:  # NumPy's order of products, for equality to the last bit
        return ops.matmul(ops.matmul(x, x), x)
    y, power = None, x
    while True:  # through the bits of n, the lowest first
        if n & 1:
            y = power if y is None else ops.matmul(y, power)
        n >>= 1
        if not n:
            return y
        power = ops.matmul(power, power)


# -- determinants


@means(np.linalg.det)
def det(a: Array) -> Any:
    return ops.det(as_array(a))


@means(np.linalg.slogdet)
def slogdet(a: Array) -> Any:
    return ops.slogdet(as_array(a))


# -- triangular factors


@means(np.linalg.cholesky)
def cholesky(a: Array, /, *, upper: bool = False) -> Any:
    return ops.cholesky(as_array(a), **keywords(upper=bool(upper)))


@means(np.linalg.qr)
def qr(a: Array, mode: str = "reduced") -> Any:
    x = as_array(a)
    if mode not in ("reduced", "complete", "r"):
        np.linalg.qr(_ones(x), mode)  # type: ignore[call-overload]  # ValueError, in NumPy's words
        raise UnknownFunction(f"np.linalg.qr with mode={mode!r} returns Householder reflectors, for which tapegrad has "
                              "no derivative", user_location(), "mode='reduced', 'complete' or 'r'")
    return ops.qr(x, **({} if mode == "reduced" else {"mode": mode}))


# -- eigenvalues and singular values


@means(np.linalg.eigh)
def eigh(a: Array, UPLO: str = "L") -> Any:
    return ops.eigh(as_array(a), **({} if UPLO == "L" else {"UPLO": UPLO}))


@means(np.linalg.eigvalsh)
def eigvalsh(a: Array, UPLO: str = "L") -> Any:
    return ops.eigvalsh(as_array(a), **({} if UPLO == "L" else {"UPLO": UPLO}))


@means(np.linalg.eig)
def eig(a: Array) -> Any:
    y = ops.eig(as_array(a))
    kind_of(y.eigenvalues)  # guarded: the values decide whether the dtype is real or complex
    return y


@means(np.linalg.eigvals)
def eigvals(a: Array) -> Any:
    # computed with the eigenvectors, which the pullback needs: without them LAPACK may return another order
    return eig(a).eigenvalues


@means(np.linalg.svd)
def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    x = as_array(a)
    if hermitian:
        return _svd_by_eigh(x) if compute_uv else ops.flip(ops.sort(ops.abs(ops.eigvalsh(x))), axis=-1)
    if not compute_uv:
        return ops.svdvals(x)
    return ops.svd(x, **({} if full_matrices else {"full_matrices": False}))


_SVDResult: Any = type(np.linalg.svd(np.eye(1)))


def _svd_by_eigh(x: Array) -> Any:
    w, v = ops.eigh(x)
    signs, s = ops.copysign(1.0, w), ops.abs(w)
    order = ops.flip(ops.argsort(s), axis=-1)
    s, signs = (ops.take_along_axis(part, order, axis=-1) for part in (s, signs))
    u = ops.take_along_axis(v, order[..., None, :], axis=-1)
    return _SVDResult(u, s, adjoint(u * signs[..., None, :]))


@means(np.linalg.svdvals)
def svdvals(x: Any, /) -> Any:
    return ops.svdvals(as_array(x))


@means(np.linalg.matrix_rank, constant=True)
def matrix_rank(A: Array, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    return ops.matrix_rank(as_array(A), **keywords(tol=tol, hermitian=bool(hermitian), rtol=rtol))


@means(np.linalg.cond)
def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number. For a singular matrix and `p` other than 2 or -2 raise LinAlgError, where NumPy
    returns inf.
    """
    x = as_array(x)
    if 0 in shape_of(x)[-2:]:
        np.linalg.cond(_ones(x))  # LinAlgError, in NumPy's words
    if p is None or p in (2, -2):
        s = ops.svdvals(x)
        high, low = s[..., 0], s[..., -1]
        with np.errstate(all="ignore"):
            y = ops.divide(low, high) if p == -2 else ops.divide(high, low)
    else:
        y = norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))
    unknown = ops.logical_and(ops.isnan(y), ops.logical_not(ops.any(ops.isnan(x), axis=(-2, -1))))
    return ops.where(unknown, np.inf, y)[()]


# -- norms

_EUCLIDEAN = {(1, 2), (2, "f"), (2, "fro")}  # (number of axes, order) of norms that are the root of the sum of squares


@means(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    x, ord = as_array(x), option(ord)
    ndim = rank(x)
    if kind_of(x) not in "fc":
        x = ops.astype(x, dtype=np.dtype(float))
    if axis is None and (ord is None or (ndim, ord) in _EUCLIDEAN):
        return ops.vector_norm(x, **how(None, keepdims))
    axes = tuple(range(ndim)) if axis is None else normalize_axis_tuple(static(axis), ndim)
    n = len(axes)
    if n in (1, 2) and (ord is None or (n, ord) in _EUCLIDEAN):
        return ops.vector_norm(x, **how(axes if n == 2 else axes[0], keepdims))
    # raises ValueError, in NumPy's words, or returns the norm of an empty array, which is constant
    if n not in (1, 2) or 0 in shape_of(x):
        return np.linalg.norm(_ones(x), ord, axis, keepdims)
    return _norm_of_vectors(x, ord, axes[0], keepdims) if n == 1 else _norm_of_matrices(x, ord, axes, keepdims)


def _norm_of_vectors(x: Array, ord: Any, axis: int, keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    if ord == 0:
        return ops.sum(ops.astype(ops.not_equal(x, 0), dtype=numpy_dtype(x).type(0).real.dtype), **how(axis, keepdims))
    simple = {np.inf: ops.max, -np.inf: ops.min, 1: ops.sum}.get(ord)
    return (ops.vector_norm(x, ord=ord, **how(axis, keepdims)) if simple is None
            else simple(ops.abs(x), **how(axis, keepdims)))


_SPECTRAL = {2: ops.max, -2: ops.min, "nuc": ops.sum}


def _norm_of_matrices(x: Array, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if ord in _SPECTRAL:
        y = _SPECTRAL[ord](ops.svdvals(moveaxis(x, axes, (-2, -1))), axis=-1)
        return ops.expand_dims(y, axis=tuple(sorted(axes))) if keepdims else y
    if ord in (1, -1, np.inf, -np.inf):
        sums = ops.sum(ops.abs(x), axis=axes[0 if ord in (1, -1) else 1], keepdims=True)
        return (ops.max if ord > 0 else ops.min)(sums, **how(axes, keepdims))
    raise ValueError("Invalid norm order for matrices.")


@means(np.linalg.matrix_norm)
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    return norm(x, ord, (-2, -1), keepdims)
