"""known_functions: which functions are known not to keep their arguments, and in which calls values decide a shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.ops import scatter, setitem
from tapegrad.rules.op import Op, memory_of
from tapegrad.tape.spec import Spec
from tapegrad.tape.tape import Call, Operation, operands
from tapegrad.transforms.walk import own


def is_known(fn: Callable[..., Any]) -> bool:
    """Return whether a function is known not to keep its arguments; a user's function may."""
    return own(fn) or (type(fn) is Op and fn.effects.closed)


def is_varying(op: Call, found: set[Operation], known: bool) -> bool:
    """Return whether values may decide the shape of a result, or of an array that it is computed from; the shape of a
    `known` function's result, only if it is dynamic.
    """
    if is_number(op.spec):
        return False
    if memory_of(op.fn).blank and not any(isinstance(arg, Operation) for arg in op.args):
        return False  # torch.zeros and its kin: constant arguments decide the size
    sources = op.args[:1] if op.fn is setitem else () if op.fn is scatter else operands(op)
    return (not known or getattr(op.fn, "dynamic", False)
            or any(arg in found for arg in sources if isinstance(arg, Operation)))


def is_number(x: Spec) -> bool:
    """Return whether a spec is that of a number."""
    return x.is_scalar or (isinstance(x.type, type) and issubclass(x.type, (float, int, complex)))
