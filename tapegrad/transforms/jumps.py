"""jumps: refuses to integrate a program that jumps where the jump moves with a parameter.

The gradient of the integral then has a term that the integral of the gradient lacks, and no tape shows its size.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import TapeError, UnknownFunction
from tapegrad.numbers.formatting import plain
from tapegrad.replay.interpreter import Run
from tapegrad.rules.activity import activity
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, value_of
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.control_dependence import agree, poles_of, same_side, side, steering
from tapegrad.trace.control_dependence import sides as sides_of
from tapegrad.trace.tracer import record

FEWEST, MOST = 10, 52  # least and most bisections in the search for a jump between two arguments
START = 1e-9  # start of the first search, as a part of the interval: an earlier switch is at the start of integration
TOLERANCE = 1e-5  # largest relative change of a function that does not jump


class Evaluation(NamedTuple):
    """A function evaluated at one place between two arguments."""

    at: float
    tape: Tape
    sides: dict[int, Any]

    @property
    def value(self) -> Any:
        return plain(self.tape.result.val)


def check_jumps(name: str, tape: Tape, *groups: Collection[int], try_: str) -> None:
    """Refuse a tape where a comparison or rounding depends on inputs in each group; abs and max have kinks only."""
    depends = [activity(tape, places) for places in groups]
    for op, arguments in steering(tape.ops):
        if all(any(found[arg.id] for arg in arguments) for found in depends):
            raise refused(
                name,
                f"the integrand may jump: {op!r} depends on a differentiated number, and at a jump the integral of the "
                "gradient is not the gradient of the integral",
                try_,
            )


class Path(NamedTuple):
    """A function, its first arguments as a function of one number, and its last argument."""

    fn: Callable[..., Any]
    args: Callable[[float], list[Any]]
    rest: Any

    def tape(self, x: float) -> Tape:
        """Return the tape of the function at x."""
        return record(self.fn, (*self.args(x), self.rest), {}, DEFAULT, grad=True)


def check_poles(name: str, path: Path, xs: Sequence[float], *groups: Collection[int], try_: str) -> None:
    """Refuse a function that jumps through a pole, as atan(1 / (x - p)) does, between two of the places of a path where
    it was evaluated, if the pole depends on inputs in each group of places.
    """
    def moving(tape: Tape) -> list[Call]:
        found = list(poles_of(tape.ops))
        depends = [activity(tape, places) for places in groups] if found else []
        return [op for op, arg in found if all(group[arg.id] for group in depends)]

    def evaluated(x: float) -> Evaluation:
        tape = path.tape(x)
        return Evaluation(x, tape, {i: side(op, *map(value_of, op.args)) for i, op in enumerate(moving(tape))})

    first = path.tape(xs[0])
    asked = moving(first)
    guarded = any(isinstance(op, Guard) for op in first.ops)  # another branch may have a pole
    leaves = [op.val for op in first.ops if isinstance(op, Input)]

    def played(x: float) -> dict[int, Any]:
        args = path.args(x)
        run = Run(first, [leaves[0], *args, *leaves[1 + len(args):]], redraw=False, keep=True)
        try:
            deque(run, 0)
        except TapeError:  # x takes another branch
            return evaluated(x).sides
        values = [[run.values[arg.id] if isinstance(arg, Operation) else arg for arg in op.args] for op in asked]
        return {i: side(op, *given) for i, (op, given) in enumerate(zip(asked, values))}

    for (x, sides), (x2, sides2) in itertools.pairwise((x, played(x)) for x in sorted(xs) if asked or guarded):
        if agree(sides, sides2):
            continue
        for before, after in jumps(evaluated, evaluated(x), evaluated(x2)):
            for i, op in enumerate(moving(before.tape)):
                if not same_side(before.sides[i], after.sides.get(i)):
                    raise refused(name, f"it jumps at {op!r}, at a position that depends on a differentiated number",
                                  try_)


def check_path(name: str, fn: Callable[..., Any], points: Sequence[tuple[float, Any]], sides: Sequence[Any], rest: Any,
               places: Collection[int]) -> None:
    """Refuse a slope `fn(t, y, rest)` that jumps between two points of a solution, if the switch depends on inputs at
    some places; `sides` tells for each point on which side of its switches the slope is.

    Where the slope is continuous and its derivative is not, the sensitivities do not jump. Where the slope jumps, they
    jump by its jump times the motion of the switch, which no slope contains. E. Hairer, S. Nørsett, G. Wanner, "Solving
    Ordinary Differential Equations I" (1993), II.6.
    """
    for k, (here, there) in enumerate(itertools.pairwise(sides)):
        if agree(here, there):
            continue
        (t, y), (t2, y2) = points[k : k + 2]

        def at(s: float, t: float = t, y: Any = y, t2: float = t2, y2: Any = y2) -> Evaluation:
            tape = record(fn, ((1 - s) * t + s * t2, (1 - s) * y + s * y2, rest), {}, DEFAULT, grad=True)
            return Evaluation(s, tape, sides_of(tape.ops))

        for before, after in jumps(at, at(0.0 if k else START), at(1.0)):
            op = _switch(before, after, places)
            if op is not None:
                raise UnknownFunction(
                    f"{name} cannot be differentiated: the slope jumps at {op!r}, of {op.where}, which depends on the "
                    "state or on a differentiated number: the sensitivities miss how the jump moves",
                    op.where,
                    "a terminal event in events= where it jumps, and a second solve_ivp from there, each with the "
                    "slope of one side only; or a smooth switch, such as tanh",
                )


def _switch(before: Evaluation, after: Evaluation, places: Collection[int]) -> Operation | None:
    """Return the first operation that differs between two evaluations and depends on inputs at some places. The
    programs are the same up to the first guard that differs.
    """
    depends = activity(before.tape, places)
    for i, (op, arguments) in enumerate(steering(before.tape.ops, poles=True)):
        if not same_side(before.sides.get(i), after.sides.get(i)):
            if any(depends[arg.id] for arg in arguments):
                return op  # type: ignore[no-any-return]
            if isinstance(op, Guard):
                break
    return None


def jumps(at: Callable[[float], Evaluation], begin: Evaluation,
          end: Evaluation) -> Iterator[tuple[Evaluation, Evaluation]]:
    """Find each switch between two places by bisection; yield the evaluations around it if the function jumps."""
    while not agree(begin.sides, end.sides):
        before, after = begin, end
        scale = np.maximum(abs(begin.value), abs(end.value))
        for halvings in range(MOST):
            if halvings >= FEWEST and not _apart(before, after, scale):
                break
            middle = _finite(at, (before.at + after.at) / 2)
            if middle is None:  # the pole itself
                break
            before, after = (middle, after) if agree(middle.sides, begin.sides) else (before, middle)
        if _apart(before, after, scale):
            yield before, after
        begin = after


def _finite(at: Callable[[float], Evaluation], x: float) -> Evaluation | None:
    try:
        with np.errstate(all="ignore"):
            found = at(x)
    except (ZeroDivisionError, ValueError):  # raised by math.pow
        return None
    return found if np.all(np.isfinite(found.value)) else None


def _apart(x: Evaluation, y: Evaluation, scale: Any) -> bool:
    scale = np.maximum(scale, np.maximum(abs(x.value), abs(y.value)))
    return bool(np.any(abs(x.value - y.value) > TOLERANCE * scale))
