"""Convolution of arrays of any rank, by SciPy, imported when the first is computed."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.tensors import on_host
from tapegrad.ops.elementwise import conj
from tapegrad.ops.shape import flip, pad
from tapegrad.rules.registry import EACH, define


def _convolution(x1: Any, x2: Any, mode: str = "full", method: str = "direct") -> Any:
    signal = importlib.import_module("scipy.signal")
    return signal.convolve2d(x1, x2, mode) if method == "2d" else signal.convolve(x1, x2, mode, method)


def _full(dy: Any, a: Any, b: Any, mode: str) -> Any:
    """Put the cotangent of a part of a convolution into zeros, where that part stands in the full one."""
    if mode == "full":
        return dy
    widths = []
    for k, m, n in zip(shape_of(dy), shape_of(a), shape_of(b)):
        before = (m + n - 1 - k) // 2 if mode == "same" else min(m, n) - 1
        widths.append((before, m + n - 1 - k - before))
    return pad(dy, tuple(widths))


def _by_factor(a_first: bool) -> Callable[..., Any]:
    def cotangent(dy: Any, y: Any, a: Any, b: Any, mode: str = "full", method: str = "direct") -> Any:
        other = b if a_first else a
        return convolution(_full(dy, a, b, mode), flip(conj(other)), mode="valid", **({} if method == "direct" else {"method": method}))
    return cotangent


convolution = define("convolution", _convolution, (_by_factor(True), _by_factor(False)), linear=EACH, torch=on_host(_convolution))
