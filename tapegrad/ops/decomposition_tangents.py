"""Tangents of decompositions: the transposed pullbacks, in a few products.

The formulas are those of the pullbacks in ops.decompose, applied forwards. Vectors of equal values are free within
their span, and rotate by nan; what depends on the values alone stays exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, dtype_of, shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.ops.elementwise import abs, conj, imag, is_complex, less_equal, real, where
from tapegrad.ops.linalg import adjoint, diagonal, tril, triu
from tapegrad.ops.reduce import max, sum
from tapegrad.ops.shape import concat
from tapegrad.ops.triangular import halved
from tapegrad.rules.op import OPS

Tangents = Sequence[Any]


def _eye(x: Array) -> Any:
    return np.eye(shape_of(x)[-1], dtype=bool)


def near(gaps: Any, largest: Any) -> Any:
    """Return which gaps between values are within the largest value's rounding error: those values are equal."""
    n, eps = shape_of(gaps)[-1], float(np.finfo(dtype_of(gaps)).eps)
    return less_equal(abs(gaps), 8.0 * n * eps * largest[..., None])


def largest(w: Array) -> Any:
    """Return the largest absolute value."""
    return max(abs(w), axis=-1, keepdims=True) if shape_of(w)[-1] else abs(w)


def _over_gaps(turn: Any, gaps: Any, scale: Any) -> Any:
    """Return how far vectors rotate into others: by 0 into themselves, by nan into those of equal values."""
    eye = _eye(turn)
    return where(eye, 0.0, turn / where(eye, 1.0, where(near(gaps, scale), np.nan, gaps)))


def _diagonals(x: Array) -> Any:
    """Return the matrices with these diagonals."""
    return where(_eye(x), x[..., None, :], 0.0)


def read(t: Array, upper: bool) -> Any:
    """Return the tangent of the Hermitian matrix that is read from one triangle."""
    half = (triu if upper else tril)(halved(t))
    return half + adjoint(half)


def _complement(u: Array, du: Any) -> Any:
    """Return the tangents of all columns of a unitary matrix from those of the first: dU = U Ω, Ω skew-Hermitian."""
    k = shape_of(du)[-1]
    if shape_of(u)[-1] == k:
        return du
    return concat(du, -u[..., :k] @ (adjoint(du) @ u[..., k:]), axis=-1)


def eigh(ts: Tangents, y: Array, x: Array, UPLO: str = "L") -> Any:
    """Return the tangents of the eigenvalues and eigenvectors of a Hermitian matrix."""
    w, v = y
    moved = read(ts[0], UPLO.upper() == "U") @ v
    return real(sum(conj(v) * moved, axis=-2)), OPS["eigensolve"](x, w, v, moved, UPLO=UPLO)


def eigvalsh(ts: Tangents, _y: Array, x: Array, UPLO: str = "L") -> Any:
    """Return the tangent of the eigenvalues of a Hermitian matrix."""
    v = OPS["eigh"](x, UPLO=UPLO)[1]
    return real(sum(conj(v) * (read(ts[0], UPLO.upper() == "U") @ v), axis=-2))


def eig(ts: Tangents, y: Array, _x: Array) -> Any:
    """Return the tangents of eigenvalues, and of eigenvectors that keep their length."""
    w, v = y
    turn = OPS["solve"](v, ts[0] @ v)
    dv = v @ _over_gaps(turn, w[..., None, :] - w[..., :, None], largest(w))
    return diagonal(turn), dv - v * real(sum(conj(v) * dv, axis=-2))[..., None, :]


def svd(ts: Tangents, y: Array, _x: Array, full_matrices: bool = True) -> Any:
    """Return the tangents of singular vectors and values; the free phase is assigned to U."""
    (u, s, vh), t = y, ts[0]
    k = shape_of(s)[-1]
    first, v = u[..., :k], adjoint(vh)[..., :k]
    across = t @ v
    inner = adjoint(first) @ across
    rows, columns = s[..., :, None], s[..., None, :]
    gaps = (columns - rows) * (columns + rows)
    du = first @ _over_gaps(inner * columns + rows * adjoint(inner), gaps, largest(s) ** 2)
    dv = v @ _over_gaps(rows * inner + adjoint(inner) * columns, gaps, largest(s) ** 2)
    ratio = OPS["ratio"]
    if is_complex(u):
        du = du + first * ratio(1j * imag(diagonal(inner)), s)[..., None, :]
    if shape_of(u)[-2] > k:
        du = du + ratio(across - first @ inner, columns)
    if shape_of(v)[-2] > k:
        back = adjoint(t) @ first
        dv = dv + ratio(back - v @ adjoint(inner), columns)
    return _complement(u, du), real(diagonal(inner)), adjoint(_complement(adjoint(vh), dv))


def svdvals(ts: Tangents, _y: Any, x: Any) -> Any:
    """Return the tangent of the singular values."""
    u, _, vh = OPS["svd"](x, full_matrices=False)
    return real(sum(conj(u) * (ts[0] @ adjoint(vh)), axis=-2))


def qr(ts: Tangents, y: Array, x: Array, mode: str = "reduced") -> Any:
    """Return the tangents of Q and R."""
    q, r = (OPS["qr"](x)[0], y) if mode == "r" else y
    t, (m, n) = ts[0], shape_of(x)[-2:]
    k = min(m, n)
    first, square = q[..., :k], r[..., :k, :k]
    grown = adjoint(OPS["solve"](adjoint(square), adjoint(t[..., :k])))  # dA R⁻¹
    inner = adjoint(first) @ grown
    low = tril(inner, k=-1)
    turn = low - adjoint(low)
    if is_complex(inner):
        turn = turn + _diagonals(1j * imag(diagonal(inner)))
    dq = grown + first @ (turn - inner)
    dr = triu(inner - turn) @ square
    if n > k:
        dr = concat(dr, adjoint(dq) @ x[..., k:] + adjoint(first) @ t[..., k:], axis=-1)
    if mode == "complete" and m > k:
        dr = concat(dr, np.zeros((*shape_of(dr)[:-2], m - k, n), dtype_of(dr)), axis=-2)
    return dr if mode == "r" else (_complement(q, dq), dr)


def slogdet(ts: Tangents, y: Array, x: Array) -> Any:
    """Return the tangents of the sign and the logarithm, tr(A⁻¹ dA): the sign rotates by its imaginary part."""
    total = sum(conj(adjoint(OPS["inv"](x))) * ts[0], axis=(-2, -1))
    return y[0] * (1j * imag(total)) if is_complex(x) else ZERO, real(total)


def pinv(ts: Tangents, y: Array, x: Array) -> Any:
    """Return the tangent of a pseudo-inverse, at constant rank."""
    t = ts[0]
    h = adjoint(t)
    left, right = adjoint(y) @ y, y @ adjoint(y)
    outer, inner = h @ left, right @ h
    return inner - (inner @ x) @ y - y @ (t @ y) + outer - y @ (x @ outer)


def lstsq(ts: Tangents, y: Array, a: Any, b: Array, cutoff: Any) -> Any:
    """Return the tangents of a least-squares solution, its residuals and the singular values, at constant rank."""
    (x, residuals, _, _), (t, tb) = y, ts[:2]
    vector = len(shape_of(b)) == 1
    x, rhs, tb = (z if z is None or not vector else z[..., None] for z in (x, b, tb))
    p, moved, values = OPS["pinv"](a, cutoff), tb, ZERO
    error = rhs - a @ x
    dx: Any = 0.0
    if t is not None:
        h = adjoint(t)
        back = h @ (adjoint(p) @ x)
        dx = p @ (adjoint(p) @ (h @ error) - a @ back) + back
        moved = -(t @ x) if tb is None else tb - t @ x
        values = svdvals([t], None, a)
    dx = dx + p @ moved
    grown = ZERO if shape_of(residuals) == (0,) else 2 * real(sum(conj(error) * moved, axis=0))
    return dx[..., 0] if vector else dx, grown, ZERO, values
