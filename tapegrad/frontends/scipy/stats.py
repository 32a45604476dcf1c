"""scipy.stats: densities and distribution functions of every distribution whose formula tapegrad can record.

SciPy's generic methods check arguments and write into arrays. These do the same with ops around the distribution's own
formula (`_logpdf`, `_cdf` …), which is plain NumPy and runs on traced values. Outside its support a formula is
evaluated at a point inside: the unused branch of a `where` must have no nan derivative.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.stats as ss
from scipy.special import _ufuncs

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import PYTHON, plain
from tapegrad.numbers.kinds import Array
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means, refused, register
from tapegrad.tape.tape import Constant, Operation, value_of
from tapegrad.trace.concretize import lost
from tapegrad.trace.interposition import with_names
from tapegrad.trace.plain_arguments import loses
from tapegrad.trace.views import peek

# -- univariate distributions


def both(*conditions: Any) -> Any:
    """Return the conjunction of conditions; those that are untraced and true are dropped. True if none is left."""
    return functools.reduce(ops.logical_and,
                            [c for c in conditions if isinstance(c, Traced) or not np.all(c)] or [True])


def choose(condition: Any, x: Any, y: Any) -> Any:
    """Return `where(condition, x, y)`; a scalar for scalars."""
    if condition is True:
        return x
    chosen = ops.where(condition, x, y)
    return chosen if shape_of(chosen) else chosen[()]


def strong(x: Array) -> Any:
    """Return a number as a NumPy scalar, which keeps double precision beside single-precision arrays, as in SciPy."""
    x = as_array(x)
    if np.iscomplexobj(plain(x)):
        raise refused("a distribution of complex numbers", "SciPy compares them by their real parts", "real numbers")
    return x if type(plain(x)) not in PYTHON else ops.scalar(x) if isinstance(x, Traced) else np.asarray(x)[()]


def doubled(x: Array) -> Any:
    """Return numbers in double precision, which SciPy's distributions return."""
    return x if dtype_of(x) in (None, float) else ops.astype(x, dtype=np.dtype(float))


def inner(low: Any, high: Any) -> Any:
    """Return a point inside the support (low, high)."""
    low, high = (ops.stop_gradient(doubled(as_array(end))) for end in (low, high))
    left = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    return ((left + np.where(np.isfinite(high), high, left + 2.0)) / 2.0)[()]


def everywhere(low: Any, high: Any) -> bool:
    """True if the support is the whole real line for all parameters."""
    return (not isinstance(low, Traced) and not isinstance(high, Traced)
            and bool(np.all(np.isneginf(low) & np.isposinf(high))))


def arguments(dist: Any, x: Any, args: Any, kwds: Any) -> tuple[Any, Any, Any, Any]:
    """Return the standardised variable, the shape parameters, the scale, and the mask of valid arguments."""
    shapes, loc, scale = dist._parse_args(*args, **kwds)
    at, loc, scale, *shapes = map(strong, (x, loc, scale, *shapes))
    z = at - loc
    if isinstance(dist, ss.rv_continuous):
        z = doubled(z / scale)
    return z, tuple(shapes), scale, both(dist._argcheck(*shapes), ops.greater(scale, 0), ops.logical_not(ops.isnan(z)))


def by_formula(formula: Callable[..., Any], z: Any, shapes: tuple[Any, ...]) -> Any:
    """Return a distribution's formula. Refuse the gradient by a shape parameter at a value where SciPy switches to the
    limit of the formula, which does not depend on that parameter.
    """
    tapes = {id(s._tracer): s._tracer.tape for s in shapes if isinstance(s, Traced)}
    before = {key: len(tape.ops) for key, tape in tapes.items()}
    y = _applied(formula, z, *shapes)
    compared = [op for key, tape in tapes.items() for op in tape.ops[before[key]:]
                if op.fn in (ops.equal, ops.not_equal)]
    for op in compared:
        for shape, limit in (op.args, op.args[::-1]):
            found = next((s for s in shapes if isinstance(s, Traced) and peek(s) is shape), None)
            point = None if found is None else known(limit)
            # recorded and guarded, so that a compiled call at the limit is traced again, and refused
            if point is not None and loses(found) and ops.any(ops.equal(found, point)):
                raise lost(found, f"SciPy's formula changes where a shape parameter is {point}",
                           "use a slightly different value")
    return y


def _applied(formula: Callable[..., Any], *xs: Any) -> Any:
    """Return a formula of numbers. If it fails because it assigns by a mask, apply it to arrays of one number, as SciPy
    does.
    """
    try:
        return formula(*xs)
    except (TypeError, IndexError):
        if any(map(shape_of, xs)):
            raise
    return formula(*[ops.reshape(as_array(x), (1,)) for x in xs])[0]


def known(x: Any) -> Any:
    """Return a plain number or the value of a tape's constant; None if `x` is traced."""
    x = value_of(x) if isinstance(x, Constant) else x
    return None if isinstance(x, Operation) or np.ndim(x) else x


def continuous(name: str, below: float, above: float,
               scaled: Callable[[Any, Any], Any] = lambda y, scale: y) -> Callable[..., Any]:
    """Return the implementation of a method: its formula inside the support, `below` and `above` outside."""
    def method(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        z, shapes, scale, valid = arguments(self, x, args, kwds)
        low, high = self._get_support(*shapes)
        inside, outside = True, below
        if below != above:
            inside, outside = both(ops.less(low, z), ops.less(z, high)), choose(ops.less_equal(high, z), above, below)
        elif type(self)._support_mask is not ss.rv_continuous._support_mask:  # excludes ends of the support
            inside = both(self._support_mask(z, *shapes))
        elif not everywhere(low, high):
            inside = both(ops.less_equal(low, z), ops.less_equal(z, high))
        y = scaled(by_formula(getattr(self, name), choose(inside, z, inner(low, high)), shapes), scale)
        return choose(valid, choose(inside, y, outside), self.badvalue)
    return method


def discrete(name: str, outside: float) -> Callable[..., Any]:
    """Return the implementation of a mass function: its formula at integers in the support, `outside` elsewhere."""
    def method(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        n, shapes, _, valid = arguments(self, k, args, kwds)
        low, high = self._get_support(*shapes)
        inside = both(ops.less_equal(low, n), ops.less_equal(n, high), ops.equal(ops.floor(n), n))
        y = _applied(getattr(self, name), choose(inside, n, np.floor(inner(low, high))), *shapes)
        return choose(valid, choose(inside, y, outside), self.badvalue)
    return method


def quantile(name: str, highest: int) -> Callable[..., Any]:
    """Return the implementation of an inverse: its formula between 0 and 1, the ends of the support there; the upper
    end is at `highest`.
    """
    def method(self: Any, q: Any, *args: Any, **kwds: Any) -> Any:
        shapes, loc, scale = self._parse_args(*args, **kwds)
        q, loc, scale, *shapes = map(strong, (q, loc, scale, *shapes))
        low, high = self._get_support(*shapes)
        between = both(ops.less(0, q), ops.less(q, 1))
        y = choose(between, by_formula(getattr(self, name), choose(between, q, 0.5), tuple(shapes)),
                   choose(ops.equal(q, highest), high, low)) * scale + loc
        valid = both(self._argcheck(*shapes), ops.greater(scale, 0), ops.less_equal(0, q), ops.less_equal(q, 1))
        return doubled(choose(valid, y, self.badvalue))
    return method


INF = math.inf
register(ss.rv_continuous.logpdf, continuous("_logpdf", -INF, -INF, lambda y, scale: y - ops.log(scale)))
register(ss.rv_continuous.pdf, continuous("_pdf", 0.0, 0.0, lambda y, scale: y / scale))
register(ss.rv_continuous.cdf, continuous("_cdf", 0.0, 1.0))
register(ss.rv_continuous.sf, continuous("_sf", 1.0, 0.0))
register(ss.rv_continuous.logcdf, continuous("_logcdf", -INF, 0.0))
register(ss.rv_continuous.logsf, continuous("_logsf", 0.0, -INF))
register(ss.rv_continuous.ppf, quantile("_ppf", 1))
register(ss.rv_continuous.isf, quantile("_isf", 0))
register(ss.rv_discrete.logpmf, discrete("_logpmf", -INF))
register(ss.rv_discrete.pmf, discrete("_pmf", 0.0))


@means(ss.rv_continuous._argcheck)
def _argcheck(self: Any, *args: Any) -> Any:
    return both(*[ops.greater(x, 0) for x in args])


@means(type(ss.genextreme)._get_support)
def genextreme_support(self: Any, c: Any) -> Any:  # SciPy makes an array of `c`
    tiny = np.finfo(float).tiny
    return (choose(ops.less(c, 0), 1.0 / ops.minimum(c, -tiny), -INF),
            choose(ops.greater(c, 0), 1.0 / ops.maximum(c, tiny), INF))


def evaluated(f: Callable[..., Any], chosen: Any, xs: tuple[Any, ...]) -> Any:
    """Return `f(*xs)` with the arguments outside `chosen` replaced by those at the first chosen position, which lie in
    its domain. None if no element is chosen.
    """
    shape = np.broadcast_shapes(shape_of(chosen), *map(shape_of, xs))
    if 0 in shape:
        return f(*xs)
    if not ops.any(chosen):
        return None
    if math.prod(shape) == 1:
        return f(*xs)
    first, *known = [ops.reshape(ops.broadcast_to(as_array(x), shape), (-1,)) for x in (chosen, *xs)]
    place = ops.argmax(first)
    return f(*[choose(chosen, x, ops.stop_gradient(flat[place])) for x, flat in zip(xs, known)])


def apply_where(cond: Any, args: Any, f1: Callable[..., Any], f2: Callable[..., Any] | None = None, /, *,
                fill_value: Any = None, xp: Any = None) -> Any:
    """Choose between two formulas, as many of SciPy's own do; each is evaluated only for the elements that need it."""
    xs = tuple(map(as_array, args)) if isinstance(args, (tuple, list)) else (as_array(args),)
    yes = evaluated(f1, cond, xs)
    no = fill_value if f2 is None else evaluated(f2, ops.logical_not(cond), xs)
    return choose(cond, no if yes is None else yes, yes if no is None else no)


def lazywhere(cond: Any, arrays: Any, f: Callable[..., Any], fillvalue: Any = None,
              f2: Callable[..., Any] | None = None) -> Any:
    """Choose as `apply_where` does, which had this name before SciPy 1.16."""
    return apply_where(cond, arrays, f, f2, fill_value=fillvalue)


# private, and in different modules in different versions of SciPy
if hasattr(ss._continuous_distns, "xpx"):
    register(ss._continuous_distns.xpx.apply_where, apply_where)
if hasattr(ss._continuous_distns, "_lazywhere"):
    register(ss._continuous_distns._lazywhere, lazywhere)


def beta_pdf(x: Array, a: Array, b: Array) -> Any:
    a, b = doubled(a), doubled(b)
    return ops.exp(ops.xlog1py(b - 1.0, -x) + ops.xlogy(a - 1.0, x) - ops.betaln(a, b))


def binom_pmf(k: Any, n: Any, p: Array) -> Any:
    n, p = doubled(n), doubled(p)
    return ops.binom(n, k) * ops.exp(ops.xlogy(k, p) + ops.xlog1py(n - k, -p))


def nbinom_pmf(k: Any, n: Any, p: Array) -> Any:
    n, p = doubled(n), doubled(p)
    return ops.binom(n + k - 1, k) * ops.exp(ops.xlogy(n, p) + ops.xlog1py(k, -p))


for _meaning in (beta_pdf, binom_pmf, nbinom_pmf, ops.ncx2_pdf, ops.ncx2_sf, ops.ncx2_isf):
    # compiled formulas, private: other versions of SciPy may not have them
    if hasattr(_ufuncs, _name := f"_{_meaning.__name__}"):
        register(getattr(_ufuncs, _name), _meaning)


# -- power transforms and their limits


def _with_limits(fn: Any, place: str, *limits: float) -> None:
    """Refuse the gradient by an exponent at the `limits`, where SciPy's code switches to a constant formula."""
    own, parameters = with_names(fn, {}), signature(fn)

    def called(*args: Any, **kwargs: Any) -> Any:
        exponent = parameters.bind(*args, **kwargs).arguments.get(place)
        if isinstance(exponent, Traced) and loses(exponent):
            for limit in limits:
                if ops.any(ops.less_equal(ops.abs(as_array(exponent) - limit), np.finfo(float).eps)):
                    raise lost(exponent, f"SciPy's formula changes where {place} is {limit}",
                               "use a slightly different value")
        return own(*args, **kwargs)
    register(fn, called)


_with_limits(ss.boxcox_llf, "lmb", 0.0)
_with_limits(ss.pmean, "p", 0.0)
_with_limits(ss.yeojohnson, "lmbda", 0.0, 2.0)
_with_limits(ss.yeojohnson_llf, "lmb", 0.0, 2.0)


# -- the multivariate normal distribution


@means(type(ss.multivariate_normal).logpdf)
def multivariate_normal_logpdf(self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    if isinstance(cov, ss.Covariance):
        raise UnknownFunction("a multivariate normal with a Covariance object is not supported", user_location(),
                              "an array as cov=, positive definite")
    matrix, at = as_array(cov), as_array(x)
    n = (shape_of(matrix) or shape_of(as_array(mean)) or (1,))[-1]
    if len(shape_of(matrix)) < 2:
        matrix = matrix * np.eye(n)
    at = at[..., None] if n == 1 and len(shape_of(at)) < 2 else at
    far = at if mean is None else at - as_array(mean)
    if shape_of(far)[-1:] == (1,) != (n,):
        far = ops.broadcast_to(far, (*shape_of(far)[:-1], n))
    if allow_singular:
        sizes = np.linalg.eigvalsh(matrix)
        tiny = 1e6 * np.finfo(float).eps * np.max(np.abs(sizes))  # SciPy's threshold
        if not np.min(sizes) > tiny:
            return _singular(far, matrix, tiny)
    low = np.linalg.cholesky(matrix)
    whitened = sl.solve_triangular(low, np.reshape(far, (-1, n)).T, lower=True)
    y = -0.5 * (n * math.log(2 * math.pi) + 2 * np.sum(np.log(np.diagonal(low))) + np.sum(whitened * whitened, axis=0))
    return y[0] if shape_of(y) == (1,) else np.reshape(y, shape_of(far)[:-1])


def _singular(far: Any, matrix: Any, tiny: Any) -> Any:
    """Return the log density on the subspace of a singular covariance, -inf outside; its derivatives are those within
    the subspace.
    """
    sizes, vectors = np.linalg.eigh(ops.stop_gradient(matrix))
    inside = np.sqrt(np.sum((far @ vectors[:, sizes <= tiny])**2, axis=-1)) < 1e3 * tiny
    basis = vectors[:, sizes > tiny]
    return choose(inside, multivariate_normal_logpdf(None, far @ basis, None, basis.T @ matrix @ basis), -INF)


@means(type(ss.multivariate_normal).pdf)
def multivariate_normal_pdf(self: Any, x: Any, mean: Any = None, cov: Any = 1, allow_singular: bool = False) -> Any:
    return np.exp(multivariate_normal_logpdf(self, x, mean, cov, allow_singular))
