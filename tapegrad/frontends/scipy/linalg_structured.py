"""scipy.linalg's banded, tridiagonal and Toeplitz matrices: SciPy's solvers also solve the adjoint systems."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg as sl

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static, value_by
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means
from tapegrad.trace.views import peek


def _moved(row: Any, by: int) -> Any:
    """Return a row shifted by `by` positions, filled up with zeros."""
    n = shape_of(row)[0]
    zeros = np.zeros((min(abs(by), n), *shape_of(row)[1:]))
    if not by:
        return row
    return ops.concat(zeros, row[:n - len(zeros)], axis=0) if by > 0 else ops.concat(row[len(zeros):], zeros, axis=0)


def _product(x: Array, lower: int, upper: int, ab: Any) -> Any:
    """Return the product of a matrix in diagonal ordered form and `x`."""
    column = (slice(None), *(None,) * (len(shape_of(x)) - 1))
    return sum(_moved(ab[r][column] * x, r - upper) for r in range(lower + upper + 1))


def _conjugate_transpose(lower: int, upper: int, ab: Any) -> Any:
    return ops.stack(*[ops.conj(_moved(ab[lower + upper - r], lower - r)) for r in range(lower + upper + 1)], axis=0)


_BANDED: Solver = Solver("solve_banded", lambda lower, upper, ab, b: sl.solve_banded((lower, upper), ab, b),
                 lambda x, lower, upper, ab, b: _product(x, lower, upper, ab) - b,
                 adjoint=lambda x, dx, lower, upper, ab, b: _BANDED(upper, lower,
                                                                    _conjugate_transpose(lower, upper, ab), dx))


@means(sl.solve_banded)
def solve_banded(l_and_u: Any, ab: Any, b: Array, overwrite_ab: bool = False, overwrite_b: bool = False,
                 check_finite: bool = True) -> Any:
    lower, upper = static(tuple(l_and_u))
    return _BANDED(lower, upper, as_array(ab), as_array(b))


def _whole(ab: Any, lower: bool) -> Any:
    """Return all diagonals of a Hermitian matrix, of which `ab` holds one half."""
    u = shape_of(ab)[0] - 1
    half = _conjugate_transpose(u, 0, ab) if lower else ab
    middle = ops.real(half[u]) if getattr(dtype_of(ab), "kind", "") == "c" else half[u]
    return ops.stack(*[half[r] for r in range(u)], middle,
                     *[ops.conj(_moved(half[u - k], -k)) for k in range(1, u + 1)], axis=0)


@means(sl.solveh_banded)
def solveh_banded(ab: Any, b: Array, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
                  check_finite: bool = True) -> Any:
    matrix = as_array(ab)
    u = shape_of(matrix)[0] - 1
    x = _BANDED(u, u, _whole(matrix, lower), as_array(b))
    return value_by("scipy.linalg.solveh_banded", x, matrix, b, lower=bool(lower))


@means(sl.cho_solve_banded)
def cho_solve_banded(cb_and_lower: Any, b: Array, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    cb, lower = as_array(cb_and_lower[0]), cb_and_lower[1]
    u = shape_of(cb)[0] - 1
    bands = (u, 0) if lower else (0, u)
    turned = _conjugate_transpose(*bands, cb)
    first, second = ((*bands, cb), (*bands[::-1], turned)) if lower else ((*bands[::-1], turned), (*bands, cb))
    return _BANDED(*second, _BANDED(*first, as_array(b)))


def _dense(ab: Any, lower: bool) -> Any:
    """Return the Hermitian matrix in full storage."""
    u, n = shape_of(ab)[0] - 1, shape_of(ab)[1]
    i, j = np.indices((n, n))
    inside = np.abs(i - j) <= u
    return ops.where(inside, _whole(ab, lower)[np.where(inside, u + i - j, 0), j], 0.0)


@means(sl.cholesky_banded)
def cholesky_banded(ab: Any, overwrite_ab: bool = False, lower: bool = False, check_finite: bool = True) -> Any:
    """Factorise the matrix in full storage; the unused corners of `ab` are copied, as SciPy does."""
    ab, lower = as_array(ab), bool(lower)
    u, n = shape_of(ab)[0] - 1, shape_of(ab)[1]
    row, j = np.indices((u + 1, n))
    i = j + row if lower else j - u + row
    inside = (i >= 0) & (i < n)
    factor = ops.cholesky(_dense(ab, lower))
    factor = factor if lower else ops.adjoint(factor)
    y = ops.where(inside, factor[np.clip(i, 0, n - 1), j], ab)
    return value_by("scipy.linalg.cholesky_banded", y, ab, lower=lower)


_EIGVALS_BANDED = sl.eigvals_banded


@means(sl.eigvals_banded)
def eigvals_banded(a_band: Any, lower: bool = False, overwrite_a_band: bool = False, select: str = "a",
                   select_range: Any = None, check_finite: bool = True) -> Any:
    if select != "a":
        raise UnknownFunction("a subset of the eigenvalues of a banded matrix is not supported", user_location(),
                              "compute all of them, and index the result")
    # constants of the program, such as the nodes of a quadrature, which SciPy caches
    if isinstance(a_band, Traced) and a_band._tracer.independent(peek(a_band)):
        return _EIGVALS_BANDED(np.array(a_band), lower)
    return np.linalg.eigvalsh(_dense(as_array(a_band), bool(lower)))


@means(sl.eigvalsh_tridiagonal)
def eigvalsh_tridiagonal(d: Any, e: Any, select: str = "a", select_range: Any = None, check_finite: bool = True,
                         tol: float = 0.0, lapack_driver: str = "auto") -> Any:
    diagonal, beside = as_array(d), as_array(e)
    return eigvals_banded(ops.stack(diagonal, ops.concat(beside, np.zeros(1), axis=0), axis=0), True, select=select)


def _eigenvectors(only: bool, call: str) -> None:
    if not only:
        raise UnknownFunction("eigenvectors of a banded matrix are not supported", user_location(),
                              f"{call}, or numpy.linalg.eigh of the full matrix")


@means(sl.eig_banded)
def eig_banded(a_band: Any, lower: bool = False, eigvals_only: bool = False, overwrite_a_band: bool = False,
               select: str = "a", select_range: Any = None, max_ev: int = 0, check_finite: bool = True) -> Any:
    _eigenvectors(eigvals_only, "eigvals_only=True")
    return eigvals_banded(a_band, lower, select=select)


@means(sl.eigh_tridiagonal)
def eigh_tridiagonal(d: Any, e: Any, eigvals_only: bool = False, select: str = "a", select_range: Any = None,
                     check_finite: bool = True, tol: float = 0.0, lapack_driver: str = "auto") -> Any:
    _eigenvectors(eigvals_only, "eigvals_only=True")
    return eigvalsh_tridiagonal(d, e, select)


# -- Toeplitz matrices, by their first column and row


@means(sl.toeplitz)
def toeplitz(c: Any, r: Any = None) -> Any:
    column = np.atleast_1d(as_array(c))
    row = ops.conj(column) if r is None else np.atleast_1d(as_array(r))
    m, n = shape_of(column)[-1], shape_of(row)[-1]
    behind = np.arange(m)[:, None] - np.arange(n)
    return ops.take(ops.concat(column, row[..., 1:], axis=-1), np.where(behind < 0, m - 1 - behind, behind), axis=-1)


_TOEPLITZ: Solver = Solver("solve_toeplitz", lambda c, r, b: sl.solve_toeplitz((c, r), b),
                           lambda x, c, r, b: ops.matmul(toeplitz(c, r), x) - b,
                   adjoint=lambda x, dx, c, r, b: _TOEPLITZ(*_turned(c, r), dx))


def _turned(c: Array, r: Array) -> tuple[Any, Any]:
    """Return the column and row of the conjugate transpose. Both hold the first element; the column's counts."""
    return ops.conj(ops.concat(c[:1], r[1:], axis=0)), ops.conj(c)


def _column_and_row(given: Any) -> tuple[Any, Any]:
    c, r = given if isinstance(given, tuple) else (given, None)
    column = as_array(c)
    return column, ops.conj(column) if r is None else as_array(r)


@means(sl.solve_toeplitz)
def solve_toeplitz(c_or_cr: Any, b: Array, check_finite: bool = True) -> Any:
    return _TOEPLITZ(*_column_and_row(c_or_cr), as_array(b))


_PRODUCT = Solver("matmul_toeplitz", lambda c, r, x: sl.matmul_toeplitz((c, r), x),
                  lambda c, r, x: ops.matmul(toeplitz(c, r), x), "composite")


@means(sl.matmul_toeplitz)
def matmul_toeplitz(c_or_cr: Any, x: Array, check_finite: bool = False, workers: Any = None) -> Any:
    return _PRODUCT(*_column_and_row(c_or_cr), as_array(x))
