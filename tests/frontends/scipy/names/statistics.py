"""Programs by the public names of scipy.stats that have a derivative."""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.stats as st
from scipy.stats._distr_params import distcont, distdiscrete

from tests.cases.case import draw

X, Y, Z, POSITIVE, UNIT = draw(9), draw(9, seed=1), draw(9, seed=2), draw(9, low=0.3, high=3.0), draw(9, low=0.1, high=0.9)
TABLE = draw(3, 4, low=2.0, high=9.0)
COV = np.array([[1.0, 0.3], [0.3, 1.5]])
ROWS = draw(20, 2)


WHOLE = ("irwinhall", "erlang", "ksone", "kstwo")  # with a parameter that is a count


def density(name, shapes):
    """The density where the distribution has most of its mass, by the point, the shapes, and place and width."""
    dist = getattr(st, name)
    at = np.asarray(dist.ppf([0.3, 0.6], *shapes))
    fixed = [i for i, x in enumerate(shapes) if isinstance(x, int) and name in WHOLE]

    def run(x, *given):
        values = list(given)
        for i in fixed:
            values.insert(i, shapes[i])
        return dist.pdf(x, *values)
    return run, at, *[float(x) for i, x in enumerate(shapes) if i not in fixed]


def of_place(name, shapes):
    """The density by the point, place and width alone."""
    dist = getattr(st, name)
    return (lambda x, loc, scale: dist.pdf(x, *shapes, loc, scale)), np.asarray(dist.ppf([0.3, 0.6], *shapes)), 0.01, 1.02


def mass(name, shapes):
    dist = getattr(st, name)
    at = np.unique(dist.ppf([0.3, 0.6], *shapes))
    free = [i for i, x in enumerate(shapes) if isinstance(x, float)]
    if not free:
        return None

    def run(*given):
        values = list(shapes)
        for i, x in zip(free, given):
            values[i] = x
        return dist.pmf(at, *values)
    return run, *[shapes[i] for i in free]


CONTINUOUS = {}
for _name, _shapes in distcont:
    if isinstance(_name, str) and _name not in CONTINUOUS:
        # where a formula goes over into its limit, another place
        CONTINUOUS[_name] = density(_name, (0.2, 0.3) if _name == "kappa4" else _shapes)
DISCRETE = {}
for _name, _shapes in distdiscrete:
    if isinstance(_name, str) and _name not in DISCRETE:
        DISCRETE[_name] = mass(_name, _shapes)
DISCRETE = {name: row for name, row in DISCRETE.items() if row is not None and name != "nhypergeom"}  # the others have counts alone


def tested(fn, *rest, **options):
    """The statistic and the p-value of a test."""
    return lambda *args: tuple(fn(*args, *rest, **options))[:2]


STATS = {
    **CONTINUOUS, **DISCRETE,
    "Binomial": (lambda p: st.Binomial(n=5, p=p).pmf(2), 0.3), "Logistic": (lambda x: st.Logistic().pdf(x), X), "Normal": (lambda m, x: st.Normal(mu=m, sigma=2.0).pdf(x), 0.3, X),
    "Mixture": (lambda m: st.Mixture([st.Normal(mu=m, sigma=1.0), st.Normal(mu=2.0, sigma=1.0)], weights=[0.4, 0.6]).pdf(0.7), 0.3),
    "Uniform": (lambda b: st.Uniform(a=0.0, b=b).pdf(0.7), 2.0),
    "Covariance": (lambda c: st.Covariance.from_cholesky(c).whiten(np.array([0.3, 0.7])), np.linalg.cholesky(COV)),
    "abs": (lambda m: st.abs(st.Normal(mu=m, sigma=1.0)).pdf(0.7), 0.3), "exp": (lambda m: st.exp(st.Normal(mu=m, sigma=1.0)).pdf(0.7), 0.3),
    "log": (lambda b: st.log(st.Uniform(a=1.0, b=b)).pdf(0.7), 3.0), "truncate": (lambda m: st.truncate(st.Normal(mu=m, sigma=1.0), 0.0, 2.0).pdf(0.7), 0.3),
    "order_statistic": (lambda m: st.order_statistic(st.Normal(mu=m, sigma=1.0), n=5, r=2).pdf(0.7), 0.3),
    "make_distribution": (lambda x: st.make_distribution(st.gumbel_r)().pdf(x), 0.3),
    "alexandergovern": (tested(lambda x, y: (r := st.alexandergovern(x, y), r.statistic, r.pvalue)[1:]), X, Y + 0.3),
    "anderson": (lambda x: st.anderson(x).statistic, X),
    "bartlett": (tested(st.bartlett), X, 1.3 * Y), "bayes_mvs": (lambda x: [tuple(r) for r in st.bayes_mvs(x)], X),
    "binned_statistic": (lambda v: st.binned_statistic(X, v, bins=3)[0], Y), "binned_statistic_2d": (lambda v: st.binned_statistic_2d(X, Y, v, bins=2)[0], Z),
    "binned_statistic_dd": (lambda v: st.binned_statistic_dd(np.stack([X, Y], 1), v, bins=2)[0], Z),
    "bootstrap": (lambda x: st.bootstrap((x,), np.mean, n_resamples=20, rng=np.random.default_rng(1)).standard_error, X),
    "boxcox": (lambda x: st.boxcox(x, 0.3), POSITIVE), "boxcox_llf": (st.boxcox_llf, 0.3, POSITIVE), "boxcox_normmax": (st.boxcox_normmax, POSITIVE),
    "boxcox_normplot": (lambda x: st.boxcox_normplot(x, -1, 1, N=3)[1], POSITIVE),

    "chi2_contingency": (lambda t: tuple(st.chi2_contingency(t))[:2], TABLE), "chisquare": (lambda f: st.chisquare(f, np.full(9, f.sum() / 9)), POSITIVE),
    "circmean": (st.circmean, UNIT), "circstd": (st.circstd, UNIT), "circvar": (st.circvar, UNIT),
    "combine_pvalues": (tested(st.combine_pvalues), UNIT), "cramervonmises": (tested(lambda x: (r := st.cramervonmises(x, "norm"), r.statistic, r.pvalue)[1:]), X),
    "describe": (lambda x: st.describe(x)[1:], X),
    "differential_entropy": (st.differential_entropy, X), "directional_stats": (lambda x: tuple(vars(st.directional_stats(x)).values()), ROWS),
    "dirichlet": (lambda a: st.dirichlet.pdf([0.2, 0.3, 0.5], a), np.array([1.5, 2.0, 0.8])),
    "dirichlet_multinomial": (lambda a: st.dirichlet_multinomial.pmf([1, 2, 1], a, 4), np.array([1.5, 2.0, 0.8])),
    "energy_distance": (st.energy_distance, X, Y), "entropy": (st.entropy, POSITIVE, UNIT), "epps_singleton_2samp": (tested(st.epps_singleton_2samp), X, Y),
    "expectile": (lambda x: st.expectile(x, 0.3), X), "f_oneway": (tested(st.f_oneway), X, Y + 0.3), "false_discovery_control": (st.false_discovery_control, UNIT),
    "gaussian_kde": (lambda d, x: st.gaussian_kde(d)(x), X, np.array([0.3, 0.9])),
    "gmean": (st.gmean, POSITIVE), "gstd": (st.gstd, POSITIVE), "gzscore": (st.gzscore, POSITIVE), "hmean": (st.hmean, POSITIVE),
    "invwishart": (lambda s: st.invwishart.pdf(COV, 4.0, (s + s.T) / 2), COV), "iqr": (st.iqr, X), "jarque_bera": (tested(st.jarque_bera), X),
    "ks_1samp": (lambda x: st.ks_1samp(x, st.norm.cdf).statistic, X),
    "kstest": (lambda x: st.kstest(x, "norm").statistic, X),
    "kstat": (lambda x: st.kstat(x, 3), X), "kstatvar": (st.kstatvar, X), "kurtosis": (st.kurtosis, X), "kurtosistest": (tested(st.kurtosistest), X),
    "levene": (tested(st.levene), X, 1.3 * Y), "linregress": (lambda x, y: tuple(st.linregress(x, y)), X, Y), "lmoment": (st.lmoment, X),

    "matrix_normal": (lambda x, m: st.matrix_normal.pdf(x, m, COV, COV), draw(2, 2), draw(2, 2, seed=1)),
    "matrix_t": (lambda x: st.matrix_t.pdf(x, np.zeros((2, 2)), COV, COV, 4), draw(2, 2)),
    "median_abs_deviation": (st.median_abs_deviation, X), "moment": (lambda x: st.moment(x, 3), X),
    "multinomial": (lambda p: st.multinomial.pmf([1, 2, 1], 4, np.append(p, 1 - p.sum())), np.array([0.2, 0.3])),
    "multivariate_normal": (lambda x, m, c: st.multivariate_normal.pdf(x, m, (c + c.T) / 2), ROWS[0], ROWS[1], COV),
    "multivariate_t": (lambda x, m: st.multivariate_t.pdf(x, m, COV, 4.0), ROWS[0], ROWS[1]), "mvsdist": (lambda x: [d.mean() for d in st.mvsdist(x)], X),
    "normal_inverse_gamma": (lambda x, m: st.normal_inverse_gamma.pdf(x, 0.7, m, 1.0, 2.0, 1.5), 0.3, 0.4), "normaltest": (tested(st.normaltest), X),
    "obrientransform": (lambda x, y: list(st.obrientransform(x, y)), X, Y), "pearsonr": (lambda x, y: tuple(st.pearsonr(x, y)), X, Y),
    "permutation_test": (lambda x: st.permutation_test((x, Y[:4]), lambda a, b: np.mean(a) - np.mean(b), n_resamples=10, rng=1).statistic, X[:4]),
    "monte_carlo_test": (lambda x: st.monte_carlo_test(x, partial(st.norm.rvs, random_state=np.random.default_rng(1)), np.mean, n_resamples=10, vectorized=False).statistic, X),
    "pmean": (lambda x: st.pmean(x, 1.5), POSITIVE), "pointbiserialr": (lambda y: tuple(st.pointbiserialr(X > 0, y)), Y),
    "poisson_means_test": (lambda d: st.poisson_means_test(3, 2.0, 5, 4.0, diff=d).statistic, 0.1), "power_divergence": (lambda f: st.power_divergence(f, np.full(9, f.sum() / 9)), POSITIVE),
    "ppcc_max": (lambda x: st.ppcc_max(x, (0.0, 0.5)), X), "ppcc_plot": (lambda x: st.ppcc_plot(x, -0.5, 0.5, N=3)[1], X), "probplot": (lambda x: st.probplot(x)[0], X),
    "quantile": (lambda x: st.quantile(x, 0.3), X),
    "scoreatpercentile": (lambda x: st.scoreatpercentile(x, 30), X), "sem": (st.sem, X), "shapiro": (tested(st.shapiro), X),
    "siegelslopes": (lambda y: tuple(st.siegelslopes(y, X)), Y), "sigmaclip": (lambda x: st.sigmaclip(x)[0], X), "skew": (st.skew, X), "skewtest": (tested(st.skewtest), X),
    "theilslopes": (lambda y: tuple(st.theilslopes(y, X)), Y), "tmax": (st.tmax, X), "tmean": (st.tmean, X), "tmin": (st.tmin, X), "trim1": (lambda x: st.trim1(x, 0.2), X),
    "trim_mean": (lambda x: st.trim_mean(x, 0.2), X), "trimboth": (lambda x: st.trimboth(x, 0.2), X), "tsem": (st.tsem, X), "tstd": (st.tstd, X), "tvar": (st.tvar, X),
    "ttest_1samp": (tested(st.ttest_1samp, 0.1), X), "ttest_ind": (tested(st.ttest_ind), X, Y), "ttest_ind_from_stats": (lambda m, s: tuple(st.ttest_ind_from_stats(m, s, 9, 0.1, 1.2, 8))[:2], 0.3, 1.1),
    "ttest_rel": (tested(st.ttest_rel), X, Y + 0.2), "tukey_hsd": (lambda x: st.tukey_hsd(x, Y).statistic, X), "variation": (st.variation, POSITIVE),
    "vonmises_fisher": (lambda k: st.vonmises_fisher.pdf([0.6, 0.8], [1.0, 0.0], k), 1.3), "wasserstein_distance": (st.wasserstein_distance, X, Y),
    "wasserstein_distance_nd": (lambda x: st.wasserstein_distance_nd(x, ROWS[3:6]), ROWS[:3]), "wishart": (lambda x: st.wishart.pdf((x + x.T) / 2, 4.0, np.eye(2)), COV + 0.1),
    "yeojohnson": (lambda x: st.yeojohnson(x, 0.3), X), "yeojohnson_llf": (st.yeojohnson_llf, 0.3, X), "yeojohnson_normmax": (st.yeojohnson_normmax, X),
    "yeojohnson_normplot": (lambda x: st.yeojohnson_normplot(x, -1, 1, N=3)[1], X), "zmap": (st.zmap, X, Y), "zscore": (st.zscore, X),
    "sobol_indices": (lambda a: st.sobol_indices(func=lambda x: a * x[0] + x[1] ** 2, n=16, dists=[st.uniform(), st.uniform()], rng=np.random.default_rng(1)).first_order, 0.7),
    "dunnett": (lambda x: st.dunnett(x, control=Y).statistic, X),
    "mode": (lambda x: st.mode(x)[0], X), "ecdf": (lambda x: st.ecdf(x).cdf.quantiles, X),
    "goodness_of_fit": (lambda x: st.goodness_of_fit(st.norm, x, known_params={"loc": 0.0, "scale": 1.0}, statistic="ad", n_mc_samples=9, rng=np.random.default_rng(1)).statistic, X),
    "ncx2": (lambda x, nc: st.ncx2.pdf(x, 3.0, nc) + st.ncx2.sf(x, 3.0, nc), 1.7, 0.6),
    "studentized_range": (lambda q: st.studentized_range.cdf(q, 3, 10), 2.0), "levy_stable": of_place("levy_stable", (1.8, -0.5)),
    "multivariate_hypergeom": (lambda x: st.multivariate_hypergeom.pmf([1, 2], [4, 5], 3) * x, 0.3),
    "fit": (lambda x: st.fit(st.norm, x, [(-2, 2), (0.1, 3)]).params, X), "geninvgauss": of_place("geninvgauss", (2.3, 1.5)),
    "skellam": (lambda a, b: st.skellam.pmf(1, a, b), 1.5, 0.8), "poisson_binom": (lambda p: st.poisson_binom.pmf(1, p), np.array([0.1, 0.6])),
    "expon": density("expon", ()), "uniform": (lambda w: st.uniform.pdf(0.3, 0.0, w), 1.3), "loguniform": density("loguniform", (0.1, 3.0)), "reciprocal": density("reciprocal", (0.1, 3.0)), "erlang": (lambda x: st.erlang.pdf(x, 3), POSITIVE),
    "vonmises_line": density("vonmises_line", (1.5,)), "trapezoid": density("trapezoid", (0.2, 0.8)), "uniform_direction": (lambda x: x, X),
    "page_trend_test": (lambda x: x, X), "mannwhitneyu": (lambda x: x, X),
}
for _name in ("uniform_direction", "page_trend_test", "mannwhitneyu", "multivariate_hypergeom"):
    del STATS[_name]
