"""Special functions: gamma, error, Bessel, hypergeometric and entropy functions.

An entry is one line, as in `elementwise`; the names are SciPy's. The implementation is SciPy's too, imported when the
first number is computed: tapegrad does not require it, nor do tensors where `on_torch` names a function of torch.
Derivatives: NIST Digital Library of Mathematical Functions (dlmf.nist.gov). An argument by which the derivative is no
such function (the order of a Bessel function) is given by its name, and refused.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.errors import MissingRule, user_location
from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import needed, torch
from tapegrad.ops.elementwise import (
    LN10,
    abs,
    conj,
    constant,
    cos,
    elementwise,
    equal,
    exp,
    greater,
    hypot,
    imag,
    is_complex,
    isnan,
    less_equal,
    log,
    log1p,
    logical_and,
    maximum,
    real,
    sign,
    sin,
    trunc,
    where,
)
from tapegrad.ops.poles import squared, times
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, pointwise
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define

_BLOCK = 1 << 14  # numbers
SQRT_PI, SQRT_TAU = math.sqrt(math.pi), math.sqrt(2 * math.pi)


def implementation(name: str, scalar: Callable[[float], float] | None = None) -> Callable[..., Any]:
    """Return SciPy's function, looked up when called; for floats `math`'s, until SciPy is imported."""
    def impl(*args: Any, **kwargs: Any) -> Any:
        if scalar is not None and "scipy.special" not in sys.modules and isinstance(args[0], float):
            return scalar(args[0])
        return getattr(needed("scipy.special"), name)(*args, **kwargs)
    return impl


def _refused(name: str, argument: str) -> Callable[..., Any]:
    def derivative(*_: Any) -> Any:
        raise MissingRule(f"{name} has no derivative by its argument {argument!r}", user_location(),
                          f"tg.stop_gradient({argument}); tg.gradient if the function captured it; or pass it by "
                          "keyword")
    return derivative


def check_real(name: str, x: Array, try_: str = "use the unscaled function, and write out the scale") -> Any:
    """Return `x` if it is real; refuse complex numbers, for which SciPy has no function or one that is not holomorphic.
    """
    if isinstance(x, complex) or getattr(dtype_of(x), "kind", "f") == "c":
        raise MissingRule(f"{name} has no derivative by a complex argument", user_location(), try_)
    return x


def special(name: str, *derivatives: Callable[..., Any] | float | str, python: Callable[[float], float] | None = None,
            means: tuple[Any, ...] = (), on_torch: Callable[..., Any] | str | None = None, strong: bool = False,
            bounded: bool = False, spec: types.Family | None = None, poles: bool = True) -> Op:
    """Define an op by the derivative with respect to each argument, or the argument's name where that is refused.

    Where torch lacks the function, and it is not composed of torch's, tensors go to SciPy on the host and back.
    `strong`: SciPy lists the loop in double precision first, which a Python number then selects. `bounded`: the
    function is nan outside its domain, and formulas hold within. `poles`: derivatives may have poles, or be nan outside
    a domain.
    """
    formulas = [_refused(name, d) if isinstance(d, str) else _within(d) if bounded and callable(d) else d
                for d in derivatives]
    impl = implementation(name, python)
    of_tensors = (tensors.on_host(impl) if on_torch is None
                  else tensors.of_reals(tensors.number_function(on_torch, strong), impl))
    return elementwise(name, impl, *formulas, python=python, means=means, on_torch=of_tensors, poles=poles,
                       spec=spec or types.by_scipy(name, scalar=python))


def _within(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Return a derivative that is 0 where the value is nan: a branch that `np.where` does not take has the cotangent 0,
    and 0 times nan would be nan.
    """
    def derivative(y: Array, *x: Any) -> Any:
        outside = isnan(y)
        return where(outside, 0.0, formula(where(outside, 0.5, y), *[where(outside, 0.5, part) for part in x]))
    return derivative


def blocks(count: int, size: int) -> Iterator[slice]:
    """Yield blocks of `count` quadrature nodes, for each of which arrays of `size` numbers fit into a cache."""
    rows = max(1, _BLOCK // max(size, 1))
    return (slice(start, start + rows) for start in range(0, count, rows))


def in_double(fn: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """Make a function with several results compute in double precision: SciPy's single-precision loop gives nan."""
    def computed(*x: Any) -> tuple[Any, ...]:
        dtype = np.result_type(*x)
        if dtype.kind != "f" or dtype.itemsize >= 8:
            return fn(*x)
        return tuple([part.astype(dtype) for part in fn(*[np.asarray(part, float) for part in x])])
    return computed


def by_part(name: str, *derivatives: Callable[..., Any] | str, double: bool = False) -> Op:
    """Define an op for one of the results of a SciPy function, `part`, by the derivative with respect to each argument:
    a formula of the part and the arguments, or the argument's name where that is refused.
    """
    whole = in_double(implementation(name)) if double else implementation(name)

    def impl(*x: Any, part: int) -> Any:
        return whole(*x)[part]

    def partial(derivative: Callable[..., Any] | str) -> Callable[..., Any]:
        formula = _refused(name, derivative) if isinstance(derivative, str) else derivative
        return lambda dy, y, *x, part: times(dy, conj(formula(part, *x)))
    return define(name, impl, pointwise(*map(partial, derivatives)), torch=tensors.on_host(impl),
                  spec=types.by_scipy_part(name, double),
        memory=FRESH)


# -- gamma, beta and zeta functions


def _by_rgamma(y: Array, x: Array) -> Any:
    # left of a half, where gamma has its poles, by the reflection 1 / gamma(x) = sin(pi x) gamma(1 - x) / pi
    left = less_equal(real(x), 0.5)
    if is_complex(x):
        # where the sine is large, gamma is small: its poles are on the real line
        left = logical_and(left, less_equal(abs(imag(x)), 1.0))
    u = where(left, x, 0.5)
    reflected = gamma(1 - u) * (cos(math.pi * u) - sin(math.pi * u) * digamma(1 - u) / math.pi)
    return where(left, reflected, -y * digamma(where(left, 1.0, x)))


def _gamma(x: Any) -> Any:
    below = torch.where(x < 0, torch.floor(x), 0.0)
    y = torch.exp(torch.lgamma(x)) * torch.where(torch.remainder(below, 2) == 1, -1.0, 1.0).to(x.dtype)
    pole = ((x < 0) & (x == below)) | (x == -math.inf)
    return torch.where(pole, math.nan, torch.where(x == 0, torch.copysign(y, x), y))


def _polygamma(x: Any, n: int) -> Any:
    if n == 0:
        return torch.digamma(x)
    order = torch.full((), n + 1, dtype=x.dtype, device=x.device)
    return (-1) ** (n + 1) * math.factorial(n) * torch.special.zeta(order, x)


gamma = special("gamma", lambda y, x: (y, digamma(x)), python=math.gamma, means=(math.gamma,), on_torch=_gamma)
gammasgn = constant("gammasgn", implementation("gammasgn"),
                    on_torch=tensors.on_host(implementation("gammasgn")), batch=batching.elementwise,
                    spec=types.by_scipy("gammasgn"))
gammaln = special("gammaln", lambda _y, x: digamma(x), python=math.lgamma, means=(math.lgamma,), on_torch="lgamma")
loggamma = special("loggamma", lambda _y, x: digamma(x))
rgamma = special("rgamma", _by_rgamma, poles=False)
_OF_REALS = "use a real argument: SciPy's polygamma is real only"
digamma = special("digamma", lambda _y, x: polygamma(check_real("digamma", x, _OF_REALS), n=1),
                  on_torch="digamma")
polygamma = define("polygamma", lambda x, n: needed("scipy.special").polygamma(n, x),
                   pointwise(lambda dy, _y, x, n: times(dy, polygamma(x, n=n + 1))),
                   torch=lambda x, n: _polygamma(x.double(), int(n)), memory=FRESH, spec=types.boxed_in_double)


def _lambertw(x: Array, k: Any) -> Any:
    return needed("scipy.special").lambertw(x, k)


lambertw = define("lambertw", _lambertw,
                  pointwise(lambda dy, y, x, k: times(dy, conj(1 / (x + exp(y))))), torch=tensors.on_host(_lambertw),
                  memory=FRESH, spec=types.branch)
zeta = special("zeta", "x", lambda _y, x, q: -x * zeta(x + 1, q), on_torch="special.zeta",
               spec=types.by_scipy("_zeta"))
beta = special("beta", lambda y, a, b: (y, digamma(a) - digamma(a + b)),
               lambda y, a, b: (y, digamma(b) - digamma(a + b)))
betaln = special("betaln", lambda _y, a, b: digamma(a) - digamma(a + b), lambda _y, a, b: digamma(b) - digamma(a + b))
binom = special("binom", lambda y, n, k: (y, digamma(n + 1) - digamma(n - k + 1)),
                lambda y, n, k: (y, digamma(n - k + 1) - digamma(k + 1)))
poch = special("poch", lambda y, z, m: (y, digamma(z + m) - digamma(z)), lambda y, z, m: (y, digamma(z + m)))

# -- error functions and the normal distribution

erf = special("erf", lambda _y, x: 2 / SQRT_PI * exp(-x * x), python=math.erf, on_torch="erf", poles=False)
erfc = special("erfc", lambda _y, x: -2 / SQRT_PI * exp(-x * x), python=math.erfc, on_torch="erfc", poles=False)
erfcx = special("erfcx", lambda y, x: 2 * x * y - 2 / SQRT_PI, on_torch="special.erfcx", poles=False)
erfi = special("erfi", lambda _y, x: 2 / SQRT_PI * exp(x * x), poles=False)
erfinv = special("erfinv", lambda y, _x: SQRT_PI / 2 / exp(-squared(y)), on_torch="erfinv")
erfcinv = special("erfcinv", lambda y, _x: -SQRT_PI / 2 / exp(-squared(y)))
dawsn = special("dawsn", lambda y, x: 1 - 2 * x * y, poles=False)
ndtr = special("ndtr", lambda _y, x: exp(-x * x / 2) / SQRT_TAU, on_torch="special.ndtr", poles=False)
ndtri = special("ndtri", lambda y, _p: SQRT_TAU / exp(-squared(y) / 2), on_torch="special.ndtri")
log_ndtr = special("log_ndtr", lambda y, x: exp(-x * x / 2 - y) / SQRT_TAU, on_torch="special.log_ndtr", poles=False)
ndtri_exp = special("ndtri_exp", lambda y, x: SQRT_TAU * exp(x + y * y / 2))


def _wofz_slope(z: Array) -> Any:
    """Return w'(z); far out by w ~ i / sqrt(pi) (1 / z + 1 / 2z^3 ...), since -2 z w + 2i / sqrt(pi) cancels there."""
    far = logical_and(greater(abs(z), 12.0), less_equal(0.0, imag(z)))
    u = 1 / where(far, z, 12.0) ** 2
    total: Any = 0.0
    for k in range(12, 0, -1):  # the terms are (2k + 1)!! / 2^k u^(k + 1)
        total = (k + 0.5) * u * (1 + total)
    return where(far, -1j / SQRT_PI * u * (1 + total), -2 * z * wofz(z) + 2j / SQRT_PI)


def _voigt(x: Array, s: Array, g: Any) -> tuple[Any, Any]:
    """Return the slope of w at (x + i g) / (s sqrt 2), and its factor."""
    return _wofz_slope((x + 1j * g) / (s * math.sqrt(2))), 1 / (2 * SQRT_PI * s * s)


def _voigt_by_width(y: Array, x: Array, s: Array, g: Any) -> Any:
    # homogeneous of degree -1: s V_s = -V - x V_x - g V_g
    slope, factor = _voigt(x, s, g)
    return -(y + factor * (x * real(slope) - g * imag(slope))) / s


wofz = special("wofz", lambda y, z: _wofz_slope(z), poles=False)
voigt_profile = special("voigt_profile", lambda y, x, s, g: real(_voigt(x, s, g)[0]) * _voigt(x, s, g)[1],
                        _voigt_by_width, lambda y, x, s, g: -imag(_voigt(x, s, g)[0]) * _voigt(x, s, g)[1])

# -- logistic functions

expit = special("expit", lambda y, _x: y * (1 - y), on_torch="special.expit", poles=False)
logit = special("logit", lambda _y, x: 1 / (x * (1 - x)), on_torch="special.logit")
log_expit = special("log_expit", lambda _y, x: expit(-x), on_torch="nn.functional.logsigmoid", poles=False)

# -- entropies, and products with a logarithm: 0 log 0 = 0


def _by_factor(_y: Array, x: Array, z: Array) -> Any:
    nothing = logical_and(equal(x, 0), less_equal(z, 0))
    return where(nothing, 0.0, log(where(nothing, 1.0, z)))


def _by_logarithm(_y: Array, x: Array, z: Array) -> Any:
    # only there: where x is 0 elsewhere, the derivative still grows with x, by 1 / z
    nothing = logical_and(equal(x, 0), equal(z, 0))
    return where(nothing, 0.0, x / where(nothing, 1.0, z))


xlogy = special("xlogy", _by_factor, _by_logarithm, on_torch="special.xlogy", strong=True)
xlog1py = special("xlog1py", lambda y, x, z: _by_factor(y, x, 1 + z), lambda y, x, z: _by_logarithm(y, x, 1 + z),
                  on_torch="special.xlog1py",
                  strong=True)
entr = special("entr", lambda _y, x: -log(x) - 1, on_torch="special.entr")


def _rel_entr(a: Any, b: Any) -> Any:
    inside = (a > 0) & (b > 0)
    y = torch.where(inside, a * torch.log(torch.where(inside, a, 1.0) / torch.where(inside, b, 1.0)), math.inf)
    return torch.where(torch.isnan(a) | torch.isnan(b), math.nan, torch.where((a == 0) & (b >= 0), 0.0, y))


def _kl_div(a: Any, b: Any) -> Any:
    return torch.where((a == 0) & (b >= 0), b, _rel_entr(a, b) - a + b)


rel_entr = special("rel_entr", lambda _y, a, b: log(a / b) + 1, lambda _y, a, b: -a / b, on_torch=_rel_entr)
kl_div = special("kl_div", lambda _y, a, b: log(a / b), lambda _y, a, b: 1 - a / b, on_torch=_kl_div)

# -- exponentials, and the power transforms. 1F1(1; 2; x) = (e^x - 1) / x and 2F1(1, 1; 2; -x) = log(1 + x) / x, so that
# their derivatives have no difference that cancels near 0

exp10 = special("exp10", lambda y, _x: y * LN10, on_torch=lambda x: 10.0 ** x, poles=False)
exprel = special("exprel", lambda _y, x: _exprel_slope(x))
powm1 = special("powm1", lambda _y, x, p: p * x ** (p - 1), lambda y, x, _p: (y + 1) * log(x))
cosm1 = special("cosm1", lambda _y, x: -sin(x), on_torch=lambda x: -2 * torch.sin(x / 2) ** 2, poles=False)
hyp1f1 = special("hyp1f1", "a", "b", lambda _y, a, b, x: a / b * hyp1f1(a + 1, b + 1, x))
hyp2f1 = special("hyp2f1", "a", "b", "c", lambda _y, a, b, c, z: a * b / c * hyp2f1(a + 1, b + 1, c + 1, z))


def _exprel_slope(x: Array) -> Any:
    return hyp1f1(2.0, 3.0, x) / 2


def _grown(fn: Callable[[Any], Any], x: Array, lam: Any) -> Any:
    """Return fn(x lam) / lam, and x at lam = 0: the part that the transforms share."""
    flat = torch.abs(lam) < 1e-19
    return torch.where(flat, x, fn(x * lam) / torch.where(flat, 1.0, lam))


def _boxcox(x: Array, lam: Any) -> Any:
    return _grown(torch.expm1, torch.log(x), lam)


def _boxcox1p(x: Array, lam: Any) -> Any:
    return _grown(torch.expm1, torch.log1p(x), lam)


def _inv_boxcox(y: Array, lam: Any) -> Any:
    return torch.exp(_grown(torch.log1p, y, lam))


def _inv_boxcox1p(y: Array, lam: Any) -> Any:
    return torch.expm1(_grown(torch.log1p, y, lam))


def boxcox_by_power(x: Array, lam: Any) -> Any:
    return log(x) ** 2 * _exprel_slope(lam * log(x))


boxcox = special("boxcox", lambda _y, x, lam: x ** (lam - 1), lambda _y, x, lam: boxcox_by_power(x, lam),
                 on_torch=_boxcox)
boxcox1p = special("boxcox1p", lambda _y, x, lam: (1 + x) ** (lam - 1),
                   lambda _y, x, lam: log1p(x) ** 2 * _exprel_slope(lam * log1p(x)),
                   on_torch=_boxcox1p)
inv_boxcox = special("inv_boxcox", lambda x, _y, lam: x ** (1 - lam),
                     lambda x, y, lam: -x * y * y * hyp2f1(2.0, 2.0, 3.0, -lam * y) / 2,
                     on_torch=_inv_boxcox)
inv_boxcox1p = special("inv_boxcox1p", lambda x, _y, lam: (1 + x) ** (1 - lam),
                       lambda x, y, lam: -(1 + x) * y * y * hyp2f1(2.0, 2.0, 3.0, -lam * y) / 2, on_torch=_inv_boxcox1p)

# -- robust losses


def _by_width(_y: Array, delta: Any, r: Array) -> Any:
    h = hypot(delta, r)
    return r ** 4 / (h * (h + delta) ** 2)


def _huber(delta: Any, r: Array) -> Any:
    far = torch.abs(r) > delta
    return torch.where(delta < 0, math.inf, torch.where(far, delta * (torch.abs(r) - delta / 2), r * r / 2))


def _pseudo_huber(delta: Any, r: Any) -> Any:
    u = r / torch.where(delta == 0, 1.0, delta)
    y = delta * delta * (u * u / (torch.sqrt(1 + u * u) + 1))  # sqrt(1 + u²) - 1, without cancelling
    return torch.where(delta < 0, math.inf, torch.where((delta == 0) | (r == 0), 0.0, y))


huber = special("huber", lambda _y, delta, r: where(greater(abs(r), delta), abs(r) - delta, 0.0),
                lambda _y, delta, r: where(greater(abs(r), delta), delta * sign(r), r), on_torch=_huber, poles=False)
pseudo_huber = special("pseudo_huber", _by_width, lambda _y, delta, r: delta * r / hypot(delta, r),
                       on_torch=_pseudo_huber, poles=False)

# -- Bessel functions, by their argument: DLMF 10.6.1 and 2, 10.29.1 and 2


j0 = special("j0", lambda _y, x: -j1(x), on_torch="special.bessel_j0", poles=False)
j1 = special("j1", lambda _y, x: (j0(x) - jv(2.0, x)) / 2, on_torch="special.bessel_j1", poles=False)
y0 = special("y0", lambda _y, x: -y1(x), on_torch="special.bessel_y0")
y1 = special("y1", lambda y, x: y0(x) - y / x, on_torch="special.bessel_y1")
jv = special("jv", "v", lambda _y, v, x: (jv(v - 1, x) - jv(v + 1, x)) / 2)
yv = special("yv", "v", lambda _y, v, x: (yv(v - 1, x) - yv(v + 1, x)) / 2)
# the order is truncated to an integer
yn = special("yn", "n", lambda _y, n, x: (yv(trunc(n) - 1, x) - yv(trunc(n) + 1, x)) / 2)
i0 = special("i0", lambda _y, x: i1(x), on_torch="special.i0", poles=False)
i1 = special("i1", lambda _y, x: (i0(x) + iv(2.0, x)) / 2, on_torch="special.i1", poles=False)
i0e = special("i0e", lambda y, x: i1e(x) - sign(x) * y, on_torch="special.i0e", poles=False)
i1e = special("i1e", lambda y, x: (i0e(x) + ive(2.0, x)) / 2 - sign(x) * y, on_torch="special.i1e", poles=False)
iv = special("iv", "v", lambda _y, v, x: (iv(v - 1, x) + iv(v + 1, x)) / 2)
ive = special("ive", "v", lambda y, v, x: (ive(v - 1, x) + ive(v + 1, x)) / 2 - sign(check_real("ive", x)) * y)
k0 = special("k0", lambda _y, x: -k1(x), on_torch="special.modified_bessel_k0")
k1 = special("k1", lambda y, x: -k0(x) - y / x, on_torch="special.modified_bessel_k1")
k0e = special("k0e", lambda y, x: y - k1e(x), on_torch="special.scaled_modified_bessel_k0")
k1e = special("k1e", lambda y, x: y - k0e(x) - y / x, on_torch="special.scaled_modified_bessel_k1")
kn = special("kn", "n", lambda _y, n, x: -(kv(trunc(n) - 1, x) + kv(trunc(n) + 1, x)) / 2)
kv = special("kv", "v", lambda _y, v, x: -(kv(v - 1, x) + kv(v + 1, x)) / 2)
kve = special("kve", "v", lambda y, v, x: y - (kve(v - 1, x) + kve(v + 1, x)) / 2)

wrightomega = special("wrightomega", lambda y, _z: y / (1 + y))

# -- trigonometry of degrees

DEGREE = math.pi / 180
sindg = special("sindg", lambda _y, x: DEGREE * cosdg(x), poles=False)
cosdg = special("cosdg", lambda _y, x: -DEGREE * sindg(x), poles=False)
tandg = special("tandg", lambda y, _x: DEGREE * (1 + y * y))
cotdg = special("cotdg", lambda y, _x: -DEGREE * (1 + y * y))
radian = special("radian", DEGREE, DEGREE / 60, DEGREE / 3600, poles=False)


def _diric_slope(dy: Cotangent, _y: Array, x: Array, n: int) -> Any:
    # the quotient of sines is the mean of n cosines: no difference that cancels near multiples of 2 pi
    return dy * -builtins.sum((((n - 1) / 2 - j) * sin(((n - 1) / 2 - j) * x) for j in range(n)), 0.0) / n


diric = define("diric", implementation("diric"), pointwise(_diric_slope),
               torch=tensors.on_host(implementation("diric")), memory=FRESH, spec=types.boxed_in_double)

# -- integrals

expi = special("expi", lambda _y, x: exp(x) / x)
exp1 = special("exp1", lambda _y, x: -exp(-x) / x)
expn = special("expn", "n", lambda y, n, x: where(trunc(n) > 0, -expn(maximum(trunc(n) - 1, 0), x), -(1 + 1 / x) * y))
spence = special("spence", lambda _y, x: -hyp2f1(1.0, 1.0, 2.0, 1 - x))
