"""Two-ports of acoustic ducts, as matrices of complex numbers."""
import cmath
import math

RHO, C = 1.2, 343.0


def duct(length, radius, omega, loss=0.3):
    k = omega / C - 1j * loss * math.sqrt(omega) * 1e-2
    zc = RHO * C / (math.pi * radius ** 2)
    return ((cmath.cos(k * length), 1j * zc * cmath.sin(k * length)),
            (1j * cmath.sin(k * length) / zc, cmath.cos(k * length)))


def multiply(a, b):
    return tuple(tuple(sum(a[i][k] * b[k][j] for k in range(2)) for j in range(2)) for i in range(2))
