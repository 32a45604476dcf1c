"""The gradient of the Runge-Kutta integration by hand: the points where slopes were taken, visited in reverse."""

from __future__ import annotations

from bench.problems.rk4 import slope

Point = tuple[float, float, float]


def gradient(x: float, y: float, z: float, sigma: float, rho: float, beta: float, dt: float,
             steps: int) -> tuple[float, tuple[float, ...]]:
    """Return the value and gradient by the first state and the parameters."""
    half, sixth = 0.5 * dt, dt / 6
    points: list[tuple[Point, Point, Point, Point]] = []
    for _ in range(steps):
        ax, ay, az = slope(x, y, z, sigma, rho, beta)
        q = x + half * ax, y + half * ay, z + half * az
        bx, by, bz = slope(*q, sigma, rho, beta)
        r = x + half * bx, y + half * by, z + half * bz
        cx, cy, cz = slope(*r, sigma, rho, beta)
        s = x + dt * cx, y + dt * cy, z + dt * cz
        ex, ey, ez = slope(*s, sigma, rho, beta)
        points.append(((x, y, z), q, r, s))
        x += sixth * (ax + 2.0 * (bx + cx) + ex)
        y += sixth * (ay + 2.0 * (by + cy) + ey)
        z += sixth * (az + 2.0 * (bz + cz) + ez)

    dx, dy, dz = 2.0 * x, 2.0 * y, 2.0 * z
    dsigma = drho = dbeta = 0.0
    for stages in reversed(points):
        # what each slope's weight in the mean, 1 or 2, is multiplied by
        ux, uy, uz = sixth * dx, sixth * dy, sixth * dz
        gx = gy = gz = 0.0  # the cotangent of the point after
        for (px, py, pz), weight, reach in zip(reversed(stages), (1.0, 2.0, 2.0, 1.0), (0.0, dt, half, half)):
            kx, ky, kz = weight * ux + reach * gx, weight * uy + reach * gy, weight * uz + reach * gz
            gx = (rho - pz) * ky + py * kz - sigma * kx
            gy = sigma * kx - ky + px * kz
            gz = -px * ky - beta * kz
            dsigma += kx * (py - px)
            drho += ky * px
            dbeta -= kz * pz
            dx += gx
            dy += gy
            dz += gz
    return x * x + y * y + z * z, (dx, dy, dz, dsigma, drho, dbeta)
