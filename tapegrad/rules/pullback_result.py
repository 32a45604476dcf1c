"""pullback_result: checks the cotangents that a user's pullback returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import SPECIAL, shape_of
from tapegrad.numbers.formatting import brief, count_of
from tapegrad.rules.facts import Rrule, where_of
from tapegrad.tree.flatten import is_leaf


def check_returned(op: Any, dxs: Any, args: Sequence[Any]) -> None:
    """Check the number of cotangents and, for a user's rule, that each is a number or array of its argument's shape."""
    if not isinstance(dxs, (tuple, list)) or len(dxs) != len(args):
        got = count_of(len(dxs), "cotangent") if isinstance(dxs, (tuple, list)) else f"a {type(dxs).__name__}"
        raise ArgumentError(f"the pullback of {op.__name__} returned {got} for {count_of(len(args), 'argument')}",
                            where_of(op.rule),
                            "return a tuple with one cotangent per positional argument, ZeroTangent() where nothing "
                            "flows")
    if type(op.rule) is not Rrule:
        return
    for i, (dx, x) in enumerate(zip(dxs, args), 1):
        if is_leaf(x) and dx is not None and not isinstance(dx, SPECIAL) and (not is_leaf(dx)
                                                                              or shape_of(dx) != shape_of(x)):
            got = f"one of shape {shape_of(dx)}" if is_leaf(dx) else brief(dx)
            raise ArgumentError(f"the pullback of {op.__name__} returned {got} as the cotangent of argument {i}, whose "
                                f"shape is {shape_of(x)}", where_of(op.rule),
                                "return a cotangent of the argument's shape, ZeroTangent() where nothing flows")
