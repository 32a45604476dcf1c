"""mersenne: the state of NumPy's Mersenne Twister, read from its memory.

NumPy's own attribute makes a Python number of each of the 624 words, which takes longer than most programs that draw.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from typing import Any

import numpy as np

WORDS = 624


def state_of_bits(bits: Any) -> dict[str, Any]:
    """Return `bits.state` of a bit generator."""
    kind: Any = type(bits)
    if not _is_twister(kind):
        return bits.state  # type: ignore[no-any-return]
    raw = _memory(bits)
    key, (pos,) = np.frombuffer(raw, np.uint32, WORDS), struct.unpack_from("i", raw, 4 * WORDS)
    return {"bit_generator": "MT19937", "state": {"key": key, "pos": pos}}


def state_of_legacy(x: Any) -> dict[str, Any]:
    """Return `x.get_state(legacy=False)` of a RandomState."""
    bits = getattr(x, "_bit_generator", None)
    kind: Any = type(x)
    twister: Any = type(bits)
    at = _gauss(kind, twister)
    if at is None:
        return x.get_state(legacy=False)  # type: ignore[no-any-return]
    has, gauss = struct.unpack("i4xd", ctypes.string_at(id(x) + at, 16))
    return {**state_of_bits(bits), "has_gauss": has, "gauss": gauss}


def _memory(bits: Any) -> bytes:
    return ctypes.string_at(bits.ctypes.state_address, 4 * WORDS + 4)


@cache
def _is_twister(cls: Any) -> bool:
    """Return whether a class is NumPy's Mersenne Twister, with the words and then the position in its memory."""
    if (cls.__module__, cls.__name__) != ("numpy.random._mt19937", "MT19937"):
        return False
    bits = cls(7)
    state = bits.state["state"]
    return bool(_memory(bits) == state["key"].tobytes() + struct.pack("i", state["pos"]))


@cache
def _gauss(cls: Any, twister: Any) -> int | None:
    """Return where a RandomState keeps whether it has a second normal number left, and that number behind it; None if
    it is another class or laid out differently.
    """
    if (cls.__module__, cls.__name__) != ("numpy.random.mtrand", "RandomState") or not _is_twister(twister):
        return None
    x, mark = cls(twister(7)), 0.8372653912
    x.set_state({**x.get_state(legacy=False), "has_gauss": 1, "gauss": mark})
    at = ctypes.string_at(id(x), cls.__basicsize__).find(struct.pack("i4xd", 1, mark))
    return at if at >= 0 else None
