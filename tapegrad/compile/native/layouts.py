"""layouts: where CPython's and NumPy's objects keep what native code reads of them; probed at first use.

A version that lays them out otherwise is told by an object made in Python and read as native code reads it.
"""

from __future__ import annotations

import ctypes
import sysconfig
from typing import NamedTuple

import numpy as np


class Layout(NamedTuple):
    """Offsets in bytes."""

    type: int = 8
    float: int = 16
    item: int = 24  # of a tuple, the first
    data: int = 16  # of an array
    ndim: int = 24
    shape: int = 32
    dtype: int = 56
    flags: int = 64


LAYOUT = Layout()
"""CPython 3.10 to 3.14 with a global lock, and NumPy 2, on machines of 64 bits."""


def fault(layout: Layout = LAYOUT) -> str:
    """Return what does not lie where native code reads it, "" where all does."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "this Python has no global lock"
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return "this Python is not of 64 bits"
    number, pair, array = 1.5, (object(), object()), np.arange(6.0).reshape(2, 3)
    scalar, turned = np.float64(number), array.T

    def word(x: object, offset: int) -> int:
        return ctypes.c_int64.from_address(id(x) + offset).value
    sizes = word(array, layout.shape)
    found = {
        "the type of an object": word(number, layout.type) == id(float) and word(array, layout.type) == id(np.ndarray),
        "a float": ctypes.c_double.from_address(id(number) + layout.float).value == number,
        "a float64": ctypes.c_double.from_address(id(scalar) + layout.float).value == number,
        "the items of a tuple": [word(pair, layout.item + 8 * k) for k in (0, 1)] == [id(x) for x in pair],
        "the data of an array": word(array, layout.data) == array.ctypes.data,
        "the axes of an array": ctypes.c_int.from_address(id(array) + layout.ndim).value == 2
        and [ctypes.c_int64.from_address(sizes + 8 * k).value for k in (0, 1)] == [2, 3],
        "the dtype of an array": word(array, layout.dtype) == id(array.dtype),
        "the flags of an array": ctypes.c_int.from_address(id(array) + layout.flags).value & 0x101 == 0x101
        and ctypes.c_int.from_address(id(turned) + layout.flags).value & 0x103 == 0x102,
    }
    return next((f"{what} lies elsewhere" for what, holds in found.items() if not holds), "")
