"""jacobian: a value whose derivatives are other values, computed along with it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.numbers.cotangents import ZERO, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensor_array import TensorArray
from tapegrad.numbers.tensors import duplicate, is_memory
from tapegrad.ops.elementwise import add, conj, is_complex, multiply, real
from tapegrad.ops.linalg import matmul
from tapegrad.ops.reduce import sum
from tapegrad.ops.shape import reshape
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, Joint
from tapegrad.rules.registry import define


def _value(y: Array, *parts: Any, each: tuple[bool, ...]) -> Any:
    """Return the value in memory of its own, since the program may write to it."""
    if type(y) is TensorArray:
        return TensorArray(duplicate(y.tensor))
    return duplicate(y) if is_memory(y) else y


def _vjp(y: Array, y0: Any, *parts: Any, each: tuple[bool, ...]) -> Callable[[Any], tuple[Any, ...]]:
    def with_jacobian_pullback(dy: Cotangent) -> tuple[Any, ...]:
        found: list[Any] = [ZERO]
        for x, jacobian, alone in zip(parts[::2], parts[1::2], each):
            found += [_transposed(jacobian, dy, x, alone), ZERO]
        return tuple(found)
    return with_jacobian_pullback


def _transposed(jacobian: Any, dy: Cotangent, x: Array, alone: bool) -> Any:
    """Return the product of a cotangent with the adjoint of a derivative by a real `x`."""
    jacobian = conj(jacobian) if is_complex(jacobian) else jacobian
    if alone or not shape_of(x):
        dx = multiply(jacobian, dy)
        dx = dx if alone else sum(dx)
    else:
        dx = matmul(*_matrices(jacobian, dy, x, shape_of(plain(jacobian))[1:]))
        dx = reshape(dx, shape_of(x))
    return real(dx) if is_complex(dx) else dx


def _matrices(jacobian: Any, dy: Cotangent, x: Array, shape: tuple[int, ...]) -> tuple[Any, Any]:
    count = math.prod(shape)
    return reshape(jacobian, (math.prod(shape_of(x)), count)), reshape(dy, (count,))


def _tangent(tangents: Any, y: Array, _value: Array, *parts: Any, each: tuple[bool, ...]) -> Any:
    total: Any = None
    for t, x, jacobian, alone in zip(tangents[1::2], parts[::2], parts[1::2], each):
        if t is None:
            continue
        if alone or not shape_of(x):
            found = multiply(jacobian, t)
        else:
            count = math.prod(shape_of(x))
            rows = reshape(jacobian, (count, math.prod(shape_of(y))))
            found = reshape(matmul(reshape(t, (count,)), rows), shape_of(y))
        total = found if total is None else add(total, found)
    return total


with_jacobian = define("with_jacobian", _value, rule=Joint(_vjp), tangent=_tangent, torch=_value, batch=False,
                       spec=types.itself, memory=FRESH)
"""`with_jacobian(y, x, dy_by_dx, ..., each=...)`: y, whose derivatives are the given ones alone.

The derivative by an array has the numbers of x along axis 0, followed by the axes of y. By a number, or where it is
elementwise (`each`), it has the axes of y.
"""
