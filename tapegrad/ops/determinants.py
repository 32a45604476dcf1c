"""Determinants of matrices, their cofactors and logarithms. The last two axes are the matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import ZeroTangent, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops import decomposition_tangents as tangents
from tapegrad.ops import matrix_parts as parts
from tapegrad.ops.decompose import inv, svd
from tapegrad.ops.elementwise import conj, imag, is_complex, where
from tapegrad.ops.linalg import adjoint, diagonal
from tapegrad.ops.reduce import cumulative_prod
from tapegrad.ops.shape import flip
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH
from tapegrad.rules.registry import define


def _over(dy: Cotangent, x: Array) -> Any:
    """Make one number for each matrix of a stack broadcast against `x`."""
    return dy if len(shape_of(x)) == 2 else dy[..., None, None]


def _all_but_one(x: Array) -> Any:
    """Return for each element of a row the product of the others."""
    before = cumulative_prod(x, axis=-1, include_initial=True)[..., :-1]
    return before * flip(cumulative_prod(flip(x, axis=-1), axis=-1, include_initial=True)[..., :-1], axis=-1)


def _cofactors(x: Array) -> Any:
    try:
        return np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT
    except np.linalg.LinAlgError:  # Stewart (1998), On the adjugate matrix: by the SVD, for singular matrices too
        u, s, vh = np.linalg.svd(x)
        return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * np.conj(u * _all_but_one(s)[..., None, :] @ vh)


def _cofactors_cotangent(dy: Cotangent, _y: Array, x: Array) -> Any:
    # the adjugate of a diagonal matrix changes by -X_ij Π' off its diagonal and by Σ X_jj Π' on it, Π' = Π s_k without
    # i and j
    u, s, vh = svd(x)
    others = parts.off_diagonal(_all_but_one(where(np.eye(shape_of(s)[-1], dtype=bool), 1.0, s[..., None, :])))
    core = _over(det(u) * det(vh), x) * (adjoint(u) @ conj(dy) @ adjoint(vh))
    moved = parts.diagonals((others @ diagonal(core)[..., None])[..., 0]) - core * others
    return u @ adjoint(moved) @ vh


def _slogdet_cotangent(dy: Cotangent, y: Array, x: Array) -> Any:
    (phase, _), (turn, total) = y, dy
    if type(turn) is not ZeroTangent and is_complex(x):  # log det = log |det| + i angle, and the sign is exp(i angle)
        total = total + 1j * imag(conj(phase) * turn)
    return total if type(total) is ZeroTangent else _over(total, x) * adjoint(inv(x))


def _cofactors_tensor(x: Array) -> Any:
    try:
        return det.lower["torch"](x)[..., None, None] * inv.lower["torch"](x).mT
    except np.linalg.LinAlgError:
        u, s, vh = svd.lower["torch"](x)
        others = torch.stack([torch.cat([s[..., :i], s[..., i + 1:]], -1).prod(-1) for i in range(s.shape[-1])], -1)
        turned = det.lower["torch"](u) * det.lower["torch"](vh)
        return turned[..., None, None] * (u * others[..., None, :] @ vh).conj()


det = define("det", np.linalg.det, (lambda dy, _y, x: _over(dy, x) * conj(cofactors(x)),),
             batch=batching.stacked(2), torch=tensors.matrix_function("linalg.det"), memory=FRESH,
             spec=types.determinant)
cofactors = define("cofactors", _cofactors, (_cofactors_cotangent,), batch=batching.stacked(2), torch=_cofactors_tensor,
    memory=FRESH, spec=types.cofactors)
slogdet = define("slogdet", np.linalg.slogdet, (_slogdet_cotangent,), tangent=tangents.slogdet,
                 batch=batching.stacked(2),
                 torch=tensors.matrix_function("linalg.slogdet"), memory=FRESH, spec=types.log_determinant)
