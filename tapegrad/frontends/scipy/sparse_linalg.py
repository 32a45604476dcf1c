"""scipy.sparse.linalg: direct and iterative solvers of sparse systems, and SciPy's code made of products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss
import scipy.sparse.linalg as ssl

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.sparse import ones, summed
from tapegrad.frontends.scipy.sparse_arithmetic import compressed
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.ops.sparse import sparse_solve
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import RUN_AS_PYTHON, constructs, leave, means, refuse, refused
from tapegrad.trace.interposition import WRAPPED


def there(names: str) -> list[Any]:
    """Return the functions with these names that this version of SciPy has."""
    return [getattr(ssl, name) for name in names.split() if hasattr(ssl, name)]


def square(A: Array) -> Any:
    """Return a matrix in sparse format; raise ValueError if it is not square."""
    A = A if ss.issparse(A) else ss.csc_array(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square (has shape {A.shape})")
    return A


def solve(A: Array, b: Array, trans: str = "N") -> Any:
    """Solve a system with a sparse matrix, its transpose ("T") or its adjoint ("H")."""
    if ss.issparse(b):
        raise refused("a system of equations with a sparse right-hand side",
                      "the positions of zeros in its solution depend on values", "b.toarray()")
    data, indices, indptr, of_columns = compressed(A)
    b = as_array(b)
    if shape_of(b)[:1] != A.shape[:1] or len(shape_of(b)) > 2:
        raise ValueError(f"matrix - rhs dimension mismatch ({A.shape} - {shape_of(b)})")
    if of_columns or trans == "T":
        return sparse_solve(data, indices, indptr, b, trans=trans if of_columns else "N")
    if trans == "N":
        return sparse_solve(data, indices, indptr, b, trans="T")
    return ops.conj(sparse_solve(data, indices, indptr, ops.conj(b)))


@means(ssl.spsolve)
def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    A = square(A)
    y = solve(A if A.format == "csr" else A.tocsc(), b)
    return ops.reshape(y, (-1,)) if shape_of(y)[1:] == (1,) else y


@means(ssl.spsolve_triangular)
def spsolve_triangular(A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
                       unit_diagonal: bool = False) -> Any:
    A, keep = square(A), ss.tril if lower else ss.triu
    if keep(ones(A)).nnz != A.nnz:
        raise refused("spsolve_triangular", "the matrix also stores numbers in the other triangle",
                      "scipy.sparse.tril(A), or triu")
    if unit_diagonal:
        A = (ss.tril(A, -1) if lower else ss.triu(A, 1)) + ss.eye_array(A.shape[0])
    return solve(A.tocsc(), b)


class Factors:
    """The counterpart of `splu`'s result in a trace: it factorises at the first solution, and caches the factors. For a
    matrix that is not traced it wraps SciPy's own factors.
    """

    def __init__(self, A: Array, own: Any = None) -> None:
        self._matrix, self._own = square(A).tocsc(), own
        self.shape = self._matrix.shape

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve A x = rhs, or the system of the transpose ("T") or the adjoint ("H")."""
        return (solve(self._matrix, rhs, trans) if self._own is None or isinstance(rhs, Traced)
                else self._own.solve(rhs, trans))

    def __getattr__(self, name: str) -> Any:
        if self._own is not None:
            return getattr(self._own, name)
        raise refused(f"splu(A).{name}", "the order of rows in the factors depends on values", "splu(A).solve")


@means(ssl.splu)
def splu(A: Array, *args: Any, **kwargs: Any) -> Any:
    return Factors(A)


@constructs(ssl.splu)
def splu_of_plain(tracer: Any, fn: Callable[..., Any], A: Array, *args: Any, **kwargs: Any) -> Any:
    return Factors(A, fn(A, *args, **kwargs))


def _factors_of(own: Any) -> Any:
    """Return the stand-in for factors that were made before the trace; their product is the matrix."""
    A = ss.csc_array((np.ones(len(own.perm_r)), (own.perm_r, np.arange(len(own.perm_r))))).T @ (own.L @ own.U) @ \
        ss.csc_array((np.ones(len(own.perm_c)), (np.arange(len(own.perm_c)), own.perm_c))).T
    return Factors(A, own)


WRAPPED[ssl.SuperLU] = _factors_of


@means(ssl.factorized)
def factorized(A: Array) -> Callable[..., Any]:
    return Factors(A).solve


# -- iterative solvers: the derivative is that of the exact solution, by the adjoint system


def _iterative(name: str, self_adjoint: bool = False) -> None:
    fn = getattr(ssl, name)

    def find(A: Array, b: Array, x0: Array, how: dict[str, Any], restarts: int = 0) -> Any:
        y, info = fn(A, b, x0, **how)
        if info < 0 and restarts:  # a breakdown near the solution: restart from there
            return find(A, b, y, how, restarts - 1)
        if info:
            raise refused(name, f"it did not converge: info is {info}",
                          "more iterations, a looser tolerance, or a preconditioner")
        return y

    def residual(x: Array, A: Array, b: Array, *how: Any) -> Any:
        return A @ x - b

    def adjoint(x: Array, dx: Any, A: Any, b: Array, x0: Array, how: dict[str, Any]) -> Any:
        how = {key: part for key, part in how.items() if key != "callback"}
        if how.get("M") is not None and not self_adjoint:
            how = {**how, "M": _adjoint_of(how["M"])}
        return of_adjoint(A if self_adjoint else A.conj().T, dx, None, how)

    solver = Solver(name, find, residual, adjoint=adjoint)
    of_adjoint = Solver(name, lambda A, b, x0, how: find(A, b, x0, how, 3), residual, adjoint=adjoint)

    @means(fn)
    def iterate(A: Any, b: Any, x0: Any = None, **how: Any) -> Any:
        if not ss.issparse(A) and isinstance(A, ssl.LinearOperator):
            raise refused(f"{name} of a LinearOperator", "its matrix and adjoint are not known",
                          "a sparse array; or tg.implicit, with a solver of your own")
        b = as_array(b)
        y = solver(A, ops.reshape(b, (-1,)) if len(shape_of(b)) == 2 else b, x0, how)
        return y, 0


def _adjoint_of(M: Any) -> Any:
    """Return the adjoint of a preconditioner; None if a LinearOperator has none."""
    if not isinstance(M, ssl.LinearOperator):
        return M.conj().T
    try:
        M.rmatvec(np.zeros(M.shape[0]))
    except (NotImplementedError, TypeError):  # it was made from a matvec only
        return None
    return M.H


for _name in ("bicg", "bicgstab", "cgs", "gcrotmk", "gmres", "lgmres", "qmr", "tfqmr"):
    _iterative(_name)
for _name in ("cg", "minres"):
    _iterative(_name, self_adjoint=True)

# -- the exponential: SciPy's value, with the derivative of a Taylor polynomial in steps of a norm below 1

TERMS = 22  # 1 / 22! is below the precision of a double


def _taylor(A: Any, B: Array) -> Any:
    size = ops.stop_gradient(ops.max(np.abs(A).sum(axis=0))) if A.nnz else 1.0
    steps = 2 ** int(np.ceil(np.log2(np.maximum(size, 1.0))))
    y = B
    for _ in range(steps):
        term = y
        for k in range(1, TERMS + 1):
            term = A @ term / (k * steps)
            y = y + term
    return y


_EXPONENTIAL = Solver("expm_multiply", lambda A, B: ssl.expm_multiply(A, B), _taylor, "composite", draws=True)


@means(ssl.expm_multiply)
def expm_multiply(A: Array, B: Array, *times: Any, traceA: Any = None, **further: Any) -> Any:
    if times or further or not ss.issparse(A):
        raise refused("expm_multiply at several times, or with an operand that is not a sparse matrix,",
                      "it has no derivative rule",
                      "expm_multiply(A * t, B) for each time")
    return _EXPONENTIAL(arrays(A), as_array(B))


def arrays(A: Array) -> Any:
    """Return a sparse matrix as a sparse array, whose sums are arrays."""
    return A if isinstance(A, ss.sparray) else ss.csr_array(A)


@means(ssl.norm)
def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    if axis is not None or ord not in (None, "fro", "f", 1, -1, np.inf, -np.inf):
        raise refused(f"norm of a sparse matrix with ord={ord!r}, axis={axis!r}", "it has no derivative rule",
                      "np.linalg.norm(A.toarray(), ord, axis)")
    x = arrays(x) if x.format == "coo" else ss.coo_array(x)
    if ord in (None, "fro", "f"):
        return np.linalg.norm(summed(x).data)
    sums = abs(x).sum(axis=0 if abs(ord) == 1 else 1)
    return np.max(sums) if ord > 0 else np.min(sums)


# -- least squares: the solution of the normal equations


def _least_squares(name: str) -> None:
    fn = getattr(ssl, name)

    def find(A: Any, b: Array, how: dict[str, Any]) -> Any:
        found = fn(A, b, **how)
        if found[1] in (3, 6, 7):
            raise refused(name, f"it did not converge: istop is {found[1]}",
                          "more iterations, a looser tolerance or a larger conlim")
        return tuple(found)

    def residual(x: Array, A: Any, b: Array, how: dict[str, Any]) -> Any:
        return A.conj().T @ (A @ x - b) + how.get("damp", 0.0) ** 2 * x

    def adjoint(x: Array, dx: Any, A: Any, b: Array, how: dict[str, Any]) -> Any:
        return spsolve((A.conj().T @ A + how.get("damp", 0.0) ** 2 * ss.eye_array(A.shape[1])).tocsc(), dx)

    solver = Solver(name, find, residual, facts=True, adjoint=adjoint)

    @means(fn)
    def solve_by_least_squares(A: Any, b: Any, damp: Any = 0.0, *args: Any, **how: Any) -> Any:
        if args or not ss.issparse(A) or A.shape[0] < A.shape[1] or how.get("x0") is not None:
            raise refused(f"{name} of a LinearOperator, with fewer equations than unknowns, or with positional "
                          "arguments after damp", "it has no derivative rule",
                          f"{name}(A, b, damp, atol=...) of a sparse array; spsolve")
        return solver(arrays(A), ops.reshape(as_array(b), (-1,)), {**how, "damp": damp})


for _name in ("lsqr", "lsmr"):
    _least_squares(_name)

# -- eigenpairs: each is the root of (A v - w v, (v·v - 1) / 2), which is simple where the eigenvalue is


def _pairs(w: Array, v: Array) -> Any:
    gaps = np.abs(w[:, None] - w) + np.diag(np.full(len(w), np.inf))
    if gaps.min(initial=np.inf) <= 1e-9 * np.abs(w).max(initial=0.0):
        raise refused("a repeated eigenvalue", "its eigenvectors are not unique, so they have no derivative",
                      "a matrix whose eigenvalues differ")
    return np.concatenate([v, w[None]])


def _eigen_residual(pairs: Array, A: Array, *how: Any) -> Any:
    v, w = pairs[:-1], pairs[-1]
    return np.concatenate([A @ v - v * w, (np.sum(v * v, axis=0) - 1)[None] / 2])


def _eigen_adjoint(pairs: Array, dpairs: Any, A: Array, *how: Any) -> Any:
    def column(i: int) -> Any:
        v, w = pairs[:-1, i:i + 1], pairs[-1, i]
        bordered = ss.block_array([[A - w * ss.eye_array(A.shape[0]), ss.csr_array(v)], [ss.csr_array(-v.T), None]])
        return spsolve(bordered.tocsc(), dpairs[:, i])
    return np.stack([column(i) for i in range(shape_of(pairs)[1])], axis=1)


def _twofold(A: Array) -> Any:
    """Return the symmetric matrix [[0, A], [A.T, 0]], whose eigenvalues are ± the singular values."""
    return ss.block_array([[None, A], [A.T, None]], format="csr")


def _singular(B: Array, shape: tuple[int, int], how: dict[str, Any]) -> Any:
    u, s, vt = ssl.svds(B[:shape[0], shape[0]:], **how)
    return _pairs(s, np.concatenate([u, vt.T]) / np.sqrt(2.0))


_EIGSH, _LOBPCG, _SVDS = (Solver(name, find, _eigen_residual, adjoint=_eigen_adjoint, draws=True) for name, find in (
    ("eigsh", lambda A, how: _pairs(*ssl.eigsh(A, **how))),
    ("lobpcg", lambda A, X, how: _pairs(*ssl.lobpcg(A, X, **how)[:2])), ("svds", _singular)))


def _symmetric(name: str, A: Any, others: Any = None) -> Any:
    if not ss.issparse(A) or dtype_of(A.data).kind != "f" or others is not None:
        raise refused(f"{name} of an operand that is not a real sparse matrix, or of a generalized problem",
                      "it has no derivative rule",
                      "np.linalg.eigh(A.toarray()), or np.linalg.svd")
    return arrays(A).tocsr()


@means(ssl.eigsh)
def eigsh(A: Any, k: int = 6, M: Any = None, sigma: Any = None, which: str = "LM", v0: Any = None, ncv: Any = None,
          maxiter: Any = None, tol: float = 0, return_eigenvectors: bool = True, **further: Any) -> Any:
    how = {"k": k, "sigma": sigma, "which": which, "v0": v0, "ncv": ncv, "maxiter": maxiter, "tol": tol, **further}
    found = _EIGSH(_symmetric("eigsh", A, M), how)
    return (found[-1], found[:-1]) if return_eigenvectors else found[-1]


@means(ssl.lobpcg)
def lobpcg(A: Any, X: Any, B: Any = None, M: Any = None, Y: Any = None, **how: Any) -> Any:
    found = _LOBPCG(_symmetric("lobpcg", A, B if Y is None else Y), X, {"M": M, **how})
    return found[-1], found[:-1]


@means(ssl.svds)
def svds(A: Any, k: int = 6, ncv: Any = None, tol: float = 0, which: str = "LM", v0: Any = None, maxiter: Any = None,
         return_singular_vectors: Any = True, **further: Any) -> Any:
    A = _symmetric("svds", A)
    how = {"k": k, "ncv": ncv, "tol": tol, "which": which, "v0": v0, "maxiter": maxiter, **further}
    found = _SVDS(_twofold(A), A.shape, how)
    parts = found[:A.shape[0]] * np.sqrt(2.0), found[-1], found[A.shape[0]:-1].T * np.sqrt(2.0)
    return parts[1] if return_singular_vectors is False else parts if return_singular_vectors is True else \
        (parts[0], parts[1], None) if return_singular_vectors == "u" else (None, *parts[1:])


refuse(ssl.eigs, why="a few eigenvalues of a matrix that is not symmetric have no derivative rule",
       try_="np.linalg.eig(A.toarray())",
       derivative=True)
refuse(ssl.spilu, why="incomplete factors belong to an approximation of the matrix", try_="splu")
refuse(ssl.inv, ssl.expm, why="the positions of its zeros depend on values",
       try_="spsolve(A, b), expm_multiply(A, b); or A.toarray()",
       derivative=True)
refuse(*there("funm_multiply_krylov"), why="it has no derivative rule here", try_="expm_multiply", derivative=True)
refuse(ssl.onenormest, why="the estimate is found by a search", try_="scipy.sparse.linalg.norm(A, 1)")
RUN_AS_PYTHON.update(there("aslinearoperator matrix_power"))
leave(*there("LaplacianNd SuperLU LinearOperator is_sptriangular spbandwidth"),
      why="classes, and functions that return the sparsity pattern")
leave(*there("MatrixRankWarning ArpackError ArpackNoConvergence use_solver test"), why="classes, settings and text")
