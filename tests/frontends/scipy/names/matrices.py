"""Programs by the public names of scipy.linalg, sparse, sparse.linalg and spatial that have a derivative."""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl
import scipy.sparse as ss
import scipy.sparse.linalg as ssl
import scipy.spatial as sc
import scipy.spatial.distance as sd
import scipy.spatial.transform as tr

from tests.cases.case import draw

A = draw(3, 3) * 0.3 + 2 * np.eye(3)
S, TALL, V, W = A @ A.T, draw(5, 3), draw(3), draw(3, seed=1)
SYM = np.array([[0.5, 0.2, 0.1], [0.2, 1.5, -0.3], [0.1, -0.3, 3.0]])
BANDS = np.array([[0.0, 0.3, 0.2, 0.1], [2.0, 2.5, 3.0, 2.2], [0.4, 0.1, 0.2, 0.0]])
UPPER = np.array([[0.0, 0.3, 0.2, 0.1], [2.0, 2.5, 3.0, 2.2]])
ORDERED = A + np.diag([0.0, 1.0, 3.0])


def even(x):
    return (x + x.T) / 2


LINALG = {
    "block_diag": (sl.block_diag, A, V), "cdf2rdf": (lambda w: sl.cdf2rdf(w * np.array([1 + 1j, 1 - 1j]), np.array([[1.0, 1.0], [1j, -1j]]))[0], 0.7),
    "cho_factor": (lambda a: np.triu(sl.cho_factor(even(a))[0]), S), "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(even(a)), b), S, V),
    "cho_solve_banded": (lambda c, b: sl.cho_solve_banded((c, False), b), UPPER, draw(4)), "cholesky": (lambda a: sl.cholesky(even(a)), S), "cholesky_banded": (sl.cholesky_banded, UPPER),
    "circulant": (sl.circulant, V), "clarkson_woodruff_transform": (lambda a: sl.clarkson_woodruff_transform(a, 3, rng=1), TALL), "companion": (sl.companion, V + 3),
    "convolution_matrix": (lambda v: sl.convolution_matrix(v, 4), V), "coshm": (sl.coshm, A), "cosm": (sl.cosm, A), "cossin": (lambda x: np.abs(sl.cossin(sl.expm(x - x.T), p=2, q=2)[1]), draw(4, 4)),
    "det": (sl.det, A), "diagsvd": (lambda s: sl.diagsvd(s, 3, 4), V), "eig": (lambda a: sl.eigvals(a), ORDERED), "eig_banded": (lambda b: sl.eig_banded(b, eigvals_only=True), UPPER),
    "eigh": (lambda a: [sl.eigh(a)[0], np.abs(sl.eigh(a)[1])], SYM), "eigh_tridiagonal": (lambda d, e: sl.eigh_tridiagonal(d, e, eigvals_only=True), np.array([1.0, 2.0, 4.0]), V[:2]),
    "eigvals": (sl.eigvals, ORDERED), "eigvals_banded": (sl.eigvals_banded, UPPER), "eigvalsh": (sl.eigvalsh, SYM), "eigvalsh_tridiagonal": (sl.eigvalsh_tridiagonal, np.array([1.0, 2.0, 4.0]), V[:2]),
    "expm": (sl.expm, A), "expm_cond": (sl.expm_cond, A), "expm_frechet": (sl.expm_frechet, A, SYM), "fiedler": (sl.fiedler, V), "fiedler_companion": (sl.fiedler_companion, np.append(V, 1.0) + 3),
    "fractional_matrix_power": (sl.fractional_matrix_power, S, 0.3), "funm": (lambda a: sl.funm(a, np.exp), ORDERED), "hankel": (sl.hankel, V, W), "hessenberg": (lambda a: np.abs(sl.hessenberg(a)), draw(4, 4)),
    "inv": (sl.inv, A), "khatri_rao": (sl.khatri_rao, A, TALL), "ldl": (lambda a: sl.ldl(even(a))[:2], S), "leslie": (sl.leslie, V, W[:2]), "logm": (sl.logm, S), "lstsq": (lambda a, b: sl.lstsq(a, b)[0], TALL, draw(5)),
    "lu": (lambda a: sl.lu(a), A), "lu_factor": (lambda a: sl.lu_factor(a)[0], A), "lu_solve": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b), A, V), "matmul_toeplitz": (lambda c, x: sl.matmul_toeplitz(c, x), V, W),
    "matrix_balance": (lambda a: sl.matrix_balance(a, permute=False)[0], A * np.array([[1, 1e3, 1], [1e-3, 1, 1], [1, 1, 1]])), "norm": (sl.norm, A), "null_space": (lambda a: np.abs(sl.null_space(a)), TALL.T[:2, :3]),
    "ordqz": (lambda a: np.abs(sl.ordqz(a, SYM)[0]), ORDERED), "orth": (lambda a: np.abs(sl.orth(a)), TALL), "orthogonal_procrustes": (lambda a, b: sl.orthogonal_procrustes(a, b), TALL, TALL[::-1] ** 2),
    "pinv": (sl.pinv, TALL), "pinvh": (lambda a: sl.pinvh(even(a)), SYM), "polar": (sl.polar, A), "qr": (sl.qr, A), "qr_delete": (lambda a: sl.qr_delete(*sl.qr(a), 1), A), "qr_insert": (lambda a, u: sl.qr_insert(*sl.qr(a), u, 1), A, V),
    "qr_multiply": (lambda a, c: sl.qr_multiply(a, c), A, V), "qr_update": (lambda a, u: sl.qr_update(*sl.qr(a), u, W), A, V), "qz": (lambda a: np.abs(sl.qz(a, SYM)[0]), ORDERED), "rq": (sl.rq, A),
    "rsf2csf": (lambda a: np.abs(sl.rsf2csf(*sl.schur(a))[0]), np.array([[1.0, 2.0], [-1.5, 0.7]])), "schur": (lambda a: [np.abs(x) for x in sl.schur(a)], ORDERED), "signm": (sl.signm, np.diag([3.0, 2.0, -1.5]) + 0.1 * A),
    "sinhm": (sl.sinhm, A), "sinm": (sl.sinm, A), "solve": (sl.solve, A, V), "solve_banded": (lambda b, v: sl.solve_banded((1, 1), b, v), BANDS, draw(4)), "solve_circulant": (sl.solve_circulant, V + np.array([4.0, 0, 0]), W),
    "solve_continuous_are": (lambda a, b: sl.solve_continuous_are(a, b, np.eye(3), np.eye(2)), A, TALL.T[:2].T[:3]), "solve_continuous_lyapunov": (sl.solve_continuous_lyapunov, A, S),
    "solve_discrete_are": (lambda a, b: sl.solve_discrete_are(a, b, np.eye(3), np.eye(2)), A, TALL.T[:2].T[:3]), "solve_discrete_lyapunov": (sl.solve_discrete_lyapunov, 0.2 * A, S), "solve_lyapunov": (sl.solve_lyapunov, A, S),
    "solve_sylvester": (sl.solve_sylvester, A, S, TALL[:3]), "solve_toeplitz": (sl.solve_toeplitz, V + np.array([4.0, 0, 0]), W), "solve_triangular": (sl.solve_triangular, A, V), "solveh_banded": (sl.solveh_banded, UPPER, draw(4)),
    "sqrtm": (sl.sqrtm, S), "subspace_angles": (sl.subspace_angles, TALL[:, :2], TALL[::-1, 1:] ** 2), "svd": (lambda a: np.abs(sl.svd(a, full_matrices=False)[0]), TALL), "svdvals": (sl.svdvals, TALL), "tanhm": (sl.tanhm, 0.3 * A), "tanm": (sl.tanm, 0.3 * A),
    "toeplitz": (sl.toeplitz, V, W),
}

PLACES = np.array([0, 0, 1, 1, 2, 2, 3]), np.array([0, 2, 1, 3, 2, 0, 3])
DATA, B = draw(7) + 3.0 * (PLACES[0] == PLACES[1]), draw(4)


def of(data, kind=ss.csr_array):
    return kind((data, PLACES), shape=(4, 4))


def definite(data):
    return (of(data) + of(data).T + 4 * ss.eye_array(4)).tocsc()


def stored(kind):
    return lambda d: kind(of(d)) @ B, DATA


def solved(fn, make=definite, **options):
    return lambda d, b: fn(make(d), b, **options)[0], DATA, B


MAKERS = {f"{name}_{suffix}": stored(getattr(ss, f"{name}_{suffix}")) for name in ("bsr", "coo", "csc", "csr", "dia") for suffix in ("array", "matrix")}
SPARSE = {
    **MAKERS,
    "block_array": (lambda d: ss.block_array([[of(d), None], [None, of(d)]]).toarray(), DATA), "block_diag": (lambda d: ss.block_diag([of(d), of(d)]).toarray(), DATA), "bmat": (lambda d: ss.bmat([[of(d), of(d)]]).toarray(), DATA),
    "diags": (lambda d: ss.diags(d[:4]).toarray(), DATA), "diags_array": (lambda d: ss.diags_array(d[:4]).toarray(), DATA), "expand_dims": (lambda d: ss.expand_dims(of(d, ss.coo_array), axis=0).data, DATA), "find": (lambda d: ss.find(of(d))[2], DATA),
    "hstack": (lambda d: ss.hstack([of(d), of(d)]).toarray(), DATA), "kron": (lambda d: ss.kron(of(d), of(d)).toarray(), DATA), "kronsum": (lambda d: ss.kronsum(of(d), of(d)).toarray(), DATA),
    "permute_dims": (lambda d: ss.permute_dims(of(d, ss.coo_array), (1, 0)).toarray(), DATA), "spdiags": (lambda d: ss.spdiags(d[:4], [1], 4, 4).toarray(), DATA), "swapaxes": (lambda d: ss.swapaxes(of(d, ss.coo_array), 0, 1).toarray(), DATA),
    "matrix_transpose": (lambda d: ss.matrix_transpose(of(d)).toarray(), DATA), "tril": (lambda d: ss.tril(of(d)).toarray(), DATA), "triu": (lambda d: ss.triu(of(d)).toarray(), DATA), "vstack": (lambda d: ss.vstack([of(d), of(d)]).toarray(), DATA),
}
SPARSE_LINALG = {
    **{name: solved(getattr(ssl, name), rtol=1e-12) for name in ("bicg", "bicgstab", "cg", "cgs", "gcrotmk", "gmres", "lgmres", "minres", "qmr", "tfqmr")},
    "lsmr": solved(ssl.lsmr, atol=1e-13, btol=1e-13), "lsqr": solved(ssl.lsqr, atol=1e-13, btol=1e-13), "aslinearoperator": (lambda d: ssl.aslinearoperator(of(d)) @ B, DATA),
    "eigs": (lambda d: ssl.eigs(definite(d), k=1, v0=np.ones(4))[0].real, DATA), "eigsh": (lambda d: ssl.eigsh(definite(d), k=1, v0=np.ones(4))[0], DATA), "expm": (lambda d: ssl.expm(of(d, ss.csc_array)).toarray(), DATA), "expm_multiply": (lambda d, b: ssl.expm_multiply(of(d), b), DATA, B),
    "factorized": (lambda d, b: ssl.factorized(definite(d))(b), DATA, B), "funm_multiply_krylov": (lambda b: ssl.funm_multiply_krylov(lambda h: sl.expm(h), definite(DATA), b), B), "inv": (lambda d: ssl.inv(definite(d)).toarray(), DATA),
    "lobpcg": (lambda d: ssl.lobpcg(definite(d), np.ones((4, 1)), tol=1e-12, maxiter=200)[0], DATA), "matrix_power": (lambda d: ssl.matrix_power(of(d), 3).toarray(), DATA), "norm": (lambda d: ssl.norm(of(d)), DATA), "splu": (lambda d, b: ssl.splu(definite(d)).solve(b), DATA, B),
    "spsolve": (lambda d, b: ssl.spsolve(definite(d), b), DATA, B), "spsolve_triangular": (lambda d, b: ssl.spsolve_triangular(ss.tril(of(d)).tocsr(), b), DATA, B), "svds": (lambda d: ssl.svds(of(d), k=1, v0=np.ones(4))[1], DATA),
}

P, Q = draw(5, 3), draw(4, 3, seed=1)
CUBE = np.array([[0.0, 0, 0], [1, 0, 0.1], [0, 1, 0.2], [0, 0.1, 1], [1, 1, 1.2]])
SPATIAL = {
    "ConvexHull": (lambda p: sc.ConvexHull(p).volume, CUBE), "Voronoi": (lambda p: sc.Voronoi(p).vertices, P[:, :2]), "cKDTree": (lambda p: sc.cKDTree(Q).query(p)[0], P), "KDTree": (lambda p: sc.KDTree(Q).query(p)[0], P),
    "HalfspaceIntersection": (lambda h: sc.HalfspaceIntersection(h, np.array([0.2, 0.2])).intersections, np.array([[-1.0, 0.1, 0], [0, -1, 0], [1, 1, -1]])), "Rectangle": (lambda m: sc.Rectangle(m, np.zeros(3)).volume(), np.array([1.0, 2.0, 0.7])),
    "SphericalVoronoi": (lambda p: sc.SphericalVoronoi(p / np.linalg.norm(p, axis=1)[:, None]).vertices, draw(6, 3)), "Delaunay": (lambda p: sc.Delaunay(p).transform, P[:, :2]), "distance_matrix": (sc.distance_matrix, P, Q), "geometric_slerp": (lambda a: sc.geometric_slerp(np.array([1.0, 0.0]), np.array([np.cos(a), np.sin(a)]), [0.3, 0.6]), 0.7),
    "minkowski_distance": (lambda x, y: sc.minkowski_distance(x, y, 3), P, Q[0]), "minkowski_distance_p": (lambda x, y: sc.minkowski_distance_p(x, y, 3), P, Q[0]), "procrustes": (lambda a: sc.procrustes(a, Q), Q ** 2),
}
U, T = np.array([0.4, 1.2, 0.7, 2.0]), np.array([0.9, 0.3, 1.7, 1.1])
DISTANCE = {
    **{name: (getattr(sd, name), U, T) for name in ("braycurtis", "canberra", "chebyshev", "cityblock", "correlation", "cosine", "euclidean", "jensenshannon", "minkowski", "sqeuclidean")},
    "cdist": (sd.cdist, P, Q), "pdist": (sd.pdist, P), "squareform": (lambda p: sd.squareform(sd.pdist(p)), P), "directed_hausdorff": (lambda p: sd.directed_hausdorff(p, Q)[0], P), "mahalanobis": (lambda u, v: sd.mahalanobis(u, v, SYM), V, W), "seuclidean": (lambda u, v: sd.seuclidean(u, v, [1.0, 2.0, 0.5]), V, W),
    **{name: (lambda u, v, w, name=name: getattr(sd, name)(u, v, w), np.array([1.0, 0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0, 1.0]), U) for name in ("dice", "hamming", "jaccard", "rogerstanimoto", "russellrao", "sokalsneath", "yule")},
}
TURNS = draw(4, 3, low=-0.8, high=0.8)
TRANSFORM = {
    "Rotation": (lambda v, x: tr.Rotation.from_rotvec(v).apply(x), TURNS, V), "Slerp": (lambda v: tr.Slerp([0.0, 1.0, 2.0, 3.0], tr.Rotation.from_rotvec(v))([0.5, 1.7]).as_rotvec(), TURNS), "RotationSpline": (lambda v: tr.RotationSpline([0.0, 1.0, 2.0, 3.0], tr.Rotation.from_rotvec(v))([0.5, 1.7]).as_rotvec(), TURNS),
    "RigidTransform": (lambda v, x: tr.RigidTransform.from_components(V, tr.Rotation.from_rotvec(v)).apply(x), TURNS[0], W),
}
