"""compiled_steps: compiled functions of one step of a long loop and of its sweep, bit for bit equal to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.compile.compiling import compile
from tapegrad.errors import TapeError
from tapegrad.numbers.cotangents import ZERO, Absorbing
from tapegrad.numbers.systems import has_others
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.ops.steps import Steps
from tapegrad.optimise.pipeline import EXACT
from tapegrad.tape.tape import Tape
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.checkpoint import pulled

LONG = 256  # steps, below which compiling does not pay
MISSES = 3  # failed calls, after which all are interpreted
MOST = 4  # kinds of numbers: an initial state of Python numbers, and later states
Kinds = tuple[type, ...]


class Fast:
    """The compiled functions of a loop's step, by kind of numbers; None tells the caller to interpret the step."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.runs: dict[Kinds, Callable[..., Any]] = {}
        self.sweeps: dict[Kinds, Callable[..., Any]] = {}
        self.left = MISSES

    def step(self, given: Sequence[Any]) -> Any:
        """Return the state after a step, None if it must be interpreted."""
        run = self.runs.get(kinds := tuple(map(type, given)))
        try:
            if run is None:
                if len(self.runs) == MOST or not self.left:
                    return None
                run = self.runs[kinds] = self._compiled(self._body(given))
            return run(*given)
        except TapeError:
            self._missed()
            return None

    def sweep(self, given: Sequence[Any], dys: Sequence[Any]) -> list[Any] | None:
        """Return the cotangents of a step's inputs, None if it must be interpreted."""
        found = self.sweeps.get(kinds := (*map(type, given), *map(type, dys)))
        try:
            if found is None:
                if len(self.sweeps) == MOST or not self.left or not ORDINARY.issuperset(kinds):
                    return None
                found = self.sweeps[kinds] = self._compiled(record(_Pull(self.steps), (*given, *dys), {}, DEFAULT))
            return [ZERO if dx is None else dx for dx in found(*given, *dys)]
        except TapeError:
            self._missed()
            return None

    def _missed(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.runs, self.sweeps = {}, {}

    def _body(self, given: Sequence[Any]) -> Tape:
        tape = self.steps.one.drawn(())
        for x, val in zip(tape.inputs[1:], given):
            x.val = val
        return tape

    def _compiled(self, tape: Tape) -> Callable[..., Any]:
        return compile(tape, passes=EXACT, mode="numpy")


class _Pull:
    """The sweep over a step as a function of its inputs and the cotangents of its results; None for absent cotangents.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        count = len(self.steps.body.inputs) - 1
        return tuple([None if isinstance(dx, Absorbing) else dx
                      for dx in pulled(self.steps.one, (), values[:count], values[count:])])


def fast(steps: Steps, values: Sequence[Any]) -> Fast | None:
    """Return the compiled functions of a loop that is long enough, with NumPy and Python numbers only."""
    if steps.loop.count < LONG or not all(type(x) in ORDINARY for x in values) or has_others(steps.body.ops):
        return None
    return Fast(steps)

