"""results: the results of lowered tapes, and their conversion to the types that the program returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.torch.kernel import is_kernel, nest
from tapegrad.numbers.cotangents import conform
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.systems import is_numeric
from tapegrad.numbers.tensors import is_tensor, to_host, to_tensor
from tapegrad.optimise.memory import root, written
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Operation, Tape, drop, has_value, operands
from tapegrad.tree.flatten import flatten, leaves_of
from tapegrad.tree.signature import ValueAndGradients


def settled(tape: Tape) -> Tape:
    """Drop, in place, the values of operations that cannot be folded as constants: those written to, results, and
    operations computed from these; return the tape.
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


class Kinds:
    """The leaves of a tape's result that are NumPy arrays or scalars in the program, and tensors on torch."""

    def __init__(self, tape: Tape) -> None:
        self.types = list(_types(tape.result))
        self.any = any(kind is not None for kind in self.types)
        self.of_tensors = any(op.spec.system == "torch" for op in tape.inputs[1:])

    def given(self, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a result with these types; unchanged if a program of arrays was called with tensors."""
        if not self.of_tensors and any(map(is_tensor, leaves_of((args, kwargs)))):
            return result
        leaves: list[Any] = []
        structure = flatten(result, "", leaves, [], shared=False)
        for i, kind in enumerate(self.types):
            if kind is not None and is_tensor(leaves[i]):
                number = to_host(leaves[i])
                leaves[i] = np.asarray(number) if issubclass(kind, np.ndarray) else number
        return structure.build(leaves)


def _types(x: Any) -> Iterator[type | None]:
    """Yield the NumPy class of each leaf of a result, None for others."""
    if isinstance(x, Operation) and x.fn is ops.pack:
        for arg in x.args:
            yield from _types(arg)
    elif isinstance(x, Operation):
        yield from _types_of_spec(x.spec)
    elif x is not None:
        yield type(x) if isinstance(x, (np.ndarray, np.generic)) else None


def _types_of_spec(spec: Spec) -> Iterator[type | None]:
    if spec.parts:
        for part in spec.parts:
            yield from _types_of_spec(part)
    else:
        yield spec.type if spec.is_numpy else None


def result_of(tape: Tape, parts: list[Any]) -> Any:
    """Return the nested result made of its parts."""
    into = tape.result.kwargs["into"]
    return (parts[0], into.signature.gradients(parts[1:])) if isinstance(into, ValueAndGradients) else into.build(parts)


def conformed(dx: Any, x: Any) -> Any:
    """Return a gradient with the dtype and shape of its input; it may share memory."""
    if not is_tensor(dx):
        return conform(dx, x)
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else dx.dtype
    dx = dx if dx.dtype is dtype else to_tensor(dx, x.device, dtype)
    return dx if dx.shape == x.shape else dx.broadcast_to(x.shape)


def is_plain(x: Any) -> bool:
    """Return whether a value consists of tensors, numbers, numeric arrays and static values in tuples, lists and dicts.
    Other objects that hold tensors stay opaque, and each call copies object arrays.
    """
    if isinstance(x, tuple) or type(x) is list:
        return all(map(is_plain, x))
    if type(x) is dict:
        return all(map(is_plain, x.values()))
    if isinstance(x, np.ndarray):
        return is_numeric(x)
    return x is None or is_tensor(x) or isinstance(x, (*PYTHON, np.generic, str, slice, type(Ellipsis)))
