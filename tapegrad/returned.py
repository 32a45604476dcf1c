"""What a user's pullback returned: one cotangent for each argument, of its shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tapegrad.brief import brief
from tapegrad.errors import ArgumentError
from tapegrad.tangent import SPECIAL, shape_of
from tapegrad.tree import is_leaf


def check_returned(op: Any, dxs: Iterable[Any], args: Iterable[Any]) -> None:
    """Refuse cotangents that are no numbers, or of another shape than their arguments: nobody can tell what is meant."""
    for i, (dx, x) in enumerate(zip(dxs, args), 1):
        if is_leaf(x) and dx is not None and not isinstance(dx, SPECIAL) and (not is_leaf(dx) or shape_of(dx) != shape_of(x)):
            got = f"one of shape {shape_of(dx)}" if is_leaf(dx) else brief(dx)
            raise ArgumentError(f"the pullback of {op.__name__} returned {got} as the cotangent of argument {i}, whose shape is {shape_of(x)}",
                                op.rr_where, "return a cotangent of the argument's shape, ZeroTangent() where nothing flows")
