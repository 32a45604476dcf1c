"""checked: self-checks, enabled by TAPEGRAD_CHECK=1 in the environment when tapegrad is imported. Each tape that a pass
makes is checked, and each compiled call is compared with a fresh trace; slow, for finding faults of tapegrad.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.numbers.formatting import brief
from tapegrad.numbers.tensors import is_tensor
from tapegrad.tree.flatten import leaves_of

CHECKED = os.environ.get("TAPEGRAD_CHECK", "") not in ("", "0")
TOLERANCE = {np.complex64: 1e-3, np.complex128: 1e-6, np.clongdouble: 1e-6}
"""By precision, relative to the largest number: a compiled call sums in another order."""


class CheckFailed(TapeError):
    """TAPEGRAD_CHECK found an inconsistent tape, or a compiled call that differs from a fresh trace."""


def check_pass(name: str, tape: Any) -> None:
    """Raise CheckFailed if a pass made an inconsistent tape."""
    try:
        tape.check()
    except TapeError as err:
        raise CheckFailed(f"the pass {name} produced an invalid tape: {err.what}", err.where,
                          "please report this") from err


def check_call(name: str, found: Any, expected: Any) -> None:
    """Raise CheckFailed if a compiled call's result differs from a fresh trace's."""
    ours, theirs = leaves_of(found), leaves_of(expected)
    if len(ours) != len(theirs) or not all(map(_agree, ours, theirs)):
        raise CheckFailed(f"a compiled call of {name} returned {brief(found)}, but a new trace {brief(expected)}",
                          None, "please report this")


def _agree(*leaves: Any) -> bool:
    a, b = (np.asarray(x.detach().cpu().resolve_conj().resolve_neg() if is_tensor(x) else x) for x in leaves)
    if a.shape != b.shape or a.dtype.kind not in "fc" or b.dtype.kind not in "fc":
        return a.shape == b.shape and a.tolist() == b.tolist()
    tolerance = max(TOLERANCE[np.result_type(x, np.complex64).type] for x in (a, b))
    largest = np.max(np.abs(b), initial=0.0, where=np.isfinite(b))
    return bool(np.allclose(a, b, rtol=0.0, atol=tolerance * largest, equal_nan=True))
