"""integral: differentiates a quadrature through its integrand and its limits, by Leibniz's rule.

The derivative by what the integrand reads is the integral of its gradient, all components in one vector. That integral
is again a call of a solver, with a derivative of the same kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import TapeError
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops.solver import Limits, Solver
from tapegrad.rules.activity import activity
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Tape, value_of
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.control_dependence import agree, poles_of, side
from tapegrad.trace.tracer import record
from tapegrad.transforms.implicit import called, flat, pulled
from tapegrad.transforms.jumps import Path, check_jumps, check_poles
from tapegrad.transforms.vmap import vmap
from tapegrad.tree.flatten import Structure, flatten

ACCURACY = 1e-10  # tolerance of the integrals that are derivatives
AGREES = 1e-8  # largest difference to the rule of half as many nodes; the finer rule is far more accurate
INTERVALS = 64  # number of intervals that are tried with batched nodes


def _fejer(count: int) -> tuple[Any, Any]:
    """Return the nodes and weights of Fejér's second rule from -1 to 1; every second node is one of the rule of half as
    many (Fejér, 1933; Waldvogel, BIT 46, 2006).
    """
    angles = np.arange(1, count + 1) * math.pi / (count + 1)
    odd = np.arange(1, count + 1, 2)
    return np.cos(angles), 4 * np.sin(angles) * (np.sin(np.outer(angles, odd)) / odd).sum(1) / (count + 1)


(PLACES, FINE), COARSE = _fejer(31), _fejer(15)[1]
_TWO = "split the integral where it jumps; or use abs, maximum or clip, which are continuous"


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
            there = called(_Integrand(solver), x, given)
            found[wrt.index(place)] = found[wrt.index(place)] + sign * ops.sum(dy * there)
    return found


def _pulled(x: Any, solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...], *_: Any) -> Any:
    """Return the gradient of an integrand at x by the leaves at some places, as one vector."""
    return _traced(x, solver, dy, given, wrt)[1]


def _traced(x: Any, solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...]) -> tuple[Tape, Any]:
    """Return a tape of an integrand at x, and the gradient that `_pulled` returns."""
    tape = record(_Integrand(solver), (x, given), {}, DEFAULT, grad=True)
    places = {i + 2 for i in map(plain, wrt)}
    check_jumps(solver.name, tape, {1}, places, try_=_TWO)
    return tape, flat(pulled(tape, dy, places))


class _Integrand:
    """An integrand as a function of x and of the solver's arguments."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver

    def __call__(self, x: Any, given: Any) -> Any:
        return as_array(self.solver.residual(x, *given))


@lru_cache(maxsize=64)
def _compiled(solver: Solver, into: Structure, wrt: tuple[int, ...]) -> Any:
    """Return a compiled function of x and the leaves of a cotangent and of the solver's arguments. It returns the
    gradient of the integrand, and on which side of each of its moving poles the integrand is.
    """

    def gradient(x: Any, *leaves: Any) -> tuple[Any, list[Any]]:
        dy, given = into.build(list(leaves))
        tape, found = _traced(x, solver, dy, given, wrt)
        moving = [activity(tape, group) for group in ({1}, {i + 2 for i in wrt})]
        return found, [side(op, *map(value_of, op.args)) for op, arg in poles_of(tape.ops)
                       if all(depends[arg.id] for depends in moving)]

    return Solver.compiled(gradient)


@lru_cache(maxsize=64)
def _together(solver: Solver, into: Structure, wrt: tuple[int, ...]) -> list[Any]:
    """Return a list of one compiled function, from several x and the same leaves to the gradients at each. The list is
    emptied once it turns out that they cannot be computed in a batch.
    """
    one = _compiled(solver, into, wrt).__wrapped__

    def gradients(xs: Any, *leaves: Any) -> Any:
        return vmap(lambda x: one(x, *leaves)[0])(xs)

    return [Solver.compiled(gradients)]


def _find(solver: Solver, dy: Cotangent, given: Any, wrt: tuple[int, ...], limits: Limits) -> Any:
    leaves: list[Any] = []
    into = flatten((dy, given), "", leaves, [], given=True)
    compiled = _compiled(solver, into, wrt)
    ends = [limits.a, *([] if limits.points is None else sorted(limits.points)), limits.b]
    together = _together(solver, into, wrt) if all(map(math.isfinite, ends)) else []
    if together and not compiled((limits.a + limits.b) / 2, *leaves)[1]:  # with poles, the sides must be compared
        try:
            with np.errstate(all="ignore"):  # at a singularity
                found = _by_halves(lambda xs: together[0](xs, *leaves), ends)
            if found is not None:
                return found
        except TapeError:
            together.clear()
    return _one_by_one(solver, compiled, leaves, given, wrt, limits)


def _by_halves(f: Callable[[Any], Any], ends: Sequence[float]) -> Any:
    """Return the integral of a function that maps an array of nodes to a vector for each; None if it does not converge
    soon. Intervals are halved until Fejér's rule agrees with the rule of every second node.
    """
    total, open_, left = 0.0, [*pairwise(ends)], INTERVALS
    while open_ and left:
        a, b = open_.pop()
        values = f((a + b) / 2 + (b - a) / 2 * PLACES)
        fine, coarse, size = ((b - a) / 2 * (weights @ part) for weights, part in (
            (FINE, values), (COARSE, values[1::2]), (FINE, abs(values))))
        if np.all(np.abs(fine - coarse) <= AGREES * np.max(size)):
            total, left = total + fine, left - 1
        elif np.all(np.isfinite(values)):
            open_ += [(a, (a + b) / 2), ((a + b) / 2, b)]
            left -= 1
        else:
            return None
    return None if open_ else total


def _one_by_one(solver: Solver, compiled: Any, leaves: list[Any], given: Any, wrt: tuple[int, ...],
                limits: Limits) -> Any:
    from scipy.integrate import quad_vec

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
    if not info.success and info.status != 2:  # rounding errors are no failure
        raise refused(
            solver.name,
            f"the integral of the integrand's gradient did not converge: {info.message}",
            "fewer singularities, or points=",
        )

    if any(not agree(here, there) for here, there in pairwise(sides[x] for x in sorted(sides))):
        path = Path(_Integrand(solver), lambda x: [x], given)
        check_poles(solver.name, path, [*sides], {1}, {i + 2 for i in wrt}, try_=_TWO)
    return found


_PULLED = Solver(
    "integral_of_gradient", _find, _pulled, "integral", limits=lambda solver, dy, given, wrt, limits: limits
)
