"""scipy.stats: densities and distribution functions of every distribution whose formula tapegrad can record.

SciPy's generic methods check arguments and write into arrays; these do the same with ops around the distribution's own formula
(`_logpdf`, `_cdf` …), which is plain NumPy and runs on traced values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.stats as ss

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array
from tapegrad.frontends.user import value
from tapegrad.rules import Traced, means, register
from tapegrad.tangent import shape_of


def choose(condition: Any, x: Any, y: Any) -> Any:
    """Select by `where`; a scalar stays one."""
    chosen = ops.where(condition, x, y)
    return chosen if shape_of(chosen) else chosen[()]


def inner(low: Any, high: Any) -> Any:
    """Return a point inside a support: the formula is evaluated there instead of outside."""
    ends = np.where(np.isfinite(high), np.asarray(high) - 1.0, 0.0)
    return np.where(np.isfinite(low), np.where(np.isfinite(high), (low + np.asarray(high)) / 2, np.asarray(low) + 1.0), ends)


def inside(dist: Any, x: Any, args: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Return whether the arguments are ones of the distribution, whether `x` is in its support, and a point that is."""
    valid = dist._argcheck(*args)
    low, high = dist._get_support(*args)
    return valid, (low <= x) & (x <= high), inner(value(low), value(high))


def continuous(name: str, outside: float, scaled: Callable[[Any, Any], Any] | None = None, above: float | None = None) -> Callable[..., Any]:
    """Return the meaning of a method of x: its formula inside the support, `outside` elsewhere, or `above` beyond its upper end."""
    def method(self: Any, x: Any, *args: Any, **kwds: Any) -> Any:
        args, loc, scale = self._parse_args(*args, **kwds)
        args, z = tuple(map(as_array, args)), (as_array(x) - as_array(loc)) / as_array(scale)
        valid, there, safe = inside(self, z, args)
        y = choose(there, getattr(self, name)(choose(there, z, safe), *args), outside)
        if above is not None:
            y = choose(ops.greater(z, self._get_support(*args)[1]), above, y)
        y = choose(ops.logical_and(ops.logical_and(valid, ops.greater(scale, 0)), ops.logical_not(ops.isnan(z))), y, self.badvalue)
        return y if scaled is None else scaled(y, scale)
    return method


def discrete(name: str, outside: float) -> Callable[..., Any]:
    """Return the meaning of a mass function of k: its formula at the integers of the support, `outside` elsewhere."""
    def method(self: Any, k: Any, *args: Any, **kwds: Any) -> Any:
        args, loc, _ = self._parse_args(*args, **kwds)
        args, n = tuple(map(as_array, args)), as_array(k) - as_array(loc)
        valid, there, _ = inside(self, n, args)
        there = ops.logical_and(there, ops.equal(ops.floor(n), n))
        low = value(self._get_support(*args)[0])
        y = choose(there, getattr(self, name)(choose(there, n, np.where(np.isfinite(low), low, 0)), *args), outside)
        return choose(ops.logical_and(valid, ops.logical_not(ops.isnan(n))), y, self.badvalue)
    return method


register(ss.rv_continuous.logpdf, continuous("_logpdf", -np.inf, lambda y, scale: y - np.log(scale)))
register(ss.rv_continuous.pdf, continuous("_pdf", 0.0, lambda y, scale: y / scale))
register(ss.rv_continuous.cdf, continuous("_cdf", 0.0, above=1.0))
register(ss.rv_continuous.logcdf, continuous("_logcdf", -np.inf, above=0.0))
register(ss.rv_discrete.logpmf, discrete("_logpmf", -np.inf))
register(ss.rv_discrete.pmf, discrete("_pmf", 0.0))
