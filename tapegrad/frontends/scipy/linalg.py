"""scipy.linalg. Functions that NumPy has too are NumPy's; options that affect only the computation (`overwrite_a`,
`check_finite`, a driver) are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg as sl

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static, value_by
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.linalg import adjoint
from tapegrad.ops.solver import Solver
from tapegrad.ops.triangular import transposed
from tapegrad.rules.op import Op
from tapegrad.rules.registry import RUN_AS_PYTHON, leave, means, refuse, register


def unknown(what: str, try_: str) -> UnknownFunction:
    """Return the error for an unknown option, with an alternative."""
    return UnknownFunction(f"tapegrad does not support {what}", user_location(), try_)


# -- systems of equations. An assumed structure decides which elements are read; the others get no gradient.


def assumed(a: Array, structure: str | None, lower: bool) -> Any:
    """Return the matrix that SciPy reads from `a` under an assumed structure."""
    if structure in (None, "gen", "general", "banded"):
        return a
    if structure == "diagonal":
        return ops.tril(ops.triu(a))
    if structure == "tridiagonal":
        return ops.tril(ops.triu(a, k=-1), k=1)
    if structure in ("upper triangular", "lower triangular"):
        return ops.triu(a) if structure == "upper triangular" else ops.tril(a)
    if structure not in ("sym", "symmetric", "her", "hermitian", "pos", "positive definite"):
        raise ValueError(f"{structure} is not a recognized matrix structure")
    half = ops.tril(a, k=-1) if lower else ops.triu(a, k=1)
    middle = ops.tril(ops.triu(a))
    if structure in ("sym", "symmetric"):
        return half + middle + transposed(half)
    return half + (ops.real(middle) if getattr(dtype_of(a), "kind", "") == "c" else middle) + adjoint(half)


@means(sl.solve)
def solve(a: Any, b: Array, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False,
          check_finite: bool = True, assume_a: str | None = None, transposed: bool = False) -> Any:
    matrix = assumed(as_array(a), assume_a, static(lower))
    return np.linalg.solve(np.swapaxes(matrix, -1, -2) if transposed else matrix, as_array(b))


@means(sl.inv)
def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: str | None = None,
        lower: bool = False) -> Any:
    return np.linalg.inv(assumed(as_array(a), assume_a, static(lower)))


@means(sl.solve_triangular)
def solve_triangular(a: Array, b: Array, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False,
                     overwrite_b: bool = False, check_finite: bool = True) -> Any:
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans) or None
    return ops.solve_triangular(as_array(a), as_array(b),
                                **keywords(trans=trans, lower=bool(lower), unit_diagonal=bool(unit_diagonal)))


@means(sl.cho_solve)
def cho_solve(c_and_lower: Any, b: Array, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    c, lower = c_and_lower
    first, second = (None, "C") if lower else ("C", None)
    return solve_triangular(c, solve_triangular(c, b, first, lower), second, lower)


@means(sl.lu_factor)
def lu_factor(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    x = as_array(a)
    if len(shape_of(x)) != 2 or len(set(shape_of(x))) != 1:
        raise unknown("LU factors of a stack, or of a matrix that is not square,",
                      "call it with one square matrix at a time")
    return ops.lu_factor(x)


@means(sl.lu_solve)
def lu_solve(lu_and_piv: Any, b: Array, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    lu, piv = lu_and_piv
    order, x = ops.permutation(piv), as_array(b)
    if not trans:
        return solve_triangular(lu, solve_triangular(lu, ops.take(x, order, axis=0), 0, True, True))
    return ops.take(solve_triangular(lu, solve_triangular(lu, x, trans), trans, True, True), ops.argsort(order), axis=0)


@means(sl.lu)
def lu(a: Array, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True,
       p_indices: bool = False) -> Any:
    factors, piv = lu_factor(a)
    order, eye = ops.permutation(piv), np.eye(shape_of(factors)[0])
    lower, upper = ops.tril(factors, k=-1) + eye, ops.triu(factors)
    if permute_l:
        return ops.take(lower, ops.argsort(order), axis=0), upper
    return (ops.astype(ops.argsort(order), dtype=np.intc) if p_indices else ops.take(eye, order, axis=1)), lower, upper


@means(sl.solve_sylvester)
def solve_sylvester(a: Array, b: Array, q: Array) -> Any:
    return ops.solve_sylvester(as_array(a), as_array(b), as_array(q))


@means(sl.solve_continuous_lyapunov)
def solve_continuous_lyapunov(a: Array, q: Array) -> Any:
    x = as_array(a)
    return ops.solve_sylvester(x, adjoint(x), as_array(q))


# -- Riccati equations, whose solution's derivative solves a linear matrix equation. Rules: T.-C. Kao, G. Hennequin
# (2020), Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati equations, arXiv:2011.11430.


def _gain(x: Array, a: Array, b: Array, r: Array, e: Any, s: Array, discrete: bool) -> tuple[Any, Any]:
    """Return the factor that multiplies the gain in an equation, and the gain."""
    inner, weight = (ops.matmul(adjoint(b), ops.matmul(x, a)),
                     r + ops.matmul(adjoint(b), ops.matmul(x, b))) if discrete else \
        (ops.matmul(adjoint(b), x if e is None else ops.matmul(x, e)), r)
    inner = inner if s is None else inner + adjoint(s)
    return adjoint(inner), ops.solve(weight, inner)


def _riccati(x: Array, a: Array, b: Array, q: Array, r: Array, e: Any, s: Array, balanced: Any, discrete: bool) -> Any:
    beside, gain = _gain(x, a, b, r, e, s, discrete)
    xe, ex = (x, x) if e is None else (ops.matmul(x, e), ops.matmul(adjoint(e), x))
    if discrete:
        free = ops.matmul(adjoint(a), ops.matmul(x, a)) - (x if e is None else ops.matmul(adjoint(e), xe))
    else:
        free = ops.matmul(adjoint(a), xe) + ops.matmul(ex, a)
    return free - ops.matmul(beside, gain) + q


def _riccati_adjoint(x: Array, dx: Cotangent, a: Array, b: Array, q: Array, r: Array, e: Any, s: Array, balanced: Any,
                     discrete: bool) -> Any:
    """Solve for w the adjoint of the equation's derivative, which maps dx to cᴴ dx e + eᴴ dx c, or to cᴴ dx c - eᴴ dx e
    in the discrete case, where c is the closed loop.
    """
    closed = a - ops.matmul(b, _gain(x, a, b, r, e, s, discrete)[1])
    if e is not None:
        closed, dx = ops.solve(e, closed), ops.solve(e, adjoint(ops.solve(e, adjoint(dx))))
    if not discrete:
        return ops.solve_sylvester(closed, adjoint(closed), dx)
    eye = np.eye(shape_of(a)[0])
    over = ops.inv(closed + eye)  # Cayley's transform gives the continuous equation
    turned = ops.matmul(over, closed - eye)
    return ops.solve_sylvester(turned, adjoint(turned), 2 * ops.matmul(over, ops.matmul(dx, adjoint(over))))


def _riccati_solver(fn: Callable[..., Any], discrete: bool) -> None:
    solver = Solver(fn.__name__, lambda *given: fn(*given), partial(_riccati, discrete=discrete),
                    adjoint=partial(_riccati_adjoint, discrete=discrete))

    @means(fn)
    def solve(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
        return solver(*map(as_array, (a, b, q, r, e, s)), balanced)


_riccati_solver(sl.solve_continuous_are, discrete=False)
_riccati_solver(sl.solve_discrete_are, discrete=True)

# -- functions of a matrix that SciPy computes by the Schur form: SciPy's value, with the derivative of a formula

_POWER = Solver("fractional_matrix_power", lambda a, t: sl.fractional_matrix_power(a, t),
                lambda a, t: ops.expm(t * ops.logm(a)), "composite", draws=True)
_SIGN = Solver("signm", lambda a: sl.signm(a), lambda a: ops.matmul(a, ops.inv(ops.sqrtm(ops.matmul(a, a)))),
               "composite")


@means(sl.fractional_matrix_power)
def fractional_matrix_power(A: Array, t: Array) -> Any:
    return _POWER(as_array(A), t)


@means(sl.signm)
def signm(A: Array, *disp: Any, **kwargs: Any) -> Any:
    if disp or kwargs:
        raise unknown("signm with disp", "call it without disp")
    return _SIGN(as_array(A))


# -- factors and norms


@means(sl.cholesky)
def cholesky(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    x = as_array(a)
    return np.linalg.cholesky(x) if lower else adjoint(np.linalg.cholesky(adjoint(x)))


@means(sl.cho_factor)
def cho_factor(a: Array, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return cholesky(a, lower), lower  # the other triangle is zero here, arbitrary in SciPy


@means(sl.det)
def det(a: Array, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return np.linalg.det(as_array(a))


@means(sl.norm)
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    x = as_array(a)
    y, known = np.linalg.norm(x, ord, axis, keepdims), plain(x)
    if dtype_of(x).char not in "fdFD" or not known.size or axis is not None or keepdims:
        return y
    vector = known.ndim == 1 and ord in (None, 2)
    matrix = known.ndim == 2 and ord in (1, np.inf) and (np.isfortran(known) or np.isfortran(known.T))
    return ops.item(y) if vector or matrix else y  # from BLAS and LAPACK, whose wrappers return Python numbers


@means(sl.svd)
def svd(a: Array, full_matrices: Any = True, compute_uv: Any = True, overwrite_a: bool = False,
        check_finite: bool = True, lapack_driver: str = "gesdd") -> Any:
    return tuple(np.linalg.svd(as_array(a), full_matrices)) if compute_uv else svdvals(a)


@means(sl.svdvals)
def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    return np.linalg.svd(as_array(a), compute_uv=False)


@means(sl.eigh)
def eigh(a: Any, b: Any = None, *, lower: bool = True, eigvals_only: bool = False, overwrite_a: bool = False,
         overwrite_b: bool = False,
         type: int = 1, check_finite: bool = True, subset_by_index: Any = None, subset_by_value: Any = None,
         driver: Any = None) -> Any:
    if b is not None or subset_by_index is not None or subset_by_value is not None:
        raise unknown("generalized eigenvalues, or a subset of them,",
                      "compute all eigenvalues of inv(b) @ a, and index the result")
    eigen: Any = np.linalg.eigvalsh if eigvals_only else np.linalg.eigh
    y = eigen(as_array(a), "L" if lower else "U")
    return y if eigvals_only else tuple(y)


@means(sl.eigvalsh)
def eigvalsh(a: Any, b: Any = None, **how: Any) -> Any:
    return eigh(a, b, eigvals_only=True, **how)


@means(sl.eig)
def eig(a: Any, b: Any = None, left: bool = False, right: bool = True, overwrite_a: bool = False,
        overwrite_b: bool = False, check_finite: bool = True, homogeneous_eigvals: bool = False) -> Any:
    if b is not None or left or homogeneous_eigvals:
        raise unknown("generalized eigenvalues, or left eigenvectors,", "use the eigenvalues of inv(b) @ a, or of a.T")
    if not right:
        return _complex(np.linalg.eigvals(as_array(a)))
    w, v = np.linalg.eig(as_array(a))
    return _complex(w), v


@means(sl.eigvals)
def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True,
            homogeneous_eigvals: bool = False) -> Any:
    return eig(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)


def _complex(w: Array) -> Any:
    """Return eigenvalues as complex numbers, as SciPy does even if all are real."""
    return w if dtype_of(w).kind == "c" else ops.astype(w, dtype=np.result_type(dtype_of(w), np.complex64))


@means(sl.qr)
def qr(a: Array, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
       check_finite: bool = True) -> Any:
    if pivoting or mode not in ("full", "economic", "r"):
        raise unknown(f"QR with pivoting, or mode={mode!r}", "mode 'full', 'economic' or 'r'")
    modes: dict[str, Any] = {"full": "complete", "economic": "reduced", "r": "r"}
    y = np.linalg.qr(as_array(a), modes[mode])
    return (y,) if mode == "r" else tuple(y)


@means(sl.rq)
def rq(a: Array, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", check_finite: bool = True) -> Any:
    """Factorise the adjoint of the matrix with reversed rows by QR, and give the factors SciPy's signs."""
    a = as_array(a)
    if len(shape_of(a)) != 2 or mode not in ("full", "r", "economic") or (
            shape_of(a)[0] != shape_of(a)[1] and mode != "economic") or shape_of(a)[0] > shape_of(a)[1]:
        raise unknown(f"rq of a matrix of shape {shape_of(a)} with mode={mode!r}",
                      "a square matrix, or mode='economic'")
    q, r = ops.qr(adjoint(ops.flip(a, axis=0)))
    q, r = ops.flip(adjoint(q), axis=0), ops.flip(adjoint(r))
    known = np.diagonal(ops.stop_gradient(value_by("scipy.linalg.rq", r, a, part=0,
                                                   mode="economic" if mode == "economic" else "full")))
    turn = known / np.where(known == 0, 1.0, np.diagonal(ops.stop_gradient(r)))
    turn = turn / np.where(known == 0, 1.0, np.abs(turn))
    r, q = r * turn, ops.conj(turn)[:, None] * q
    return r if mode == "r" else (r, q)


@means(sl.qr_multiply)
def qr_multiply(a: Array, c: Array, mode: str = "right", pivoting: bool = False, conjugate: bool = False,
                overwrite_a: bool = False, overwrite_c: bool = False) -> Any:
    a, c = as_array(a), as_array(c)
    if pivoting or mode not in ("left", "right"):
        raise unknown(f"qr_multiply with pivoting={pivoting}, mode={mode!r}", "pivoting=False")
    q, r = qr(a, mode="economic")
    q = ops.conj(q) if conjugate else q
    c = c if dtype_of(c).kind == "c" else ops.astype(c, dtype=dtype_of(q))  # LAPACK's routine is chosen by the matrix
    if mode == "right":
        return c @ q, r
    if shape_of(c)[0] != shape_of(q)[1]:
        raise unknown(f"qr_multiply of {shape_of(c)} with all columns of q", "q, r = qr(a)")
    return q @ c, r


@means(sl.pinv)
def pinv(a: Array, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True) -> Any:
    if atol is not None or return_rank:
        raise unknown("pinv with atol= or return_rank=", "rtol=")
    x = as_array(a)
    return np.linalg.pinv(x, max(shape_of(x)[-2:]) * np.finfo(x.dtype).eps if rtol is None else rtol)


@means(sl.lstsq)
def lstsq(a: Array, b: Array, cond: Any = None, overwrite_a: bool = False, overwrite_b: bool = False,
          check_finite: bool = True, lapack_driver: Any = None) -> Any:
    x, residuals, rank, s = np.linalg.lstsq(as_array(a), as_array(b), np.finfo(float).eps if cond is None else cond)
    if lapack_driver == "gelsy":
        return x, np.array([], x.dtype), ops.item(rank), None
    single = len(shape_of(x)) == 1 and shape_of(residuals)[0]
    return x, residuals[0] if single else residuals, ops.item(rank), s


# -- functions of a matrix


def function(op: Op) -> Any:
    def of_matrix(A: Array) -> Any:
        x = as_array(A)
        return op(x if shape_of(x) else ops.reshape(x, (1, 1)))
    return of_matrix


for _op in (ops.expm, ops.logm, ops.sqrtm, ops.sinm, ops.cosm, ops.tanm, ops.sinhm, ops.coshm, ops.tanhm):
    register(getattr(sl, _op.__name__), function(_op))

# -- matrices made of vectors and blocks


@means(sl.hankel)
def hankel(c: Any, r: Any = None) -> Any:
    column = np.atleast_1d(as_array(c))
    row = np.zeros_like(column) if r is None else np.atleast_1d(as_array(r))
    return ops.take(ops.concat(column, row[1:], axis=-1),
                    np.arange(shape_of(column)[0])[:, None] + np.arange(shape_of(row)[0]), axis=0)


@means(sl.circulant)
def circulant(c: Array) -> Any:
    column = np.atleast_1d(as_array(c))
    k = np.arange(shape_of(column)[-1])
    return ops.take(column, (k[:, None] - k) % len(k), axis=-1)


@means(sl.block_diag)
def block_diag(*arrs: Any) -> Any:
    blocks, parts, m, n = [np.atleast_2d(as_array(x)) for x in arrs], [], 0, 0
    for x in blocks:
        if len(shape_of(x)) != 2:
            raise unknown("block_diag of stacks", "call it once for each matrix")
        rows, columns = shape_of(x)
        parts += [x, slice(m, m + rows), slice(n, n + columns)]
        m, n = m + rows, n + columns
    return ops.scatter(*parts, shape=(m, n), ranks=(2,) * len(blocks))



# -- facts of a matrix, to which the trace is specialised


@means(sl.issymmetric, constant=True)
def issymmetric(a: Array, atol: Any = None, rtol: Any = None) -> Any:
    return bool(_close(as_array(a), transposed(as_array(a)), atol, rtol))


@means(sl.ishermitian, constant=True)
def ishermitian(a: Array, atol: Any = None, rtol: Any = None) -> Any:
    return bool(_close(as_array(a), adjoint(as_array(a)), atol, rtol))


def _close(a: Array, b: Array, atol: Any, rtol: Any) -> Any:
    return (ops.all(ops.equal(a, b)) if atol is None and rtol is None
            else np.allclose(a, b, atol=atol or 0.0, rtol=rtol or 0.0))


@means(sl.bandwidth, constant=True)
def bandwidth(a: Array) -> Any:
    x = as_array(a)
    i, j = np.indices(shape_of(x))
    there = ops.not_equal(x, 0)
    return tuple(static(ops.max(ops.where(there, side, 0))) if side.size else 0 for side in (i - j, j - i))


# -- SciPy's Python code that calls only the functions above

_IN_PYTHON = """cdf2rdf companion convolution_matrix diagsvd expm_cond expm_frechet fiedler
    fiedler_companion khatri_rao leslie null_space orth orthogonal_procrustes pinvh polar solve_circulant
    solve_discrete_lyapunov subspace_angles"""
RUN_AS_PYTHON.update(getattr(sl, name) for name in _IN_PYTHON.split() if hasattr(sl, name))

_FACTORS = "these factors have no derivative rule"
for _names, _why, _try in (
        ("schur rsf2csf hessenberg qz ordqz ldl cossin", _FACTORS, "qr, lu, eig, svd or cholesky"),
        ("qr_delete qr_insert qr_update", _FACTORS, "qr of the updated matrix"),
        ("funm", "SciPy computes it from the Schur form", "expm, logm, sqrtm or a similar function, or eig"),
        ("matrix_balance", "it chooses powers of two to scale by, depending on values",
         "use the matrix without balancing"),
        ("clarkson_woodruff_transform", "it draws a random matrix, and writes in place",
         "multiply by a matrix that you draw yourself")):
    refuse(*(getattr(sl, name) for name in _names.split() if hasattr(sl, name)), why=_why, try_=_try, derivative=True)

leave(sl.dft, sl.hadamard, sl.helmert, sl.hilbert, sl.invhilbert, sl.invpascal, sl.pascal,
      why="takes counts, and returns plain values")
leave(sl.find_best_blas_type, sl.get_blas_funcs, sl.get_lapack_funcs, why="takes dtypes")
leave(sl.test, sl.LinAlgWarning, why="settings and text")
