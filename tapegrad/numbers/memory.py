"""memory: the address ranges of arrays, tensors and Python buffers, and whether two overlap."""

from __future__ import annotations

import ctypes
import mmap
from array import array
from typing import Any

import numpy as np

C_DATA: Any = ctypes.c_int.__mro__[-2]  # the base class of ctypes data
_FLAT, _ITER = np.flatiter, np.nditer  # a trace replaces these names in NumPy
BUFFERS: tuple[type, ...] = (memoryview, bytearray, array, mmap.mmap, C_DATA, np.ndarray, _FLAT, _ITER)


def span(x: Any) -> tuple[int, int]:
    """Return the address range of the numbers, an empty range if none are in host memory.

    >>> x = np.zeros(3)
    >>> start, end = span(x)
    >>> end - start, span(memoryview(x)) == span(x)
    (24, True)
    """
    if isinstance(x, _FLAT):
        return span(x.base)
    if isinstance(x, _ITER):
        spans = [(start, end) for start, end in map(span, x.operands) if start < end]
        return min(spans, default=(0, 0))[0], max([end for _, end in spans], default=0)
    if isinstance(x, BUFFERS) and not isinstance(x, np.ndarray):
        try:
            if isinstance(x, ctypes._Pointer):
                start = ctypes.addressof(x.contents)
                return start, start + ctypes.sizeof(x.contents)
            return span(np.asarray(memoryview(x)))  # type: ignore[arg-type]
        except (ValueError, TypeError, BufferError):  # released, closed, or of a format that NumPy does not support
            return 0, 0
    return bounds(x)


def bounds(x: Any) -> tuple[int, int]:
    """Return the address range of an array or of a tensor's whole storage."""
    if isinstance(x, np.ndarray):
        return np.lib.array_utils.byte_bounds(x) if x.size else (0, 0)
    if x.device.type != "cpu" or not x.numel():
        return 0, 0
    storage = x.untyped_storage()
    first: int = storage.data_ptr()
    return first, first + storage.nbytes()


def meet(a: Any, b: Any) -> bool:
    """Return whether a buffer and an array, tensor or other buffer may share memory."""
    (start, end), (begin, stop) = span(a), span(b)
    return start < stop and begin < end
