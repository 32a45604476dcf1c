"""Relatives of Bessel's functions: Hankel's, Kelvin's, Airy's, Struve's, spherical ones, and integrals.

Derivatives are by the argument, those by the order are refused: DLMF 9.2, 10.6, 10.51, 10.61, 11.4.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.numbers import tensors
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.elementwise import abs, conj, cos, cosh, exp, imag, less, maximum, real, sin, sqrt, where
from tapegrad.ops.poles import times
from tapegrad.ops.special import (
    SQRT_PI,
    _refused,
    by_part,
    check_real,
    i0,
    implementation,
    j0,
    jv,
    k0,
    rgamma,
    special,
    y0,
)
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, pointwise
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define

jve = special("jve", "v", lambda _y, v, x: (jve(v - 1, check_real("jve", x)) - jve(v + 1, x)) / 2)
yve = special("yve", "v", lambda _y, v, x: (yve(v - 1, check_real("yve", x)) - yve(v + 1, x)) / 2)
hankel1 = special("hankel1", "v", lambda _y, v, z: (hankel1(v - 1, z) - hankel1(v + 1, z)) / 2)
hankel2 = special("hankel2", "v", lambda _y, v, z: (hankel2(v - 1, z) - hankel2(v + 1, z)) / 2)
hankel1e = special("hankel1e", "v", lambda y, v, z: (hankel1e(v - 1, z) - hankel1e(v + 1, z)) / 2 - 1j * y)
hankel2e = special("hankel2e", "v", lambda y, v, z: (hankel2e(v - 1, z) - hankel2e(v + 1, z)) / 2 + 1j * y)
hyp0f1 = special("hyp0f1", "v", lambda _y, v, z: hyp0f1(v + 1, z) / v)
hyperu = special("hyperu", "a", "b", lambda _y, a, b, x: -a * hyperu(a + 1, b + 1, x))
wright_bessel = special("wright_bessel", "a", "b", lambda _y, a, b, x: wright_bessel(a, a + b, x))
log_wright_bessel = special("log_wright_bessel", "a", "b", lambda y, a, b, x: exp(log_wright_bessel(a, a + b, x) - y))

# -- Struve's functions


def _struve_term(v: Array, x: Array) -> Any:
    return (x / 2) ** v * rgamma(v + 1.5) / SQRT_PI


struve = special("struve", "v", lambda _y, v, x: (struve(v - 1, x) - struve(v + 1, x) + _struve_term(v, x)) / 2)
modstruve = special("modstruve", "v",
                    lambda _y, v, x: (modstruve(v - 1, x) + modstruve(v + 1, x) + _struve_term(v, x)) / 2)

# -- Kelvin's functions: ber x + i bei x = J_0(z), z = x e^(3 pi i / 4), whose second derivative needs no division by x


def _ber_curvature(x: Array) -> Any:
    z = x * complex(-math.sqrt(0.5), math.sqrt(0.5))
    return 0.5j * (jv(0.0, z) - jv(2.0, z))


ber = special("ber", lambda _y, x: berp(x))
bei = special("bei", lambda _y, x: beip(x))
ker = special("ker", lambda _y, x: kerp(x))
kei = special("kei", lambda _y, x: keip(x))
berp = special("berp", lambda _y, x: real(_ber_curvature(x)))
beip = special("beip", lambda _y, x: imag(_ber_curvature(x)))
kerp = special("kerp", lambda y, x: -kei(x) - y / x)
keip = special("keip", lambda y, x: ker(x) - y / x)

# -- Airy's functions: Ai, Ai', Bi, Bi'; scaled, by exp(2/3 z^(3/2)), or exp(-2/3 |Re z^(3/2)|) for Bi


def _airy_slope(part: int, z: Array) -> Any:
    return z * airy(z, part=part - 1) if part % 2 else airy(z, part=part + 1)


def _airye_slope(part: int, z: Array) -> Any:
    plain = z * airye(z, part=part - 1) if part % 2 else airye(z, part=part + 1)
    if part < 2:
        return plain + sqrt(z) * airye(z, part=part)
    return plain - sqrt(maximum(check_real("airye", z), 0.0)) * airye(z, part=part)


airy = by_part("airy", _airy_slope)
airye = by_part("airye", _airye_slope)

# -- spherical functions of integer order; with `derivative`, their derivatives


def _spherical(name: str, below: int, above: int) -> Op:
    """Define an op by the factors of the neighbours in (2n + 1) f_n' = below n f_(n-1) + above (n + 1) f_(n+1)."""
    impl = implementation(name)

    def slope(dy: Cotangent, _y: Array, n: Any, z: Array, derivative: bool = False) -> Any:
        first, second = (op(k, z, derivative=derivative) for k in (maximum(n - 1, 0), n + 1))
        return times(dy, conj((below * n * first + above * (n + 1) * second) / (2 * n + 1)))
    op = define(name, impl, pointwise(_refused(name, "n"), slope), torch=tensors.on_host(impl), memory=FRESH,
                spec=types.of_integer(name))
    return op


spherical_jn = _spherical("spherical_jn", 1, -1)
spherical_yn = _spherical("spherical_yn", 1, -1)
spherical_in = _spherical("spherical_in", 1, 1)
spherical_kn = _spherical("spherical_kn", -1, -1)

# -- integrals of Bessel's functions


def _nested(u: Array, divisors: range) -> Any:
    """Return 1 + u / d² (1 + u / d'² (1 + ...))."""
    total: Any = 1.0
    for d in reversed(divisors):
        total = 1 + u / (d * d) * total
    return total


def _quotient(x: Array, sign: float) -> Any:
    """Return (1 - J_0(x)) / x, or (I_0(x) - 1) / x for a sign of 1; near 0 by the series."""
    near = less(abs(x), 1.0)
    u, far = where(near, x, 0.0), where(near, 1.0, x)
    exact = (i0(far) - 1) / far if sign > 0 else (1 - j0(far)) / far
    return where(near, u / 4 * _nested(sign * u * u / 4, range(2, 14)), exact)


itj0y0 = by_part("itj0y0", lambda part, x: (j0, y0)[part](x))
iti0k0 = by_part("iti0k0", lambda part, x: (i0, k0)[part](x))
it2j0y0 = by_part("it2j0y0", lambda part, x: -y0(x) / x if part else _quotient(x, -1.0))
it2i0k0 = by_part("it2i0k0", lambda part, x: -k0(x) / x if part else _quotient(x, 1.0))
itstruve0 = special("itstruve0", lambda _y, x: struve(0.0, x))
itmodstruve0 = special("itmodstruve0", lambda _y, x: modstruve(0.0, x))


def _struve_quotient(_y: Array, x: Array) -> Any:
    near = less(abs(x), 1.0)
    u, far = where(near, x, 0.0), where(near, 1.0, x)
    return where(near, -2 / math.pi * _nested(-u * u, range(3, 29, 2)), -struve(0.0, far) / far)


it2struve0 = special("it2struve0", _struve_quotient)
itairy = by_part("itairy", lambda part, x: airy((x, x, -x, -x)[part], part=(0, 2, 0, 2)[part]))
besselpoly = special("besselpoly", lambda _y, a, lmb, nu: besselpoly(a, lmb + 1, nu - 1)
                     - besselpoly(a, lmb + 1, nu + 1), "lmb", "nu")

# -- Fresnel, sine and hyperbolic sine integrals; sin z / z and sinh z / z are spherical functions, also at 0

fresnel = by_part("fresnel", lambda part, z: (sin, cos)[part](math.pi / 2 * z * z))
sici = by_part("sici", lambda part, z: cos(z) / z if part else spherical_jn(0, z))
shichi = by_part("shichi", lambda part, z: cosh(z) / z if part else spherical_in(0, z))


def _modified_fresnel(sign: int) -> Op:
    """Define F(x), the integral of exp(i t^2) from x on, and K(x) = exp(-i (x^2 + pi / 4)) F(x) / sqrt(pi);
    or their conjugates.
    """
    turn = complex(math.sqrt(0.5), -sign * math.sqrt(0.5)) / SQRT_PI

    def slope(part: int, x: Array) -> Any:
        return -2j * sign * x * op(x, part=1) - turn if part else -exp(1j * sign * x * x)
    op = by_part("modfresnelp" if sign > 0 else "modfresnelm", slope)
    return op


modfresnelp, modfresnelm = _modified_fresnel(1), _modified_fresnel(-1)
