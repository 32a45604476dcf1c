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
_LEGACY, _TWISTER = np.random.RandomState, np.random.MT19937  # a trace replaces these names


def state_of_bits(bits: Any) -> dict[str, Any]:
    """Return `bits.state` of a bit generator."""
    if type(bits) is not _TWISTER or _gauss() is None:
        return bits.state  # type: ignore[no-any-return]
    raw = ctypes.string_at(bits.ctypes.state_address, 4 * WORDS + 4)
    key, (pos,) = np.frombuffer(raw, np.uint32, WORDS), struct.unpack_from("i", raw, 4 * WORDS)
    return {"bit_generator": "MT19937", "state": {"key": key, "pos": pos}}


def state_of_legacy(x: Any) -> dict[str, Any]:
    """Return `x.get_state(legacy=False)` of a RandomState."""
    at = _gauss()
    if at is None or type(x) is not _LEGACY or type(bits := x._bit_generator) is not _TWISTER:
        return x.get_state(legacy=False)  # type: ignore[no-any-return]
    has, gauss = struct.unpack("i4xd", ctypes.string_at(id(x) + at, 16))
    return {**state_of_bits(bits), "has_gauss": has, "gauss": gauss}


@cache
def _gauss() -> int | None:
    """Return where a RandomState keeps whether it has a second normal number left, and that number behind it; None if
    this or the twister's memory is laid out differently.
    """
    x, mark = _LEGACY(_TWISTER(7)), 0.8372653912
    key = x.get_state()[1]  # type: ignore[index]
    x.set_state(("MT19937", key, 77, 1, mark))
    memory = ctypes.string_at(id(x), type(x).__basicsize__)
    at = memory.find(struct.pack("i4xd", 1, mark))
    raw = ctypes.string_at(x._bit_generator.ctypes.state_address, 4 * WORDS + 4)
    return at if at >= 0 and raw == key.tobytes() + struct.pack("i", 77) else None
