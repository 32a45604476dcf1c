"""transpose: the tangent of a call from its pullback, which is linear in its cotangent.

The pullback is the adjoint of the derivative, so the derivative is the adjoint of the pullback: the gradient by w of
what the pullback makes of w, contracted with the tangents (by the real part of <a, b>, as all gradients of complex
numbers are). Any pullback serves that is written in ops or NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, Absorbing, dense, dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensor_array import unwrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.elementwise import conj, is_complex, multiply, real
from tapegrad.ops.reduce import sum
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.tracer import record
from tapegrad.transforms.grad import gradients_of
from tapegrad.tree.argnums import Wanted
from tapegrad.tree.flatten import is_leaf, leaves_of


def transposed(pullback: Any, y: Any, tangents: Sequence[Any]) -> Any:
    """Return the tangent of a call's value `y` from those of its arguments, None for one that has none;
    None where nothing flows.

    Raises what tracing the pullback raises: ConcretizationError where it calls C, for one.
    """
    which = [i for i, t in enumerate(tangents) if t is not None]
    if is_leaf(y) and shape_of(y) == () and not is_complex(y):
        dxs = pullback(_one(y))
        if all(is_leaf(tangents[i]) for i in which):
            return _contracted([(dense(dxs[i]), tangents[i]) for i in which])
    tape = record(_Pulled(pullback, which), (_blank(y),), {}, DEFAULT, grad=True, wanted=Wanted(0, False), replays=False)
    result = tape.result
    if result is None or not leaves_of(result.val):
        return None
    return gradients_of(tape, tuple([tangents[i] for i in which]))


class _Pulled:
    """A pullback as a function of the cotangent alone, to the cotangents that are asked for."""

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
    return 1.0 if dtype is None else (dtype if dtype.kind == "f" else np.dtype(float)).type(1)


def _blank(y: Any, part: bool = False) -> Any:
    """Return a cotangent of a value, the numbers of which mean nothing; parts that are integers have none."""
    if isinstance(y, (tuple, list)):
        return tuple([_blank(each, True) for each in y])
    if isinstance(y, dict):
        return {key: _blank(each, True) for key, each in y.items()}
    shape, y = shape_of(y), plain(y)
    if is_tensor(y):
        inexact = y.is_floating_point() or y.is_complex()
        return ZERO if part and not inexact else torch.zeros(shape, dtype=y.dtype if inexact else torch.float64, device=y.device)
    dtype = dtype_of(y)
    if dtype is None:
        return 0j if isinstance(y, complex) else ZERO if part and isinstance(y, int) else 0.0
    if dtype.kind not in "fc":
        return ZERO if part else np.zeros(shape)[()]
    return np.zeros(shape, dtype) if isinstance(y, np.ndarray) else dtype.type(0)
