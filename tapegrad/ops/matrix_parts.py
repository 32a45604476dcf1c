"""matrix_parts: triangles, diagonals and Hermitian parts of matrices, for the rules of decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZeroTangent, dtype_of, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.elementwise import where
from tapegrad.ops.linalg import adjoint, tril, triu
from tapegrad.ops.triangular import halved


def eye(x: Array) -> Any:
    """Return the mask of the diagonal of matrices of this size."""
    return np.eye(shape_of(x)[-1], dtype=bool)


def diagonals(x: Array) -> Any:
    """Return the matrices with these diagonals."""
    return where(eye(x), x[..., None, :], 0.0)


def off_diagonal(x: Array) -> Any:
    """Return matrices with zeros on their diagonals."""
    return where(eye(x), 0.0, x)


def hermitian(x: Array) -> Any:
    """Return the Hermitian matrices with these lower triangles."""
    low = tril(halved(x))
    return low + adjoint(low)


def skew(x: Array) -> Any:
    """Return twice the skew-Hermitian part."""
    return x - adjoint(x)


def filled(dy: Any, y: Any) -> Any:
    """Return a cotangent, as zeros if it is a ZeroTangent."""
    return np.zeros(shape_of(y), dtype_of(y)) if type(dy) is ZeroTangent else dy


def on_triangle(dx: Cotangent, upper: bool) -> Any:
    """Return the cotangent of the triangle that was read, from that of the whole Hermitian matrix."""
    return (triu if upper else tril)(halved(dx + adjoint(dx)))
