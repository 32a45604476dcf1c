"""warning_errors: whether NumPy's warnings are errors at the moment, by `np.errstate`, `np.seterr` or a filter.

Compiled code computes NumPy scalars as Python numbers, which overflow without a warning.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tapegrad.ops import getfield, getitem, getitem_masked, pack, reshape, with_jacobian
from tapegrad.replay.raising import may_end_replay
from tapegrad.rules.op import memory_of
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Tape
from tapegrad.trace.numpy_warnings import SETTINGS, action

_MOVES = frozenset([getfield, pack, getitem, getitem_masked, reshape, with_jacobian])

_calm: list[tuple[Any, Any]] = [(object(), None)]  # the last settings and filters under which no warning raised


def strict() -> bool:
    """Return whether a NumPy warning would be raised as an error."""
    settings, filters = _calm[0]
    if SETTINGS is not None and SETTINGS.get() is settings and warnings.filters == filters:
        return False
    chosen = np.geterr().values()
    if "raise" in chosen or ("warn" in chosen and action() == "error"):
        return True
    if SETTINGS is not None:
        _calm[0] = SETTINGS.get(), list(warnings.filters)
    return False


def is_calm() -> bool:
    """Return whether no NumPy warning would be raised as an error."""
    return not strict()


def drops_warnings(tape: Tape) -> bool:
    """Return whether NumPy might warn in a call whose value is unused; a compiled tape drops such calls."""
    needed = leading(tape.ops, [tape.result, *filter(may_end_replay, tape.ops)])
    return any(type(op) is Call and not needed[op.id] and _may_warn(op) for op in tape.ops)


def _may_warn(op: Call) -> bool:
    """Return whether a call computes inexact numbers rather than moving or allocating them."""
    moves = op.fn in _MOVES or memory_of(op.fn).of == 0 or memory_of(op.fn).blank
    return not moves and op.spec.kind in "fc"
