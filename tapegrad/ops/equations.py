"""Matrix equations and functions of matrices: LU factors, Sylvester's equation, the exponential and related functions.

The implementation is SciPy's, imported at the first call. Rules: M. Giles, "An extended collection of matrix derivative
results" (2008); for a function of a matrix, N. Higham, "Functions of Matrices" (2008), theorem 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.cotangents import ZERO, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import needed, torch
from tapegrad.ops.elementwise import constant
from tapegrad.ops.index import take
from tapegrad.ops.linalg import adjoint, matmul, tril, triu
from tapegrad.ops.shape import concat
from tapegrad.ops.sort import argsort
from tapegrad.ops.triangular import solve_triangular
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, RAISES, Joint
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define


def implementation(name: str) -> Callable[..., Any]:
    """Return a function of scipy.linalg, looked up when it is called."""
    return lambda *args, **kwargs: getattr(needed("scipy.linalg"), name)(*args, **kwargs)


# -- LU: both factors in one matrix, and LAPACK's row swaps


def _permutation(piv: Any) -> Any:
    order = np.arange(len(piv))
    for i, j in enumerate(piv):
        order[[i, j]] = order[[j, i]]
    return order


def _factors(lu: Array) -> tuple[Array, Array]:
    """Return L, and U with the last pivot 1, on which no derivative depends: it may be 0, as in a Markov generator."""
    unit = np.eye(shape_of(lu)[-1])
    last = np.zeros_like(unit)
    last[-1:, -1:] = 1
    return tril(lu, k=-1) + unit, triu(lu) * (1 - last) + last


def _lu_vjp(y: Array, a: Array) -> Any:
    def lu_factor_pullback(dy: Cotangent) -> tuple[Any]:
        lu, d = y[0], dy[0]
        lower, upper = _factors(lu)
        inner = tril(matmul(adjoint(lower), tril(d, k=-1)), k=-1) + triu(matmul(triu(d), adjoint(upper)))
        right = adjoint(solve_triangular(upper, adjoint(inner)))
        da = solve_triangular(lu, right, trans=2, lower=True, unit_diagonal=True)
        return (take(da, argsort(permutation(y[1])), axis=0),)
    return lu_factor_pullback


def _lu_tangent(ts: Any, y: Array, _a: Array) -> Any:
    # for L F U, F = L⁻¹ dA U⁻¹: the lower triangle of F changes L, the upper one U
    lu, piv = y
    inner = solve_triangular(lu, take(ts[0], permutation(piv), axis=0), lower=True, unit_diagonal=True)
    lower, upper = _factors(lu)
    inner = adjoint(solve_triangular(upper, adjoint(inner), trans=2))
    return tril(matmul(lower, tril(inner, k=-1)), k=-1) + triu(matmul(triu(inner), upper)), ZERO


def _lu_factor_tensor(a: Any) -> Any:
    lu, piv, _ = torch.linalg.lu_factor_ex(a.to(tensor_dtypes.inexact_type(a)))  # a singular matrix has factors
    return lu, piv - 1  # torch counts rows as LAPACK does, from 1


def _permutation_tensor(piv: Any) -> Any:
    n = len(piv)  # torch reads only the shape of the factors
    factors = torch.empty((n, n), device=piv.device)
    return torch.lu_unpack(factors, (piv + 1).to(torch.int32), unpack_data=False)[0].argmax(0)


permutation = constant("permutation", _permutation, on_torch=_permutation_tensor, spec=types.order_of)
lu_factor = define("lu_factor", implementation("lu_factor"), rule=Joint(_lu_vjp), effects=RAISES, tangent=_lu_tangent,
                   torch=_lu_factor_tensor, memory=FRESH, spec=types.lu)

# -- Sylvester's equation, a x + x b = q


def _sylvester_vjp(x: Array, a: Array, b: Array, q: Array) -> Any:
    def solve_sylvester_pullback(dx: Cotangent) -> tuple[Any, Any, Any]:
        dq = solve_sylvester(adjoint(a), adjoint(b), dx)
        return -matmul(dq, adjoint(x)), -matmul(adjoint(x), dq), dq
    return solve_sylvester_pullback


solve_sylvester = define("solve_sylvester", implementation("solve_sylvester"), rule=Joint(_sylvester_vjp),
                         effects=RAISES,
                         torch=tensors.on_host(implementation("solve_sylvester")), memory=FRESH, spec=types.sylvester)

# -- functions of a matrix


def matrix_function(name: str) -> Op:
    """Define a function of a matrix that is analytic everywhere, or has poles only.

    The derivative in the direction e is the corner of f([[x, e], [0, x]]), and its adjoint is that at xᴴ: f is its own
    rule.
    """
    op = define(name, implementation(name), (lambda dy, _y, x: corner(op, adjoint(x), dy),), effects=RAISES,
                tangent=lambda ts, _y, x: corner(op, x, ts[0]),
                torch=tensors.matrix_function("linalg.matrix_exp") if name == "expm"
                else tensors.on_host(implementation(name)), memory=FRESH, spec=types.matrix_function)
    return op


def corner(op: Op, x: Array, e: Any) -> Any:
    """Return the derivative of a function of a matrix in the direction `e`."""
    n = shape_of(x)[-1]
    both = concat(concat(x, e, axis=-1), concat(np.zeros(shape_of(x)), x, axis=-1), axis=-2)
    return op(both)[..., :n, n:]


expm = matrix_function("expm")
sinm, cosm, tanm = map(matrix_function, ("sinm", "cosm", "tanm"))
sinhm, coshm, tanhm = map(matrix_function, ("sinhm", "coshm", "tanhm"))

# The square root and the logarithm have a cut along the negative numbers, where an eigenvalue of a real matrix may lie.
# There the root at xᴴ, or at x with a rounding error, may be another than at x: the rules use y, which was computed.


def _sqrtm_cotangent(dy: Cotangent, y: Array, _x: Array) -> Any:
    return solve_sylvester(adjoint(y), adjoint(y), dy)  # from y y = x


def _turn(y: Array) -> Any:
    """Return the unit number that rotates x = exp(y) so that its eigenvalues are as far from the cut as can be."""
    angles = np.linalg.eigvals(y).imag
    return np.exp(-0.5j * (angles.max(-1) + angles.min(-1)))[..., None, None]


def _logm_cotangent(dy: Cotangent, y: Array, x: Array) -> Any:
    by = turn(y)  # log(by * x) is y plus a multiple of the identity
    return adjoint(corner(logm, by * x, by * adjoint(dy)))


turn = constant("turn", _turn, on_torch=tensors.on_host(_turn), spec=types.unit_number)
sqrtm = define("sqrtm", implementation("sqrtm"), (_sqrtm_cotangent,), effects=RAISES,
               torch=tensors.on_host(implementation("sqrtm")), memory=FRESH, spec=types.branched_function)
logm = define("logm", implementation("logm"), (_logm_cotangent,), effects=RAISES,
              torch=tensors.on_host(implementation("logm")), memory=FRESH, spec=types.branched_function)
