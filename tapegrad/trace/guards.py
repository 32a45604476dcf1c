"""guards: the facts that a guard may state of a value."""

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
"""What a library computes by, besides its arguments; a tape holds where each is None."""
DEFAULTS: list[Callable[[], Any]] = []
"""What a library makes numbers by where a program does not say; the tapes for each are kept apart."""
UNLIKE: list[Callable[[], Any]] = []
"""What says that machine code may not begin a call, by anything but None: those surroundings, and what looks at each
value (`raise_on_nan`).
"""


def add_surroundings(state: Callable[[], Any]) -> None:
    """Have tapes hold only where a library's state is None."""
    SURROUNDINGS.append(state)
    UNLIKE.append(state)


def number_type(x: Any) -> str:
    """Return the kind of a number's dtype, "f" of a user's number, "" of what is no number."""
    x = plain(x)
    return "i" if isinstance(x, int) else getattr(dtype_of(x), "kind", "f" if isinstance(x, Number) else "")


def option(x: Any) -> Any:
    """Return a traced number that is an option of a call as a plain one, which is guarded and has no gradient; other
    things as they are.
    """
    val = plain(x)
    if val is x or shape_of(val):
        return x
    if isinstance(val, (bool, np.bool_)):
        return bool(x)
    kind = number_type(val)
    if kind not in ("i", "u", "f", "c") or system_of(type(val)) is not None:
        return x
    number: Any = (complex if kind == "c" else float)(x)  # which refuses it if its gradient would be lost
    return int(x) if kind in ("i", "u") else number


def number_kind(x: Any) -> str:
    """Return what a rule may have taken a number for: "real", "complex", or no number at all."""
    x = plain(x)
    return ("array" if shape_of(x) else "complex" if is_complex_number(x) or getattr(dtype_of(x), "kind", "f") == "c"
            else "real")


def check_surroundings() -> None:
    """Raise GuardError inside of torch.autocast: a tape is recorded outside, or says of each call what it casts."""
    if any(around() is not None for around in SURROUNDINGS):
        raise GuardError("the tape was recorded outside of torch.autocast, and inside it would be computed in other "
                         "dtypes", None,
                         "play it outside, or record with torch.autocast(...) in the function")


def surrounded(key: Any) -> Any:
    """Return by what the tapes for a call are kept, with what libraries compute by."""
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
"""The facts that follow from a value's exact type, shape and dtype."""
