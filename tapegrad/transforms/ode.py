"""ode: the solution of a differential equation is differentiated by the equation of its sensitivities.

Of dy/dt = f(t, y, p) the derivative S of y by its start and by p solves dS/dt = (df/dy) S + df/dp, beside y: as stable
as that, and a call of a solver again, of which there is a derivative likewise. E. Hairer, S. Nørsett, G. Wanner,
"Solving Ordinary Differential Equations I" (1993), I.14.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops.solver import RULES, Solver
from tapegrad.rules.registry import refused
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.implicit import flat, pulled
from tapegrad.transforms.jumps import Path, check_jumps, check_poles
from tapegrad.transforms.repeated import Repeated
from tapegrad.tree.flatten import leaves_of

ACCURACY, MOST_STEPS = 1e-10, 100_000  # of sensitivities, and between two times
_TRACED = 'scipy.integrate.solve_ivp with method="BDF" or "Radau", whose steps are traced'
START, TIMES = 0, 1  # places among what such a solver is given: a vector, and the times of its values


class Slope:
    """The slope of a solution as a function of y and of what else the solver was given."""

    def __init__(self, solver: Solver, t: Any) -> None:
        self.solver, self.t = solver, t

    def __call__(self, y: Any, rest: Any) -> Any:
        return ops.reshape(as_array(self.solver.residual(self.t, y, *rest)), (-1,))


class _SlopeOfAll:
    """The slope as a function of the time, too."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver

    def __call__(self, t: Any, y: Any, rest: Any) -> Any:
        return Slope(self.solver, t)(y, rest)


def _gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    start, times, *rest = given
    n, count = shape_of(start)[0], shape_of(times)[0]
    params = [i for i in wrt if i > TIMES]
    shapes = [shape_of(x) for x in leaves_of(rest)]
    sizes = [math.prod(shapes[i - 2]) for i in params]
    s0 = np.concatenate([np.eye(n), np.zeros((n, sum(sizes)))], axis=1)
    both = _SENSITIVITIES(ops.concat(start, ops.reshape(s0, (-1,)), axis=0), times, solver, tuple(params), tuple(rest))
    s = ops.reshape(both[:, n:], (count, n, n + sum(sizes)))
    ds = ops.sum(ops.reshape(dy, (count, n, 1)) * s, axis=(0, 1))
    ends = np.cumsum([n, *sizes])
    found = {i: ops.reshape(ds[a:b], shapes[i - 2]) for i, a, b in zip(params, ends, ends[1:])}
    found[START] = ds[:n]
    if TIMES in wrt:
        slopes = [Slope(solver, times[k])(y[k], rest) for k in range(count)]
        dt = [ops.sum(dy[k] * slope) for k, slope in enumerate(slopes)]
        found[TIMES] = ops.stack(dt[0] - ops.sum(ds[:n] * slopes[0]), *dt[1:], axis=0)
    return [found[i] for i in wrt]


def _slope(t: Any, z: Any, solver: Solver, params: Sequence[Any], rest: Any) -> Any:
    """Return the slope of y and of its sensitivities, as one vector."""
    size = _size(params, rest)
    n = _unknowns(shape_of(z)[0], size)
    y, s = z[:n], ops.reshape(z[n:], (n, n + size))
    tape = record(Slope(solver, t), (y, rest), {}, DEFAULT, grad=True)
    places = {1, *map(plain, params)}
    check_jumps(solver.name, tape, places, try_=_TRACED)
    rows = [pulled(tape, unit, places) for unit in np.eye(n)]
    ds = ops.matmul(ops.stack(*[row[0] for row in rows], axis=0), s)
    if params:
        ds = ds + ops.concat(np.zeros((n, n)), ops.stack(*[flat(row[1:]) for row in rows], axis=0), axis=1)
    return ops.concat(tape.result.val, ops.reshape(ds, (-1,)), axis=0)  # type: ignore[union-attr]


def _size(params: Sequence[Any], rest: Any) -> int:
    """Return of how many numbers the parameters in some places are."""
    leaves = leaves_of(rest)
    return sum(math.prod(shape_of(leaves[plain(i) - 2])) for i in params)


def _unknowns(length: int, size: int) -> int:
    """Return n of a vector of n numbers, and of their n + size derivatives each."""
    return (math.isqrt((size + 1) ** 2 + 4 * length) - size - 1) // 2


def _find(start: Any, times: Any, solver: Solver, params: Sequence[Any], rest: Any) -> Any:
    from scipy.integrate import odeint

    repeated = Repeated(lambda t, z: _slope(t, z, solver, params, rest))
    asked = []

    def slope(t: float, z: Any) -> Any:
        asked.append((t, z[:n].copy()))
        return repeated(t, z)

    def between(i: float) -> list[Any]:
        k, part = min(int(i), len(asked) - 2), i - min(int(i), len(asked) - 2)
        return [(1 - part) * x + part * x2 for x, x2 in zip(asked[k], asked[k + 1])]

    n = _unknowns(len(start), _size(params, rest))
    found, info = odeint(
        slope, start, times, tfirst=True, rtol=ACCURACY, atol=ACCURACY, mxstep=MOST_STEPS, full_output=True
    )
    if info["message"] != "Integration successful." and np.ptp(times):  # unless no time passes
        raise refused(
            solver.name,
            f"the equation of its sensitivities was not solved: {info['message']}",
            "a shorter time, or closer tolerances",
        )
    if not np.ptp(times):
        return found
    path = Path(_SlopeOfAll(solver), between, rest)
    check_poles(solver.name, path, range(len(asked)), {2, *(i + 1 for i in params)}, try_=_TRACED)
    return found


_SENSITIVITIES = Solver("sensitivities", _find, _slope, "ode")
RULES.update(ode=_gradients)
