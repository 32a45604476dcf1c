"""The Lorenz system by the classical Runge-Kutta method: thousands of operations on Python floats."""

from __future__ import annotations

from typing import Any

from bench.problems.problem import Data, Problem, Size


def objective(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any, dt: float, steps: int) -> Any:
    """Return the squared distance from the origin after `steps` of length `dt`."""
    for _ in range(steps):
        x, y, z = step(x, y, z, sigma, rho, beta, dt)
    return x * x + y * y + z * z


def step(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any, dt: float) -> tuple[Any, Any, Any]:
    """Return the state a step later, from the slopes at four points."""
    half = 0.5 * dt
    ax, ay, az = slope(x, y, z, sigma, rho, beta)
    bx, by, bz = slope(x + half * ax, y + half * ay, z + half * az, sigma, rho, beta)
    cx, cy, cz = slope(x + half * bx, y + half * by, z + half * bz, sigma, rho, beta)
    dx, dy, dz = slope(x + dt * cx, y + dt * cy, z + dt * cz, sigma, rho, beta)
    return (x + dt / 6 * (ax + 2.0 * (bx + cx) + dx),
            y + dt / 6 * (ay + 2.0 * (by + cy) + dy),
            z + dt / 6 * (az + 2.0 * (bz + cz) + dz))


def slope(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any) -> tuple[Any, Any, Any]:
    """Return the time derivative of the state."""
    return sigma * (y - x), x * (rho - z) - y, x * y - beta * z


def make(steps: int, seed: int = 0) -> Data:
    """Return Lorenz's own parameters and a start near the attractor."""
    return {"x": 1.0, "y": 2.0, "z": 20.0, "sigma": 10.0, "rho": 28.0, "beta": 8 / 3, "dt": 0.01, "steps": steps}


def size_of(data: Data) -> Size:
    """Return the number of steps."""
    return {"steps": data["steps"]}


PROBLEM = Problem("rk4", objective, ("x", "y", "z", "sigma", "rho", "beta"), make, {"steps": 200}, size_of,
                  behind="arithmetic is not contracted, as NumPy's is not.")
