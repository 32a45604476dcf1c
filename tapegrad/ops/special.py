"""Special functions: gamma, error, Bessel, hypergeometric and entropy functions, and softmax's family.

An entry is one line, as in `elementwise`; the names are SciPy's. The implementation is SciPy's too, imported when the first
number is computed: tapegrad does not require it. Derivatives: NIST Digital Library of Mathematical Functions (dlmf.nist.gov).
An argument by which the derivative is no such function (the order of a Bessel function) is given by its name, and refused.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import MissingRule, user_location
from tapegrad.ops.elementwise import (
    LN10,
    abs,
    conj,
    cos,
    elementwise,
    equal,
    exp,
    greater,
    hypot,
    less_equal,
    log,
    log1p,
    logical_and,
    sign,
    sin,
    sqrt,
    where,
)
from tapegrad.ops.reduce import restore, sum
from tapegrad.rules import Op, define
from tapegrad.tangent import dtype_of

SQRT_PI, SQRT_TAU = math.sqrt(math.pi), math.sqrt(2 * math.pi)


def _implementation(name: str, scalar: Callable[[float], float] | None = None) -> Callable[..., Any]:
    """Return SciPy's function, found when it is called; while SciPy has not been imported, `math`'s of a float."""
    def impl(*args: Any, **kwargs: Any) -> Any:
        if scalar is not None and "scipy.special" not in sys.modules and isinstance(args[0], float):
            return scalar(args[0])
        return getattr(importlib.import_module("scipy.special"), name)(*args, **kwargs)
    return impl


def _refused(name: str, argument: str) -> Callable[..., Any]:
    def derivative(*_: Any) -> Any:
        raise MissingRule(f"{name} has no derivative by its argument {argument!r}", user_location(),
                          f"tg.stop_gradient({argument}); tg.gradient, where the function captured it; or hand it over by keyword")
    return derivative


def _real(name: str, x: Any) -> Any:
    """Return `x` if it is real; refuse what is scaled by its absolute value, and so not holomorphic, for complex numbers."""
    if isinstance(x, complex) or getattr(dtype_of(x), "kind", "f") == "c":
        raise MissingRule(f"{name} has no derivative by a complex argument", user_location(), "the unscaled function, and the scale written out")
    return x


def special(name: str, *derivatives: Callable[..., Any] | float | str, scalar: Callable[[float], float] | None = None,
            means: tuple[Any, ...] = ()) -> Op:
    """Define an op by the derivative with respect to each argument, or the argument's name where that is refused."""
    formulas = [_refused(name, d) if isinstance(d, str) else d for d in derivatives]
    return elementwise(name, _implementation(name, scalar), *formulas, scalar=scalar, means=means)


# -- gamma, beta and zeta functions


def _by_rgamma(y: Any, x: Any) -> Any:
    # at a pole of gamma, where y = 0, by the reflection 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi
    pole = logical_and(equal(y, 0), less_equal(x, 0))
    return where(pole, cos(math.pi * x) * gamma(where(pole, 1 - x, 1.0)), -y * digamma(where(pole, 1.0, x)))


gamma = special("gamma", lambda y, x: y * digamma(x), scalar=math.gamma, means=(math.gamma,))
gammaln = special("gammaln", lambda y, x: digamma(x), scalar=math.lgamma, means=(math.lgamma,))
loggamma = special("loggamma", lambda y, x: digamma(x))
rgamma = special("rgamma", _by_rgamma)
digamma = special("digamma", lambda y, x: polygamma(x, n=1))
polygamma = define("polygamma", lambda x, n: importlib.import_module("scipy.special").polygamma(n, x),
                   (lambda dy, y, x, n: dy * polygamma(x, n=n + 1),))
zeta = special("zeta", "x", lambda y, x, q: -x * zeta(x + 1, q))
beta = special("beta", lambda y, a, b: y * (digamma(a) - digamma(a + b)), lambda y, a, b: y * (digamma(b) - digamma(a + b)))
betaln = special("betaln", lambda y, a, b: digamma(a) - digamma(a + b), lambda y, a, b: digamma(b) - digamma(a + b))
binom = special("binom", lambda y, n, k: y * (digamma(n + 1) - digamma(n - k + 1)),
                lambda y, n, k: y * (digamma(n - k + 1) - digamma(k + 1)))
poch = special("poch", lambda y, z, m: y * (digamma(z + m) - digamma(z)), lambda y, z, m: y * digamma(z + m))


def _gamma_density(a: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) - x - gammaln(a))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    return exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


def _t_density(df: Any, t: Any) -> Any:
    return exp(gammaln((df + 1) / 2) - gammaln(df / 2) - (df + 1) / 2 * log1p(t * t / df)) / sqrt(df * math.pi)


gammainc = special("gammainc", "a", lambda y, a, x: _gamma_density(a, x))
gammaincc = special("gammaincc", "a", lambda y, a, x: -_gamma_density(a, x))
gammaincinv = special("gammaincinv", "a", lambda x, a, y: 1 / _gamma_density(a, x))
gammainccinv = special("gammainccinv", "a", lambda x, a, y: -1 / _gamma_density(a, x))
betainc = special("betainc", "a", "b", lambda y, a, b, x: _beta_density(a, b, x))
betaincc = special("betaincc", "a", "b", lambda y, a, b, x: -_beta_density(a, b, x))
betaincinv = special("betaincinv", "a", "b", lambda x, a, b, y: 1 / _beta_density(a, b, x))
chdtr = special("chdtr", "v", lambda y, v, x: _gamma_density(v / 2, x / 2) / 2)
chdtrc = special("chdtrc", "v", lambda y, v, x: -_gamma_density(v / 2, x / 2) / 2)
stdtr = special("stdtr", "df", lambda y, df, t: _t_density(df, t))
stdtrit = special("stdtrit", "df", lambda t, df, p: 1 / _t_density(df, t))

# -- error functions and the normal distribution

erf = special("erf", lambda y, x: 2 / SQRT_PI * exp(-x * x), scalar=math.erf)
erfc = special("erfc", lambda y, x: -2 / SQRT_PI * exp(-x * x), scalar=math.erfc)
erfcx = special("erfcx", lambda y, x: 2 * x * y - 2 / SQRT_PI)
erfi = special("erfi", lambda y, x: 2 / SQRT_PI * exp(x * x))
erfinv = special("erfinv", lambda y, x: SQRT_PI / 2 * exp(y * y))
erfcinv = special("erfcinv", lambda y, x: -SQRT_PI / 2 * exp(y * y))
dawsn = special("dawsn", lambda y, x: 1 - 2 * x * y)
ndtr = special("ndtr", lambda y, x: exp(-x * x / 2) / SQRT_TAU)
ndtri = special("ndtri", lambda y, p: SQRT_TAU * exp(y * y / 2))
log_ndtr = special("log_ndtr", lambda y, x: exp(-x * x / 2 - y) / SQRT_TAU)
ndtri_exp = special("ndtri_exp", lambda y, x: SQRT_TAU * exp(x + y * y / 2))

# -- logistic functions

expit = special("expit", lambda y, x: y * (1 - y))
logit = special("logit", lambda y, x: 1 / (x * (1 - x)))
log_expit = special("log_expit", lambda y, x: expit(-x))

# -- entropies, and products with a logarithm: 0 log 0 = 0


def _by_factor(y: Any, x: Any, z: Any) -> Any:
    nothing = logical_and(equal(x, 0), less_equal(z, 0))
    return where(nothing, 0.0, log(where(nothing, 1.0, z)))


xlogy = special("xlogy", _by_factor, lambda y, x, z: where(equal(x, 0), 0.0, x / where(equal(x, 0), 1.0, z)))
xlog1py = special("xlog1py", lambda y, x, z: _by_factor(y, x, 1 + z),
                  lambda y, x, z: where(equal(x, 0), 0.0, x / where(equal(x, 0), 1.0, 1 + z)))
entr = special("entr", lambda y, x: -log(x) - 1)
rel_entr = special("rel_entr", lambda y, a, b: log(a / b) + 1, lambda y, a, b: -a / b)
kl_div = special("kl_div", lambda y, a, b: log(a / b), lambda y, a, b: 1 - a / b)

# -- exponentials, and the power transforms. 1F1(1; 2; x) = (e^x - 1) / x and 2F1(1, 1; 2; -x) = log(1 + x) / x, so that their
#    derivatives have no difference that cancels near 0

exp10 = special("exp10", lambda y, x: y * LN10)
exprel = special("exprel", lambda y, x: _exprel_slope(x))
powm1 = special("powm1", lambda y, x, p: p * x ** (p - 1), lambda y, x, p: (y + 1) * log(x))
cosm1 = special("cosm1", lambda y, x: -sin(x))
hyp1f1 = special("hyp1f1", "a", "b", lambda y, a, b, x: a / b * hyp1f1(a + 1, b + 1, x))
hyp2f1 = special("hyp2f1", "a", "b", "c", lambda y, a, b, c, z: a * b / c * hyp2f1(a + 1, b + 1, c + 1, z))


def _exprel_slope(x: Any) -> Any:
    return hyp1f1(2.0, 3.0, x) / 2


boxcox = special("boxcox", lambda y, x, lam: x ** (lam - 1), lambda y, x, lam: log(x) ** 2 * _exprel_slope(lam * log(x)))
boxcox1p = special("boxcox1p", lambda y, x, lam: (1 + x) ** (lam - 1), lambda y, x, lam: log1p(x) ** 2 * _exprel_slope(lam * log1p(x)))
inv_boxcox = special("inv_boxcox", lambda x, y, lam: x ** (1 - lam), lambda x, y, lam: -x * y * y * hyp2f1(2.0, 2.0, 3.0, -lam * y) / 2)
inv_boxcox1p = special("inv_boxcox1p", lambda x, y, lam: (1 + x) ** (1 - lam),
                       lambda x, y, lam: -(1 + x) * y * y * hyp2f1(2.0, 2.0, 3.0, -lam * y) / 2)

# -- robust losses


def _by_width(y: Any, delta: Any, r: Any) -> Any:
    h = hypot(delta, r)
    return r ** 4 / (h * (h + delta) ** 2)


huber = special("huber", lambda y, delta, r: where(greater(abs(r), delta), abs(r) - delta, 0.0),
                lambda y, delta, r: where(greater(abs(r), delta), delta * sign(r), r))
pseudo_huber = special("pseudo_huber", _by_width, lambda y, delta, r: delta * r / hypot(delta, r))

# -- Bessel functions, by their argument: DLMF 10.6.1, 10.29.1

j0 = special("j0", lambda y, x: -j1(x))
j1 = special("j1", lambda y, x: (j0(x) - jv(2, x)) / 2)
y0 = special("y0", lambda y, x: -y1(x))
y1 = special("y1", lambda y, x: y0(x) - y / x)
jv = special("jv", "v", lambda y, v, x: (jv(v - 1, x) - jv(v + 1, x)) / 2)
yv = special("yv", "v", lambda y, v, x: (yv(v - 1, x) - yv(v + 1, x)) / 2)
yn = special("yn", "n", lambda y, n, x: (yv(n - 1, x) - yv(n + 1, x)) / 2)
i0 = special("i0", lambda y, x: i1(x))
i1 = special("i1", lambda y, x: (i0(x) + iv(2, x)) / 2)
i0e = special("i0e", lambda y, x: i1e(x) - sign(x) * y)
i1e = special("i1e", lambda y, x: (i0e(x) + ive(2, x)) / 2 - sign(x) * y)
iv = special("iv", "v", lambda y, v, x: (iv(v - 1, x) + iv(v + 1, x)) / 2)
ive = special("ive", "v", lambda y, v, x: (ive(v - 1, x) + ive(v + 1, x)) / 2 - sign(_real("ive", x)) * y)
k0 = special("k0", lambda y, x: -k1(x))
k1 = special("k1", lambda y, x: -k0(x) - y / x)
k0e = special("k0e", lambda y, x: y - k1e(x))
k1e = special("k1e", lambda y, x: y - k0e(x) - y / x)
kn = special("kn", "n", lambda y, n, x: -(kv(n - 1, x) + kv(n + 1, x)) / 2)
kv = special("kv", "v", lambda y, v, x: -(kv(v - 1, x) + kv(v + 1, x)) / 2)
kve = special("kve", "v", lambda y, v, x: y - (kve(v - 1, x) + kve(v + 1, x)) / 2)

# -- integrals

expi = special("expi", lambda y, x: exp(x) / x)
exp1 = special("exp1", lambda y, x: -exp(-x) / x)
expn = special("expn", "n", lambda y, n, x: -expn(n - 1, x))
spence = special("spence", lambda y, x: where(equal(x, 1), -1.0, log(x) / where(equal(x, 1), 1.0, 1 - x)))

# -- sums of exponentials along axes


def _weight(y: Any, x: Any, b: Any, axis: Any) -> Any:
    """Return b exp(x - y), 0 where b is: what of the sum is this term's."""
    return b * exp(where(equal(b, 0), -np.inf, x) - restore(y, x, axis))


def _lse_vjp(y: Any, x: Any, b: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    def logsumexp_pullback(dy: Any) -> tuple[Any, ...]:
        dy = restore(dy, x, axis)
        of_x = exp(x - restore(y, x, axis)) if b is None else _weight(y, x, b, axis)
        return (dy * conj(of_x),) if b is None else (dy * conj(of_x), dy * conj(exp(x - restore(y, x, axis))))
    return logsumexp_pullback


def _signed_vjp(y: Any, x: Any, b: Any, axis: Any = None, keepdims: bool = False) -> Any:
    _real("signed_logsumexp", x)

    def signed_logsumexp_pullback(dy: Any) -> tuple[Any, ...]:
        dx, db = _lse_vjp(y[0], x, b, axis)(dy[0] * y[1])
        return dx, db
    return signed_logsumexp_pullback


_logsumexp = _implementation("logsumexp")
# SciPy's logsumexp, which scales each term and is more careful than `logsumexp`, a reduction by logaddexp
scaled_logsumexp = define("scaled_logsumexp", lambda x, b=None, axis=None, keepdims=False: _logsumexp(x, axis, b, keepdims), vjp=_lse_vjp)
signed_logsumexp = define("signed_logsumexp", lambda x, b, axis=None, keepdims=False: _logsumexp(x, axis, b, keepdims, True),
                          vjp=_signed_vjp)
softmax = define("softmax", _implementation("softmax"),
                 (lambda dy, y, x, axis=None: conj(y) * (dy - sum(conj(y) * dy, axis=axis, keepdims=True)),))
log_softmax = define("log_softmax", _implementation("log_softmax"),
                     (lambda dy, y, x, axis=None: dy - conj(exp(y)) * sum(dy, axis=axis, keepdims=True),))
