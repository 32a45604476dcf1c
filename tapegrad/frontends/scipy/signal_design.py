"""scipy.signal's Python code (design of filters, waves, spectra, splines) runs on traced values, with conversions to
plain numbers left out and its compiled kernels written in ops.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.signal as sg
from scipy.signal import _filter_design, _fir_filter_design, _spectral_py, _spline_filters, _waveforms

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, static, value_by
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.frontends.scipy.python_code import number, run_with
from tapegrad.numbers.cotangents import shape_of
from tapegrad.ops.shape import along
from tapegrad.rules.registry import means

run_with(sg.lp2lp, sg.lp2hp, sg.lp2lp_zpk, sg.lp2hp_zpk, sg.lp2bp_zpk, sg.lp2bs_zpk, sg.lp2bp, sg.lp2bs,
         sg.ellipap, sg.gammatone, sg.iircomb, _filter_design._design_notch_peak_filter,
         _fir_filter_design.firwin, float=number)
run_with(_waveforms._chirp_phase, float=number, asarray=as_array)


# -- spectra: the windows of a signal are read-only

_READ = SimpleNamespace(newaxis=None, lib=SimpleNamespace(stride_tricks=SimpleNamespace(
    sliding_window_view=lambda x, window_shape, axis, writeable: np.lib.stride_tricks.sliding_window_view(
        x, window_shape, axis))))
run_with(_spectral_py._fft_helper, np=_READ)


# -- initial conditions of recursive filters: linear in the signal, with weights found by filtering unit vectors


def _probed(kernel: Any) -> Any:
    @functools.wraps(kernel)
    def of_signal(signal: Any, *how: Any) -> Any:
        units = kernel(np.eye(shape_of(signal)[-1], dtype=numpy_dtype(signal)), *map(float, how))
        return as_array(signal) @ units
    return of_signal


for _fn, _names in ((sg.symiirorder1, ("symiirorder1_ic",)),
                    (sg.symiirorder2, ("symiirorder2_ic_fwd", "symiirorder2_ic_bwd"))):
    run_with(_fn, **{name: _probed(getattr(_spline_filters, name)) for name in _names})


# -- filters that change the sampling rate, and filters of images


@means(sg.upfirdn)
def upfirdn(h: Any, x: Any, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: Any = 0) -> Any:
    """Put `up` - 1 zeros between the samples, convolve, and keep every `down`-th sample."""
    if mode != "constant" or cval != 0:
        raise UnknownFunction(f"upfirdn with mode={mode!r}, cval={cval!r} is not supported", user_location(),
                              "np.pad of the signal, and mode='constant'")
    h, x, up, down, axis = as_array(h), as_array(x), static(up), static(down), static(axis)
    n, ndim = shape_of(x)[axis], len(shape_of(x))
    if 0 in shape_of(x):
        return sg.upfirdn(np.zeros(shape_of(h), numpy_dtype(h)), np.zeros(shape_of(x), numpy_dtype(x)), up, down, axis)
    axis = axis % ndim
    wide = np.reshape(np.stack([x, *[np.zeros_like(x)] * (up - 1)], axis=axis + 1),
                      tuple(n * up if i == axis else size for i, size in enumerate(shape_of(x))))
    wide = wide[along(axis, slice(0, (n - 1) * up + 1))]
    taps = np.reshape(h, tuple(-1 if i == axis else 1 for i in range(ndim)))
    y = ops.convolution(wide, taps)[along(axis, slice(None, None, down))]
    return value_by("scipy.signal.upfirdn", y, h, x, up=up, down=down, axis=axis)


def sepfir2d(input: Any, hrow: Any, hcol: Any) -> Any:
    """Correlate the rows and the columns of an image, with reflected edges."""
    y = input
    for axis, taps in ((1, hrow), (0, hcol)):
        y = ops.correlate1d(as_array(y), as_array(taps)[::-1], axis=axis)
    return value_by("scipy.signal.sepfir2d", y, input, hrow, hcol)


run_with(_spline_filters.spline_filter, sepfir2d=sepfir2d)


@means(sg.medfilt2d)
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    if len(shape_of(as_array(input))) != 2:
        raise ValueError("object of too small depth for desired array")  # in SciPy's words
    return sg.medfilt(input, kernel_size)
