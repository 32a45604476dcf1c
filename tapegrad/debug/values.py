"""The floating-point numbers in a value, as NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import Accumulator, Scatter
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.tensors import is_tensor


def numbers(value: Any) -> Iterator[np.ndarray]:
    """Yield each floating-point number or array in a value, also inside structures; of a sparse cotangent, its newest
    piece.

    >>> [x.tolist() for x in numbers((1.5, {"w": np.ones(2), "n": 3}, "text"))]
    [1.5, [1.0, 1.0]]
    """
    stack = [value]
    while stack:
        top = plain(stack.pop())
        if isinstance(top, (tuple, list)):
            stack += reversed(top)
        elif isinstance(top, dict):
            stack += reversed(top.values())
        elif type(top) is Scatter:
            stack += [top.base, top.piece]
        elif type(top) is Accumulator:
            stack.append(top.array)
        elif is_tensor(top):
            top = top.detach().to_dense().cpu()
            if top.is_floating_point() or top.is_complex():
                yield (top if top.element_size() > 2 else top.float()).numpy()  # NumPy has no bfloat16
        elif isinstance(top, (float, complex)) or getattr(getattr(top, "dtype", None), "kind", "") in ("f", "c"):
            yield np.asarray(top)


def norm(value: Any) -> float:
    """Return the 2-norm of all the numbers in a value, 0 if it holds none.

    >>> norm((3.0, np.array([0.0, 4.0])))
    5.0
    """
    if type(value) is float or type(value) is np.float64:
        return abs(float(value))
    if type(value) is Scatter and value.rest is not None:
        value = value.dense()
    return math.hypot(*(float(np.linalg.norm(x.ravel())) for x in numbers(value)))


def is_zero(value: Any) -> bool:
    """Return whether a value holds numbers, all of them 0; False for a sparse cotangent of several pieces, untested."""
    if type(value) is float or type(value) is np.float64:
        return bool(value == 0)
    found = list(numbers(value))
    return bool(found) and not any(x.any() for x in found) and not (type(value) is Scatter and value.rest is not None)


def element(value: Any, index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Return, as text, an operand's contribution to one element of a result: its own element, broadcast to that shape.
    """
    value = plain(value)
    if is_tensor(value):
        value = next(numbers(value), value)
    if isinstance(value, np.ndarray) and value.ndim:
        try:
            value = np.broadcast_to(value, shape)[index]
        except ValueError:
            return brief(value)
    return brief(value.item() if isinstance(value, (np.ndarray, np.generic)) and not value.ndim else value)


def figure(x: float) -> str:
    """Return a number as text of four digits, for a column.

    >>> figure(0.074380165), figure(1.0), figure(-1234567.0)
    ('0.07438', '1', '-1.235e+06')
    """
    return f"{x:.4g}"
