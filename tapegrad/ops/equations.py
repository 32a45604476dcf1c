"""Matrix equations and functions of matrices: triangular systems, LU factors, Sylvester's equation, the exponential and its kin.

The implementation is SciPy's, imported when the first is computed. Rules: M. Giles, "An extended collection of matrix derivative
results" (2008); for a function of a matrix, N. Higham, "Functions of Matrices" (2008), theorem 3.6.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import tensors
from tapegrad.lazy import torch
from tapegrad.ops.elementwise import conj, constant
from tapegrad.ops.index import take
from tapegrad.ops.linalg import _adjoint as adjoint
from tapegrad.ops.linalg import matmul, tril, triu
from tapegrad.ops.shape import concat, permute_dims
from tapegrad.ops.sort import argsort
from tapegrad.rules import Op, define
from tapegrad.tangent import shape_of


def implementation(name: str) -> Callable[..., Any]:
    """Return a function of scipy.linalg, found when it is called."""
    return lambda *args, **kwargs: getattr(importlib.import_module("scipy.linalg"), name)(*args, **kwargs)


def transposed(x: Any) -> Any:
    """Return the transpose of a matrix, or of each in a stack."""
    ndim = len(shape_of(x))
    return permute_dims(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


# -- triangular systems: A x = b, or Aᵀ x = b (trans=1), or Aᴴ x = b (trans=2)


def _solve_triangular_vjp(y: Any, a: Any, b: Any, trans: int = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    def solve_triangular_pullback(dy: Any) -> tuple[Any, Any]:
        vector = len(shape_of(b)) == 1
        x, dx = (y[..., None], dy[..., None]) if vector else (y, dy)
        how = {"lower": lower, "unit_diagonal": unit_diagonal}
        db = solve_triangular(conj(a), dx, **how) if trans == 1 else solve_triangular(a, dx, trans=0 if trans else 2, **how)
        da = -matmul(db, adjoint(x)) if not trans else -matmul(conj(x), transposed(db)) if trans == 1 else -matmul(x, adjoint(db))
        return (tril(da, k=-1 if unit_diagonal else 0) if lower else triu(da, k=1 if unit_diagonal else 0)), db[..., 0] if vector else db
    return solve_triangular_pullback


def _solve_triangular_tensors(a: Any, b: Any, trans: int = 0, lower: bool = False, unit_diagonal: bool = False) -> Any:
    a, b = tensors.together((a, b), number=True)
    x = b[:, None] if b.ndim == 1 else b
    y = torch.linalg.solve_triangular(a if not trans else a.mT if trans == 1 else a.mH, x, upper=lower == bool(trans), unitriangular=unit_diagonal)
    return y[..., 0] if b.ndim == 1 else y


solve_triangular = define("solve_triangular", implementation("solve_triangular"), vjp=_solve_triangular_vjp, torch=_solve_triangular_tensors)

# -- LU: both factors in one matrix, and the rows that LAPACK swapped


def _permutation(piv: Any) -> Any:
    order = np.arange(len(piv))
    for i, j in enumerate(piv):
        order[[i, j]] = order[[j, i]]
    return order


def _lu_vjp(y: Any, a: Any) -> Any:
    def lu_factor_pullback(dy: Any) -> tuple[Any]:
        lu, d = y[0], dy[0]
        unit = np.eye(shape_of(lu)[-1])
        lower, upper = tril(lu, k=-1) + unit, triu(lu)
        inner = tril(matmul(adjoint(lower), tril(d, k=-1)), k=-1) + triu(matmul(triu(d), adjoint(upper)))
        right = adjoint(solve_triangular(lu, adjoint(inner)))
        da = solve_triangular(lu, right, trans=2, lower=True, unit_diagonal=True)
        return (take(da, argsort(permutation(y[1])), axis=0),)
    return lu_factor_pullback


def _lu_factor_tensor(a: Any) -> Any:
    lu, piv = torch.linalg.lu_factor(a.to(tensors.inexact_type(a)))
    return lu, piv - 1  # torch counts rows as LAPACK does, from 1


permutation = constant("permutation", _permutation, on_torch=tensors.on_host(_permutation))
lu_factor = define("lu_factor", implementation("lu_factor"), vjp=_lu_vjp, torch=_lu_factor_tensor)

# -- Sylvester's equation, a x + x b = q


def _sylvester_vjp(x: Any, a: Any, b: Any, q: Any) -> Any:
    def solve_sylvester_pullback(dx: Any) -> tuple[Any, Any, Any]:
        dq = solve_sylvester(adjoint(a), adjoint(b), dx)
        return -matmul(dq, adjoint(x)), -matmul(adjoint(x), dq), dq
    return solve_sylvester_pullback


solve_sylvester = define("solve_sylvester", implementation("solve_sylvester"), vjp=_sylvester_vjp,
                         torch=tensors.on_host(implementation("solve_sylvester")))

# -- functions of a matrix


def matrix_function(name: str) -> Op:
    """Define a function of a matrix that commutes with the conjugate.

    The derivative in the direction e stands in the corner of f([[x, e], [0, x]]), and its adjoint is that at xᴴ: f is its own rule.
    """
    def cotangent(dy: Any, y: Any, x: Any) -> Any:
        n, xh = shape_of(x)[-1], adjoint(x)
        both = concat(concat(xh, dy, axis=-1), concat(np.zeros(shape_of(x)), xh, axis=-1), axis=-2)
        return op(both)[..., :n, n:]
    op = define(name, implementation(name), (cotangent,),
                torch=tensors.matrix_function("linalg.matrix_exp") if name == "expm" else tensors.on_host(implementation(name)))
    return op


expm, logm, sqrtm = map(matrix_function, ("expm", "logm", "sqrtm"))
sinm, cosm, tanm = map(matrix_function, ("sinm", "cosm", "tanm"))
sinhm, coshm, tanhm = map(matrix_function, ("sinhm", "coshm", "tanhm"))
