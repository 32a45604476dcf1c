"""Elliptic integrals and functions, differentiated by every argument, and the arithmetic-geometric mean.

Derivatives are Carlson's symmetric integrals, whose terms have one sign where Legendre's cancel: DLMF 19.18, 19.25.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.elementwise import abs, conj, cos, equal, less, real, rint, sin, sqrt, where
from tapegrad.ops.poles import times
from tapegrad.ops.special import blocks, by_part, special
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, pointwise
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define

# with t = e^u the integrand is analytic for |Im u| < pi, so the trapezoidal rule converges as e^(-2 pi^2 / step)
_STEP = 0.4
_LOGARITHMS = np.arange(-100.0, 150.0, _STEP)


def _carlson(*x: Any, powers: tuple[float, ...]) -> Any:
    dtype = np.result_type(np.float32, *(np.asarray(part).dtype for part in x))
    wide = np.result_type(dtype, np.float64)
    parts = np.broadcast_arrays(*(np.asarray(part, wide) for part in x))
    total = np.zeros(parts[0].shape, wide)
    with np.errstate(all="ignore"):
        for rows in blocks(len(_LOGARITHMS), total.size):
            u = _LOGARITHMS[rows].reshape(-1, *[1] * total.ndim)
            t = np.exp(u)
            # by logarithms, because a power may overflow where the product does not
            total += np.sum(np.exp(u - sum(power * np.log(t + part) for power, part in zip(powers, parts))), axis=0)
    for part in parts:  # left of 0 the integral is a principal value, its derivative is not
        total = np.where(np.isreal(part) & (part.real < 0), math.nan, total)
    # where an argument is 0, the sum lacks the growth of the integrand at 0
    exponent = 1 - sum(np.where(part == 0, power, 0.0) for power, part in zip(powers, parts))
    return np.where(exponent <= 0, math.inf, total * _STEP).astype(dtype)[()]


def _by(i: int) -> Any:
    def partial(dy: Cotangent, y: Array, *x: Any, powers: tuple[float, ...]) -> Any:
        return times(dy, conj(_raised(i, powers, x)))
    return partial


def _raised(i: int, powers: tuple[float, ...], x: tuple[Any, ...]) -> Any:
    return -powers[i] * carlson(*x, powers=tuple(power + (k == i) for k, power in enumerate(powers)))


# the integral of (t + x)^-a (t + y)^-b ... over t > 0: its derivatives are integrals of the same kind
carlson = define("carlson", _carlson, pointwise(*map(_by, range(4))), torch=tensors.on_host(_carlson),
    memory=FRESH, spec=types.integral)


def _symmetric(name: str, factor: float, *powers: float) -> Op:
    """Define the op of SciPy's integral, `factor` times the one with these powers."""
    def by(i: int) -> Any:
        return lambda _y, *x: factor * _raised(i, powers, x)
    return special(name, *map(by, range(len(powers))))


elliprd = _symmetric("elliprd", 1.5, 0.5, 0.5, 1.5)
elliprj = _symmetric("elliprj", 1.5, 0.5, 0.5, 0.5, 1.0)
elliprf = special("elliprf", lambda _y, u, v, w: -elliprd(v, w, u) / 6, lambda _y, u, v, w: -elliprd(u, w, v) / 6,
                  lambda _y, u, v, w: -elliprd(u, v, w) / 6)


def _rg_slope(u: Array, v: Array, w: Array) -> Any:
    return carlson(u, v, w, powers=(0.5, 0.5, 0.5)) / 8 - u * elliprd(v, w, u) / 12


elliprg = special("elliprg", lambda _y, u, v, w: _rg_slope(u, v, w), lambda _y, u, v, w: _rg_slope(v, u, w),
                  lambda _y, u, v, w: _rg_slope(w, u, v))


def _rc_by_first(y: Array, u: Array, v: Array) -> Any:
    # where v < 0 the integral is a principal value, and u is not near v
    left = less(real(v), 0)
    gap = where(left, v - u, 1.0)
    return where(left, (y - 1 / sqrt(u)) / (2 * gap), -carlson(u, where(left, 1.0, v), powers=(1.5, 1.0)) / 4)


def _rc_by_second(y: Array, u: Array, v: Array) -> Any:
    left = less(real(v), 0)
    gap = where(left, v - u, 1.0)
    return where(left, (sqrt(u) / v - y) / (2 * gap), -carlson(u, where(left, 1.0, v), powers=(0.5, 2.0)) / 2)


elliprc = special("elliprc", _rc_by_first, _rc_by_second)

# -- Legendre's integrals, by the parameter m = k^2, and Jacobi's functions


def _k_slope(m: Array) -> Any:
    return elliprd(0.0, 1.0, 1 - m) / 6


def _e_slope(m: Array) -> Any:
    return -elliprd(0.0, 1 - m, 1.0) / 6


def _of_amplitude(m: Array, phi: Any, complete: Any, second: bool) -> Any:
    """Return the derivative by m of an incomplete integral: of the remainder of phi, and one complete per half turn."""
    turns = rint(phi / math.pi)
    s, c = sin(phi), cos(phi)
    width = 1 - m * s * s
    sign = cos(math.pi * turns)  # for the remainder, sin is that of phi or its negative
    part = -elliprd(c * c, width, 1.0) if second else elliprd(c * c, 1.0, width)
    # without a half turn there is no complete integral, which is infinite at m = 1
    whole = where(equal(turns, 0), 0.0, complete(where(equal(turns, 0), 0.0, m)))
    return sign * s ** 3 * part / 6 + 2 * turns * whole


def _f_slope(phi: Any, m: Array) -> Any:
    return _of_amplitude(m, phi, _k_slope, False)


ellipk = special("ellipk", lambda _y, m: _k_slope(m))
ellipkm1 = special("ellipkm1", lambda _y, p: -elliprd(0.0, 1.0, p) / 6)
ellipe = special("ellipe", lambda _y, m: _e_slope(m))
ellipkinc = special("ellipkinc", lambda _y, phi, m: 1 / sqrt(1 - m * sin(phi) ** 2),
                    lambda _y, phi, m: _f_slope(phi, m))
ellipeinc = special("ellipeinc", lambda _y, phi, m: sqrt(1 - m * sin(phi) ** 2),
                    lambda _y, phi, m: _of_amplitude(m, phi, _e_slope, True))


def _jacobi_by_u(part: int, u: Array, m: Array) -> Any:
    sn, cn, dn = (ellipj(u, m, part=k) for k in range(3))
    return (cn * dn, -sn * dn, -m * sn * cn, dn)[part]


def _jacobi_by_m(part: int, u: Array, m: Array) -> Any:
    sn, cn, dn, amplitude = (ellipj(u, m, part=k) for k in range(4))
    turned = -dn * _f_slope(amplitude, m)  # the integral up to the amplitude stays u
    return (cn * turned, -sn * turned, -(sn * sn + 2 * m * sn * cn * turned) / (2 * dn), turned)[part]


ellipj = by_part("ellipj", _jacobi_by_u, _jacobi_by_m)


def _agm_slope(y: Array, a: Array, b: Array) -> Any:
    return 2 / (3 * math.pi) * y * y * abs(a) * elliprd(0.0, b * b, a * a)


agm = special("agm", _agm_slope, lambda y, a, b: _agm_slope(y, b, a))
