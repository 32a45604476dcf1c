"""Ops that convert numbers to another number system, and a formula's constants to that of its arguments."""

from __future__ import annotations

from typing import Any

from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.systems import RECORDED, converted, kind_within, system
from tapegrad.ops.batched_shape import kept, valued
from tapegrad.rules import types
from tapegrad.rules.facts import FRESH, view_of
from tapegrad.rules.registry import define

# `project` converts a cotangent back to the system of what was converted
convert = define("convert", lambda x, to: converted(x, to), (lambda dy, _y, _x, to: dy,),
                 torch=lambda x, to: x.double(), batch=kept, memory=FRESH, spec=lambda _x, to: types.converted(to))
number_like = define("number_like", lambda x, value: value, (None, lambda dy, _y, _x, value: dy),
                     torch=lambda x, value: value, batch=valued, memory=view_of(1), spec=types.second)
RECORDED["convert"] = convert


def exactly(value: float, x: Array) -> Any:
    """Return a constant that every system holds exactly, such as 0.5, in that of `x`; as is for floats and arrays."""
    if system(x) is None:
        kind = kind_within(plain(x))
        return value if kind is None else converted(value, kind)
    return number_like(x, value)
