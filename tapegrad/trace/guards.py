"""guards: facts about a value that a guard can check, and library settings that tapes depend on."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.systems import is_complex_number, system_of
from tapegrad.numbers.tensors import overlap

SURROUNDINGS: list[Callable[[], Any]] = []
"""Functions that return a library setting which results depend on, or None; a tape holds where each returns None."""
DEFAULTS: list[Callable[[], Any]] = []
"""Functions that return a library's setting for new numbers (the default dtype), or None; tapes are kept for each."""
UNLIKE: list[Callable[[], Any]] = []
"""Functions that return None where machine code may begin a call: settings, and checks of values (`raise_on_nan`)."""


def add_surroundings(state: Callable[[], Any]) -> None:
    """Register a library setting: tapes hold only where it is None."""
    SURROUNDINGS.append(state)
    UNLIKE.append(state)


def number_type(x: Any) -> str:
    """Return the dtype kind of a number, "f" for a user's number type, "" for anything else."""
    x = plain(x)
    return "i" if isinstance(x, int) else getattr(dtype_of(x), "kind", "f" if isinstance(x, Number) else "")


def option(x: Any) -> Any:
    """Return a traced number that is an option of a call as a plain, guarded one; other values unchanged."""
    val = plain(x)
    if val is x or shape_of(val):
        return x
    if isinstance(val, (bool, np.bool_)):
        return bool(x)
    kind = number_type(val)
    if kind not in ("i", "u", "f", "c") or system_of(type(val)) is not None:
        return x
    number: Any = (complex if kind == "c" else float)(x)  # raises if its gradient would be lost
    return int(x) if kind in ("i", "u") else number


def number_kind(x: Any) -> str:
    """Return which kind of number a rule may have branched on: "real", "complex" or "array"."""
    x = plain(x)
    return ("array" if shape_of(x) else "complex" if is_complex_number(x) or getattr(dtype_of(x), "kind", "f") == "c"
            else "real")


def check_surroundings() -> None:
    """Raise GuardError inside torch.autocast: a tape is recorded outside it, or contains the casts of each call."""
    if any(around() is not None for around in SURROUNDINGS):
        raise GuardError("the tape was recorded outside torch.autocast; replayed inside, it would compute in other "
                         "dtypes", None,
                         "replay it outside, or put torch.autocast(...) in the traced function")


def surrounded(key: Any) -> Any:
    """Return a cache key of tapes extended by the current library settings."""
    for around in (*SURROUNDINGS, *DEFAULTS):
        key = key if (found := around()) is None else (key, found)
    return key


def are_apart(arrays: tuple[Any, ...]) -> bool:
    """Return whether no two arrays share memory."""
    known = list(map(plain, arrays))
    return not any(overlap(a, b) for i, a in enumerate(known) for b in known[:i])


# A replay may compute with Python's numbers where the program had NumPy's.
KINDS: dict[type, type] = {np.float64: float, np.complex128: complex, np.bool_: bool, np.int64: int}

FIXED: dict[str, Callable[[Any], Any]] = {
    "type": lambda x: type(plain(x)), "class": lambda x: KINDS.get(type(x), type(x)), "kind": number_kind,
    "shape": lambda x: tuple(getattr(x, "shape", ())), "ndim": lambda x: len(getattr(x, "shape", ())),
    "dtype": lambda x: x.dtype if hasattr(x, "dtype") else np.dtype(type(x)),
}
"""Facts that follow from a value's exact type, shape and dtype."""
