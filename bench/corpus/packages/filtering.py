"""Filters and hidden Markov models: filterpy, pykalman, padasip, hmmlearn."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

TRACK = np.cumsum(np.random.default_rng(0).normal(size=30)) * 0.3 + np.arange(30)


@case("filterpy")
def kalman_likelihood() -> Built:
    from filterpy.common import Q_discrete_white_noise
    from filterpy.kalman import KalmanFilter

    def f(q, r):
        kf = KalmanFilter(dim_x=2, dim_z=1)
        kf.F, kf.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        kf.P *= 10.0
        kf.R *= r
        kf.Q = Q_discrete_white_noise(2, dt=1.0, var=q)
        total = 0.0
        for z in TRACK:
            kf.predict()
            kf.update(z)
            total = total + kf.log_likelihood
        return total
    return f, (0.1, 0.8)


@case("filterpy")
def kalman_state() -> Built:
    from filterpy.kalman import KalmanFilter

    def f(F, z):
        kf = KalmanFilter(dim_x=2, dim_z=1)
        kf.x, kf.F, kf.H = np.array([[0.0], [1.0]]), F, np.array([[1.0, 0.0]])
        kf.Q = np.eye(2) * 0.05
        means, covariances, _, _ = kf.batch_filter(z)
        return np.sum(means[-1] ** 2) + np.trace(covariances[-1])
    return f, (np.array([[1.0, 0.9], [0.0, 1.0]]), TRACK[:8])


@case("filterpy")
def rts_smoother() -> Built:
    from filterpy.kalman import KalmanFilter

    def f(q):
        kf = KalmanFilter(dim_x=2, dim_z=1)
        kf.F, kf.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        kf.Q = np.eye(2) * q
        mu, cov, _, _ = kf.batch_filter(TRACK[:10])
        smoothed, _, _, _ = kf.rts_smoother(mu, cov)
        return np.sum(smoothed[:, 0] ** 2) / 100
    return f, (0.2,)


@case("filterpy")
def extended_kalman() -> Built:
    from filterpy.kalman import ExtendedKalmanFilter

    def f(q, r):
        ekf = ExtendedKalmanFilter(dim_x=3, dim_z=1)
        ekf.x = np.array([0.0, 90.0, 1000.0])
        ekf.F = np.eye(3) + np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]) * 0.05
        ekf.R, ekf.Q = np.diag([r]), np.eye(3) * q
        slant = lambda x: np.array([np.sqrt(x[0] ** 2 + x[2] ** 2)])
        jacobian = lambda x: np.array([[x[0], 0.0, x[2]]]) / np.sqrt(x[0] ** 2 + x[2] ** 2)
        for k in range(8):
            ekf.update(np.array([1000.0 + 3.0 * k]), jacobian, slant)
            ekf.predict()
        return ekf.x[1] + ekf.x[2] * 1e-3
    return f, (0.1, 5.0)


@case("filterpy")
def unscented_kalman() -> Built:
    from filterpy.kalman import MerweScaledSigmaPoints, UnscentedKalmanFilter

    def f(q, r, alpha):
        points = MerweScaledSigmaPoints(2, alpha=alpha, beta=2.0, kappa=1.0)
        ukf = UnscentedKalmanFilter(2, 1, 0.1, hx=lambda x: np.array([np.sin(x[0])]),
                                    fx=lambda x, dt: np.array([x[0] + dt * x[1], x[1]]), points=points)
        ukf.P *= 0.5
        ukf.R *= r
        ukf.Q = np.eye(2) * q
        for z in (0.1, 0.3, 0.35, 0.6):
            ukf.predict()
            ukf.update(np.array([z]))
        return ukf.x[0] + ukf.log_likelihood
    return f, (0.05, 0.4, 0.3)


@case("filterpy")
def g_h_filter() -> Built:
    from filterpy.gh import GHFilter

    def f(g, h):
        gh = GHFilter(x=0.0, dx=1.0, dt=1.0, g=g, h=h)
        return sum((gh.update(z)[0] - z) ** 2 for z in TRACK)
    return f, (0.4, 0.1)


@case("filterpy")
def information_filter() -> Built:
    from filterpy.kalman import InformationFilter

    def f(q, r):
        kf = InformationFilter(dim_x=2, dim_z=1)
        kf.F, kf.H = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
        kf.R_inv *= 1.0 / r
        kf.Q *= q
        for z in TRACK[:6]:
            kf.predict()
            kf.update(z)
        return kf.x[0, 0] + kf.x[1, 0]
    return f, (0.1, 2.0)


@case("pykalman")
def kalman_em_likelihood() -> Built:
    from pykalman import KalmanFilter

    def f(q, r):
        kf = KalmanFilter(transition_matrices=[[1.0, 1.0], [0.0, 1.0]], observation_matrices=[[1.0, 0.0]],
                          transition_covariance=q * np.eye(2),
                          observation_covariance=r * np.eye(1), initial_state_mean=np.zeros(2),
                          initial_state_covariance=np.eye(2))
        return kf.loglikelihood(TRACK[:, None])
    return f, (0.1, 0.8)


@case("pykalman")
def kalman_smooth() -> Built:
    from pykalman import KalmanFilter

    def f(q, z):
        kf = KalmanFilter(transition_matrices=np.array([[1.0, 1.0], [0.0, 1.0]]),
                          observation_matrices=np.array([[1.0, 0.0]]), transition_covariance=q * np.eye(2),
                          observation_covariance=np.eye(1), initial_state_mean=np.zeros(2),
                          initial_state_covariance=np.eye(2))
        means, covariances = kf.smooth(z)
        return np.sum(means[:, 1] ** 2) + np.sum(covariances[3])
    return f, (0.2, TRACK[:8, None])


@case("padasip")
def least_mean_squares() -> Built:
    import padasip as pa
    X = pa.preprocess.input_from_history(np.sin(np.arange(40.0)), 4)

    def f(mu):
        y, e, w = pa.filters.FilterNLMS(n=4, mu=mu, w="zeros").run(TRACK[:30] / 10, X[:30])
        return np.sum(e ** 2)
    return f, (0.4,)


@case("padasip")
def recursive_least_squares() -> Built:
    import padasip as pa
    X = pa.preprocess.input_from_history(np.sin(np.arange(40.0)), 4)

    def f(mu, eps):
        rls = pa.filters.FilterRLS(n=4, mu=mu, eps=eps, w="zeros")
        for x, d in zip(X[:15], TRACK):
            rls.adapt(d, x)
        return np.sum(rls.w ** 2)
    return f, (0.95, 0.2)


@case("hmmlearn")
def gaussian_score() -> Built:
    from hmmlearn.hmm import GaussianHMM

    def f(means, covars):
        model = GaussianHMM(2, covariance_type="diag")
        model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])
        model.means_, model.covars_ = means, covars
        return model.score(TRACK[:, None] / 10)
    return f, (np.array([[0.5], [2.0]]), np.array([[0.4], [0.6]]))


@case("hmmlearn")
def gaussian_density() -> Built:
    from hmmlearn.stats import log_multivariate_normal_density

    def f(means, covars):
        return np.sum(log_multivariate_normal_density(TRACK.reshape(15, 2), means, covars, "full"))
    return f, (np.array([[1.0, 2.0], [20.0, 18.0]]), np.array([np.eye(2) * 4.0, np.eye(2) * 5.0 + 0.3]))
