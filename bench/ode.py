"""python -m bench.ode: gradients and Jacobians of fits of differential equations, in simulations.

The plain simulation, and in its time: a one-shot gradient of the squared residuals, a compiled one, a compiled
Jacobian; and `least_squares` with `tg.jacobian` over that with SciPy's own differences. All compiled calls have other
parameters each.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from scipy.integrate import odeint, solve_ivp
from scipy.optimize import least_squares

import tapegrad as tg

TIMES = np.linspace(0.0, 10.0, 21)
CLOSE = {"rtol": 1e-8, "atol": 1e-8}
COMPARTMENTS = 20
ROUNDS = 3


def lotka_volterra(t: Any, y: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the rate of change of prey and predators."""
    return [a * y[0] - b * y[0] * y[1], c * y[0] * y[1] - d * y[1]]


def prey(p: Any, method: str = "RK45", **options: Any) -> Any:
    """Simulate Lotka-Volterra by `solve_ivp`."""
    return solve_ivp(lotka_volterra, (0.0, 10.0), [1.0, 0.5], method, TIMES, args=tuple(p), **options).y


def prey_by_odeint(p: Any) -> Any:
    """Simulate Lotka-Volterra by `odeint`."""
    return odeint(lotka_volterra, [1.0, 0.5], TIMES, args=tuple(p), tfirst=True)


def robertson(p: Any, method: str) -> Any:
    """Simulate Robertson's stiff reactions."""
    def slope(t: Any, y: Any) -> Any:
        slow, back, fast = 0.04 * p[0] * y[0], 1e4 * p[1] * y[1] * y[2], 3e7 * p[2] * y[1] ** 2
        return [back - slow, slow - back - fast, fast]
    return solve_ivp(slope, (0.0, 1e3), [1.0, 0.0, 0.0], method, np.logspace(-3, 3, 15), rtol=1e-6, atol=1e-9).y


def van_der_pol(p: Any, method: str) -> Any:
    """Simulate van der Pol's oscillator."""
    return solve_ivp(lambda t, y: [y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]], (0.0, 10.0), [2.0, 0.0], method,
                     TIMES, rtol=1e-6, atol=1e-8).y


def compartments(p: Any) -> Any:
    """Simulate a chain of compartments, each with a rate to the next and one out."""
    to_next, out = p[:COMPARTMENTS], p[COMPARTMENTS:]

    def slope(t: Any, y: Any) -> Any:
        flow = to_next * y
        return np.concatenate([-flow[:1], flow[:-1] - flow[1:]]) - out * y
    return solve_ivp(slope, (0.0, 10.0), np.ones(COMPARTMENTS), t_eval=TIMES, rtol=1e-6, atol=1e-8).y


RATES = np.array([1.1, 0.4, 0.3, 0.9])
CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Lotka-Volterra, RK45, SciPy's tolerances": (prey, RATES),
    "Lotka-Volterra, RK45, 1e-8": (lambda p: prey(p, **CLOSE), RATES),
    "Lotka-Volterra, odeint": (prey_by_odeint, RATES),
    **{f"Robertson, {method}": (lambda p, method=method: robertson(p, method), np.ones(3))
       for method in ("Radau", "BDF", "LSODA")},
    **{f"van der Pol, {method}": (lambda p, method=method: van_der_pol(p, method), np.array([5.0, 1.0]))
       for method in ("Radau", "BDF", "LSODA")},
    "20 compartments, 40 rates, RK45": (compartments, np.r_[np.linspace(0.5, 1.5, 20), np.linspace(0.01, 0.1, 20)]),
}


def best(call: Callable[[], Any]) -> float:
    """Return the shortest of the times of some calls."""
    times = []
    for _ in range(ROUNDS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


def measured(simulate: Callable[[Any], Any], at: Any) -> dict[str, float]:
    """Return the milliseconds of a simulation, and what else takes in simulations."""
    data, draw = np.asarray(simulate(1.05 * at)), np.random.default_rng(0)

    def near() -> Any:
        return at * (1 + 0.01 * draw.standard_normal(at.shape))

    def residuals(p: Any) -> Any:
        return (simulate(p) - data).ravel()

    def loss(p: Any) -> Any:
        return (residuals(p) ** 2).sum()

    compiled, jacobian = tg.value_and_grad(loss), tg.jacobian(residuals)
    tg.grad(loss, at)
    for _ in range(6):
        compiled(near()), jacobian(near())
    simulation = best(lambda: simulate(at))
    fits = [best(lambda jac=jac: least_squares(residuals, at, jac, max_nfev=4)) for jac in ("2-point", jacobian)]
    return {"simulation_ms": 1e3 * simulation, "parameters": at.size,
            **{name: round(best(call) / simulation, 1) for name, call in (
                ("gradient_once", lambda: tg.grad(loss, at)), ("gradient", lambda: compiled(near())),
                ("jacobian", lambda: jacobian(near())))},
            "least_squares": round(fits[1] / fits[0], 2)}


def main() -> None:
    """Measure the cases; print each, and write all to a file."""
    parser = argparse.ArgumentParser(prog="python -m bench.ode", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the numbers are written")
    parser.add_argument("cases", nargs="*", help="the beginnings of names of cases; all without")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = {}
    for name, (simulate, at) in CASES.items():
        if not options.cases or name.startswith(tuple(options.cases)):
            found[name] = measured(simulate, at)
            print(name, found[name], flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
