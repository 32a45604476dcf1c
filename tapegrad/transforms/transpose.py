"""transpose: the adjoint of a linear tape as a tape, and the tangent of a call from its pullback.

The pullback is the adjoint of the derivative, so the derivative is the adjoint of the pullback: the gradient by w of
the pullback's results for w, contracted with the tangents (by the real part of <a, b>, as all gradients of complex
numbers are). Any pullback works that is written in ops or NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import ZERO, Absorbing, conform, dense, dtype_of, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.systems import as_kind, system
from tapegrad.numbers.tensor_array import unwrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.elementwise import conj, is_complex, multiply, real
from tapegrad.ops.reduce import sum
from tapegrad.rules.activity import has_gradient
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Guard, Tape, operands
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import FIXED
from tapegrad.trace.tracer import record
from tapegrad.transforms.grad import gradient, gradients_of
from tapegrad.transforms.primitivize import flattened
from tapegrad.tree.argnums import Wanted
from tapegrad.tree.flatten import flatten, is_leaf, leaves_of


def transpose(tape: Tape) -> Tape:
    """Return the tape of the adjoint of a linear function: its `play(dy)` gives the cotangents of the arguments from
    that of the value.

    <dy, f(x)> = <f*(dy), x>, by the real part of <a, b> for complex numbers. What `f` captured is constant. Raises
    ArgumentError for a tape that is not jointly linear in its arguments, and names the operation that is not linear.

    >>> import tapegrad as tg
    >>> value, push = tg.linearize(lambda x, a: np.sin(a * x[1:]) - x[:-1], np.zeros(3), 2.0)
    >>> along = tg.trace(push, np.zeros(3), 0.0)[1]
    >>> transpose(along).play(np.array([1.0, 10.0]))
    (array([-1., -8., 20.]), 0.0)
    """
    check_is_tape(tape, "transpose")
    adjoint = _Adjoint(flattened(tape))
    _check_linear(adjoint)
    return record(adjoint, (adjoint.seed(),), {}, DEFAULT)


class _Adjoint:
    """The gradient of a linear tape, as a function of the cotangent alone."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.__name__ = f"transpose({tape.name})"

    def __call__(self, dy: Any) -> tuple[Any, ...]:
        return self.at(self.args([x.val for x in self.tape.inputs[1:]]), dy)

    def at(self, args: Sequence[Any], dy: Any) -> tuple[Any, ...]:
        """Return the gradient at some arguments, on which it does not depend."""
        return gradient(self.tape.play, *args, seed=dy)

    def args(self, leaves: list[Any]) -> list[Any]:
        """Return the arguments built from these leaves."""
        return [part.build(leaves) for part in self.tape.structure.args]

    def seed(self) -> Any:
        """Return a cotangent of the value: ones."""
        leaves: list[Any] = []
        structure = flatten(self.tape.result.val, "", leaves, [], shared=False)
        return structure.mirror([conform(1.0, plain(y)) if has_gradient(y) else None for y in leaves])


def _check_linear(adjoint: _Adjoint) -> None:
    """Raise ArgumentError where the gradient depends on the arguments, or the value at 0 is not 0."""
    tape, cure = adjoint.tape, "the tape of the function that tg.linearize returns"
    leaves = [x.val for x in tape.inputs[1:]]
    args = adjoint.args(leaves)
    along = record(adjoint.at, (args, adjoint.seed()), {}, DEFAULT)
    given = set(along.inputs[1:1 + len(leaves_of(args))])
    leads = leading(along.ops, [along.result, *[op for op in along.ops if type(op) is Guard and op.fact not in FIXED]])
    for op in along.ops:
        if leads[op.id] and not given.isdisjoint(operands(op)):
            raise ArgumentError(f"{tape.name} is not linear: its derivative depends on its arguments", op.where, cure)
    zero = tape.play(*adjoint.args([conform(0.0, plain(x)) if has_gradient(x) else x for x in leaves]))
    if any(bool((plain(y) != 0).any() if shape_of(y) else plain(y) != 0) for y in leaves_of(zero) if has_gradient(y)):
        raise ArgumentError(f"{tape.name} is not linear: its value at 0 is {brief(zero)}", None, cure)


def transposed(pullback: Any, y: Any, tangents: Sequence[Any]) -> Any:
    """Return the tangent of a call's value `y` from those of its arguments; None stands for a tangent of zero.

    Raises what tracing the pullback raises, such as ConcretizationError where it calls C.
    """
    which = [i for i, t in enumerate(tangents) if t is not None]
    if is_leaf(y) and shape_of(y) == () and not is_complex(y):
        dxs = pullback(_one(y))
        if all(is_leaf(tangents[i]) for i in which):
            return _contracted([(dense(dxs[i]), tangents[i]) for i in which])
    tape = record(_Pulled(pullback, which), (_blank(y),), {}, DEFAULT, grad=True, wanted=Wanted(0, False),
                  replays=False)
    result = tape.result
    if result is None or not leaves_of(result.val):
        return None
    return gradients_of(tape, tuple([tangents[i] for i in which]))


class _Pulled:
    """A pullback as a function from the cotangent alone to the requested cotangents."""

    def __init__(self, pullback: Any, which: Sequence[int]) -> None:
        self.pullback, self.which = pullback, which

    def __call__(self, dy: Any) -> tuple[Any, ...]:
        dxs = self.pullback(dy)
        return tuple([unwrap(dense(dxs[i])) for i in self.which])


def _contracted(pairs: Sequence[tuple[Any, Any]]) -> Any:
    """Return the sum of the real parts of <dx, t>."""
    total: Any = None
    for dx, t in pairs:
        if not isinstance(dx, Absorbing):
            part = real(sum(multiply(conj(dx), t)))
            total = part if total is None else total + part
    return total


def _one(y: Any) -> Any:
    """Return 1 as a number of y's kind."""
    y = plain(y)
    if is_tensor(y):
        return torch.ones((), dtype=y.dtype if y.is_floating_point() else torch.float64, device=y.device)
    dtype = dtype_of(y)
    if dtype is None:
        return 1.0 if system(y) is None else as_kind(1, type(y))
    return (dtype if letter(dtype) in "fO" else np.dtype(float)).type(1)


def _blank(y: Any, part: bool = False) -> Any:
    """Return a cotangent of a value with arbitrary numbers; parts that are integers have none."""
    if isinstance(y, (tuple, list)):
        return tuple([_blank(each, True) for each in y])
    if isinstance(y, dict):
        return {key: _blank(each, True) for key, each in y.items()}
    shape, y = shape_of(y), plain(y)
    if is_tensor(y):
        inexact = y.is_floating_point() or y.is_complex()
        return ZERO if part and not inexact else torch.zeros(shape, dtype=y.dtype if inexact else torch.float64,
                                                             device=y.device)
    dtype = dtype_of(y)
    if dtype is None:
        return 0j if isinstance(y, complex) else ZERO if part and isinstance(y, int) else 0.0
    if letter(dtype) not in INEXACT:
        return ZERO if part else np.zeros(shape)[()]
    return np.zeros(shape, dtype) if isinstance(y, np.ndarray) else dtype.type(0)
