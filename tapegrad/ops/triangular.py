"""Triangular systems, and the rule of Cholesky's factor, which consists of them.

A user's call of scipy.linalg.solve_triangular is SciPy's. The solutions of rules and passes (`check_finite=False`) call
BLAS through SciPy if that has been imported, as `compile` does where it is installed, and NumPy block by block
otherwise.
"""

from __future__ import annotations

import functools
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent, DType
from tapegrad.numbers.lazy import needed, torch
from tapegrad.ops.batched_product import solve_members
from tapegrad.ops.elementwise import conj, where
from tapegrad.ops.linalg import adjoint, matmul, tril, triu
from tapegrad.ops.shape import permute_dims
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, RAISES, Joint
from tapegrad.rules.registry import define

BLOCK = 64  # most rows of a system that is solved as a general one


def transposed(x: Array) -> Any:
    """Return the transpose of a matrix, or of each in a stack."""
    ndim = len(shape_of(x))
    return permute_dims(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def load_blas() -> None:
    """Import SciPy's BLAS, which takes a tenth of a second: too long for one solution."""
    with suppress(ImportError):
        import scipy.linalg.blas  # noqa: F401


# -- triangular systems: A x = b, or Aᵀ x = b (trans=1), or Aᴴ x = b (trans=2)


def _solve_triangular(a: Any, b: Array, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
                      check_finite: bool = True) -> Any:
    if check_finite:
        return needed("scipy.linalg").solve_triangular(a, b, trans, lower, unit_diagonal)
    prefix = {"f": "s", "d": "d", "F": "c", "D": "z"}.get(b.dtype.char)
    blas = sys.modules.get("scipy.linalg.blas")
    if blas is None or prefix is None or a.ndim != 2 or a.dtype != b.dtype or not b.size:
        return _by_blocks(a, b, trans, lower, unit_diagonal)
    if not unit_diagonal and np.count_nonzero(a.diagonal()) < len(a):
        raise np.linalg.LinAlgError("Singular matrix")
    # transposed, xᵀ op(A)ᵀ = bᵀ: rows in C order are columns in Fortran order, and need no copy
    x = getattr(blas, prefix + "trsm")(1.0, a.T, np.atleast_2d(b.T), side=1, lower=not lower, trans_a=trans,
                                       diag=unit_diagonal)
    return x.T.reshape(b.shape)


def _by_blocks(a: Any, b: Any, trans: int, lower: bool, unit_diagonal: bool) -> Any:
    """Solve by substitution, block by block."""
    a = np.tril(a) if lower else np.triu(a)
    if unit_diagonal:
        a = np.where(np.eye(a.shape[-1], dtype=bool), 1, a)
    if trans:
        a, lower = np.swapaxes(a if trans == 1 else a.conj(), -1, -2), not lower
    n = a.shape[-1]
    if a.ndim > 2 or n <= BLOCK:
        return np.linalg.solve(a, b)
    x = b.astype(np.result_type(a, b, np.float32))
    for start in range(0, n, BLOCK) if lower else range((n - 1) // BLOCK * BLOCK, -1, -BLOCK):
        block, rest = slice(start, start + BLOCK), slice(start + BLOCK, n) if lower else slice(start)
        x[block] = np.linalg.solve(a[block, block], x[block])
        x[rest] -= a[rest, block] @ x[block]
    return x


def _solve_triangular_vjp(y: Array, a: Array, b: Array, trans: int = 0, lower: bool = False,
                          unit_diagonal: bool = False, **check: Any) -> Any:
    def solve_triangular_pullback(dy: Cotangent) -> tuple[Any, Any]:
        vector = len(shape_of(b)) == 1
        x, dx = (y[..., None], dy[..., None]) if vector else (y, dy)
        how = {"lower": lower, "unit_diagonal": unit_diagonal, **check}
        db = (solve_triangular(conj(a), dx, **how) if trans == 1
              else solve_triangular(a, dx, trans=0 if trans else 2, **how))
        da = (-matmul(db, adjoint(x)) if not trans else -matmul(conj(x), transposed(db)) if trans == 1
              else -matmul(x, adjoint(db)))
        return (tril(da, k=-1 if unit_diagonal else 0) if lower
                else triu(da, k=1 if unit_diagonal else 0)), db[..., 0] if vector else db
    return solve_triangular_pullback


def _solve_triangular_tensors(a: Any, b: Any, trans: int = 0, lower: bool = False, unit_diagonal: bool = False,
                              **_: Any) -> Any:
    a, b = tensors.together((a, b), number=True)
    x = b[:, None] if b.ndim == 1 else b
    y = torch.linalg.solve_triangular(a if not trans else a.mT if trans == 1 else a.mH, x, upper=lower == bool(trans),
                                      unitriangular=unit_diagonal)
    return y[..., 0] if b.ndim == 1 else y


solve_triangular = define("solve_triangular", _solve_triangular, rule=Joint(_solve_triangular_vjp), effects=RAISES,
                          torch=_solve_triangular_tensors, batch=solve_members, memory=FRESH,
                          spec=types.triangular_solution)

# -- the cotangent of a Hermitian matrix whose lower triangle is read, from that of its Cholesky factor: I. Murray
# (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527. With L the factor and Φ the lower triangle
# with a halved diagonal, it is Φ(S + Sᴴ), S = L⁻ᴴ Φ(Lᴴ dL) L⁻¹. The blocked form goes through the blocks of the
# factorisation in reverse: a quarter of the arithmetic.


def halved(x: Array) -> Any:
    """Return the matrices with halved diagonals, which are whole again in the sum with the adjoint."""
    return where(np.eye(shape_of(x)[-1], dtype=bool), 0.5 * x, x)


@functools.lru_cache(maxsize=16)
def _triangle(n: int, dtype: DType) -> tuple[Any, Any]:
    """Return the mask of a lower triangle, and the factors that halve its diagonal."""
    return np.tri(n, dtype=bool), 1 - 0.5 * np.eye(n, dtype=dtype)


def _lower(x: Any) -> Any:
    mask, half = _triangle(x.shape[-1], x.real.dtype)
    return np.where(mask, x, 0) * half


def _cholesky_pullback(dy: Any, y: Any) -> Any:
    if y.shape[-1] <= BLOCK:
        (mask, half), inverse = _triangle(y.shape[-1], y.real.dtype), np.linalg.inv(y)
        inner = np.where(mask, y.mT.conj() @ np.where(mask, dy, 0), 0) * half
        whole = inverse.mT.conj() @ inner @ inverse
        return np.where(mask, whole + whole.mT.conj(), 0) * half
    dx = np.tril(dy).astype(np.result_type(dy, y), copy=False)
    for end in range(y.shape[-1], 0, -BLOCK):
        d, before, after = slice(max(end - BLOCK, 0), end), slice(max(end - BLOCK, 0)), slice(end, None)
        inverse = np.linalg.inv(y[..., d, d])
        below = dx[..., after, d] @ inverse
        dx[..., after, d] = below
        dx[..., after, before] -= below @ y[..., d, before]
        inner = _lower(y[..., d, d].mT.conj() @ (dx[..., d, d] - np.tril(below.mT.conj() @ y[..., after, d])))
        whole = inverse.mT.conj() @ inner @ inverse
        whole = whole + whole.mT.conj()
        dx[..., d, d] = _lower(whole)
        dx[..., d, before] -= below.mT.conj() @ y[..., after, before] + whole @ y[..., d, before]
    return dx


def _cholesky_pullback_tensor(dy: Any, y: Any) -> Any:
    dy, y = tensors.together((dy, y))
    diagonal = 1 - 0.5 * torch.eye(y.shape[-1], dtype=y.real.dtype, device=y.device)
    h = y.mH
    inner = torch.linalg.solve_triangular(h, torch.tril(h @ dy) * diagonal, upper=True)
    s = torch.linalg.solve_triangular(h, inner.mH, upper=True)
    return torch.tril(s + s.mH) * diagonal


def _cholesky_pullback_vjp(dx: Cotangent, dy: Cotangent, y: Array) -> Any:
    how = {"lower": True, "check_finite": False}

    def cholesky_pullback_pullback(ddx: Any) -> tuple[Any, Any]:
        half = tril(halved(ddx))
        left = solve_triangular(y, half + adjoint(half), **how)
        dm = tril(halved(solve_triangular(y, adjoint(left), **how)))  # by Φ(Lᴴ dL)
        return matmul(y, dm), tril(matmul(dy, adjoint(dm)) - matmul(dx + adjoint(dx), adjoint(left)))
    return cholesky_pullback_pullback


cholesky_pullback = define("cholesky_pullback", _cholesky_pullback, rule=Joint(_cholesky_pullback_vjp),
                           torch=_cholesky_pullback_tensor, batch=batching.stacked(2, 2), memory=FRESH,
                           spec=types.from_factor)
