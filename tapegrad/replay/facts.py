"""facts: checks whether the fact that a guard recorded still holds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import layout_of
from tapegrad.numbers.formatting import quoted
from tapegrad.numbers.systems import PRECISION
from tapegrad.numbers.tensor_dtypes import numpy_dtype, torch_dtype
from tapegrad.numbers.tensors import ORDINARY, is_tensor, is_writable
from tapegrad.tape.tape import Guard
from tapegrad.trace.guards import FIXED, KINDS, are_apart
from tapegrad.trace.number_systems import check_precision
from tapegrad.tree.copies import running


def _content(x: Any) -> bytes:
    return x.tobytes()  # type: ignore[no-any-return]


FACTS: dict[str, Callable[[Any], Any]] = {
    "bool": bool, "int": int, "index": lambda x: operator.index(bool(x) if isinstance(x, np.bool_) else x),
    "hash": hash, "float": float, "complex": complex, "content": _content, "data": _content,
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "round": round, "apart": are_apart, "recorded": lambda f: None, "strides": lambda x: getattr(x, "strides", ()),
    "layout": layout_of, "writeable": is_writable,
    "decimal precision": lambda x: PRECISION["decimal precision"](),
    "mpmath precision": lambda x: PRECISION["mpmath precision"](),
    "interval precision": lambda x: PRECISION["interval precision"](),
    "nestlevel": lambda x: sum(tracer.grad for tracer in running.tracers),
    **FIXED,
}


_TRACE_AGAIN = "trace the function again with these arguments"


def verify(guard: Guard, value: Any) -> None:
    """Raise GuardError if a fact about a value differs from the recorded one."""
    if guard.fact == "raises":
        if not guard.expected.happens(value):
            raise GuardError(f"this tape was recorded with {guard.expected!r}; now that differs, and the program might "
                             "take another path", guard.where, _TRACE_AGAIN)
        return
    if guard.fact == "recorded":
        what, cure = guard.expected
        raise GuardError(f"the program {what}: a replay could not reproduce that", guard.where, cure)
    found = fact_of(guard, value)
    if not is_as_recorded(guard, found):
        check_precision(guard)
        raise GuardError(f"this tape was recorded where {guard.fact}({guard.args[0].name}) was "
                         f"{quoted(guard.expected)}; now it is {quoted(found)}, and the program might take another "
                         "path", guard.where, _TRACE_AGAIN)


def fact_of(guard: Guard, value: Any) -> Any:
    """Return the guarded fact about a value, in a form comparable to the expected one."""
    return (fact_of_tensor(guard, value) if type(value) not in ORDINARY and is_tensor(value)
            else FACTS[guard.fact](value))


def is_as_recorded(guard: Guard, found: Any) -> bool:
    """Return whether a fact equals the recorded one. 0.0 and -0.0 differ, since a program can distinguish them."""
    if guard.fact == "dtype":
        return str(found).removeprefix("torch.") == str(guard.expected).removeprefix("torch.")
    if type(found) is float and not found:
        return bool(found == guard.expected) and math.copysign(1.0, found) == math.copysign(1.0, guard.expected)
    return bool(found == guard.expected)


def fact_of_tensor(guard: Guard, x: Any) -> Any:
    """Return the guarded fact about a tensor, in a form comparable to the expected one.

    A tensor stands for the program's array, NumPy scalar or number of the same shape and kind. Its memory layout is
    ignored in that case: a view of an array at recording is a view in every replay.
    """
    fact, expected = guard.fact, guard.expected
    if fact in ("class", "type") and not issubclass(expected, type(x)):
        kind = getattr(numpy_dtype(x.dtype), "type", float)
        stands_for = (np.ndarray,) if x.ndim else (np.ndarray, kind, KINDS.get(kind, kind))
        return expected if issubclass(expected, stands_for) else stands_for[-1]
    if fact == "layout" and (expected == "tensor" or expected[0] == "tensor"):
        return layout_of(x)
    if fact in ("layout", "strides", "writeable") or (fact == "dtype" and torch_dtype(expected) is x.dtype):
        return expected
    if fact in ("shape", "ndim", "kind", "dtype", "class", "type"):
        return FACTS[fact](x)
    return x.detach().cpu().numpy().tobytes() if fact in ("content", "data") else FACTS[fact](x.item())
