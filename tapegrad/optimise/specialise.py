"""specialise: guards the facts that later passes rely on."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.numbers.formatting import plain
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Guard, Input, Tape
from tapegrad.trace.guards import FIXED, KINDS
from tapegrad.transforms.walk import Walk


def specialise(tape: Tape) -> Tape:
    """Return a tape that guards the shape and dtype of each input, or a number's exact type, once, before all else.

    Guards that follow from these vanish, on inputs and on computed values: `ndim`, `kind`, `class`, shapes of
    intermediate values. If the program looked at the memory layout of an array, the inputs' strides are guarded, from
    which it follows: a compiled tape lays out computed arrays as recorded.
    """
    walk = Walk(tape, learn=True)
    inputs = [op for op in tape.ops if isinstance(op, Input)]
    for x in inputs:
        walk.keep(x)
    lines: dict[tuple[Any, str], Guard] = {}
    for op in tape.ops:
        if isinstance(op, Guard) and isinstance(op.args[0], Input):
            lines.setdefault((op.args[0], op.fact), op)
    laid = any(isinstance(op, Guard) and op.fact == "strides" for op in tape.ops)
    for x in inputs[1:]:
        for fact, expected in _facts(spec_of(plain(x.val)), laid):
            guard = lines.get((x, fact)) or Guard(x, fact, expected)
            walk.keep(guard)
    for op in tape.ops:
        if isinstance(op, Input) or (isinstance(op, Guard) and op.fact in FIXED
                                     and _stands(lines.get((op.args[0], op.fact)), walk)):
            continue
        if not (isinstance(op, Guard) and _follows(op, walk)):
            walk.keep(op)
    return walk.done()


def _facts(x: Spec, laid: bool) -> list[tuple[str, Any]]:
    """Return the facts to guard of an input: an array's shape and dtype, which other libraries' tensors have too, and
    its strides if the layout matters; a number's type.
    """
    if isinstance(x.type, str):
        return []
    if laid and x.is_array and x.ndim > 1 and x.strides is not None:
        return [("shape", x.shape), ("dtype", x.dtype), ("strides", x.strides)]
    return [("type", x.type)] if x.dtype is None or x.is_scalar else [("shape", x.shape), ("dtype", x.dtype)]


def _stands(guard: Guard | None, walk: Walk) -> bool:
    """Return whether a guard of the old tape is on the new one."""
    return guard is not None and walk.at[guard.id] is not None


def _follows(guard: Guard, walk: Walk) -> bool:
    x = walk.bind(guard.args[0])
    return guard.fact in FIXED and walk.known[x.id] and bool(_fact(spec_of(plain(x.val)), guard.fact) == guard.expected)


def _fact(x: Spec, fact: str) -> Any:
    """Return a fact that follows from a spec."""
    if fact == "kind":
        return "array" if x.shape else "complex" if x.is_complex else "real"
    if fact == "dtype":
        return np.dtype(x.type) if x.dtype is None else x.dtype
    return {"type": x.type, "class": KINDS.get(x.type, x.type), "shape": x.shape, "ndim": x.ndim}[fact]
