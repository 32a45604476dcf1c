"""Distribution functions and their inverses, and the incomplete gamma and beta functions that they consist of.

They are differentiated by their parameters too: those derivatives are integrals over the part of the line where the
integrand keeps its sign, so nothing cancels. Parameters that SciPy truncates to integers have the derivative 0. An
inverse divides the derivatives of the function that it solves: dx / dp = 1 / F_x, dx / da = -F_a / F_x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.lazy import needed, torch
from tapegrad.ops.elementwise import abs, elementwise, equal, exp, floor, less, log, log1p, sign, sqrt, where
from tapegrad.ops.special import (
    SQRT_TAU,
    _refused,
    betaln,
    blocks,
    boxcox_by_power,
    digamma,
    erf,
    gammaln,
    ive,
    ndtri,
    special,
    xlog1py,
    xlogy,
)
from tapegrad.rules import types
from tapegrad.rules.op import Op


def _gamma_density(a: Array, x: Array) -> Any:
    return exp(xlogy(a - 1, x) - x - gammaln(a))


def _beta_density(a: Array, b: Array, x: Array) -> Any:
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _t_density(df: Any, t: Array) -> Any:
    return exp(gammaln((df + 1) / 2) - gammaln(df / 2) - (df + 1) / 2 * log1p(t * t / df)) / sqrt(df * math.pi)

# -- incomplete integrals weighted by log t: the double exponential rule of H. Takahasi and M. Mori (1974)

_STEP = 1 / 16
_TAU = np.arange(-72, 73) * _STEP
_NODES = np.exp(math.pi / 2 * np.sinh(_TAU))
_WEIGHTS = _STEP * math.pi / 2 * np.cosh(_TAU) * _NODES


def _half_line(scale: Any, integrand: Callable[[Any], Any]) -> Any:
    """Return the integral of a decaying function over w > 0; `scale` is about where it decays."""
    total = np.zeros_like(scale)
    for rows in blocks(len(_NODES), scale.size):
        nodes, weights = (part[rows].reshape(-1, *[1] * scale.ndim) for part in (_NODES, _WEIGHTS))
        values = integrand(scale * nodes)
        total += np.sum(np.where(np.isfinite(values), values, 0.0) * weights, axis=0)
    return total * scale


def _wide(*x: Any) -> tuple[Any, list[Any]]:
    """Return the dtype of the result, and the arguments as float64 of one shape."""
    arrays = [part for part in x if type(part) is np.ndarray]
    return np.result_type(np.float32, *arrays) if arrays else np.dtype(float), [np.asarray(part, float)
                                                                                for part in np.broadcast_arrays(*x)]


def _gammainc_by_a(a: Any, x: Any) -> Any:
    sp = needed("scipy.special")
    dtype, (a, x) = _wide(a, x)
    with np.errstate(all="ignore"):
        mean, here = sp.digamma(a), np.log(x)  # the mean of log t under the density of all t > 0
        # near 0 the upper integral spans many orders of magnitude; the lower one cancels little there
        below = (here < mean) | ((x < 0.5) & (a < 1))
        front = np.exp(sp.xlogy(a, x) - x - sp.gammaln(a))
        slope = np.where(below, a - x, x - a + 1)
        scale = 1 / (np.abs(slope) + np.sqrt(np.where(below, a, x)) + np.where(below, 0.0, 1e-3))
        lower = _half_line(scale, lambda w: np.exp(-a * w - x * np.expm1(-w)) * (here - mean - w))
        upper = _half_line(scale, lambda w: np.exp((a - 1) * np.log1p(w) - x * w) * (here - mean + np.log1p(w)))
        y = front * np.where(below, lower, -upper)
        y = np.where((x == 0) | (x == np.inf), np.where(a > 0, 0.0, np.nan), y)
    return np.where((a > 0) & (x >= 0), y, np.nan).astype(dtype)[()]


def _beta_integral(a: Array, b: Array, x: Any, y: Any) -> Any:
    """Return the derivative of I_x(a, b) by a; y is 1 - x."""
    sp = needed("scipy.special")
    mean, here, front = sp.digamma(a) - sp.digamma(a + b), np.where(x < 0.5, np.log(x), np.log1p(-y)), -sp.betaln(a, b)
    below = here < mean
    lower_scale = 1 / (np.abs(a - (b - 1) * x / y) + np.sqrt(a + np.abs(b - 1) * x / (y * y)))
    upper_scale = 1 / (np.abs(b - (a - 1) * y / x) + np.sqrt(b + np.abs(a - 1) * y / (x * x)))
    # t = x exp(-w) below x, and 1 - t = y exp(-w) above it
    lower = _half_line(lower_scale, lambda w: np.exp(front + a * (here - w)
                                                     + (b - 1) * (np.log(y) + np.log1p(-x / y * np.expm1(-w))))
                       * (here - w - mean))
    upper = _half_line(upper_scale, lambda w: np.exp(front + b * (np.log(y) - w)
                                                     + (a - 1) * (here + np.log1p(-y / x * np.expm1(-w))))
                       * (here + np.log1p(-y / x * np.expm1(-w)) - mean))
    return np.where((x == 0) | (y == 0), 0.0, np.where(below, lower, -upper))


def _betainc_by(first: bool) -> Callable[..., Any]:
    def run(a: Array, b: Array, x: Array) -> Any:
        dtype, (a, b, x) = _wide(a, b, x)
        with np.errstate(all="ignore"):
            found = _beta_integral(a, b, x, 1 - x) if first else -_beta_integral(b, a, 1 - x, x)
        return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), found, np.nan).astype(dtype)[()]
    return run


def _own(name: str) -> Callable[..., Any]:
    """Return a private function of SciPy's, from its own distributions."""
    return lambda *args: getattr(needed("scipy.special._ufuncs"), name)(*args)


def _slopes(name: str, impl: Callable[..., Any], *derivatives: Callable[..., Any] | str,
            spec: types.Family = types.integral) -> Op:
    formulas = [_refused(name, d) if isinstance(d, str) else d for d in derivatives]
    return elementwise(name, impl, *formulas, on_torch=tensors.on_host(impl), spec=spec,
                       poles=True)


gammainc_by_a = _slopes("gammainc_by_a", _gammainc_by_a, "a",
                        lambda y, a, x: _gamma_density(a, x) * (log(x) - digamma(a)))
betainc_by_a = _slopes("betainc_by_a", _betainc_by(True), "a", "b",
                       lambda y, a, b, x: _beta_density(a, b, x) * (log(x) - digamma(a) + digamma(a + b)))
betainc_by_b = _slopes("betainc_by_b", _betainc_by(False), "a", "b",
                       lambda y, a, b, x: _beta_density(a, b, x) * (log1p(-x) - digamma(b) + digamma(a + b)))

# -- gamma, chi-square and Poisson distributions

gammainc = special("gammainc", lambda _y, a, x: gammainc_by_a(a, x), lambda _y, a, x: _gamma_density(a, x),
                   on_torch="special.gammainc", strong=True, bounded=True)
gammaincc = special("gammaincc", lambda _y, a, x: -gammainc_by_a(a, x), lambda _y, a, x: -_gamma_density(a, x),
                    on_torch="special.gammaincc", strong=True, bounded=True)
gammaincinv = special("gammaincinv", lambda x, a, _y: -gammainc_by_a(a, x) / _gamma_density(a, x),
                      lambda x, a, _y: 1 / _gamma_density(a, x), bounded=True)
gammainccinv = special("gammainccinv", lambda x, a, _y: -gammainc_by_a(a, x) / _gamma_density(a, x),
                       lambda x, a, _y: -1 / _gamma_density(a, x), bounded=True)
gdtr = special("gdtr", lambda _y, a, b, x: x * _gamma_density(b, a * x), lambda _y, a, b, x: gammainc_by_a(b, a * x),
               lambda _y, a, b, x: a * _gamma_density(b, a * x))
gdtrc = special("gdtrc", lambda _y, a, b, x: -x * _gamma_density(b, a * x),
                lambda _y, a, b, x: -gammainc_by_a(b, a * x), lambda _y, a, b, x: -a * _gamma_density(b, a * x))
gdtrix = special("gdtrix", lambda x, a, _b, _p: -x / a,
                 lambda x, a, b, _p: -gammainc_by_a(b, a * x) / (a * _gamma_density(b, a * x)),
                 lambda x, a, b, _p: 1 / (a * _gamma_density(b, a * x)))
gdtria = special("gdtria", lambda a, _p, b, x: 1 / (x * _gamma_density(b, a * x)),
                 lambda a, _p, b, x: -gammainc_by_a(b, a * x) / (x * _gamma_density(b, a * x)),
                 lambda a, _p, _b, x: -a / x)
gdtrib = special("gdtrib", lambda b, a, _p, x: -x * _gamma_density(b, a * x) / gammainc_by_a(b, a * x),
                 lambda b, a, _p, x: 1 / gammainc_by_a(b, a * x),
                 lambda b, a, _p, x: -a * _gamma_density(b, a * x) / gammainc_by_a(b, a * x))
chdtr = special("chdtr", lambda _y, v, x: gammainc_by_a(v / 2, x / 2) / 2,
                lambda _y, v, x: _gamma_density(v / 2, x / 2) / 2,
                on_torch=lambda v, x: torch.special.gammainc(v / 2, x / 2))
chdtrc = special("chdtrc", lambda _y, v, x: -gammainc_by_a(v / 2, x / 2) / 2,
                 lambda _y, v, x: -_gamma_density(v / 2, x / 2) / 2,
                 on_torch=lambda v, x: torch.special.gammaincc(v / 2, x / 2))
chdtri = special("chdtri", lambda x, v, _p: -gammainc_by_a(v / 2, x / 2) / _gamma_density(v / 2, x / 2),
                 lambda x, v, _p: -2 / _gamma_density(v / 2, x / 2))
chdtriv = special("chdtriv", lambda v, _p, x: 2 / gammainc_by_a(v / 2, x / 2),
                  lambda v, _p, x: -_gamma_density(v / 2, x / 2) / gammainc_by_a(v / 2, x / 2))
pdtr = special("pdtr", 0, lambda _y, k, m: -_gamma_density(floor(k) + 1, m))
pdtrc = special("pdtrc", 0, lambda _y, k, m: _gamma_density(floor(k) + 1, m))
pdtri = special("pdtri", 0, lambda m, k, _y: -1 / _gamma_density(floor(k) + 1, m))


def _where_positive(k: Any, derivative: Any) -> Any:
    return where(equal(k, 0), 0.0, derivative)  # counts stop at 0


pdtrik = special("pdtrik", lambda k, _p, m: _where_positive(k, -1 / gammainc_by_a(k + 1, m)),
                 lambda k, _p, m: _where_positive(k, -_gamma_density(k + 1, m) / gammainc_by_a(k + 1, m)))


def _noncentral_density(x: Array, df: Any, nc: Any) -> Any:
    return exp(-(sqrt(x) - sqrt(nc)) ** 2 / 2) * (x / nc) ** ((df - 2) / 4) * ive(df / 2 - 1, sqrt(nc * x)) / 2


chndtr = special("chndtr", lambda _y, x, df, nc: _noncentral_density(x, df, nc), "df",
                 lambda _y, x, df, nc: -_noncentral_density(x, df + 2, nc))
chndtrix = special("chndtrix", lambda x, _p, df, nc: 1 / _noncentral_density(x, df, nc), "df",
                   lambda x, _p, df, nc: _noncentral_density(x, df + 2, nc) / _noncentral_density(x, df, nc))
chndtrinc = special("chndtrinc",
                    lambda nc, x, df, _p: _noncentral_density(x, df, nc) / _noncentral_density(x, df + 2, nc), "df",
                    lambda nc, x, df, _p: -1 / _noncentral_density(x, df + 2, nc))
ncx2_pdf = _slopes("ncx2_pdf", _own("_ncx2_pdf"),
                   lambda y, x, df, nc: (_noncentral_density(x, df - 2, nc) - y) / 2, "df",
                   lambda y, x, df, nc: (_noncentral_density(x, df + 2, nc) - y) / 2, spec=types.by_scipy("_ncx2_pdf"))
ncx2_sf = _slopes("ncx2_sf", _own("_ncx2_sf"), lambda _y, x, df, nc: -_noncentral_density(x, df, nc), "df",
                  lambda _y, x, df, nc: _noncentral_density(x, df + 2, nc), spec=types.by_scipy("_ncx2_sf"))
ncx2_isf = _slopes("ncx2_isf", _own("_ncx2_isf"), lambda x, _p, df, nc: -1 / _noncentral_density(x, df, nc), "df",
                   lambda x, _p, df, nc: _noncentral_density(x, df + 2, nc) / _noncentral_density(x, df, nc),
                   spec=types.by_scipy("_ncx2_isf"))

# -- beta, binomial and negative binomial distributions

betainc = special("betainc", lambda _y, a, b, x: betainc_by_a(a, b, x), lambda _y, a, b, x: betainc_by_b(a, b, x),
                  lambda _y, a, b, x: _beta_density(a, b, x), bounded=True)
betaincc = special("betaincc", lambda _y, a, b, x: -betainc_by_a(a, b, x), lambda _y, a, b, x: -betainc_by_b(a, b, x),
                   lambda _y, a, b, x: -_beta_density(a, b, x), bounded=True)
betaincinv = special("betaincinv", lambda x, a, b, _y: -betainc_by_a(a, b, x) / _beta_density(a, b, x),
                     lambda x, a, b, _y: -betainc_by_b(a, b, x) / _beta_density(a, b, x),
                     lambda x, a, b, _y: 1 / _beta_density(a, b, x), bounded=True)
betainccinv = special("betainccinv", lambda x, a, b, _y: -betainc_by_a(a, b, x) / _beta_density(a, b, x),
                      lambda x, a, b, _y: -betainc_by_b(a, b, x) / _beta_density(a, b, x),
                      lambda x, a, b, _y: -1 / _beta_density(a, b, x), bounded=True)
btdtria = special("btdtria", lambda a, _p, b, x: 1 / betainc_by_a(a, b, x),
                  lambda a, _p, b, x: -betainc_by_b(a, b, x) / betainc_by_a(a, b, x),
                  lambda a, _p, b, x: -_beta_density(a, b, x) / betainc_by_a(a, b, x))
btdtrib = special("btdtrib", lambda b, a, _p, x: -betainc_by_a(a, b, x) / betainc_by_b(a, b, x),
                  lambda b, a, _p, x: 1 / betainc_by_b(a, b, x),
                  lambda b, a, _p, x: -_beta_density(a, b, x) / betainc_by_b(a, b, x))


def _binomial_slope(k: Any, n: Any, p: Array) -> Any:
    k, n = floor(k), floor(n)
    return where(less(k, n), -_beta_density(k + 1, where(less(k, n), n - k, 1.0), p), 0.0)


bdtr = special("bdtr", 0, 0, lambda _y, k, n, p: _binomial_slope(k, n, p))
bdtrc = special("bdtrc", 0, 0, lambda _y, k, n, p: -_binomial_slope(k, n, p))
bdtri = special("bdtri", 0, 0, lambda p, k, n, _y: 1 / _binomial_slope(k, n, p))


def _binomial_by_n(k: Any, n: Any, p: Array) -> Any:
    return -betainc_by_b(k + 1, n - k, p)


def _binomial_by_k(k: Any, n: Any, p: Array) -> Any:
    return betainc_by_b(k + 1, n - k, p) - betainc_by_a(k + 1, n - k, p)


bdtrik = special("bdtrik", lambda k, _y, n, p: _where_positive(k, 1 / _binomial_by_k(k, n, p)),
                 lambda k, _y, n, p: _where_positive(k, -_binomial_by_n(k, n, p) / _binomial_by_k(k, n, p)),
                 lambda k, _y, n, p: _where_positive(k, _beta_density(k + 1, n - k, p) / _binomial_by_k(k, n, p)))
bdtrin = special("bdtrin", lambda n, k, _y, p: -_binomial_by_k(k, n, p) / _binomial_by_n(k, n, p),
                 lambda n, k, _y, p: 1 / _binomial_by_n(k, n, p),
                 lambda n, k, _y, p: _beta_density(k + 1, n - k, p) / _binomial_by_n(k, n, p))


def _negative_slope(k: Any, n: Any, p: Array) -> Any:
    return _beta_density(floor(n), floor(k) + 1, p)


nbdtr = special("nbdtr", 0, 0, lambda _y, k, n, p: _negative_slope(k, n, p))
nbdtrc = special("nbdtrc", 0, 0, lambda _y, k, n, p: -_negative_slope(k, n, p))
nbdtri = special("nbdtri", 0, 0, lambda p, k, n, _y: 1 / _negative_slope(k, n, p))
nbdtrik = special("nbdtrik", lambda k, _y, n, p: _where_positive(k, 1 / betainc_by_b(n, k + 1, p)),
                  lambda k, _y, n, p: _where_positive(k, -betainc_by_a(n, k + 1, p) / betainc_by_b(n, k + 1, p)),
                  lambda k, _y, n, p: _where_positive(k, -_beta_density(n, k + 1, p) / betainc_by_b(n, k + 1, p)))
nbdtrin = special("nbdtrin", lambda n, k, _y, p: -betainc_by_b(n, k + 1, p) / betainc_by_a(n, k + 1, p),
                  lambda n, k, _y, p: 1 / betainc_by_a(n, k + 1, p),
                  lambda n, k, _y, p: -_beta_density(n, k + 1, p) / betainc_by_a(n, k + 1, p))

# -- F and Student's t: beta distributions of a transformed x


def _f_slopes(m: Array, n: Any, x: Array) -> tuple[Any, Any, Any]:
    """Return the derivatives of F's distribution function by both degrees of freedom, and by x."""
    total = n + m * x
    z, density = m * x / total, _beta_density(m / 2, n / 2, m * x / total) / (total * total)
    return (betainc_by_a(m / 2, n / 2, z) / 2 + density * n * x, betainc_by_b(m / 2, n / 2, z) / 2 - density * m * x,
            density * m * n)


fdtr = special("fdtr", *(lambda _y, m, n, x, i=i: _f_slopes(m, n, x)[i] for i in range(3)))
fdtrc = special("fdtrc", *(lambda _y, m, n, x, i=i: -_f_slopes(m, n, x)[i] for i in range(3)))


def _of_f(slopes: tuple[Any, Any, Any], i: int, solved: int) -> Any:
    return -slopes[i] / slopes[solved]


fdtri = special("fdtri", lambda x, m, n, _p: _of_f(_f_slopes(m, n, x), 0, 2),
                lambda x, m, n, _p: _of_f(_f_slopes(m, n, x), 1, 2), lambda x, m, n, _p: 1 / _f_slopes(m, n, x)[2])
fdtridfd = special("fdtridfd", lambda n, m, _p, x: _of_f(_f_slopes(m, n, x), 0, 1),
                   lambda n, m, _p, x: 1 / _f_slopes(m, n, x)[1], lambda n, m, _p, x: _of_f(_f_slopes(m, n, x), 2, 1))


def _t_by_df(df: Any, t: Array) -> Any:
    near = less(t * t, df)  # the form whose argument is not near 1
    by_parameter = where(near, betainc_by_b(0.5, df / 2, t * t / (df + t * t)),
                         -betainc_by_a(df / 2, 0.5, df / (df + t * t)))
    return sign(t) * by_parameter / 4 - t * _t_density(df, t) / (2 * df)


stdtr = special("stdtr", lambda _y, df, t: _t_by_df(df, t), lambda _y, df, t: _t_density(df, t))
stdtrit = special("stdtrit", lambda t, df, _p: -_t_by_df(df, t) / _t_density(df, t),
                  lambda t, df, _p: 1 / _t_density(df, t))
stdtridf = special("stdtridf", lambda df, _p, t: 1 / _t_by_df(df, t),
                   lambda df, _p, t: -_t_density(df, t) / _t_by_df(df, t))

# -- the normal distribution, and others


def _normal(z: Array) -> Any:
    return exp(-z * z / 2) / SQRT_TAU


nrdtrimn = special("nrdtrimn", lambda _y, p, s, _x: -s / _normal(ndtri(p)), lambda _y, p, _s, _x: -ndtri(p), 1)
nrdtrisd = special("nrdtrisd", lambda _y, _mean, p, _x: -1 / ndtri(p),
                   lambda y, _mean, p, _x: -y / (ndtri(p) * _normal(ndtri(p))), lambda _y, _mean, p, _x: 1 / ndtri(p))
owens_t = special("owens_t", lambda _y, h, a: -_normal(h) * erf(a * h / math.sqrt(2)) / 2,
                  lambda _y, h, a: exp(-h * h * (1 + a * a) / 2) / (2 * math.pi * (1 + a * a)))


def _tukey_slope(y: Array, lam: Any) -> Any:
    inside = less(abs(y - 0.5), 0.5)
    f = where(inside, y, 0.5)
    return where(inside, 1 / (f ** (lam - 1) + (1 - f) ** (lam - 1)), 0.0)


def _tukey_by_power(y: Array, lam: Any) -> Any:
    inside = less(abs(y - 0.5), 0.5)
    f = where(inside, y, 0.5)
    return _tukey_slope(y, lam) * (boxcox_by_power(1 - f, lam) - boxcox_by_power(f, lam))


tklmbda = special("tklmbda", lambda y, _x, lam: _tukey_slope(y, lam), lambda y, _x, lam: _tukey_by_power(y, lam))


kolmogorov_slope = _slopes("kolmogorov_slope", _own("_kolmogp"), "y", spec=types.by_scipy("_kolmogp"))
smirnov_slope = _slopes("smirnov_slope", _own("_smirnovp"), "n", "d", spec=types.by_scipy("_smirnovp"))
kolmogorov = special("kolmogorov", lambda _y, x: kolmogorov_slope(x))
kolmogi = special("kolmogi", lambda x, _p: 1 / kolmogorov_slope(x))
smirnov = special("smirnov", "n", lambda _y, n, d: smirnov_slope(n, d))
smirnovi = special("smirnovi", "n", lambda d, n, _p: 1 / smirnov_slope(n, d))
