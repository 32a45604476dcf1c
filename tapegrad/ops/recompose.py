"""recompose: matrices of given vectors and other values, the cotangents of eigenvalues and singular values.

The cotangent g of the values is the cotangent U diag(g) Vᴴ of the matrix. That depends on the matrix by the vectors,
which are free where values are equal, while the product need not be. Its derivative has divided differences
(g_i - g_j) / (s_i - s_j) in place of rotations, as Daleckii and Krein (1951) found for functions of matrices. Where
values are equal these are 0 if g is a constant. If g depends on the values they are unknown, nan: their limits are
second derivatives by the values, which no rule sees.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, ZeroTangent, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensor_array import unwrap
from tapegrad.ops import decomposition_tangents as tangents
from tapegrad.ops import matrix_parts as parts
from tapegrad.ops.elementwise import (
    equal,
    logical_and,
    logical_not,
    logical_or,
    not_equal,
    real,
    stop_gradient,
    where,
)
from tapegrad.ops.linalg import adjoint, diagonal
from tapegrad.ops.reduce import any
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, Joint
from tapegrad.rules.op import OPS, Traced
from tapegrad.rules.registry import define


def asked(dv: Any) -> Any:
    """Return the columns for which a cotangent is not zero."""
    return any(not_equal(dv, 0), axis=-2)


def alone(w: Array) -> Any:
    """Return which eigenvalues differ from all others."""
    return logical_not(any(logical_and(tangents.near(w[..., None, :] - w[..., :, None], tangents.largest(w)),
                                       np.logical_not(parts.eye(w))), axis=-2))


def lasting(w: Array, v: Array, dw: Any, dv: Any) -> Any:
    """Return the eigenvectors; those of equal values along which there is no cotangent are constant."""
    if not isinstance(unwrap(v), Traced):
        return v
    changing = [alone(w), *([] if type(dw) is ZeroTangent else [not_equal(dw, 0)]),
                *([] if type(dv) is ZeroTangent else [asked(dv)])]
    return where(functools.reduce(logical_or, changing)[..., None, :], v, stop_gradient(v))


def of_eigenvalues(x: Array, w: Array, v: Array, g: Any, UPLO: str) -> Any:
    """Return the cotangent of a Hermitian matrix from that of its eigenvalues alone, on the triangle that is read."""
    fixed = _is_fixed(g)
    if not isinstance(unwrap(v), Traced):
        y = v * g[..., None, :] @ adjoint(v)
    elif fixed and np.any(np.count_nonzero(plain(g), axis=-1) > 1):
        y = recompose(x, v, w, v, g, UPLO=UPLO, fixed=True)
    else:  # derivatives of every order where the eigenvalues with a cotangent differ from all others
        kept = lasting(w, v, g, ZERO)
        y = kept * g[..., None, :] @ adjoint(kept)
        if not fixed:  # all cotangents may be zero by chance, as in a minimum: the derivative is unknown then
            v, w = stop_gradient(v), stop_gradient(w)
            y = where(any(not_equal(g, 0), axis=-1)[..., None, None], y, recompose(x, v, w, v, g, UPLO=UPLO))
    return parts.on_triangle(y, UPLO.upper() == "U")


def of_singular_values(x: Array, u: Array, s: Array, vh: Array, g: Any) -> Any:
    """Return the cotangent of a matrix from that of its singular values alone."""
    if not isinstance(unwrap(u), Traced):
        return u * g[..., None, :] @ vh
    return recompose(x, u, s, adjoint(vh), g, **({"fixed": True} if _is_fixed(g) else {}))


def _is_fixed(g: Any) -> bool:
    found = unwrap(g)
    return not isinstance(found, Traced) or found._tracer.independent(found._op)


def _core(h: Any, s: Array, g: Any, fixed: bool) -> Any:
    """Return the change h of the core, Hermitian, times the divided differences of g."""
    gaps, up = s[..., None, :] - s[..., :, None], g[..., None, :] - g[..., :, None]
    free = tangents.near(gaps, tangents.largest(s))
    known = equal(up, 0)
    if not fixed:  # values that no result depends on, beside one that some result does
        rest = logical_and(equal(g, 0), any(not_equal(g, 0), axis=-1, keepdims=True))
        known = logical_or(logical_and(rest[..., None, :], rest[..., :, None]), parts.eye(s))
    unknown = where(logical_or(known, equal(h, 0)), 0.0, np.nan)
    return where(free, unknown, OPS["ratio"](up, where(free, 1.0, gaps)) * h)


def _moved(t: Any, u: Array, s: Array, v: Array, g: Any, inner: Any, UPLO: str | None, fixed: bool) -> Any:
    """Return the change of U diag(g) Vᴴ by a change t of the matrix; as a map of t it is its own adjoint."""
    core = _core((inner + adjoint(inner)) / 2.0, s, g, fixed)
    if UPLO is not None:  # Hermitian
        return u @ core @ adjoint(v)
    ratio, k = OPS["ratio"], shape_of(s)[-1]
    turns = ratio(g[..., None, :] + g[..., :, None], s[..., None, :] + s[..., :, None])
    scale = ratio(g, s)[..., None, :]
    y = u @ (core + turns * ((inner - adjoint(inner)) / 2.0)) @ adjoint(v)
    if shape_of(u)[-2] > k:
        y = y + (t @ v - u @ inner) * scale @ adjoint(v)
    if shape_of(v)[-2] > k:
        y = y + u @ adjoint((adjoint(t) @ u - v @ adjoint(inner)) * scale)
    return y


def _vjp(y: Any, x: Array, u: Array, s: Array, v: Array, g: Any, UPLO: str | None = None,
         fixed: bool = False) -> Callable[[Any], Any]:
    def recompose_pullback(dy: Cotangent) -> tuple[Any, ...]:
        t = dy if UPLO is None else (dy + adjoint(dy)) / 2.0
        inner = adjoint(u) @ t @ v
        dx = _moved(t, u, s, v, g, inner, UPLO, fixed)
        return (dx if UPLO is None else parts.on_triangle(dx, UPLO.upper() == "U"), ZERO, ZERO, ZERO,
                real(diagonal(inner)))
    return recompose_pullback


def _tangent(ts: Any, y: Any, x: Array, u: Array, s: Array, v: Array, g: Any, UPLO: str | None = None,
             fixed: bool = False) -> Any:
    dx, dg = ts[0], ts[4]
    y = 0.0 if dg is None else u * dg[..., None, :] @ adjoint(v)
    if dx is None:
        return y
    t = dx if UPLO is None else tangents.read(dx, UPLO.upper() == "U")
    return y + _moved(t, u, s, v, g, adjoint(u) @ t @ v, UPLO, fixed)


recompose = define(
    "recompose", lambda x, u, s, v, g, UPLO=None, fixed=False: u * g[..., None, :] @ np.conj(v).swapaxes(-1, -2),
    rule=Joint(_vjp), tangent=_tangent, batch=batching.stacked(2, 2, 1, 2, 1),
    torch=lambda x, u, s, v, g, UPLO=None, fixed=False: (u * g[..., None, :]).to(u.dtype) @ v.mH, memory=FRESH,
    spec=types.recomposed)
"""U diag(g) Vᴴ of vectors and values of x, through which it depends on x; g is a constant if `fixed`."""
