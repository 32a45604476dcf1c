"""unchecked: solutions and factors that torch computes without asking the device at once whether there are any.

What is captured, or compiled as a whole, cannot wait for that answer. It comes out with the results, and is looked at afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tapegrad.compile.torch.program import Program, Step, Value
from tapegrad.errors import ReplayError
from tapegrad.tape.error_context import failed
from tapegrad.tape.tape import Tape

SINGULAR, INDEFINITE = "Singular matrix", "Matrix is not positive definite"  # NumPy's words
UNCHECKED: dict[Any, tuple[Any, str]] = {
    torch.linalg.cholesky: (torch.linalg.cholesky_ex, INDEFINITE), torch.linalg.inv: (torch.linalg.inv_ex, SINGULAR),
    torch.inverse: (torch.linalg.inv_ex, SINGULAR), torch.linalg.solve: (torch.linalg.solve_ex, SINGULAR)}
"""What computes the same and gives a number for each matrix too, 0 where all is well; and what is wrong where it is not."""


class Failure:
    """A call that fails where `flag`, a truth value on the device, says so."""

    def __init__(self, step: Step, what: str) -> None:
        self.op, self.what, self.flag = step.op, what, Value("failed")

    def error(self, tape: Tape) -> ReplayError:
        """Return the error to raise: NumPy's, with the operation and the user's line."""
        return failed(tape, self.op, np.linalg.LinAlgError(self.what))


def unchecked(program: Program) -> list[Failure]:
    """Put the forms that do not check in the place of those that do, and return what may fail; the steps are new ones."""
    steps: list[Step] = []
    found: list[Failure] = []
    for step in program.steps:
        if step.fn not in UNCHECKED or type(step.out) is not Value or step.inside:
            steps.append(step)
            continue
        fn, what = UNCHECKED[step.fn]
        failure, info = Failure(step, what), Value("info")
        steps += [Step(fn, step.args, step.kwargs, (step.out, info), step.op), Step(torch.any, (info,), {}, failure.flag, step.op)]
        found.append(failure)
    program.steps = steps
    return found
