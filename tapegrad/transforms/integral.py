"""integral: what a quadrature computes is differentiated by its integrand and its limits, by Leibniz's rule.

The derivative by what the integrand reads is the integral of its gradient, all numbers in one: a call of a solver
again, of which there is a derivative likewise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops.solver import Limits, Solver
from tapegrad.rules.activity import activity
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Tape, value_of
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.steering import agree, poles_of, side
from tapegrad.trace.tracer import record
from tapegrad.transforms.implicit import flat, pulled
from tapegrad.transforms.jumps import Path, check_jumps, check_poles
from tapegrad.tree.flatten import Structure, flatten

ACCURACY = 1e-10  # of the integrals that are derivatives
_TWO = "two integrals, from and to where it jumps; abs, maximum or clip, which have kinks only"


def gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    leaves: list[Any] = []
    into = flatten(given, "", leaves, [], given=True)
    limits: Limits = solver.limits(*given)  # type: ignore[misc]
    shapes = [shape_of(leaves[i]) for i in wrt]
    sizes = [math.prod(shape) for shape in shapes]
    total = _PULLED(solver, dy, given, tuple(wrt), limits)
    ends = np.cumsum([0, *sizes])
    found = [ops.reshape(total[start:end], shape) for start, end, shape in zip(ends, ends[1:], shapes)]
    at: Limits = solver.limits(*into.build(list(range(len(leaves)))))  # type: ignore[misc]  # the places of the limits
    for sign, x, place in ((-1.0, limits.a, at.a), (1.0, limits.b, at.b)):
        if place in wrt and math.isfinite(plain(x)):
            found[wrt.index(place)] = found[wrt.index(place)] + sign * ops.sum(
                dy * as_array(solver.residual(x, *given))
            )
    return found


def _pulled(x: Any, solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...], *_: Any) -> Any:
    """Return the gradient of an integrand at x by the leaves in some places, as one vector."""
    return _traced(x, solver, dy, given, wrt)[1]


def _traced(x: Any, solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...]) -> tuple[Tape, Any]:
    """Return a tape of an integrand at x, and that gradient."""
    tape = record(_Integrand(solver), (x, given), {}, DEFAULT, grad=True)
    places = {i + 2 for i in map(plain, wrt)}
    check_jumps(solver.name, tape, {1}, places, try_=_TWO)
    return tape, flat(pulled(tape, dy, places))


class _Integrand:
    """An integrand as a function of x and of what the solver was given."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver

    def __call__(self, x: Any, given: Any) -> Any:
        return as_array(self.solver.residual(x, *given))


@lru_cache(maxsize=64)
def _compiled(solver: Solver, into: Structure, wrt: tuple[int, ...]) -> Any:
    """Return a compiled function of x, and the leaves of a cotangent and of what a solver was given: that gradient, and
    on which side the integrand is of its poles that move.
    """

    def gradient(x: Any, *leaves: Any) -> tuple[Any, list[Any]]:
        dy, given = into.build(list(leaves))
        tape, found = _traced(x, solver, dy, given, wrt)
        moving = [activity(tape, group) for group in ({1}, {i + 2 for i in wrt})]
        return found, [side(op, *map(value_of, op.args)) for op, arg in poles_of(tape.ops)
                       if all(depends[arg.id] for depends in moving)]

    return Solver.compiled(gradient)


def _find(solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...], limits: Limits) -> Any:
    from scipy.integrate import quad_vec

    leaves: list[Any] = []
    compiled = _compiled(solver, flatten((dy, given), "", leaves, [], given=True), wrt)
    sides: dict[float, list[Any]] = {}

    def integrand(x: float) -> Any:
        found, sides[x] = compiled(x, *leaves)
        return found

    found, _, info = quad_vec(
        integrand,
        limits.a,
        limits.b,
        epsabs=ACCURACY,
        epsrel=ACCURACY,
        norm="max",
        points=limits.points,
        full_output=True,
    )
    if not info.success and info.status != 2:  # rounding is no failure
        raise refused(
            solver.name,
            f"the integral of the integrand's gradient has not converged: {info.message}",
            "fewer singularities, or points=",
        )

    if any(not agree(here, there) for here, there in pairwise(sides[x] for x in sorted(sides))):
        path = Path(_Integrand(solver), lambda x: [x], given)
        check_poles(solver.name, path, [*sides], {1}, {i + 2 for i in wrt}, try_=_TWO)
    return found


_PULLED = Solver(
    "integral_of_gradient", _find, _pulled, "integral", limits=lambda solver, dy, given, wrt, limits: limits
)
