"""scipy.signal: convolution and correlation."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as sg

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array
from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.registry import means


@means(sg.convolve)
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    a, b = as_array(in1), as_array(in2)
    if method == "auto":
        method = sg.choose_conv_method(np.ones(shape_of(a)), np.ones(shape_of(b)), mode)
    if not shape_of(a) and not shape_of(b):
        return ops.multiply(a, b)
    return ops.convolution(a, b, **({} if mode == "full" else {"mode": mode}), **({} if method == "direct" else {"method": method}))


@means(sg.fftconvolve, sg.oaconvolve)
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    if axes is not None:
        raise UnknownFunction("tapegrad knows no fftconvolve with axes=", user_location(), "scipy.signal.convolve, over all axes")
    return convolve(in1, in2, mode, "fft")


def of_matrices(in1: Any, in2: Any, boundary: str, fillvalue: Any) -> tuple[Any, Any]:
    """Return two matrices, surrounded by zeros; refuse another boundary."""
    if boundary != "fill" or fillvalue != 0:
        raise UnknownFunction(f"tapegrad knows no convolution with boundary={boundary!r}, fillvalue={fillvalue!r}", user_location(),
                              "np.pad(in1, ..., mode='wrap' or 'symmetric'), and mode='valid'")
    a, b = as_array(in1), as_array(in2)
    if not len(shape_of(a)) == len(shape_of(b)) == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    return a, b


@means(sg.convolve2d)
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    return convolve(*of_matrices(in1, in2, boundary, fillvalue), mode, "2d")


@means(sg.correlate)
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    return convolve(in1, ops.conj(ops.flip(as_array(in2))), mode, method)


@means(sg.correlate2d)
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    return correlate(*of_matrices(in1, in2, boundary, fillvalue), mode, "direct")
