"""switch: where a slope takes another branch between two evaluations, and whether it jumps there.

The steps of a traced integration are differentiated with the branches that they took. Where the slope is continuous
from one branch to the other, that is its derivative; where it jumps, the sensitivities jump as well, by the jump times
how the switch moves, which no step knows. E. Hairer, S. Nørsett, G. Wanner, "Solving Ordinary Differential Equations I"
(1993), II.6.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import UnknownFunction
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import ZERO, shape_of
from tapegrad.numbers.kinds import Cotangent
from tapegrad.ops.solver import RULES, Solver
from tapegrad.rules.activity import activity
from tapegrad.tape.tape import Guard, Operation
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.steering import same_side, sides, steering
from tapegrad.trace.tracer import record
from tapegrad.transforms.jumps import Evaluation, jumps
from tapegrad.tree.flatten import leaves_of

START = 1e-9  # of the way from the first arguments: what switches no later has switched where the integration begins
# places among what such a solver is given, and what is the slope's own
SLOPE, TIMES, STATES, REST = 0, (1, 3), (2, 4), 5


def _gradients(solver: Solver, y: Any, dy: Cotangent, given: Any, wrt: Sequence[int]) -> list[Any]:
    rest, asked = given[1:8], given[8] if len(given) > 8 else tuple(wrt)
    kept = _CHECKED(dy, *rest, asked)
    leaves = leaves_of(given)
    if SLOPE not in wrt:  # constant on this side, and all the same not to be skipped
        return [ops.sum(kept) * np.zeros(shape_of(leaves[i])) for i in wrt]
    return [kept if i == SLOPE else ZERO for i in wrt]


def _check(dy: Cotangent, t: Any, y: Any, t2: Any, y2: Any, fun: Any, args: Any, first: bool,
           asked: tuple[int, ...]) -> Any:
    """Refuse a jump that depends on the state, or on what else the gradient is asked for; return `dy`."""

    def at(s: float) -> Evaluation:
        tape = record(slope_of, ((1 - s) * t + s * t2, (1 - s) * y + s * y2, fun, args), {}, DEFAULT, grad=True)
        return Evaluation(s, tape, sides(tape.ops))

    # a time depends on what the gradient is by, where the size of a step does: the step across a jump is not as exact
    # as that it would do without the derivative of its size
    places = {1 if i in TIMES else 2 if i in STATES else i - 2 for i in asked if i != SLOPE}
    for before, after in jumps(at, at(START if first else 0.0), at(1.0)):
        op = _switch(before, after, places)
        if op is not None:
            raise UnknownFunction(
                f"solve_ivp cannot be differentiated: its slope jumps at {op!r}, of {op.where}, which depends on the "
                "state, or on a "
                "number that the gradient is asked for, as the sizes of the steps do: the steps do not see how that "
                "moves",
                op.where,
                "events= with a terminal one where it jumps, and a second solve_ivp from there, of which each has the "
                "slope of one side only; or a smooth switch, as of tanh",
            )
    return dy


def slope_of(t: Any, y: Any, fun: Any, args: Any, *rest: Any) -> Any:
    """Return the slope that a function computes, as an array."""
    return as_array(fun(t, y, *args))


def _switch(before: Evaluation, after: Evaluation, places: Collection[int]) -> Operation | None:
    """Return the operation by which two evaluations differ, if that depends on inputs in some places. The programs are
    the same up to the first guard that differs.
    """
    depends = activity(before.tape, places)
    for i, (op, arguments) in enumerate(steering(before.tape.ops, poles=True)):
        if not same_side(before.sides.get(i), after.sides.get(i)):
            if any(depends[arg.id] for arg in arguments):
                return op  # type: ignore[no-any-return]
            if isinstance(op, Guard):
                break
    return None


_CHECKED = Solver("checked_slope", _check, slope_of, "switch")
RULES.update(switch=_gradients)
