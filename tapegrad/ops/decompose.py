"""Decompositions of matrices, and solutions and inverses.

The last two axes are the matrix. The rules are those of Giles (2008), Collected matrix derivative results for forward
and reverse mode algorithmic differentiation, except where another source is named; complex ones follow Boeddeker et al.
(2017), On the computation of complex-valued gradients with application to statistically optimum beamforming.

What a decomposition leaves free (the phase of a complex eigenvector, the basis of a null space) has no derivative: a
cotangent along it raises MissingRule. Where eigenvalues or singular values are equal, or differ by rounding, their
basis is free too: results that depend on it become inf or nan, and others stay exact, because only 0 / 0 counts as 0
(`ratio`). An eigenvector of a Hermitian matrix beside other equal eigenvalues has derivatives of every order
(`eigensolve`), and values that count alike have second ones (`recompose`); those of the vectors of `eig` and `svd` are
nan there.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import MissingRule, user_location
from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import ZERO, ZeroTangent, dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops import decomposition_tangents as tangents
from tapegrad.ops import matrix_parts as parts
from tapegrad.ops.batched_product import solve_members
from tapegrad.ops.elementwise import (
    conj,
    constant,
    divide,
    equal,
    greater,
    imag,
    is_complex,
    less_equal,
    logical_and,
    logical_or,
    real,
    where,
)
from tapegrad.ops.linalg import adjoint, diagonal, tril
from tapegrad.ops.recompose import alone, asked, lasting, of_eigenvalues, of_singular_values
from tapegrad.ops.reduce import any, max, sum
from tapegrad.ops.shape import concat
from tapegrad.ops.triangular import cholesky_pullback, halved
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, RAISES, Joint, pointwise
from tapegrad.rules.registry import define

# 0 / 0 is 0, also when differentiated: no cotangent, no gradient. A rule divides by gaps that may vanish where no
# cotangent flows.
ratio = define("ratio", lambda a, b: np.divide(a, np.where((a == 0) & (b == 0), 1, b)), pointwise(
    lambda dy, _y, _a, b: ratio(dy, conj(b)), lambda dy, y, _a, b: -ratio(dy * conj(y), conj(b))),
    torch=lambda a, b: divide.run(a, where.run(logical_and.run(equal.run(a, 0), equal.run(b, 0)), 1, b)), memory=FRESH,
    spec=types.floating)


def _refuse_gauge(part: Any, dy: Cotangent, what: str) -> None:
    """Raise MissingRule if a cotangent has more than rounding errors along what the decomposition leaves free."""
    part, dy = plain(part), plain(dy)
    if isinstance(part, np.ndarray) and part.size and np.abs(part).max() > 1e-8 + 1e-3 * np.abs(dy).max():
        raise MissingRule(f"the function depends on {what}, which is not unique: it has no derivative", user_location(),
                          "use unique quantities: absolute values, projectors v @ v^H, U @ diag(s) @ Vh")


def _leading(u: Array, du: Any, k: int) -> tuple[Any, Any]:
    """Return the first `k` columns of a unitary matrix, and a cotangent of them that includes those of the other
    columns.

    The others span the complement: as dU = U Ω with Ω skew-Hermitian, they rotate by minus the adjoint of the rotation
    of the first.
    """
    if shape_of(u)[-1] == k:
        return u, du
    first, rest = u[..., :k], u[..., k:]
    if type(du) is ZeroTangent:
        return first, du
    free = adjoint(rest) @ du[..., k:]
    _refuse_gauge(parts.skew(free), du, "the basis of an orthogonal complement (full_matrices=True or mode='complete')")
    return first, du[..., :k] - rest @ (adjoint(du[..., k:]) @ first)


# -- solutions and inverses


def _solve_vjp(y: Array, a: Array, b: Array) -> Callable[[Any], Any]:
    def solve_pullback(dy: Cotangent) -> tuple[Any, Any]:
        if len(shape_of(b)) == 1 == len(shape_of(y)):
            db = solve(adjoint(a), dy)
            return -db[:, None] * conj(y), db
        if len(shape_of(b)) == 1:  # one vector for each matrix of a stack
            db = solve(adjoint(a), dy[..., None])
            return -db * conj(y)[..., None, :], db[..., 0]
        db = solve(adjoint(a), dy)
        return -db @ adjoint(y), db
    return solve_pullback


def _pinv_cotangent(dy: Cotangent, y: Array, x: Array, rcond: Any = None, hermitian: bool = False) -> Any:
    # Golub and Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares
    # problems: at constant rank
    if hermitian:
        x = parts.hermitian(x)
    if rcond is not None:
        _refuse_cut(x, rcond)
    h, dh = adjoint(y), adjoint(dy)
    dx = -h @ dy @ h + (dh - x @ (y @ dh)) @ y @ h + h @ y @ (dh - (dh @ y) @ x)
    return parts.on_triangle(dx, upper=False) if hermitian else dx


def _refuse_cut(x: Array, rcond: Any) -> None:
    """Raise MissingRule where a cut-off drops singular values that are not zero: the inverted matrix then has a lower
    rank, and rotates with the directions that were dropped.
    """
    if 0 in shape_of(x):
        return
    s = svdvals(x)
    largest = max(s, axis=-1, keepdims=True)
    least = float(np.finfo(dtype_of(s)).eps) * builtins.max(shape_of(x)[-2:])
    bound = rcond[..., None] if shape_of(rcond) else rcond
    if any(logical_and(less_equal(s, bound * largest), greater(s, least * largest))):
        raise MissingRule("the cut-off drops singular values that are not zero: the derivative of the truncated result "
                          "is not implemented", user_location(),
                          "a smaller rcond; or compute the result from U, s, Vh = np.linalg.svd(a)")


def _pinv_tangent(ts: Any, y: Array, x: Array, rcond: Any = None, hermitian: bool = False) -> Any:
    if hermitian:
        x, ts = parts.hermitian(x), [parts.hermitian(ts[0])]
    if rcond is not None:
        _refuse_cut(x, rcond)
    return tangents.pinv(ts, y, x)


def _pinv(x: Array, rcond: Any = None, hermitian: bool = False) -> Any:
    return np.linalg.pinv(x, rcond, hermitian)


def _solve_tensors(a: Any, b: Any) -> Any:
    a, b = tensors.together((a, b), number=True)
    x = b[:, None] if b.ndim == 1 else b  # NumPy's rule for vectors, not torch's
    return _solved(a, x.expand(*a.shape[:-2], *x.shape) if x.ndim < a.ndim else x)[(..., 0) if b.ndim == 1 else ...]


def _pinv_tensor(x: Any, rcond: Any = None, hermitian: bool = False) -> Any:
    if 0 in x.shape:
        return torch.empty_like(x.mT)
    cutoff = 1e-15 if rcond is None else rcond[..., None] if tensors.is_tensor(rcond) else float(rcond)
    if hermitian:
        s, u = eigh.lower["torch"](x)
        vh = u.mH
    else:
        u, s, vh = svd.lower["torch"](x, full_matrices=False)
    inverse = torch.where(s.abs() > cutoff * s.abs().amax(-1, keepdim=True), 1 / s, 0.0)
    return (vh.mH * inverse[..., None, :].to(vh.dtype)) @ u.mH


_solved = tensors.matrix_function("linalg.solve")
def _solve_tangent(ts: Any, y: Array, a: Array, b: Array) -> Any:
    da, db = ts
    if da is None:
        return solve(a, db)
    if len(shape_of(b)) > 1 or len(shape_of(a)) == 2:
        return solve(a, -(da @ y) if db is None else db - da @ y)
    moved = (da @ y[..., None])[..., 0]  # one vector for each matrix of a stack
    return solve(a, (-moved if db is None else db - moved)[..., None])[..., 0]


solve = define("solve", np.linalg.solve, rule=Joint(_solve_vjp), effects=RAISES, tangent=_solve_tangent,
               batch=solve_members,
               torch=_solve_tensors, memory=FRESH, spec=types.solution)
inv = define("inv", np.linalg.inv, (lambda dy, y, _x: -adjoint(y) @ dy @ adjoint(y),), effects=RAISES,
             tangent=lambda ts, y, _x: -(y @ ts[0] @ y),
             batch=batching.stacked(2), torch=tensors.matrix_function("linalg.inv"), memory=FRESH, spec=types.square)
pinv = define("pinv", _pinv, (_pinv_cotangent, None), effects=RAISES, tangent=_pinv_tangent,
              batch=batching.stacked(2), torch=_pinv_tensor, memory=FRESH, spec=types.pseudoinverse)


def _lstsq_vjp(y: Array, a: Any, b: Array, *rcond: Any) -> Callable[[Any], Any]:
    def lstsq_pullback(dy: Cotangent) -> tuple[Any, ...]:
        (x, residuals, _, _), (dx, dr, _, ds) = y, dy
        vector = len(shape_of(b)) == 1
        x, dx, rhs = (z[..., None] if vector and type(z) is not ZeroTangent else z for z in (x, dx, b))
        error = rhs - a @ x
        da: Any = ZERO
        db: Any = ZERO
        if type(dx) is not ZeroTangent:  # x = pinv(a) b
            cutoff = _cutoff(a, *rcond)
            if rcond:
                _refuse_cut(a, cutoff)
            p = pinv(a, cutoff)
            db = adjoint(p) @ dx
            da = error @ adjoint(p @ db) + adjoint(p) @ x @ adjoint(dx - p @ (a @ dx)) - db @ adjoint(x)
        if type(dr) is not ZeroTangent and shape_of(residuals) != (0,):  # at the minimum, x counts as constant
            de = 2 * dr * error
            da, db = da - de @ adjoint(x), db + de
        if type(ds) is not ZeroTangent:
            da = da + svdvals.cotangent(0, ds, None, (a,), {})
        return da, db[..., 0] if vector and type(db) is not ZeroTangent else db, *(ZERO for _ in rcond)
    return lstsq_pullback


def _cutoff(a: Array, rcond: Any = None) -> Any:
    eps = float(np.finfo(float).eps)
    return eps * builtins.max(shape_of(a)) if rcond is None else eps if plain(rcond) < 0 else rcond


def _lstsq_tensors(a: Array, b: Array, rcond: Any = None) -> Any:
    # by the SVD, as NumPy does through LAPACK's gelsd, which torch has on the CPU only
    a, b = tensors.together((a, b), number=True)
    (m, n), rhs = a.shape, b[:, None] if b.ndim == 1 else b
    if rhs.shape[0] != m:
        raise np.linalg.LinAlgError("Incompatible dimensions")
    eps = torch.finfo(a.dtype).eps
    cutoff = eps * builtins.max(m, n) if rcond is None else eps if float(rcond) < 0 else float(rcond)
    u, s, vh = svd.lower["torch"](a, full_matrices=False)
    kept = s > cutoff * s[:1]
    x = vh.mH @ (torch.where(kept, 1 / s, 0.0)[:, None] * (u.mH @ rhs))
    rank = kept.sum().to(torch.int32)
    error = rhs - a @ x
    residuals = (error * error.conj()).real.sum(0) if m > n and int(rank) == n else s.new_empty(0)
    return x[:, 0] if b.ndim == 1 else x, residuals, rank, s


def _lstsq_tangent(ts: Any, y: Array, a: Array, b: Array, *rcond: Any) -> Any:
    cutoff = _cutoff(a, *rcond)
    if rcond:
        _refuse_cut(a, cutoff)
    return tangents.lstsq(ts, y, a, b, cutoff)


lstsq = define("lstsq", np.linalg.lstsq, rule=Joint(_lstsq_vjp), effects=RAISES, tangent=_lstsq_tangent, batch=False,
               torch=_lstsq_tensors, memory=FRESH, spec=types.opaque("the rank decides how many residuals there are"))

# -- triangular factors


def _cholesky_cotangent(dy: Cotangent, y: Array, _x: Array, upper: bool = False) -> Any:
    return adjoint(cholesky_pullback(adjoint(dy), adjoint(y))) if upper else cholesky_pullback(dy, y)


def _qr_vjp(y: Array, x: Array, mode: str = "reduced") -> Callable[[Any], Any]:
    def qr_pullback(dy: Cotangent) -> tuple[Any]:
        # Walter and Lehmann (2010), Algorithmic differentiation of linear algebra functions, arXiv:1001.1654
        (q, dq), (r, dr) = ((qr(x)[0], ZERO), (y, dy)) if mode == "r" else zip(y, dy)
        k, n = min(shape_of(x)[-2:]), shape_of(x)[-1]
        q, dq = _leading(q, dq, k)
        dq, dr = parts.filled(dq, q), parts.filled(dr, r)[..., :k, :]
        tail, dtail, r, dr = r[..., :k, k:], dr[..., k:], r[..., :k, :k], dr[..., :k]
        if n > k:  # Roberts and Roberts (2020), QR and LQ decomposition matrix backpropagation: the tail is Qᴴ A
            dq = dq + q @ (tail @ adjoint(dtail))
        dx = adjoint(solve(r, adjoint(dq + q @ parts.hermitian(r @ adjoint(dr) - adjoint(dq) @ q))))
        return (concat(dx, q @ dtail, axis=-1) if n > k else dx,)
    return qr_pullback


def _cholesky_tangent(ts: Any, y: Array, _x: Array, upper: bool = False) -> Any:
    # dL = L Φ(L⁻¹ dA L⁻ᴴ): Murray, as in ops.triangular
    half = tril(halved(adjoint(ts[0]) if upper else ts[0]))
    factor, inverse = (adjoint(y), adjoint(inv(y))) if upper else (y, inv(y))
    dy = factor @ tril(halved(inverse @ (half + adjoint(half)) @ adjoint(inverse)))
    return adjoint(dy) if upper else dy


cholesky = define("cholesky", lambda x, upper=False: np.linalg.cholesky(x, upper=upper), (_cholesky_cotangent,),
                  effects=RAISES, tangent=_cholesky_tangent, batch=batching.stacked(2),
                  torch=lambda x, upper=False: _cholesky(x, upper=upper), memory=FRESH, spec=types.square)
_cholesky = tensors.matrix_function("linalg.cholesky")
_qr = tensors.matrix_function("linalg.qr")
qr = define("qr", np.linalg.qr, rule=Joint(_qr_vjp), tangent=tangents.qr,
            batch=batching.stacked(2), torch=lambda x, mode="reduced": _qr(x, mode)[1] if mode == "r" else _qr(x, mode),
            memory=FRESH, spec=types.orthogonal)

# -- eigenvalues and singular values


def _gaps(w: Array) -> Any:
    """Return w_j - w_i, and 1 where i = j."""
    return where(parts.eye(w), 1.0, w[..., None, :] - w[..., :, None])


def _turned(turn: Any, dv: Any, gaps: Any, largest: Any) -> Any:
    """Return how far vectors rotate into each other; nan where a cotangent is along vectors of equal values."""
    columns = asked(dv)
    free = logical_and(tangents.near(gaps, largest), logical_or(columns[..., None, :], columns[..., :, None]))
    return where(free, np.nan, ratio(turn, gaps))


def _eigensolve(x: Array, w: Array, v: Array, c: Array, UPLO: str = "L") -> Any:
    n, turn = w.shape[-1], np.swapaxes(np.conj(v), -1, -2) @ c
    if not n:
        return v @ turn
    gaps = w[..., None, :] - w[..., :, None]
    near = np.abs(gaps) <= 8.0 * n * np.finfo(w.dtype).eps * np.abs(w).max(axis=-1, keepdims=True)[..., None]
    asked = np.any(np.not_equal(c, 0), axis=-2)[..., None, :]
    turned = np.where(near, np.where(asked, np.nan, 0.0).astype(turn.dtype), turn / np.where(near, 1.0, gaps))
    return v @ np.where(np.eye(n, dtype=bool), np.zeros((), turn.dtype), turned)


def _eigensolve_tensors(x: Any, w: Any, v: Any, c: Any, UPLO: str = "L") -> Any:
    n, kind = w.shape[-1], torch.promote_types(v.dtype, c.dtype)
    v, c = v.to(kind), c.to(kind)
    turn = v.mH @ c
    if not n:
        return v @ turn
    gaps = w[..., None, :] - w[..., :, None]
    near = gaps.abs() <= 8.0 * n * torch.finfo(w.dtype).eps * w.abs().amax(-1, keepdim=True)[..., None]
    asked = (c != 0).any(-2)[..., None, :]
    free = torch.where(asked, torch.nan, 0.0).to(kind)
    turned = torch.where(near, free, turn / torch.where(near, 1.0, gaps))
    return v @ turned.masked_fill(torch.eye(n, dtype=torch.bool, device=w.device), 0.0)


def _eigensolve_vjp(z: Any, x: Array, w: Array, v: Array, c: Any, UPLO: str = "L") -> Callable[[Any], Any]:
    def eigensolve_pullback(dz: Cotangent) -> tuple[Any, ...]:
        u = eigensolve(x, w, v, dz, UPLO=UPLO)
        # for columns of equal values one of the two is nan where the other is 0, and nothing flows
        flows = logical_or(alone(w), logical_and(asked(c), asked(dz)))[..., None, :]
        left, right = where(flows, u, 0.0), where(flows, z, 0.0)
        dv = left * conj(sum(conj(v) * c, axis=-2, keepdims=True)) + right * conj(sum(conj(v) * dz, axis=-2,
                                                                                      keepdims=True))
        dx = parts.on_triangle(left @ adjoint(right), UPLO.upper() == "U")
        return dx, -real(sum(conj(left) * right, axis=-2)), -dv, u
    return eigensolve_pullback


def _eigensolve_tangent(ts: Any, z: Any, x: Array, w: Array, v: Array, c: Any, UPLO: str = "L") -> Any:
    dx, dw, dv, dc = ts
    moved: Any = 0.0 if dc is None else dc
    if dx is not None:
        moved = moved + tangents.read(dx, UPLO.upper() == "U") @ z
    if dw is not None:
        moved = moved - z * dw[..., None, :]
    if dv is not None:
        moved = moved - dv * sum(conj(v) * c, axis=-2, keepdims=True)
    dz = eigensolve(x, w, v, moved, UPLO=UPLO)
    return dz if dv is None else dz - v * sum(conj(dv) * z, axis=-2, keepdims=True)


# (w_j - x) z_j = c_j for each column j, without the part along v_j. With it an eigenvector of a simple eigenvalue
# depends on the matrix alone, and not on the other eigenvectors, which have no derivative where their values are equal
eigensolve = define("eigensolve", _eigensolve, rule=Joint(_eigensolve_vjp), tangent=_eigensolve_tangent,
                    batch=batching.stacked(2, 1, 2, 2), torch=_eigensolve_tensors, memory=FRESH,
                    spec=types.eigenvectors_of)


def _eigh_vjp(y: Array, x: Array, UPLO: str = "L") -> Callable[[Any], Any]:
    def eigh_pullback(dy: Cotangent) -> tuple[Any]:
        (w, v), (dw, dv) = y, dy
        if type(dv) is ZeroTangent:
            return (of_eigenvalues(x, w, v, dw, UPLO) if type(dw) is not ZeroTangent else ZERO,)
        v = lasting(w, v, dw, dv)
        columns = ZERO if type(dw) is ZeroTangent else v * dw[..., None, :]
        if is_complex(v):
            _refuse_gauge(imag(sum(conj(v) * dv, axis=-2)), dv, "the phase of an eigenvector")
        columns = columns + eigensolve(x, w, v, dv, UPLO=UPLO)
        return (parts.on_triangle(columns @ adjoint(v), UPLO.upper() == "U"),)
    return eigh_pullback


def _eigvalsh_cotangent(dy: Cotangent, _y: Array, x: Array, UPLO: str = "L") -> Any:
    w, v = eigh(x, UPLO=UPLO)
    return of_eigenvalues(x, w, v, dy, UPLO)


def _eig_vjp(y: Array, x: Array) -> Callable[[Any], Any]:
    def eig_pullback(dy: Cotangent) -> tuple[Any]:
        # Boeddeker et al. (2017), eq. 4.77; eigenvectors keep length 1
        (w, v), (dw, dv) = y, dy
        core = ZERO if type(dw) is ZeroTangent else parts.diagonals(dw)
        h = adjoint(v)
        if type(dv) is not ZeroTangent:
            turn = h @ dv
            if is_complex(v):
                _refuse_gauge(imag(diagonal(turn)), dv, "the phase of an eigenvector")
            turn = turn - h @ v * real(diagonal(turn))[..., None, :]
            core = core + parts.off_diagonal(_turned(turn, dv, conj(_gaps(w)), tangents.largest(w)))
        return (solve(h, core @ h),)
    return eig_pullback


def _svd_vjp(y: Array, x: Array, full_matrices: bool = True) -> Callable[[Any], Any]:
    def svd_pullback(dy: Cotangent) -> tuple[Any]:
        # Townsend (2016), Differentiating the singular value decomposition; Wan and Zhang (2019),
        # arXiv:1909.02659, for the phases
        (u, s, vh), (du, ds, dvh) = y, dy
        k = shape_of(s)[-1]
        if type(du) is ZeroTangent and type(dvh) is ZeroTangent and type(ds) is not ZeroTangent:
            return (of_singular_values(x, u[..., :k], s, vh[..., :k, :], ds),)
        u, du = _leading(u, du, k)
        v, dv = _leading(adjoint(vh), dvh if type(dvh) is ZeroTangent else adjoint(dvh), k)
        gaps = where(parts.eye(s), 1.0, _gaps(s) * (s[..., None, :] + s[..., :, None]))
        largest = tangents.largest(s) ** 2
        core = ZERO if type(ds) is ZeroTangent else parts.diagonals(ds)
        free: Any = ZERO
        if type(du) is not ZeroTangent:
            turn = adjoint(u) @ du
            core = core + parts.off_diagonal(_turned(parts.skew(turn), du, gaps, largest)) * s[..., None, :]
            if is_complex(u):
                free = imag(diagonal(turn))
                core = core + parts.diagonals(ratio(1j * free, s))
        if type(dv) is not ZeroTangent:
            turn = adjoint(v) @ dv
            core = core + s[..., :, None] * parts.off_diagonal(_turned(parts.skew(turn), dv, gaps, largest))
            if is_complex(v):
                free = free + imag(diagonal(turn))
        _refuse_gauge(free, du if type(dv) is ZeroTangent else dv, "the phase of a singular vector")
        dx = u @ core @ adjoint(v)
        if shape_of(u)[-2] > k and type(du) is not ZeroTangent:  # the columns of U rotate into their complement
            dx = dx + ratio(du - u @ (adjoint(u) @ du), s[..., None, :]) @ adjoint(v)
        if shape_of(v)[-2] > k and type(dv) is not ZeroTangent:
            dx = dx + u @ adjoint(ratio(dv - v @ (adjoint(v) @ dv), s[..., None, :]))
        return (dx,)
    return svd_pullback


def _svdvals_cotangent(dy: Cotangent, _y: Array, x: Array) -> Any:
    u, s, vh = svd(x, full_matrices=False)
    return of_singular_values(x, u, s, vh, dy)


# before NumPy 2.5 eigenvalues are real numbers where all are real
_REAL = np.linalg.eigvals(np.eye(1)).dtype.kind == "f"


def _eig_tensor(x: Any) -> Any:
    w, v = _complex_eig(x)
    return (w.real, v.real) if _REAL and not x.is_complex() and not bool((w.imag != 0).any()) else (w, v)


_complex_eig = tensors.matrix_function("linalg.eig")
eigh = define("eigh", np.linalg.eigh, rule=Joint(_eigh_vjp), effects=RAISES, tangent=tangents.eigh,
              batch=batching.stacked(2),
              torch=tensors.matrix_function("linalg.eigh"), memory=FRESH, spec=types.eigensystem)
eigvalsh = define("eigvalsh", np.linalg.eigvalsh, (_eigvalsh_cotangent,), effects=RAISES, tangent=tangents.eigvalsh,
                  batch=batching.stacked(2), torch=tensors.matrix_function("linalg.eigvalsh"), memory=FRESH,
                  spec=types.eigenvalues)
eig = define("eig", np.linalg.eig, rule=Joint(_eig_vjp), effects=RAISES, tangent=tangents.eig, batch=False,
             torch=_eig_tensor,
    memory=FRESH, spec=types.general_eigensystem)
svd = define("svd", np.linalg.svd, rule=Joint(_svd_vjp), effects=RAISES, tangent=tangents.svd,
             batch=batching.stacked(2),
             torch=tensors.matrix_function("linalg.svd"), memory=FRESH, spec=types.singular)
svdvals = define("svdvals", np.linalg.svdvals, (_svdvals_cotangent,), effects=RAISES, tangent=tangents.svdvals,
                 batch=batching.stacked(2), torch=tensors.matrix_function("linalg.svdvals"), memory=FRESH,
                 spec=types.singular_values)


def _matrix_rank(x: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    if x.ndim < 2:
        return int(torch.any(x != 0))
    s = eigvalsh.lower["torch"](x).abs() if hermitian else svdvals.lower["torch"](x)
    if tol is None:
        rtol = builtins.max(x.shape[-2:]) * torch.finfo(s.dtype).eps if rtol is None else rtol
        tol = s.amax(-1, keepdim=True) * (rtol[..., None] if tensors.is_tensor(rtol) else rtol)
    elif tensors.is_tensor(tol):
        tol = tol[..., None]
    return (s > tol).sum(-1)


matrix_rank = constant("matrix_rank", np.linalg.matrix_rank, effects=RAISES, batch=batching.stacked(2),
                       on_torch=_matrix_rank, spec=types.rank)
