"""matrices: the types of decompositions, solutions and functions of matrices, and of transforms along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import _linalg as results

from tapegrad.rules.types.family import (
    Family,
    Unknown,
    axis_of,
    by_value,
    complex_of,
    dtype_of,
    inexact,
    known,
    nest,
    number,
    numeric,
    numerics,
    promoted,
    python,
    real_of,
)
from tapegrad.rules.types.layout import array
from tapegrad.tape.spec import Spec


def _typed(*specs: Spec) -> Any:
    """Return the dtype in which LAPACK computes with these operands."""
    dtype = inexact(promoted(*specs))
    if dtype.char in "egG":
        raise TypeError("LAPACK has no such numbers")
    return dtype


def _matrix(x: Any) -> Spec:
    spec = numeric(x)
    if spec.ndim < 2:
        raise ValueError("no matrix")
    return spec


def _square(x: Any) -> Spec:
    spec = _matrix(x)
    if spec.shape[-1] != spec.shape[-2]:
        raise ValueError("the matrix is not square")
    return spec


def _one(dtype: Any, x: Spec, shape: Any) -> Spec:
    """Return the type of one number per matrix of a stack; its layout is the stack's, C order if the stack's is."""
    return array(dtype, shape, () if x.is_contiguous or x.ndim < 4 else None) if shape else number(dtype)


def _each(dtype: Any, x: Spec, shape: Any) -> Spec:
    """Return the type of one vector per matrix of a stack."""
    return array(dtype, shape, () if x.is_contiguous or x.ndim < 3 else None)


def _of_scipy(*specs: Spec) -> Any:
    """Return the dtype in which SciPy computes with floating-point matrices; small integers have no fixed one."""
    if any(x.kind not in "fc" and x.itemsize < 8 for x in specs):
        raise Unknown("SciPy decides")
    return _typed(*specs)


def square(x: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of a square matrix of the same size: an inverse, a Cholesky factor."""
    spec = _square(x)
    return array(_typed(spec), spec.shape, () if spec.ndim == 2 else None)


def cofactors(x: Any, *along: Any) -> Spec:
    """Return the type of the cofactors of a matrix, or of their derivative along others."""
    specs = [_square(x), *map(_matrix, along)]
    return array(_typed(*specs), np.broadcast_shapes(*[spec.shape for spec in specs]), None)


def determinant(x: Any) -> Spec:
    """Return the type of a determinant."""
    spec = _square(x)
    return _one(_typed(spec), spec, spec.shape[:-2])


def log_determinant(x: Any) -> Spec:
    """Return the type of a determinant's sign and the logarithm of its absolute value."""
    spec = _square(x)
    dtype = _typed(spec)
    stack = spec.shape[:-2]
    return nest(_one(dtype, spec, stack), _one(real_of(dtype), spec, stack), kind=results.SlogdetResult)


def solution(a: Any, b: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of the solution of a system of equations."""
    left, right = _square(a), numeric(b)
    dtype = _typed(left, right)
    if right.ndim == 1:
        return array(dtype, (*left.shape[:-2], left.shape[-1]), None if left.ndim > 2 else ())
    stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return array(dtype, (*stack, left.shape[-1], right.shape[-1]), None)


def triangular_solution(a: Any, b: Any, *_: Any, check_finite: Any = True, **__: Any) -> Spec:
    """Return the type of the solution of a triangular system."""
    left, right = _square(a), numeric(b)
    if any(x.kind not in "fc" and x.itemsize < 8 for x in (left, right)):
        raise Unknown("SciPy decides")
    return solution(left, right)


def pseudoinverse(x: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of a pseudoinverse."""
    spec = _matrix(x)
    return array(_typed(spec), (*spec.shape[:-2], spec.shape[-1], spec.shape[-2]), None)


def orthogonal(x: Any, mode: Any = "reduced") -> Spec:
    """Return the type of the factors Q and R."""
    spec = _matrix(x)
    (m, n), stack, dtype = spec.shape[-2:], spec.shape[:-2], _typed(spec)
    k = m if mode == "complete" else min(m, n)
    if mode == "r":
        return array(dtype, (*stack, min(m, n), n), None)
    if mode not in ("reduced", "complete"):
        raise Unknown("an old mode")
    return nest(array(dtype, (*stack, m, k), None), array(dtype, (*stack, k, n), None), kind=results.QRResult)


def eigensystem(x: Any, UPLO: Any = "L") -> Spec:
    """Return the type of the eigenvalues and eigenvectors of a Hermitian matrix."""
    spec = _square(x)
    dtype = _typed(spec)
    return nest(_each(real_of(dtype), spec, spec.shape[:-1]), array(dtype, spec.shape, None), kind=results.EighResult)


def eigenvalues(x: Any, UPLO: Any = "L") -> Spec:
    """Return the type of the eigenvalues of a Hermitian matrix."""
    spec = _square(x)
    return _each(real_of(_typed(spec)), spec, spec.shape[:-1])


def eigenvectors_of(x: Any, w: Any, v: Any, c: Any, UPLO: Any = "L") -> Spec:
    """Return the type of the tangent of eigenvectors."""
    specs = numerics((x, w, v, c))
    stack = np.broadcast_shapes(specs[1].shape[:-1], *[specs[i].shape[:-2] for i in (0, 2, 3)])
    return array(promoted(*specs), (*stack, *specs[2].shape[-2:]), None)


def recomposed(x: Any, u: Any, s: Any, v: Any, g: Any, UPLO: Any = None, fixed: bool = False) -> Spec:
    """Return the type of a matrix of singular vectors or eigenvectors and other values."""
    specs = numerics((u, v, g))
    stack = np.broadcast_shapes(specs[0].shape[:-2], specs[1].shape[:-2], specs[2].shape[:-1])
    return array(promoted(*specs), (*stack, specs[0].shape[-2], specs[1].shape[-2]), None)


@by_value
def general_eigensystem(x: Any) -> Spec:
    """Return the type of the eigenvalues and eigenvectors of a matrix; a real matrix may have complex ones."""
    spec = _square(x)
    dtype = _typed(spec)
    if dtype.kind != "c":
        raise Unknown("the eigenvalues of a real matrix may be complex")
    return nest(_each(dtype, spec, spec.shape[:-1]), array(dtype, spec.shape, None), kind=results.EigResult)


def singular(x: Any, full_matrices: Any = True) -> Spec:
    """Return the type of the factors U, S and Vᴴ."""
    spec = _matrix(x)
    (m, n), stack, dtype = spec.shape[-2:], spec.shape[:-2], _typed(spec)
    k = min(m, n)
    rows, columns = (m, n) if known(full_matrices) else (k, k)
    return nest(array(dtype, (*stack, m, rows), None), _each(real_of(dtype), spec, (*stack, k)),
                array(dtype, (*stack, columns, n), None), kind=results.SVDResult)


def singular_values(x: Any) -> Spec:
    """Return the type of singular values."""
    spec = _matrix(x)
    return _each(real_of(_typed(spec)), spec, (*spec.shape[:-2], min(spec.shape[-2:])))


def rank(x: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of the ranks of matrices."""
    spec = numeric(x)
    if spec.ndim < 2:
        return python(int)
    return _one(np.dtype(np.intp), spec, spec.shape[:-2])


def matrix_function(x: Any) -> Spec:
    """Return the type of an analytic function of a matrix."""
    spec = _square(x)
    return array(_of_scipy(spec), spec.shape, None)


@by_value
def branched_function(x: Any) -> Spec:
    """Return the type of a matrix function with a branch cut; that of a real matrix may be complex."""
    spec = _square(x)
    dtype = _of_scipy(spec)
    if dtype.kind != "c":
        raise Unknown("the function of a real matrix may be complex")
    return array(dtype, spec.shape, None)


def lu(x: Any) -> Spec:
    """Return the type of a packed LU factorisation and its row interchanges."""
    spec = _matrix(x)
    if spec.ndim > 2:
        raise Unknown("SciPy decides")
    return nest(array(_of_scipy(spec), spec.shape, None), array(np.dtype(np.int32), (*spec.shape[:-2],
                                                                                  min(spec.shape[-2:]))))


def order_of(piv: Any) -> Spec:
    """Return the type of the row permutation that a sequence of interchanges yields."""
    return array(np.dtype(np.intp), numeric(piv).shape[:1])


def sylvester(a: Any, b: Any, q: Any) -> Spec:
    """Return the type of the solution of Sylvester's equation."""
    specs = numerics((a, b, q))
    return array(_of_scipy(*specs), specs[2].shape, None)


def unit_number(y: Any) -> Spec:
    """Return the type of one number of modulus 1 per matrix."""
    return array(np.dtype(np.complex128), (*_square(y).shape[:-2], 1, 1))


def from_factor(dy: Any, y: Any) -> Spec:
    """Return the type of a matrix's cotangent, computed from that of its Cholesky factor."""
    specs = numerics((dy, y))
    return array(_typed(*specs), specs[1].shape, None)


# -- transforms along an axis


def _along(x: Spec, axis: Any, n: int, dtype: Any) -> Spec:
    at = axis_of(axis, x.ndim)
    shape = [n if i == at else size for i, size in enumerate(x.shape)]
    return array(dtype, shape, () if len(shape) == 1 else None)


def spectrum(half: bool = False) -> Family:
    """Return the family of Fourier transforms to complex numbers; `half` for the first half, of real input."""
    def family(x: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Spec:
        spec = numeric(x)
        size = spec.shape[axis_of(axis, spec.ndim)] if n is None else int(known(n))
        return _along(spec, axis, size // 2 + 1 if half else size, complex_of(dtype_of(spec)))
    return family


def real_signal(x: Any, n: Any = None, axis: Any = -1, norm: Any = None) -> Spec:
    """Return the type of a real signal computed from its half spectrum."""
    spec = numeric(x)
    size = 2 * (spec.shape[axis_of(axis, spec.ndim)] - 1) if n is None else int(known(n))
    return _along(spec, axis, size, real_of(complex_of(dtype_of(spec))))


def waves(x: Any, type: Any = 2, axis: Any = -1, norm: Any = None) -> Spec:
    """Return the type of a cosine or sine transform."""
    spec = numeric(x)
    return _along(spec, axis, spec.shape[axis_of(axis, spec.ndim)], inexact(dtype_of(spec)))
