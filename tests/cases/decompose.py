"""Cases of decompositions, solutions, determinants and norms.

What a decomposition leaves free, signs and phases and the bases of null spaces, a case contracts away: with U diag(s) V^H, with projectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tests.cases.case import Case, does, draw

LinAlgError = np.linalg.LinAlgError
RNG = np.random.default_rng(7)
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
NOT_SQUARE: Any = ((np.ones((2, 3)),), LinAlgError)
NOT_A_MATRIX: Any = ((np.ones(3),), LinAlgError)


def z(*shape: int, seed: int = 0) -> Any:
    return draw(*shape, seed=seed) + 1j * draw(*shape, seed=seed + 10)


def shifted(x: Any) -> Any:
    """Move the eigenvalues away from zero."""
    return x + 3 * np.eye(*x.shape[-2:])


SQUARE: list[tuple[Any, ...]] = [(shifted(draw(3, 3)),), (shifted(draw(2, 2, 2)),), (np.array([[1.5]]),), (np.zeros((0, 2, 2)),),
                                 (np.zeros((0, 0)),), (shifted(draw(3, 6, seed=2)[::-1, ::2]).T,), (shifted(z(3, 3)),), (shifted(z(2, 2, 2)),)]
RECTANGULAR: list[tuple[Any, ...]] = [(draw(2, 3, seed=1),), (draw(2, 3, 2),), (draw(3, 3),), (draw(4, 2, seed=4),), (np.array([[-1.5]]),),
                                      (np.zeros((0, 2, 3)),), (np.asfortranarray(draw(2, 4, seed=3)),), (z(2, 3),), (z(2, 3, 2),), (z(2, 2),)]
TRIANGLES: list[tuple[Any, ...]] = [(draw(3, 3),), (draw(2, 2, 2),), (z(3, 3),)]


def both(name: str, of: Callable[[Any], Callable[..., Any]], samples: Any = SQUARE, errors: Any = (NOT_SQUARE, NOT_A_MATRIX),
         **kwargs: Any) -> Case:
    """A function written once for np.linalg and for torch.linalg."""
    return Case(name, of(np.linalg), samples, torch=of(torch.linalg), errors=errors, **kwargs)


def h(x: Any) -> Any:
    return x.conj().mT


def scaled(u: Any, s: Any) -> Any:
    """Return u @ diag(s)."""
    return u * s[..., None, :]


def parts(x: Any) -> tuple[Any, Any]:
    return x.real, x.imag


# -- decompositions, without what they leave free


def positive(x: Any) -> Any:
    return x @ h(x) + 2


def cholesky(la: Any, **kwargs: Any) -> Callable[..., Any]:
    return lambda x: la.cholesky(x @ h(x), **kwargs)


def exponential(w: Any, v: Any) -> tuple[Any, Any]:
    return w, scaled(v, np.exp(w)) @ np.linalg.inv(v)


def eigh(la: Any, **kwargs: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        w, v = la.eigh(x + h(x), **kwargs)
        return w, (scaled(v, w * w) @ h(v)).real, (v * v.conj()).real
    return f


def eig(la: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        w, v = la.eig(x)
        return w.real, (scaled(v, w * w) @ la.inv(v)).real, (v * v.conj()).real
    return f


def svd(la: Any, **kwargs: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        u, s, vh = la.svd(x, full_matrices=False, **kwargs)
        return s, scaled(u, s * s) @ vh, (u * u.conj()).real, (vh * vh.conj()).real
    return f


def svd_square(la: Any) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        u, s, vh = la.svd(x)
        return scaled(u, s * s) @ vh
    return f


def complements(x: Any) -> Any:
    """By the null spaces alone."""
    u, s, vh = np.linalg.svd(x)
    k = s.shape[-1]
    return u[..., k:] @ h(u[..., k:]), h(vh[..., k:, :]) @ vh[..., k:, :], scaled(u[..., :k], s) @ vh[..., :k, :]


def qr_complete(x: Any) -> Any:
    q, r = np.linalg.qr(x, "complete")
    k = min(x.shape[-2:])
    return r, q[..., :k], q[..., k:] @ h(q[..., k:])


def power(la: Any, n: int) -> Callable[..., Any]:
    return lambda x: la.matrix_power(x, n)


DECOMPOSITIONS = [
    both("cholesky", cholesky, SQUARE, errors=[]), both("cholesky:upper", lambda la: cholesky(la, upper=True), SQUARE[:3], errors=[]),
    *[Case(f"cholesky:one triangle {upper}", lambda x, upper=upper: np.linalg.cholesky(x, upper=upper),
           [(positive(draw(2, 2)),), (positive(draw(2, 2, 3)) * np.exp(0.1 * np.triu(np.ones((2, 2)), 1)),), (positive(z(3, 3)),)],
           errors=[((-np.eye(2),), LinAlgError), NOT_SQUARE, NOT_A_MATRIX]) for upper in (False, True)],
    Case("cholesky_pullback", lambda dy, x: ops.cholesky_pullback(dy, np.linalg.cholesky(x @ h(x))),
         [(draw(3, 3, seed=4), shifted(draw(3, 3))), (draw(2, 2, 2, seed=4), shifted(draw(2, 2, 2))), (z(3, 3, seed=4), shifted(z(3, 3))),
          (np.zeros((0, 0)), np.zeros((0, 0)))]),
    Case("eigensolve", lambda x, c: (lambda w, v: (y := ops.eigensolve(x + h(x), w, v, c), y * y.conj())[1])(*np.linalg.eigh(x + h(x))),
         [(shifted(draw(3, 3)), draw(3, 3, seed=4)), (shifted(draw(2, 2, 2)), draw(2, 2, 2, seed=4)), (shifted(z(3, 3)), z(3, 3, seed=4)),
          (np.zeros((0, 0)), np.zeros((0, 0)))]),
    Case("recompose", lambda x, g: (lambda w, v: ops.recompose(x + h(x), v, w, v, g, UPLO="L"))(*np.linalg.eigh(x + h(x))),
         [(shifted(draw(3, 3)), draw(3, seed=4)), (shifted(draw(2, 2, 2)), draw(2, 2, seed=4)), (shifted(z(3, 3)), draw(3, seed=4)), (np.zeros((0, 0)), np.zeros(0))]),
    Case("recompose:singular", lambda x, g: (lambda u, s, vh: ops.recompose(x, u, s, h(vh), g))(*np.linalg.svd(x, full_matrices=False)),
         [(draw(3, 2), draw(2, seed=4)), (draw(2, 2, 3), draw(2, 2, seed=4)), (z(3, 3), draw(3, seed=4))]),
    both("qr", lambda la: lambda x: tuple(la.qr(x)), RECTANGULAR, errors=[NOT_A_MATRIX]),
    both("qr:complete", lambda la: lambda x: tuple(la.qr(x, mode="complete")), [(draw(2, 3, seed=1),), (draw(2, 2, 2),), (z(3, 3),)], errors=[]),
    Case("qr:complete tall", qr_complete, [(draw(4, 2, seed=4),), (draw(2, 3, 1),), (draw(2, 3),), (z(4, 2),)]),
    Case("qr:r", lambda x: np.linalg.qr(x, "r"), RECTANGULAR, errors=[NOT_A_MATRIX]),
    Case("qr:wrong", lambda x: np.linalg.qr(x, "q"), [], errors=[((np.eye(2),), ValueError)]),
    both("eigh", eigh, SQUARE, errors=[]), both("eigh:upper", lambda la: eigh(la, UPLO="U"), SQUARE[:3], errors=[]),
    *[Case(f"eigh:one triangle {uplo}", lambda x, uplo=uplo: exponential(*np.linalg.eigh(x, uplo)),
           TRIANGLES, errors=[NOT_SQUARE, NOT_A_MATRIX]) for uplo in "LU"],
    both("eigvalsh", lambda la: lambda x: la.eigvalsh(x + h(x)), errors=[]),
    *[Case(f"eigvalsh:one triangle {uplo}", lambda x, uplo=uplo: np.linalg.eigvalsh(x, uplo), TRIANGLES,
           errors=[NOT_SQUARE, NOT_A_MATRIX]) for uplo in "LU"],
    both("eig", eig), both("eig:real", eig, [(np.diag([1.0, 2.0, 4.0]) + draw(3, 3) / 8,), (np.diag([1.0, 2.0, 4.0]) + draw(2, 3, 3) / 8,)]),
    Case("eig:complex", lambda x: exponential(*np.linalg.eig(x)),
         [(np.array([[1.0, 2.0], [-3.0, 0.5]]),), (z(3, 3),)]),
    both("eigvals", lambda la: lambda x: parts(la.eigvals(x + 0j)), ops=("eig",)),
    both("eigvals:real", lambda la: lambda x: la.eigvals(x).real ** 2, [(draw(2, 2),), (draw(2, 3, 3),)], ops=("eig",)),
    both("svd", svd, RECTANGULAR, errors=[NOT_A_MATRIX]),
    both("svd:square", svd_square, errors=[]),
    Case("svd:full", complements, [(draw(2, 4, seed=1),), (draw(2, 3, 1),), (draw(3, 2),), (np.array([[1.5]]),), (np.zeros((0, 2, 3)),),
                                   (z(2, 4),), (z(3, 1),)], errors=[NOT_A_MATRIX]),
    Case("svd:hermitian", lambda x: svd(np.linalg, hermitian=True)(x + h(x)), TRIANGLES,
         ops=("eigh", "take_along_axis")),
    Case("svd:hermitian wrong", lambda x: np.linalg.svd(x, hermitian=True), [], ops=("eigh",), errors=[NOT_SQUARE, NOT_A_MATRIX]),
    Case("svd:values",
         lambda x: np.linalg.svd(x, compute_uv=False) * np.linalg.svd(x @ h(x), compute_uv=False, hermitian=True)[..., :1],
         RECTANGULAR[:5], ops=("svdvals", "eigvalsh")),
    both("svdvals", lambda la: lambda x: la.svdvals(x), RECTANGULAR, errors=[NOT_A_MATRIX]),
    Case("ratio", ops.ratio, [(draw(2, 3), 3 + draw(2, 3)), (1.5, draw(3, seed=1)), (z(2, 1), z(3, seed=1))]),
    Case("matrix_rank", lambda x: x * np.linalg.matrix_rank(x) * np.linalg.matrix_rank(x, tol=0.1) * np.linalg.matrix_rank(x, rtol=1e-6),
         [(draw(2, 3),), (draw(2, 3, 2),), (draw(2),)]),
]

# -- solutions and inverses

WIDE = (draw(2, 3, seed=1), draw(2, 2))
SOLUTIONS = [
    both("solve", lambda la: lambda a, b: la.solve(a, b),
         [(*SQUARE[0], draw(3)), (*SQUARE[0], draw(3, 2)), (*SQUARE[1], draw(2, 2, 1)), (*SQUARE[2], draw(1)), (*SQUARE[3], np.zeros((0, 2, 1))),
          (*SQUARE[5], draw(3, 4)[:, ::2])],
         errors=[((SINGULAR, np.ones(2)), LinAlgError), ((np.ones((2, 3)), np.ones(2)), LinAlgError), ((np.eye(2), np.ones(3)), ValueError)]),
    Case("solve:broadcast", np.linalg.solve,
         [(*SQUARE[1], draw(2)), (*SQUARE[1], draw(2, 3)), (*SQUARE[0], draw(2, 3, 1)), (np.zeros((0, 0)), np.zeros((0, 2))),
          (shifted(z(3, 3)), z(3)), (shifted(z(2, 2, 2)), z(2, 2)), (*SQUARE[0], z(3, 2)), (shifted(z(2, 2)), draw(2))]),
    both("inv", lambda la: lambda x: la.inv(x), errors=[NOT_SQUARE, NOT_A_MATRIX, ((SINGULAR,), LinAlgError)]),
    both("pinv", lambda la: lambda x: la.pinv(x), RECTANGULAR, errors=[]),
    both("pinv:hermitian", lambda la: lambda x: la.pinv(x + h(x), hermitian=True), SQUARE[:3], errors=[]),
    Case("pinv:one triangle", lambda x: np.linalg.pinv(x, hermitian=True), TRIANGLES, errors=[NOT_SQUARE]),
    Case("pinv:cutoff", lambda x: np.linalg.pinv(x, 0.01) + np.linalg.pinv(x, rtol=None) + np.linalg.pinv(x, rtol=np.array(0.01)),
         RECTANGULAR[:4], errors=[((np.array(1.0),), ValueError)]),
    both("lstsq", lambda la: lambda a, b: la.lstsq(a, b)[0],
         [(draw(4, 2, seed=4), draw(4, 2)), (*SQUARE[0], draw(3, 1)), WIDE, (np.asfortranarray(draw(4, 2, seed=4)), draw(4, 1))], errors=[]),
    Case("lstsq:all", lambda a, b: np.linalg.lstsq(a, b, 1e-10),
         [(draw(4, 2, seed=4), draw(4)), (draw(4, 2, seed=4), draw(4, 2)), WIDE, (*SQUARE[0], draw(3)), (draw(3, 1), draw(3)), (z(4, 2), z(4)),
          (z(3, 2), z(3, 2)), (z(2, 3), z(2)), (draw(4, 2, seed=4), np.zeros((4, 0)))],
         errors=[((np.ones((2, 2)), np.ones(3)), LinAlgError)]),
    Case("lstsq:residuals", lambda a, b: np.linalg.lstsq(a, b, rcond=-1)[1], [(draw(4, 2, seed=4), draw(4, 3))]),
    both("tensorinv", lambda la: lambda x: la.tensorinv(x, ind=1), [(draw(4, 2, 2),), (draw(1, 1, 1),)],
         errors=[((np.ones((3, 2, 2)),), LinAlgError)], ops=("inv",)),
    Case("tensorinv:two", np.linalg.tensorinv, [(draw(2, 2, 4),), (RNG.normal(size=(2, 3, 3, 2)),)], ops=("inv",)),
    Case("tensorinv:none", lambda x: np.linalg.tensorinv(x, 0), [], errors=[((np.eye(2),), ValueError)], ops=("inv",)),
    both("tensorsolve", lambda la: lambda a, b: la.tensorsolve(a, b), [(draw(2, 2, 4), draw(2, 2)), (draw(4, 2, 2), draw(4))],
         errors=[((np.ones((2, 3)), np.ones(2)), LinAlgError)], ops=("solve",)),
    Case("tensorsolve:axes", lambda a, b: np.linalg.tensorsolve(a, b, axes=(0,)), [(RNG.normal(size=(2, 3, 2, 3)), draw(3, 2))], ops=("solve",)),
    *[both(f"matrix_power:{n}", lambda la, n=n: power(la, n), SQUARE[:4] + SQUARE[5:], ops=("matmul", "inv")) for n in (1, 2, 3, 5, 8, -1, -3)],
    Case("matrix_power:0", lambda x: x + np.linalg.matrix_power(x, 0), SQUARE[:2], ops=("matmul",), errors=[NOT_SQUARE]),
    Case("matrix_power:half", lambda x: np.linalg.matrix_power(x, 0.5), [], ops=("matmul",), errors=[((np.eye(2),), TypeError)]),
    both("det", lambda la: lambda x: la.det(x)),
    Case("det:singular", np.linalg.det,  # where torch's gradient is 0, and wrong
         [(SINGULAR,), (np.stack([SINGULAR, draw(2, 2)]),), (np.array([[0.0]]),), (np.zeros((2, 2)),), (np.zeros((3, 3)),),
          (np.arange(9.0).reshape(3, 3),), (np.outer(z(3), z(3)),)]),
    Case("cofactors", ops.cofactors, SQUARE),
    Case("cofactors:along", ops.cofactors, [(draw(3, 3), draw(3, 3)), (np.eye(3), draw(3, 3), draw(3, 3)), (draw(2, 3, 3), draw(3, 3), draw(2, 3, 3)), (z(3, 3), z(3, 3), z(3, 3))]),
    both("slogdet", lambda la: lambda x: tuple(la.slogdet(x)), [*SQUARE[:6], (draw(3, 3),)]),
    Case("slogdet:complex", lambda x: tuple(np.linalg.slogdet(x)), [(z(3, 3),), (z(2, 2, 2),)]),
]

# -- norms

VECTORS: list[tuple[Any, ...]] = [(draw(3),), (draw(4)[::2],), (np.zeros(0),), (z(3),)]
STACK: list[tuple[Any, ...]] = [(draw(2, 3),), (draw(3, 2, seed=1).T,), (z(2, 3),)]
ORDERS = [None, 2, 1, np.inf, -np.inf, 3, 2.5, 0.5, -1]
MATRIX_ORDERS = [None, "fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf]
NOT_IN_TORCH: list[Any] = ["fro", "nuc", 1, -1, np.inf, -np.inf]  # of cond: their gradient fails


def vector_ops(order: Any) -> tuple[str, ...]:
    return ("abs",) if order in (1, np.inf, -np.inf, 0) else ("vector_norm",)


def matrix_ops(order: Any) -> tuple[str, ...]:
    return ("vector_norm",) if order in (None, "fro") else ("svdvals",) if order in ("nuc", 2, -2) else ("abs",)


NORMS = [
    Case("vector_norm", np.linalg.norm,
         [(draw(2, 3),), (draw(3),), (np.array(-1.5),), (-1.5,), (draw(2, 3, 2).T,), (np.zeros((0, 2)),), (z(2, 3),)], torch=torch.linalg.norm),
    *[Case(f"norm:{order}", lambda x, order=order: np.linalg.norm(x, order, axis=-1),
           VECTORS if order in (None, 2, 1, 3) else [*VECTORS[:2], VECTORS[-1]],  # of nothing, NumPy and torch do not have the others
           torch=lambda x, order=order: torch.linalg.norm(x, order, dim=-1), ops=vector_ops(order)) for order in ORDERS],
    *[Case("norm:empty", lambda x: np.linalg.norm(x, np.inf, 0, keepdims=True) + np.linalg.norm(x, 1), [(np.zeros((0, 2)),)], ops=("abs",),
           errors=[((np.array(1.0),), np.exceptions.AxisError)])] * does(np.linalg.norm, np.zeros((0, 2)), np.inf, 0),  # since NumPy 2.3
    *[Case(f"norm:{order} axis", lambda x, order=order: x / np.linalg.norm(x, order, 0, keepdims=True), STACK, ops=vector_ops(order))
      for order in ORDERS],
    *[Case(f"norm:{order} vector", lambda x, order=order: np.linalg.norm(x, order, keepdims=True), VECTORS[:2], ops=vector_ops(order))
      for order in ORDERS],
    Case("norm:0", lambda x: x * np.linalg.norm(x, 0, axis=-1, keepdims=True) + np.linalg.norm(x[0], 0), STACK, ops=("vector_norm",)),
    Case("norm:keepdims", lambda x: x / np.linalg.norm(x, keepdims=True), STACK, ops=("vector_norm",)),
    *[Case(f"norm:wrong {number}", lambda x, how=how: np.linalg.norm(x, **how), [], ops=("vector_norm",), errors=errors)
      for number, (how, errors) in enumerate([
          ({"ord": "nuc"}, [(VECTORS[0], ValueError)]), ({"ord": 3}, [(STACK[0], ValueError)]), ({"axis": 2}, [(STACK[0], np.exceptions.AxisError)]),
          ({"axis": (0, 0)}, [(STACK[0], ValueError)]), ({"ord": 2}, [((draw(2, 2, 2),), ValueError), ((1.5,), ValueError)])])],
    *[Case(f"matrix_norm:{order}", lambda x, order=order: np.linalg.norm(x, order), [(draw(2, 3),), (draw(3, 3),), (z(2, 3),)],
           torch=lambda x, order=order: torch.linalg.norm(x, order), ops=matrix_ops(order)) for order in MATRIX_ORDERS],
    *[Case(f"matrix_norm:{order} axes",
           lambda x, order=order: np.linalg.norm(x, order, (2, 0), keepdims=True) * np.linalg.norm(x, order, (-3, -2)),
           [(draw(2, 3, 2, seed=2),)], ops=matrix_ops(order)) for order in MATRIX_ORDERS],
    Case("matrix_norm:default", lambda x: np.linalg.matrix_norm(x, keepdims=True), [(draw(2, 2, 3),)], ops=("vector_norm",),
         torch=lambda x: torch.linalg.matrix_norm(x, keepdim=True), errors=[((np.ones(3),), ValueError)]),
    *[Case(f"matrix_norm:{order} linalg", lambda x, order=order: np.linalg.matrix_norm(x, ord=order), [(draw(2, 2, 3),)],
           torch=lambda x, order=order: torch.linalg.matrix_norm(x, order), ops=matrix_ops(order)) for order in MATRIX_ORDERS[1:]],
    *[Case(f"vector_norm:{order}", lambda x, order=order: np.linalg.vector_norm(x, ord=order) * np.linalg.vector_norm(x, ord=order, axis=(0, 2)),
           [(draw(2, 3, 2),)], torch=lambda x, order=order: torch.linalg.vector_norm(x, order) * torch.linalg.vector_norm(x, order, (0, 2)),
           ops=vector_ops(order)) for order in ORDERS[1:]],
    Case("vector_norm:keepdims", lambda x: x / (np.linalg.vector_norm(x, keepdims=True) + np.linalg.vector_norm(x, axis=(-1,), keepdims=True)
                                                + np.linalg.vector_norm(x, axis=0, keepdims=True)), STACK),
    *[Case(f"cond:{order}", lambda x, order=order: np.linalg.cond(x, order), SQUARE[:3], ops=("svdvals", "inv"),
           torch=None if order in NOT_IN_TORCH else lambda x, order=order: torch.linalg.cond(x, order),
           errors=[((np.zeros((0, 0)),), LinAlgError)]) for order in [None, 2, -2, *NOT_IN_TORCH]],
    Case("cond:rectangular", np.linalg.cond, [(draw(2, 3),), (z(2, 2),)], ops=("svdvals",)),
]
CASES: list[Case] = [*DECOMPOSITIONS, *SOLUTIONS, *NORMS]
