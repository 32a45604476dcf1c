"""Determinants of matrices, their cofactors and logarithms. The last two axes are the matrix."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import ZeroTangent, shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops import decomposition_tangents as tangents
from tapegrad.ops.decompose import inv, svd
from tapegrad.ops.elementwise import conj, imag, is_complex
from tapegrad.ops.linalg import adjoint
from tapegrad.ops.reduce import cumulative_prod
from tapegrad.ops.shape import flip
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, Joint
from tapegrad.rules.registry import define


def _over(dy: Cotangent, x: Array) -> Any:
    """Make one number for each matrix of a stack broadcast against `x`."""
    return dy if len(shape_of(x)) == 2 else dy[..., None, None]


def _all_but_one(x: Array) -> Any:
    """Return for each element of a row the product of the others."""
    before = cumulative_prod(x, axis=-1, include_initial=True)[..., :-1]
    return before * flip(cumulative_prod(flip(x, axis=-1), axis=-1, include_initial=True)[..., :-1], axis=-1)


def _cofactors(x: Array, *along: Array) -> Any:
    if along:
        return _moved_once(x, *along) if len(along) == 1 else _moved(x, along)
    try:
        return np.linalg.det(x)[..., None, None] * np.linalg.inv(x).mT
    except np.linalg.LinAlgError:  # Stewart (1998), On the adjugate matrix: by the SVD, for singular matrices too
        u, s, vh = np.linalg.svd(x)
        return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * np.conj(u * _all_but_one(s)[..., None, :] @ vh)


def _moved_once(x: Array, t: Array) -> Any:
    u, s, vh = np.linalg.svd(x)
    without = _all_but_one(np.where(np.eye(s.shape[-1], dtype=bool), 1.0, s[..., None, :]))
    moved = _of_diagonal(np.conj(u).mT @ t @ np.conj(vh).mT, without, np.eye(s.shape[-1], dtype=s.dtype))
    return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * (np.conj(u) @ moved @ np.conj(vh))


def _of_diagonal(t: Any, without: Any, eye: Any) -> Any:
    """Return by how much the cofactors of a diagonal matrix move along t: by -t_ji Π' off the diagonal and by Σ t_jj Π'
    on it, Π' being the product `without` i and j.
    """
    others = without * (1 - eye)
    return (others * (t * eye).sum(-1)[..., None, :]).sum(-1)[..., None] * eye - t.mT * others


def _moved(x: Array, along: tuple[Array, ...]) -> Any:
    """Return the derivative of the cofactors in several directions, one for each.

    The cofactors of x + Σ z_k t_k are a polynomial in the z_k, of which this is a coefficient: Cauchy's integral over
    circles, by the trapezoidal rule, which is exact. Its terms are those of the size of x where circles are as large.
    """
    n, count, dtype = x.shape[-1], len(along), np.result_type(x, *along)
    if count >= n:  # they are of degree n - 1
        return np.zeros(np.broadcast_shapes(x.shape, *[t.shape for t in along]), dtype)
    roots = np.exp(2j * math.pi * np.arange(n + 1) / (n + 1))
    points, weight = np.asarray(x, complex), np.ones(())
    size = np.linalg.norm(x, axis=(-2, -1), keepdims=True)
    for k, t in enumerate(along):
        length = np.linalg.norm(t, axis=(-2, -1), keepdims=True)
        radius = np.where(size > 0, size, 1.0) / np.where(length > 0, length, 1.0) / n
        z = roots.reshape(-1, *[1] * (x.ndim + k))
        points, weight = points + z * radius * t, weight * (length > 0) / (z * radius * (n + 1))
    found = np.sum(_cofactors(points) * weight, axis=tuple(range(count)))
    return (found if dtype.kind == "c" else found.real).astype(dtype)


def _cofactors_vjp(_y: Array, x: Array, *along: Array) -> Callable[[Any], Any]:
    def cofactors_pullback(dy: Cotangent) -> tuple[Any, ...]:
        # the derivative of a determinant in several directions is the same in whatever order they come
        t = conj(dy)
        return (conj(cofactors(x, *along, t)),
                *[conj(cofactors(x, *along[:k], t, *along[k + 1:])) for k in range(len(along))])
    return cofactors_pullback


def _cofactors_tangent(ts: Any, _y: Array, x: Array, *along: Array) -> Any:
    moved = [cofactors(x, *along, ts[0])] if ts[0] is not None else []
    moved += [cofactors(x, *along[:k], t, *along[k + 1:]) for k, t in enumerate(ts[1:]) if t is not None]
    return functools.reduce(operator.add, moved)


def _slogdet_cotangent(dy: Cotangent, y: Array, x: Array) -> Any:
    (phase, _), (turn, total) = y, dy
    if type(turn) is not ZeroTangent and is_complex(x):  # log det = log |det| + i angle, and the sign is exp(i angle)
        total = total + 1j * imag(conj(phase) * turn)
    return total if type(total) is ZeroTangent else _over(total, x) * adjoint(inv(x))


def _cofactors_tensor(x: Any, *along: Any) -> Any:
    if len(along) > 1:
        return tensors.on_host(_cofactors)(x, *along)
    try:
        if not along:
            return det.lower["torch"](x)[..., None, None] * inv.lower["torch"](x).mT
    except np.linalg.LinAlgError:
        pass
    x, *t = tensors.together((x, *along), number=True)
    u, s, vh = svd.lower["torch"](x)
    turned, u, vh = (det.lower["torch"](u) * det.lower["torch"](vh))[..., None, None], u.conj(), vh.conj()
    if not along:
        return turned * (u * _without_each(s)[..., None, :] @ vh)
    eye = torch.eye(s.shape[-1], dtype=s.dtype, device=s.device)
    moved = _of_diagonal(u.mT @ t[0] @ vh.mT, _without_each(torch.where(eye > 0, 1, s[..., None, :])), eye)
    return turned * (u @ moved @ vh)


def _without_each(s: Any) -> Any:
    found = [torch.cat([s[..., :i], s[..., i + 1:]], -1).prod(-1) for i in range(s.shape[-1])]
    return torch.stack(found, -1) if found else s


det = define("det", np.linalg.det, (lambda dy, _y, x: _over(dy, x) * conj(cofactors(x)),),
             batch=batching.stacked(2), torch=tensors.matrix_function("linalg.det"), memory=FRESH,
             spec=types.determinant)
# of a matrix, or their derivative along others, one after the other: the op is its own rule, where singular values that
# are equal have no vectors to differentiate
cofactors = define("cofactors", _cofactors, rule=Joint(_cofactors_vjp), tangent=_cofactors_tangent,
                   batch=batching.stacked(*[2] * 8), torch=_cofactors_tensor, memory=FRESH, spec=types.cofactors)
slogdet = define("slogdet", np.linalg.slogdet, (_slogdet_cotangent,), tangent=tangents.slogdet,
                 batch=batching.stacked(2),
                 torch=tensors.matrix_function("linalg.slogdet"), memory=FRESH, spec=types.log_determinant)
