"""unchecked: solutions and factors that torch computes without asking the device at once whether there are any.

What is captured, or compiled as a whole, cannot wait for that answer. It comes out with the results,
and is looked at afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tapegrad.compile.torch.kernel import call_of, is_kernel
from tapegrad.errors import ReplayError
from tapegrad.ops import getfield
from tapegrad.tape.error_context import failed
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.walk import Walk

SINGULAR, INDEFINITE = "Singular matrix", "Matrix is not positive definite"  # NumPy's words
UNCHECKED: dict[Any, tuple[Any, str]] = {
    torch.linalg.cholesky: (torch.linalg.cholesky_ex, INDEFINITE), torch.linalg.inv: (torch.linalg.inv_ex, SINGULAR),
    torch.inverse: (torch.linalg.inv_ex, SINGULAR), torch.linalg.solve: (torch.linalg.solve_ex, SINGULAR)}
"""What computes the same and gives a number for each matrix too, 0 where all is well; and what
is wrong where it is not.
"""


class Failure:
    """A call that fails where `flag`, a truth value on the device, says so."""

    def __init__(self, op: Operation, what: str, flag: Operation) -> None:
        self.op, self.what, self.flag = op, what, flag

    def error(self, tape: Tape) -> ReplayError:
        """Return the error to raise: NumPy's, with the operation and the user's line."""
        return failed(tape, self.op, np.linalg.LinAlgError(self.what))


def unchecked(walk: Walk, op: Any) -> Failure | None:
    """Put the form of a call that does not check in its place, where there is one, and return what may fail."""
    if not is_kernel(op, *UNCHECKED) or op.fn.inside or op.fn.form is not None:
        return None
    fn, what = UNCHECKED[op.fn.fn]
    call = walk._push(call_of(fn, walk.args(op), op.kwargs, (None, None)).at(op))
    walk.stand_in(op, walk._push(Call(getfield, (call, 0), None, op.val).at(op)))
    info = walk._push(Call(getfield, (call, 1)).at(op))
    return Failure(op, what, walk._push(call_of(torch.any, (info,)).at(op)))
