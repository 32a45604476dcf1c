"""fold: constant folding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import getfield
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Constant, Operation, Tape, has_value, value_of
from tapegrad.transforms.walk import Walk, literal, pure

LARGEST = 4096  # elements of a folded constant; more only if an operand was as large


def fold(tape: Tape) -> Tape:
    """Return a tape on which calls with constant arguments are constants, and constant numbers are inlined as
    arguments.

    Random draws, arrays made to be written, calls of user functions and calls that raise stay.
    """
    if not any(map(_folds, tape.ops)):
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        args = walk.args(op)
        if isinstance(op, Constant) and literal(op.val):
            walk.stand_in(op, op.val)
        elif isinstance(op, Call) and _constant(op, args):
            folded = _value(op, args)
            walk.stand_in(op, walk.keep(op, args) if folded is op else walk.constant(op, folded))
        else:
            walk.keep(op, args)
    return walk.done()


def _folds(op: Operation) -> bool:
    """Return whether an operation folds before any other does; if none does, nothing on the tape folds."""
    if type(op) is Call:
        return _constant(op, op.args)
    return type(op) is Constant and literal(op.val)


def _constant(op: Call, args: tuple[Any, ...]) -> bool:
    for arg in args:
        if isinstance(arg, Operation) and type(arg) is not Constant:
            return False
    return _is_found(op) or (pure(op.fn) and not (op.fn.memory.blank or op.fn.effects.nested))


def _is_found(op: Call) -> bool:
    """Return whether a call's value is already known: a backend found it, or the call takes such a value apart."""
    return has_value(op) and (getattr(op.fn, "is_found", False) or op.fn is getfield)


def _value(op: Call, args: tuple[Any, ...]) -> Any:
    """Return the value of a call, or the call itself if it must stay."""
    if _is_found(op):
        return op.val
    try:
        with np.errstate(all="ignore"):
            val = op.fn.run(*map(value_of, args), **op.kwargs)
    except Exception:  # a replay raises it
        return op
    if literal(val):
        return _as_recorded(val, op.spec)
    largest = max([LARGEST, *[arg.spec.size for arg in args if isinstance(arg, Constant) and arg.spec.is_memory]])
    return val if type(val) is np.ndarray and val.size <= largest else op


def _as_recorded(val: Any, y: Spec) -> Any:
    """Return a number converted to the recorded type if that keeps its value: beside float32, a Python number is weakly
    typed and a NumPy number is not.
    """
    if np.iscomplexobj(val) and not y.is_complex:
        return val
    made = y.type(val) if y.is_scalar else val.item() if isinstance(val, np.generic) else val
    return made if type(made) is y.type and (made == val or made != made) else val
