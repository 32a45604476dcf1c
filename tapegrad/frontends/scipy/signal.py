"""scipy.signal: convolution, correlation and linear filters, differentiable by input, coefficients and state."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal as sg

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static, value_by
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.shape import along
from tapegrad.rules.registry import means


@means(sg.convolve)
def convolve(in1: Array, in2: Array, mode: str = "full", method: str = "auto") -> Any:
    a, b = as_array(in1), as_array(in2)
    if method == "auto":
        method = sg.choose_conv_method(np.ones(shape_of(a)), np.ones(shape_of(b)), mode)
    if not shape_of(a) and not shape_of(b):
        return ops.multiply(a, b)
    return ops.convolution(a, b, **({} if mode == "full" else {"mode": mode}),
                           **({} if method == "direct" else {"method": method}))


@means(sg.fftconvolve, sg.oaconvolve)
def fftconvolve(in1: Array, in2: Array, mode: str = "full", axes: Axis = None) -> Any:
    if axes is not None:
        raise UnknownFunction("fftconvolve with axes= is not supported", user_location(),
                              "scipy.signal.convolve, over all axes")
    return convolve(in1, in2, mode, "fft")


def of_matrices(in1: Array, in2: Array, boundary: str, fillvalue: Any) -> tuple[Any, Any]:
    """Return two matrices, padded by zeros; refuse another boundary."""
    if boundary != "fill" or fillvalue != 0:
        raise UnknownFunction(f"convolution with boundary={boundary!r}, fillvalue={fillvalue!r} is not supported",
                              user_location(), "np.pad(in1, ..., mode='wrap' or 'symmetric'), and mode='valid'")
    a, b = as_array(in1), as_array(in2)
    if not len(shape_of(a)) == len(shape_of(b)) == 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays")
    return a, b


@means(sg.convolve2d)
def convolve2d(in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    return convolve(*of_matrices(in1, in2, boundary, fillvalue), mode, "2d")


@means(sg.correlate)
def correlate(in1: Array, in2: Array, mode: str = "full", method: str = "auto") -> Any:
    return convolve(in1, ops.conj(ops.flip(as_array(in2))), mode, method)


@means(sg.correlate2d)
def correlate2d(in1: Array, in2: Array, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Any:
    return correlate(*of_matrices(in1, in2, boundary, fillvalue), mode, "direct")


# -- linear filters


@means(sg.lfilter)
def lfilter(b: Array, a: Array, x: Array, axis: int = -1, zi: Array | None = None) -> Any:
    found = _filtered(b, a, x, axis, zi)
    if zi is None:
        return found
    return tuple(value_by("scipy.signal.lfilter", part, b, a, x, axis, zi, part=i) for i, part in enumerate(found))


def _filtered(b: Any, a: Any, x: Any, axis: int, zi: Array | None) -> Any:
    """Solve a * y = b * x for y; with a state `zi`, of the transposed direct form II, also return the final state."""
    b, a, x, axis = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), as_array(x), static(axis)
    y = ops.lfilter(b, a, x, **keywords(axis=None if axis == -1 else axis))
    if zi is None:
        return y
    order, n = max(shape_of(a)[0], shape_of(b)[0]) - 1, shape_of(x)[axis]
    state = as_array(zi)
    if shape_of(state)[axis] != order:
        raise ValueError(f"Unexpected shape for zi: {shape_of(state)[axis]} along the axis of the filter, which has "
                         f"{order} states.")
    wanted = [order if i == axis % len(shape_of(x)) else size for i, size in enumerate(shape_of(x))]
    state = np.broadcast_to(state, tuple(wanted))
    # the state's contribution, before the feedback
    started = np.concatenate([state, np.zeros_like(x)], axis=axis)[along(axis, slice(n))]
    y = y + ops.lfilter(a[:1], a, started, axis=axis)
    return y, _state(b, a, x, y, state, axis, order)


def _state(b: Array, a: Array, x: Array, y: Array, state: Any, axis: int, order: int) -> Any:
    """Return the final state of a filter."""
    n, parts = shape_of(x)[axis], []
    for m in range(order):
        left = state[along(axis, slice(m + n, m + n + 1))] if m + n < order else 0.0 * state[along(axis, slice(1))]
        for j in range(m + 1, order + 1):
            ago = n - (j - m)
            for taps, of, sign in ((b, x, 1.0), (a, y, -1.0)):
                if ago >= 0 and j < shape_of(taps)[0]:
                    left = left + sign * (taps[j] / a[0]) * of[along(axis, slice(ago, ago + 1))]
        parts.append(left)
    return np.concatenate(parts, axis=axis) if parts else state


@means(sg.lfilter_zi)
def lfilter_zi(b: Array, a: Array) -> Any:
    return value_by("scipy.signal.lfilter_zi", _steady(b, a), np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)))


def _steady(b: Array, a: Array) -> Any:
    """Return the filter's state in the steady response to a unit step: the fixed point of the state's update."""
    b, a = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a))
    n = max(shape_of(a)[0], shape_of(b)[0])
    b, a = np.pad(b, (0, n - shape_of(b)[0])) / a[0], np.pad(a, (0, n - shape_of(a)[0])) / a[0]
    first = np.zeros(n - 1)
    first[:1] = 1.0
    return np.linalg.solve(np.eye(n - 1) - np.eye(n - 1, k=1) + np.outer(a[1:], first), b[1:] - a[1:] * b[0])


@means(sg.sosfilt)
def sosfilt(sos: Array, x: Array, axis: int = -1, zi: Array | None = None) -> Any:
    found = _in_sections(sos, x, axis, zi)
    if zi is None:
        return value_by("scipy.signal.sosfilt", found, sos, x, axis)
    return tuple(value_by("scipy.signal.sosfilt", part, sos, x, axis, zi, part=i) for i, part in enumerate(found))


def _in_sections(sos: Array, x: Array, axis: int, zi: Array | None) -> Any:
    """Filter by second-order sections, one after the other."""
    sections, y, states = np.atleast_2d(as_array(sos)), as_array(x), []
    for k in range(shape_of(sections)[0]):
        b, a = sections[k, :3], sections[k, 3:]
        if zi is None:
            y = _filtered(b, a, y, axis, None)
        else:
            y, state = _filtered(b, a, y, axis, as_array(zi)[k])
            states.append(state)
    return y if zi is None else (y, np.stack(states))


@means(sg.sosfilt_zi)
def sosfilt_zi(sos: Array) -> Any:
    return value_by("scipy.signal.sosfilt_zi", _steady_sections(sos), sos)


def _steady_sections(sos: Array) -> Any:
    sections, scale, states = np.atleast_2d(as_array(sos)), 1.0, []
    for k in range(shape_of(sections)[0]):
        b, a = sections[k, :3], sections[k, 3:]
        states.append(scale * _steady(b, a))
        scale = scale * np.sum(b) / np.sum(a)
    return np.stack(states)


def _extended(x: Array, axis: int, padtype: Any, padlen: Any, taps: int) -> tuple[int, Any]:
    """Return the length of the extension at each end, and the extended signal."""
    n = shape_of(x)[axis]
    edge = 0 if padtype is None else taps * 3 if padlen is None else static(padlen)
    if padtype not in ("odd", "even", "constant", None):
        raise ValueError(f"Unknown value {padtype!r} given to padtype. padtype must be 'even', 'odd', 'constant', or "
                         "None.")
    if n <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    if not edge:
        return 0, x
    first, last = x[along(axis, slice(1))], x[along(axis, slice(n - 1, n))]
    before, after = ops.flip(x[along(axis, slice(1, edge + 1))],
                             axis=axis), ops.flip(x[along(axis, slice(n - edge - 1, n - 1))], axis=axis)
    if padtype == "odd":
        before, after = 2 * first - before, 2 * last - after
    elif padtype == "constant":
        before, after = np.repeat(first, edge, axis=axis), np.repeat(last, edge, axis=axis)
    return edge, np.concatenate([before, x, after], axis=axis)


def _both_ways(run: Any, zi: Array | None, x: Array, axis: int, edge: int) -> Any:
    """Filter forwards and backwards, each time from the steady state for the first sample; cut off the extension."""
    y, _ = run(x, zi * x[along(axis, slice(1))])
    n = shape_of(y)[axis]
    y, _ = run(ops.flip(y, axis=axis), zi * y[along(axis, slice(n - 1, n))])
    return ops.flip(y, axis=axis)[along(axis, slice(edge, n - edge))]


@means(sg.filtfilt)
def filtfilt(b: Any, a: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None, method: str = "pad",
             irlen: Any = None) -> Any:
    if method != "pad":
        raise UnknownFunction(f"filtfilt with method={method!r} is not supported", user_location(), 'method="pad"')
    b, a, x, axis = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), as_array(x), static(axis)
    edge, longer = _extended(x, axis, padtype, padlen, max(shape_of(a)[0], shape_of(b)[0]))
    shape = [1] * len(shape_of(x))
    shape[axis] = -1
    y = _both_ways(lambda part, zi: _filtered(b, a, part, axis, zi), np.reshape(_steady(b, a), tuple(shape)), longer,
                   axis, edge)
    return value_by("scipy.signal.filtfilt", y, b, a, x, axis, padtype, padlen)


@means(sg.sosfiltfilt)
def sosfiltfilt(sos: Any, x: Any, axis: int = -1, padtype: Any = "odd", padlen: Any = None) -> Any:
    sections, x, axis = as_array(sos), as_array(x), static(axis)
    count = shape_of(sections)[0]
    taps = 2 * count + 1 - min(int(np.sum(sections[:, 2] == 0)), int(np.sum(sections[:, 5] == 0)))
    edge, longer = _extended(x, axis, padtype, padlen, taps)
    shape = [1] * len(shape_of(x))
    shape[axis] = 2
    steady = np.reshape(_steady_sections(sections), (count, *shape))
    y = _both_ways(lambda part, zi: _in_sections(sections, part, axis, zi), steady, longer, axis, edge)
    return value_by("scipy.signal.sosfiltfilt", y, sections, x, axis, padtype, padlen)
