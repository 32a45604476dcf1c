"""Kernels, metrics, networks, transport, manifolds, tensors."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(6, 3)), RNG.normal(size=(5, 3))
TARGET = (np.arange(12) % 3 == 0).astype(float)


@case("scikit-learn")
def pairwise_kernels() -> Built:
    from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel

    def f(x, gamma):
        return (np.sum(rbf_kernel(x, B, gamma=gamma)) + np.sum(polynomial_kernel(x, B, degree=2, gamma=gamma))
                + np.sum(sigmoid_kernel(x, B)) + np.sum(laplacian_kernel(x, B, gamma=gamma)))
    return f, (A, 0.5)


@case("scikit-learn")
def process_kernels() -> Built:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

    def f(scale, length):
        kernel = (ConstantKernel(scale) * RBF(length) + Matern(length, nu=1.5) + RationalQuadratic(length, alpha=0.8)
                  + WhiteKernel(0.1))
        return np.linalg.slogdet(kernel(A))[1]
    return f, (1.3, 0.8)


@case("scikit-learn")
def process_likelihood() -> Built:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    model = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.1), optimizer=None).fit(A, np.sin(A[:, 0]))
    return lambda theta: model.log_marginal_likelihood(theta), (np.array([0.1, -1.5]),)


@case("scikit-learn")
def regression_metrics() -> Built:
    from sklearn.metrics import log_loss, mean_pinball_loss, mean_squared_error, r2_score

    def f(p):
        return (mean_squared_error(TARGET, p) + r2_score(TARGET, p) + mean_pinball_loss(TARGET, p, alpha=0.3)
                + log_loss(TARGET, p))
    return f, (np.linspace(0.1, 0.9, 12),)


@case("scikit-learn")
def perceptron_loss() -> Built:
    from sklearn.neural_network._base import ACTIVATIONS, LOSS_FUNCTIONS

    def f(W, v):
        hidden = A @ W
        ACTIVATIONS["tanh"](hidden)
        out = hidden @ v
        ACTIVATIONS["logistic"](out)
        return LOSS_FUNCTIONS["binary_log_loss"](TARGET[:6, None], out)
    return f, (RNG.normal(size=(3, 4)), RNG.normal(size=(4, 1)))


@case("scikit-learn")
def mixture_density() -> Built:
    from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky, _estimate_log_gaussian_prob

    def f(means, covariances):
        return np.sum(_estimate_log_gaussian_prob(A, means, _compute_precision_cholesky(covariances, "full"), "full"))
    return f, (RNG.normal(size=(2, 3)), np.array([np.eye(3) * 1.5, np.eye(3) + 0.1]))


@case("scikit-learn")
def standardised_features() -> Built:
    from sklearn.preprocessing import StandardScaler, normalize

    def f(x):
        return np.sum(StandardScaler().fit_transform(x)[:, 0] ** 3) + np.sum(normalize(x))
    return f, (A,)


@case("scikit-learn")
def ridge_solution() -> Built:
    from sklearn.linear_model._ridge import _solve_cholesky

    def f(x, alpha):
        return np.sum(_solve_cholesky(x, np.sin(x[:, :1]), np.array([alpha])) ** 2)
    return f, (A, 0.5)


@case("scikit-learn")
def logistic_objective() -> Built:
    from sklearn.linear_model import LogisticRegression
    model = LogisticRegression().fit(A, TARGET[:6] > 0)

    def f(x):
        return np.sum(model.predict_log_proba(x)[:, 0]) + np.sum(model.decision_function(x) ** 2)
    return f, (B,)


@case("POT")
def sinkhorn_distance() -> Built:
    import ot

    def f(a, M):
        return ot.sinkhorn2(a / np.sum(a), np.full(5, 0.2), M, reg=0.5, numItermax=30, warn=False)
    return f, (np.linspace(1.0, 2.0, 6), ((A[:, None] - B) ** 2).sum(-1))


@case("POT")
def sliced_wasserstein() -> Built:
    import ot

    def f(x):
        return ot.sliced_wasserstein_distance(x, B, n_projections=8, seed=0) + ot.wasserstein_1d(x[:, 0], B[:, 0], p=2)
    return f, (A,)


@case("POT")
def gaussian_transport() -> Built:
    import ot

    def f(m, S):
        return ot.gaussian.bures_wasserstein_distance(m, np.zeros(3), S @ S.T + np.eye(3), np.diag([1.0, 2.0, 3.0]))
    return f, (np.array([0.5, -0.2, 0.9]), RNG.normal(size=(3, 3)))


@case("POT")
def cost_matrix() -> Built:
    import ot

    def f(x):
        return (np.sum(ot.dist(x, B) ** 2) + np.sum(ot.dist(x, B, metric="euclidean")) + ot.unbalanced.sinkhorn_unbalanced2(np.full(6, 1 / 6), np.full(5, 0.2), ot.dist(x, B), 1.0, 1.0, numItermax=15))
    return f, (A,)


@case("pymanopt")
def sphere_distance() -> Built:
    import pymanopt
    sphere = pymanopt.manifolds.Sphere(3)

    def f(x, y):
        a, b = x / np.linalg.norm(x), y / np.linalg.norm(y)
        return (sphere.dist(a, b) + np.sum(sphere.log(a, b) ** 2)
                + np.sum(sphere.exp(a, sphere.projection(a, y)) * np.arange(3.0)))
    return f, (np.array([1.0, 0.2, 0.3]), np.array([0.1, 1.1, -0.4]))


@case("pymanopt")
def hyperbolic_distance() -> Built:
    import pymanopt
    ball = pymanopt.manifolds.PoincareBall(2)
    return lambda x, y: ball.dist(x, y) + np.sum(ball.log(x, y) ** 2), (np.array([0.1, 0.4]), np.array([-0.5, 0.2]))


@case("pymanopt")
def rotation_exponential() -> Built:
    import pymanopt
    group = pymanopt.manifolds.SpecialOrthogonalGroup(3)

    def f(v):
        R = group.exp(np.eye(3), np.array([[0.0, -v[2], v[1]], [v[2], 0.0, -v[0]], [-v[1], v[0], 0.0]]))
        return np.sum(R * np.arange(9.0).reshape(3, 3)) + group.norm(R, group.projection(R, np.ones((3, 3)) * v))
    return f, (np.array([0.3, -0.2, 0.5]),)


@case("pyriemann")
def geodesic() -> Built:
    from pyriemann.utils.geodesic import geodesic_riemann
    from pyriemann.utils.mean import mean_logeuclid

    def f(S, t):
        C = S @ np.swapaxes(S, -1, -2) + np.eye(3)
        return np.sum(geodesic_riemann(C[0], C[1], t)) + np.trace(mean_logeuclid(C))
    return f, (RNG.normal(size=(2, 3, 3)), 0.3)


@case("pymanopt")
def stiefel_retraction() -> Built:
    import pymanopt
    manifold = pymanopt.manifolds.Stiefel(4, 2)
    point = np.linalg.qr(RNG.normal(size=(4, 2)))[0]
    return lambda H: np.sum(manifold.retraction(point, manifold.projection(point, H)) * np.arange(8.0).reshape(4, 2)), (RNG.normal(size=(4, 2)),)


@case("pymanopt")
def positive_definite_distance() -> Built:
    import pymanopt
    manifold = pymanopt.manifolds.SymmetricPositiveDefinite(3)
    return lambda S: manifold.dist(S @ S.T + np.eye(3), np.diag([1.0, 2.0, 3.0])), (RNG.normal(size=(3, 3)),)


@case("pyriemann")
def mean_of_covariances() -> Built:
    from pyriemann.utils.distance import distance_kullback, distance_logeuclid, distance_riemann

    def f(S):
        C, D = S @ S.T + np.eye(3), np.diag([1.0, 2.0, 3.0])
        return distance_riemann(C, D) + distance_logeuclid(C, D) + distance_kullback(C, D)
    return f, (RNG.normal(size=(3, 3)),)


@case("pyriemann")
def tangent_space() -> Built:
    from pyriemann.utils.base import logm, sqrtm
    from pyriemann.utils.tangentspace import tangent_space as project

    def f(S):
        C = S @ np.swapaxes(S, -1, -2) + np.eye(3)
        return np.sum(project(C, np.diag([1.0, 2.0, 3.0])) ** 2) + np.sum(sqrtm(C)) + np.sum(logm(C))
    return f, (RNG.normal(size=(2, 3, 3)),)


@case("tensorly")
def canonical_reconstruction() -> Built:
    import tensorly as tl
    from tensorly.cp_tensor import cp_to_tensor
    from tensorly.tenalg import khatri_rao, mode_dot

    def f(a, b, c):
        T = cp_to_tensor((np.ones(2), [a, b, c]))
        return (tl.norm(T - 1.0) ** 2 + tl.sum(khatri_rao([a, b])) + tl.sum(mode_dot(T, b.T, 1) ** 2)
                + tl.sum(tl.unfold(T, 1)[0]))
    return f, (RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2)), RNG.normal(size=(2, 2)))


@case("tensorly")
def tucker_core() -> Built:
    from tensorly.decomposition import tensor_train
    from tensorly.tucker_tensor import tucker_to_tensor

    def f(core, u, v):
        T = tucker_to_tensor((core, [u, v]))
        return np.sum(T ** 2) + np.sum(tensor_train(T, rank=[1, 2, 1]).to_tensor() ** 3)
    return f, (np.diag([3.0, 1.0]), RNG.normal(size=(3, 2)), RNG.normal(size=(4, 2)))


@case("einops")
def rearranged_attention() -> Built:
    from einops import einsum, rearrange, reduce, repeat

    def f(q, k):
        heads = rearrange(q, "t (h d) -> h t d", h=2)
        scores = einsum(heads, rearrange(k, "t (h d) -> h t d", h=2), "h i d, h j d -> h i j")
        return np.sum(reduce(np.exp(scores), "h i j -> h i", "max")) + np.sum(repeat(q, "t d -> t r d", r=2) ** 2)
    return f, (RNG.normal(size=(4, 6)), RNG.normal(size=(4, 6)))


@case("opt_einsum")
def contracted_network() -> Built:
    import opt_einsum as oe

    def f(a, b, c):
        return (oe.contract("ij,jk,kl,il->", a, b, c, np.ones((3, 3)))
                + np.sum(oe.contract_expression("ij,jk->ik", (3, 4), (4, 5))(a, b)))
    return f, (RNG.normal(size=(3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=(5, 3)))
