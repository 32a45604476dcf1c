"""fold: what is computed of constants alone is computed now."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import getfield
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Constant, Operation, Tape, has_value, value_of
from tapegrad.transforms.walk import Walk, literal, pure

LARGEST = 4096  # elements of a constant that is made; a larger one only where its operands were as large


def fold(tape: Tape) -> Tape:
    """Return a tape on which calls with constant arguments are constants, and constant numbers
    stand where they are used.

    What is drawn at random, made for writing or computed by a user's function is left, and so is what raises.
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
    """True for what is the first to go, where anything goes."""
    if type(op) is Call:
        return _constant(op, op.args)
    return type(op) is Constant and literal(op.val)


def _constant(op: Call, args: tuple[Any, ...]) -> bool:
    for arg in args:
        if isinstance(arg, Operation) and type(arg) is not Constant:
            return False
    return _is_found(op) or (pure(op.fn) and not (op.fn.memory.blank or op.fn.effects.nested))


def _is_found(op: Call) -> bool:
    """True for a call of which a backend has found the value, and for what takes it apart."""
    return has_value(op) and (getattr(op.fn, "is_found", False) or op.fn is getfield)


def _value(op: Call, args: tuple[Any, ...]) -> Any:
    """Return the value of a call, the call itself where it is to stay one."""
    if _is_found(op):
        return op.val
    try:
        with np.errstate(all="ignore"):
            val = op.fn.run(*map(value_of, args), **op.kwargs)
    except Exception:  # whatever it is, it is raised where the tape runs
        return op
    if literal(val):
        return _as_recorded(val, op.spec)
    largest = max([LARGEST, *[arg.spec.size for arg in args if isinstance(arg, Constant) and arg.spec.is_memory]])
    return val if type(val) is np.ndarray and val.size <= largest else op


def _as_recorded(val: Any, y: Spec) -> Any:
    """Return a number as one of the type that was recorded, where it has that value too: beside float32 Python's gives
    way, and NumPy's does not.
    """
    if np.iscomplexobj(val) and not y.is_complex:
        return val
    made = y.type(val) if y.is_scalar else val.item() if isinstance(val, np.generic) else val
    return made if type(made) is y.type and (made == val or made != made) else val
