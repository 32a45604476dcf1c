"""scipy.sparse.linalg: sparse systems of equations, by factors or step by step, and what SciPy writes in products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss
import scipy.sparse.linalg as ssl

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.scipy.sparse import compressed, ones, summed
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.ops.solver import Solver
from tapegrad.ops.sparse import sparse_solve
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import AS_WRITTEN, constructs, leave, means, refuse, refused


def there(names: str) -> list[Any]:
    """Return the functions of these names that this version of SciPy has."""
    return [getattr(ssl, name) for name in names.split() if hasattr(ssl, name)]


def square(A: Array) -> Any:
    """Return a matrix as a sparse one; raise ValueError of one that is not square."""
    A = A if ss.issparse(A) else ss.csc_array(A)
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise ValueError(f"matrix must be square (has shape {A.shape})")
    return A


def solve(A: Array, b: Array, trans: str = "N") -> Any:
    """Return the solution of a system of a sparse matrix, of its transpose ("T") or its adjoint ("H")."""
    if ss.issparse(b):
        raise refused("a system of equations with a sparse right side", "which places of its solution are 0 depends on values", "b.toarray()")
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
def spsolve_triangular(A: Any, b: Any, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False, unit_diagonal: bool = False) -> Any:
    A, keep = square(A), ss.tril if lower else ss.triu
    if keep(ones(A)).nnz != A.nnz:
        raise refused("spsolve_triangular", "the matrix stores numbers in the other triangle", "scipy.sparse.tril(A), or triu")
    if unit_diagonal:
        A = (ss.tril(A, -1) if lower else ss.triu(A, 1)) + ss.eye_array(A.shape[0])
    return solve(A.tocsc(), b)


class Factors:
    """What `splu` returns in a trace: it solves, by factors that are computed at the first solution, and kept.

    Those of a matrix that is not traced are SciPy's own.
    """

    def __init__(self, A: Array, own: Any = None) -> None:
        self._matrix, self._own = square(A).tocsc(), own
        self.shape = self._matrix.shape

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solve A x = rhs, or by the transpose ("T") or the adjoint ("H")."""
        return solve(self._matrix, rhs, trans) if self._own is None or isinstance(rhs, Traced) else self._own.solve(rhs, trans)

    def __getattr__(self, name: str) -> Any:
        if self._own is not None:
            return getattr(self._own, name)
        raise refused(f"splu(A).{name}", "the order of rows in a factor depends on values", "splu(A).solve")


@means(ssl.splu)
def splu(A: Array, *args: Any, **kwargs: Any) -> Any:
    return Factors(A)


@constructs(ssl.splu)
def splu_of_plain(tracer: Any, fn: Callable[..., Any], A: Array, *args: Any, **kwargs: Any) -> Any:
    return Factors(A, fn(A, *args, **kwargs))


@means(ssl.factorized)
def factorized(A: Array) -> Callable[..., Any]:
    return Factors(A).solve


# -- solvers that go step by step: the derivative is that of the solution, by the adjoint system


def _iterative(name: str, self_adjoint: bool = False) -> None:
    fn = getattr(ssl, name)

    def find(A: Array, b: Array, x0: Array, how: dict[str, Any], restarts: int = 0) -> Any:
        y, info = fn(A, b, x0, **how)
        if info < 0 and restarts:  # a breakdown, next to the solution
            return find(A, b, y, how, restarts - 1)
        if info:
            raise refused(name, f"it has not converged: info is {info}", "more iterations, a looser tolerance, or a preconditioner")
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
            raise refused(f"{name} of a LinearOperator", "what it multiplies by is not known, nor its adjoint",
                          "a sparse array; or tg.implicit, with a solver of your own")
        b = as_array(b)
        y = solver(A, ops.reshape(b, (-1,)) if len(shape_of(b)) == 2 else b, x0, how)
        return y, 0


def _adjoint_of(M: Any) -> Any:
    """Return the adjoint of a preconditioner, None where a LinearOperator has none."""
    if not isinstance(M, ssl.LinearOperator):
        return M.conj().T
    try:
        M.rmatvec(np.zeros(M.shape[0]))
    except (NotImplementedError, TypeError):  # of one that was made of a matvec alone
        return None
    return M.H


for _name in ("bicg", "bicgstab", "cgs", "gcrotmk", "gmres", "lgmres", "qmr", "tfqmr"):
    _iterative(_name)
for _name in ("cg", "minres"):
    _iterative(_name, self_adjoint=True)

# -- the exponential: SciPy's value, with the derivative of Taylor's polynomial, in steps of a norm below 1

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
        raise refused("expm_multiply at several times, or of what is no sparse matrix,", "it has no rule", "expm_multiply(A * t, B) for each time")
    return _EXPONENTIAL(arrays(A), as_array(B))


def arrays(A: Array) -> Any:
    """Return the sparse array of a sparse matrix, whose sums are arrays."""
    return A if isinstance(A, ss.sparray) else ss.csr_array(A)


@means(ssl.norm)
def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    if axis is not None or ord not in (None, "fro", "f", 1, -1, np.inf, -np.inf):
        raise refused(f"norm of a sparse matrix with ord={ord!r}, axis={axis!r}", "it has no rule", "np.linalg.norm(A.toarray(), ord, axis)")
    x = arrays(x) if x.format == "coo" else ss.coo_array(x)
    if ord in (None, "fro", "f"):
        return np.linalg.norm(summed(x).data)
    sums = abs(x).sum(axis=0 if abs(ord) == 1 else 1)
    return np.max(sums) if ord > 0 else np.min(sums)


refuse(ssl.lsqr, ssl.lsmr, why="its derivative is not known here", try_="spsolve(A.T @ A, A.T @ b)", derivative=True)
refuse(ssl.eigs, ssl.eigsh, ssl.lobpcg, ssl.svds, why="few of many eigenvalues have no rule here",
       try_="np.linalg.eigh(A.toarray()), or np.linalg.eig, np.linalg.svd", derivative=True)
refuse(ssl.spilu, why="incomplete factors are those of another matrix", try_="splu")
refuse(ssl.inv, ssl.expm, why="which of its numbers are 0 depends on values", try_="spsolve(A, b), expm_multiply(A, b); or A.toarray()",
       derivative=True)
refuse(*there("funm_multiply_krylov"), why="it has no rule here", try_="expm_multiply", derivative=True)
refuse(ssl.onenormest, why="an estimate is found by a search", try_="scipy.sparse.linalg.norm(A, 1)")
AS_WRITTEN.update(there("aslinearoperator matrix_power"))
leave(*there("LaplacianNd SuperLU LinearOperator is_sptriangular spbandwidth"), why="classes, and what asks for a pattern")
leave(*there("MatrixRankWarning ArpackError ArpackNoConvergence use_solver test"), why="classes, settings and text")
