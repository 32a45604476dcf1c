"""np.emath: functions that answer by complex numbers beyond their real domain; whether a number is there is guarded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.numbers.kinds import Array
from tapegrad.rules.registry import means, register


def _widened(x: Array, is_beyond: Callable[[Any], Any]) -> Any:
    """Return an array as complex numbers where one of its real numbers is beyond a function's domain."""
    x = as_array(x)
    if not np.any(np.isreal(x) & is_beyond(np.real(x))):  # complex numbers of Python have no order
        return x
    narrow = issubclass(numpy_dtype(x).type, (np.single, np.csingle, np.int8, np.uint8, np.int16, np.uint16))
    return ops.astype(x, dtype=np.dtype(np.complex64 if narrow else np.complex128))


def _negative(x: Array) -> Any:
    return x < 0


def _outside(x: Array) -> Any:
    return np.abs(x) > 1


for _fn, _is_beyond in ((np.sqrt, _negative), (np.log, _negative), (np.log2, _negative), (np.log10, _negative),
                        (np.arccos, _outside), (np.arcsin, _outside), (np.arctanh, _outside)):
    register(getattr(np.emath, _fn.__name__), lambda x, fn=_fn, is_beyond=_is_beyond: fn(_widened(x, is_beyond)))


@means(np.emath.logn)
def logn(n: Any, x: Array) -> Any:
    return np.log(_widened(x, _negative)) / np.log(_widened(n, _negative))


@means(np.emath.power)
def power(x: Array, p: Array) -> Any:
    p = as_array(p)
    if np.any(np.isreal(p) & (np.real(p) < 0)):  # of integers as well
        p = p * 1.0
    return np.power(_widened(x, _negative), p)
