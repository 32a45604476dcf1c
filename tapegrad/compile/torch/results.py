"""results: what a lowered tape returns, in the kinds that the program has."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.torch.kernel import is_kernel, nest
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.tensors import is_tensor, to_tensor
from tapegrad.optimise.memory import root, written
from tapegrad.tape.tape import Call, Tape, drop, has_value, operands
from tapegrad.tree.signature import ValueAndGradients


def settled(tape: Tape) -> Tape:
    """Return a tape without the values that are no constants: of what is written to, of
    results, of what is made of these.
    """
    changed, kept = written(tape), set(operands(tape.result))
    for op in reversed(tape.ops):
        if (op in kept or op in changed) and (op.fn is ops.getfield or is_kernel(op, nest)):
            kept.update(operands(op))
    for op in tape.ops:
        if type(op) is Call and has_value(op):
            fixed = all(has_value(x) and root(x) not in changed for x in operands(op))
            if not fixed or op in kept or root(op) in changed:
                drop(op)
    return tape


def result_of(tape: Tape, parts: list[Any]) -> Any:
    """Nest the parts of a result."""
    into = tape.result.kwargs["into"]
    return (parts[0], into.signature.gradients(parts[1:])) if isinstance(into, ValueAndGradients) else into.build(parts)


def conformed(dx: Any, x: Any) -> Any:
    """Return a gradient with the dtype and shape of its input; in whose memory it lies is seen to elsewhere."""
    if not is_tensor(dx):
        return conform(dx, x)
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else dx.dtype
    dx = dx if dx.dtype is dtype else to_tensor(dx, x.device, dtype)
    return dx if dx.shape == x.shape else dx.broadcast_to(x.shape)


def is_plain(x: Any) -> bool:
    """True for tensors, numbers and static values, in tuples, lists and dicts at most: what else holds
    tensors is not looked into.
    """
    if isinstance(x, (tuple, list)):
        return all(map(is_plain, x))
    if type(x) is dict:
        return all(map(is_plain, x.values()))
    return x is None or is_tensor(x) or isinstance(x, (*PYTHON, np.ndarray, np.generic, str, slice, type(Ellipsis)))
