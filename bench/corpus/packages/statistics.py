"""Likelihoods, time series, survival, sensitivity, counts."""

from __future__ import annotations

import numpy as np

from bench.corpus.case import Built, case

RNG = np.random.default_rng(0)
X = np.column_stack([np.ones(40), RNG.normal(size=(40, 2))])
Y = X @ np.array([1.0, 0.5, -0.3]) + 0.3 * RNG.normal(size=40)
COUNTS, BINARY = RNG.poisson(np.exp(0.3 * X[:, 1] + 0.5)), (RNG.random(40) < 0.5).astype(float)
SERIES = np.cumsum(RNG.normal(size=40)) * 0.2


@case("statsmodels")
def logit_likelihood() -> Built:
    from statsmodels.api import Logit
    model = Logit(BINARY, X)
    return lambda beta: model.loglike(beta), (np.array([0.1, 0.2, -0.3]),)


@case("statsmodels")
def poisson_likelihood() -> Built:
    from statsmodels.api import Poisson
    model = Poisson(COUNTS, X)
    return lambda beta: model.loglike(beta), (np.array([0.5, 0.2, -0.1]),)


@case("statsmodels")
def negative_binomial_likelihood() -> Built:
    from statsmodels.api import NegativeBinomial
    model = NegativeBinomial(COUNTS, X)
    return lambda beta: model.loglike(beta), (np.array([0.5, 0.2, -0.1, 0.7]),)


@case("statsmodels")
def glm_gamma_likelihood() -> Built:
    import statsmodels.api as sm
    model = sm.GLM(np.exp(Y), X, family=sm.families.Gamma(sm.families.links.Log()))
    return lambda beta: model.loglike(beta), (np.array([1.0, 0.4, -0.2]),)


@case("statsmodels")
def least_squares_likelihood() -> Built:
    from statsmodels.api import OLS
    model = OLS(Y, X)
    return lambda beta: model.loglike(beta) + np.sum(model.score(beta) ** 2) * 1e-4, (np.array([0.9, 0.4, -0.2]),)


@case("statsmodels")
def huber_norm() -> Built:
    from statsmodels.robust.norms import HuberT, TukeyBiweight

    def f(residuals, t):
        return np.sum(HuberT(t).rho(residuals)) + np.sum(TukeyBiweight().weights(residuals))
    return f, (np.array([0.1, -0.7, 2.5, 1.9]), 1.345)


@case("statsmodels")
def gaussian_copula() -> Built:
    from statsmodels.distributions.copula.api import ClaytonCopula, FrankCopula

    def f(theta):
        u = np.column_stack([np.linspace(0.1, 0.9, 9), np.linspace(0.2, 0.7, 9)])
        return np.sum(ClaytonCopula(theta=theta).logpdf(u)) + np.sum(FrankCopula(theta=theta).cdf(u))
    return f, (2.0,)


@case("statsmodels")
def mixed_effects_likelihood() -> Built:
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams
    model = MixedLM(Y, X, groups=np.arange(40) // 8)

    def f(beta, cov):
        model.cov_pen = model.fe_pen = None
        return model.loglike(MixedLMParams.from_components(fe_params=beta, cov_re=cov), profile_fe=False)
    return f, (np.array([1.0, 0.4, -0.2]), np.array([[0.3]]))


@case("statsmodels")
def autoregressive_spectrum() -> Built:
    from statsmodels.tsa.arima_process import arma_acovf, arma_impulse_response

    def f(ar, ma):
        return np.sum(arma_impulse_response(np.array([1.0, ar]), np.array([1.0, ma]),
                                            10) ** 2) + np.sum(arma_acovf(np.array([1.0, ar]), np.array([1.0, ma]), 5))
    return f, (-0.5, 0.3)


@case("statsmodels")
def autocorrelations() -> Built:
    from statsmodels.tsa.stattools import acf, pacf_yw

    def f(y):
        return np.sum(acf(y, nlags=5, fft=False)) + np.sum(pacf_yw(y, nlags=3))
    return f, (SERIES,)


@case("statsmodels")
def vector_autoregression() -> Built:
    from statsmodels.tsa.vector_ar.util import get_var_endog
    from statsmodels.tsa.vector_ar.var_model import ma_rep

    def f(coefs, y):
        return np.sum(ma_rep(coefs, 5) ** 2) + np.sum(get_var_endog(y, 2) ** 2) / 10
    return f, (np.array([[[0.5, 0.1], [0.0, 0.3]]]), SERIES.reshape(20, 2))


@case("statsmodels")
def kernel_density() -> Built:
    from statsmodels.nonparametric.kernels import gaussian, gaussian_cdf

    def f(x, h):
        return np.sum(gaussian(h, SERIES, x)) + np.sum(gaussian_cdf(h, SERIES, x))
    return f, (0.1, 0.4)


@case("statsmodels")
def weighted_moments() -> Built:
    from statsmodels.stats.weightstats import DescrStatsW

    def f(w):
        stats = DescrStatsW(Y, weights=w)
        return stats.mean + stats.std + stats.std_mean
    return f, (np.linspace(1.0, 2.0, 40),)


@case("statsmodels")
def information_criteria() -> Built:
    from statsmodels.stats.moment_helpers import corr2cov, cov2corr, mc2mnc
    from statsmodels.tools.eval_measures import aicc, rmse

    def f(x, y):
        return (rmse(x, y) + aicc(np.sum(x), 40, 3) + np.sum(cov2corr(np.array([[2.0, x[0]], [x[0], 3.0]])))
                + sum(mc2mnc([x[0], x[1], y[0]])) + np.sum(corr2cov(np.eye(2), x[:2])))
    return f, (np.array([0.5, 1.2, 2.0]), np.array([0.4, 1.0, 2.3]))


@case("lifelines")
def weibull_likelihood() -> Built:
    from lifelines import WeibullFitter
    fitter = WeibullFitter()
    times = RNG.weibull(1.5, size=20) * 5.0

    def f(lam, rho):
        return np.sum(fitter._log_hazard([lam, rho], times)) - np.sum(fitter._cumulative_hazard([lam, rho], times))
    return f, (4.0, 1.3)


@case("lifelines")
def log_normal_likelihood() -> Built:
    from lifelines import LogLogisticFitter, LogNormalFitter
    times = RNG.weibull(1.5, size=10) * 5.0

    def f(mu, sigma):
        return (np.sum(LogNormalFitter()._cumulative_hazard([mu, sigma], times))
                + np.sum(LogLogisticFitter()._survival_function([2.0 + mu, sigma], times)))
    return f, (1.0, 0.7)


@case("lifelines")
def generalized_gamma() -> Built:
    from lifelines import GeneralizedGammaFitter
    times = RNG.weibull(1.5, size=10) * 5.0
    return lambda mu, s, lam: np.sum(GeneralizedGammaFitter()._survival_function([mu, s, lam], times)), (1.0, -0.2, 0.8)


@case("lifelines")
def concordance() -> Built:
    from lifelines.utils import concordance_index
    from lifelines.utils.safe_exp import safe_exp

    def f(x, scores):
        return safe_exp(x) * concordance_index([1.0, 2.0, 4.0, 3.0], scores)
    return f, (0.5, np.array([0.1, 0.5, 0.4, 0.7]))


@case("autograd-gamma")
def incomplete_gamma() -> Built:
    import autograd_gamma

    def f(a, x):
        return autograd_gamma.gammainc(a, x) + autograd_gamma.gammaincln(a, x) + autograd_gamma.betainc(a, 2.0, x / 4)
    return f, (1.4, 0.9)


@case("arch")
def garch_likelihood() -> Built:
    from arch.univariate.distribution import Normal, StudentsT
    from arch.univariate.recursions_python import garch_recursion_python

    def f(parameters, nu):
        resids, sigma2 = SERIES, np.zeros(40)
        backcast = float(np.mean(SERIES ** 2))
        bounds = np.column_stack([np.full(40, 1e-8), np.full(40, 1e3)])
        garch_recursion_python(parameters, resids ** 2, np.sign(resids), sigma2, 1, 0, 1, 40, backcast, bounds)
        return Normal().loglikelihood([], resids, sigma2) + StudentsT().loglikelihood([nu], resids, sigma2)
    return f, (np.array([0.05, 0.1, 0.8]), 5.0)


@case("linearmodels")
def instrument_variance() -> Built:
    from linearmodels.iv.covariance import kernel_weight_bartlett, kernel_weight_parzen
    from linearmodels.shared.linalg import has_constant, inv_sqrth  # noqa: F401

    def f(A):
        S = A @ A.T + np.eye(3)
        return (np.sum(inv_sqrth(S)) + np.sum(kernel_weight_bartlett(3.0, 4)) * S[0, 0]
                + kernel_weight_parzen(3.0, 4)[1] * S[1, 1])
    return f, (RNG.normal(size=(3, 3)),)


@case("SALib")
def sensitivity_functions() -> Built:
    from SALib.test_functions import Ishigami, Sobol_G

    def f(x):
        return np.sum(Ishigami.evaluate(x, A=7.0, B=0.1)) + np.sum(Sobol_G.evaluate(x / 4, a=np.array([0.0, 1.0, 4.5])))
    return f, (np.array([[0.5, 1.2, 2.0], [0.3, 2.1, 1.7]]),)


@case("lmfit")
def line_shapes() -> Built:
    from lmfit import lineshapes

    def f(center, sigma, fraction):
        x = np.linspace(-3.0, 3.0, 25)
        return (np.sum(lineshapes.pvoigt(x, 1.0, center, sigma, fraction)) + np.sum(lineshapes.moffat(x, 1.0, center, sigma, 1.5)) + np.sum(lineshapes.breit_wigner(x, 1.0, center, sigma, 1.1)))
    return f, (0.2, 0.7, 0.4)


@case("lmfit")
def model_residuals() -> Built:
    from lmfit import Parameters
    from lmfit.models import ExponentialModel, GaussianModel
    x = np.linspace(0.0, 4.0, 20)

    def f(amplitude, decay, center):
        model = ExponentialModel(prefix="e_") + GaussianModel(prefix="g_")
        y = model.eval(x=x, e_amplitude=amplitude, e_decay=decay, g_amplitude=1.0, g_center=center, g_sigma=0.4)
        return np.sum((y - Parameters().valuesdict().get("b", 0.5)) ** 2)
    return f, (2.0, 1.5, 2.0)


@case("pyhf")
def likelihood_of_counts() -> Built:
    import pyhf
    model = pyhf.simplemodels.uncorrelated_background(signal=[12.0, 11.0], bkg=[50.0, 52.0], bkg_uncertainty=[3.0, 7.0])
    data = [51, 48, *model.config.auxdata]
    return lambda pars: model.logpdf(pars, data)[0], (np.array([1.0, 1.02, 0.97]),)
