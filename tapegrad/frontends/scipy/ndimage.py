"""scipy.ndimage's filters that are correlations of a padded array, differentiable by the array, the weights and a
Gaussian's width.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
import scipy.ndimage as sn

from tapegrad import ops
from tapegrad.errors import UnknownFunction, user_location
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.frontends.numpy.shape import numpy_dtype
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means


def _parameters(x: Array, output: Array, mode: Any, cval: Any, origin: Any) -> dict[str, Any]:
    """Return the parameters of a filter that differ from the defaults: boundary mode, fill value, origin, dtype."""
    found = keywords(mode=None if mode == "reflect" else mode, origin=static(origin) or None, cval=float(cval) or None)
    return found if output is None else {**found, "output": _dtype(output, x)}


def _dtype(output: Array, x: Array) -> Any:
    """Return the dtype of a filter's result."""
    dtype = numpy_dtype(x) if output is None else np.dtype(output)
    if numpy_dtype(x).kind == "c" != dtype.kind:
        raise RuntimeError("output must have complex dtype")  # in SciPy's words
    return dtype


def _is_array(output: Any) -> bool:
    return isinstance(output, (np.ndarray, Traced)) and not isinstance(output, type)


def _filter(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the implementation of filters; a result with an array as `output=` is written into it."""
    def decorate(meaning: Callable[..., Any]) -> Callable[..., Any]:
        told = signature(meaning)

        @functools.wraps(meaning)
        def into(*args: Any, **kwargs: Any) -> Any:
            given = told.bind(*args, **kwargs)
            output: Any = given.arguments.get("output")
            if not _is_array(output):
                return meaning(*args, **kwargs)
            given.arguments["output"] = numpy_dtype(output)
            y = meaning(*given.args, **given.kwargs)
            if shape_of(output) != shape_of(y):
                raise RuntimeError("output shape not correct")  # in SciPy's words
            output[...] = y
            return output
        return means(*functions)(into)
    return decorate


def _several(x: Array, n: int) -> list[Any]:
    """Return a list with one parameter per axis."""
    return list(x) if isinstance(x, (list, tuple, np.ndarray)) or shape_of(x) else [x] * n


def _axes(axes: Axis, ndim: int) -> list[int]:
    if axes is None:
        return list(range(ndim))
    return [static(axis) % ndim for axis in np.atleast_1d(axes)]


def _reversed(w: Array) -> Any:
    """Return the weights with which a correlation, which conjugates them, is the convolution."""
    return ops.conj(ops.flip(w)) if numpy_dtype(w).kind == "c" else ops.flip(w)


@_filter(sn.correlate1d)
def correlate1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
                origin: int = 0) -> Any:
    x = as_array(input)
    return ops.correlate1d(x, as_array(weights), axis=static(axis), **_parameters(x, output, mode, cval, origin))


@_filter(sn.convolve1d)
def convolve1d(input: Any, weights: Any, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
               origin: int = 0) -> Any:
    w = as_array(weights)
    return correlate1d(input, _reversed(w), axis, output, mode, cval, -origin - (1 - shape_of(w)[0] % 2))


@_filter(sn.correlate)
def correlate(input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
              axes: Any = None) -> Any:
    return _filtered(input, as_array(weights), output, mode, cval, origin, axes)


@_filter(sn.convolve)
def convolve(input: Any, weights: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0, *,
             axes: Any = None) -> Any:
    w = as_array(weights)
    origins = tuple(-static(o) - (1 - size % 2) for o, size in zip(_several(origin, len(shape_of(w))), shape_of(w)))
    return _filtered(input, _reversed(w), output, mode, cval, origins, axes)


def _filtered(input: Array, weights: Array, output: Array, mode: Any, cval: Any, origin: Any, axes: Axis) -> Any:
    x, ndim = as_array(input), len(shape_of(as_array(input)))
    if axes is not None:  # the weights get length 1 along the other axes
        chosen = _axes(axes, ndim)
        if chosen != sorted(chosen) or len(shape_of(weights)) != len(chosen):
            raise UnknownFunction(f"a filter along the axes {axes} with weights of {len(shape_of(weights))} dimensions "
                                  "is not supported",
                                  user_location(), "pass increasing axes, one for each dimension of the weights")
        at = dict(zip(chosen, zip(shape_of(weights), _several(origin, len(chosen)))))
        weights = ops.reshape(weights, tuple(at[i][0] if i in at else 1 for i in range(ndim)))
        origin = tuple(static(at[i][1]) if i in at else 0 for i in range(ndim))
    origin = 0 if not any(static(o) for o in _several(origin, 1)) else origin
    return ops.correlate_image(x, weights, **_parameters(x, output, mode, cval, origin))


def gaussian(sigma: Array, order: int, radius: int) -> Any:
    """Return the weights of a Gaussian, or of its derivative of an order: a polynomial times the Gaussian, by the
    product rule.
    """
    x = np.arange(-radius, radius + 1.0)
    bell = np.exp(-0.5 / (sigma * sigma) * x ** 2)
    bell = bell / np.sum(bell)
    coefficients: list[Any] = [1.0]
    for _ in range(order):
        slope = [*[k * c for k, c in enumerate(coefficients)][1:], 0.0, 0.0]
        coefficients = [a + (1.0 / -(sigma * sigma) * coefficients[k - 1] if k else 0.0) for k, a in enumerate(slope)]
    return bell if not order else np.dot(x[:, None] ** np.arange(order + 1), as_array(coefficients[:order + 1])) * bell


@_filter(sn.gaussian_filter1d)
def gaussian_filter1d(input: Any, sigma: Any, axis: int = -1, order: int = 0, output: Any = None, mode: str = "reflect",
                      cval: Any = 0.0, truncate: float = 4.0, *, radius: Any = None) -> Any:
    order, reach = operator.index(order), int(truncate * sigma + 0.5) if radius is None else static(radius)
    return correlate1d(input, gaussian(sigma, order, reach)[::-1], axis, output, mode, cval, 0)


@_filter(sn.gaussian_filter)
def gaussian_filter(input: Any, sigma: Any, order: Any = 0, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
                    truncate: float = 4.0, *, radius: Any = None, axes: Axis = None) -> Any:
    x = as_array(input)
    chosen = _axes(axes, len(shape_of(x)))
    y, dtype = x, _dtype(output, x)
    for axis, *rest in zip(chosen, *(_several(part, len(chosen)) for part in (sigma, order, mode, radius))):
        width, degree, beyond, reach = rest
        if width > 1e-15:
            y = gaussian_filter1d(y, width, axis, degree, dtype, beyond, cval, truncate, radius=reach)
    return ops.astype(ops.copy(y), dtype=dtype) if y is x else y


@_filter(sn.uniform_filter1d)
def uniform_filter1d(input: Any, size: int, axis: int = -1, output: Any = None, mode: str = "reflect", cval: Any = 0.0,
                     origin: int = 0) -> Any:
    x = as_array(input)
    return ops.uniform_filter1d(x, static(size), axis=static(axis), **_parameters(x, output, mode, cval, origin))


@_filter(sn.uniform_filter)
def uniform_filter(input: Any, size: Any = 3, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
                   origin: Any = 0, *, axes: Axis = None) -> Any:
    x = as_array(input)
    chosen = _axes(axes, len(shape_of(x)))
    y, dtype = x, _dtype(output, x)
    for axis, n, beyond, at in zip(chosen, *(_several(part, len(chosen)) for part in (size, mode, origin))):
        if static(n) > 1:
            y = uniform_filter1d(y, n, axis, dtype, beyond, cval, at)
    return ops.astype(ops.copy(y), dtype=dtype) if y is x else y


def _slope(x: Any, across: Sequence[float], axis: Any, output: Any, mode: Any, cval: Any) -> Any:
    ndim = len(shape_of(as_array(x)))
    modes = _several(mode, ndim)
    y = correlate1d(x, [-1.0, 0.0, 1.0], axis, output, modes[static(axis)], cval, 0)
    for other in range(ndim):
        if other != static(axis) % ndim:
            y = correlate1d(y, across, other, output, modes[other], cval, 0)
    return y


@_filter(sn.sobel)
def sobel(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _slope(input, [1.0, 2.0, 1.0], axis, output, mode, cval)


@_filter(sn.prewitt)
def prewitt(input: Any, axis: int = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return _slope(input, [1.0, 1.0, 1.0], axis, output, mode, cval)


@_filter(sn.laplace)
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *, axes: Any = None) -> Any:
    chosen = _axes(axes, len(shape_of(as_array(input))))
    parts = [correlate1d(input, [1.0, -2.0, 1.0], axis, output, beyond, cval, 0)
             for axis, beyond in zip(chosen, _several(mode, len(chosen)))]
    return sum(parts[1:], parts[0])


@_filter(sn.gaussian_laplace)
def gaussian_laplace(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *,
                     axes: Any = None, **kwargs: Any) -> Any:
    chosen = _axes(axes, len(shape_of(as_array(input))))
    parts = [gaussian_filter(input, sigma, [2 * (other == axis) for other in chosen], output, mode, cval, axes=chosen,
                             **kwargs) for axis in chosen]
    return sum(parts[1:], parts[0])


@_filter(sn.gaussian_gradient_magnitude)
def gaussian_gradient_magnitude(input: Any, sigma: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, *,
                                axes: Any = None, **kwargs: Any) -> Any:
    chosen = _axes(axes, len(shape_of(as_array(input))))
    parts = [gaussian_filter(input, sigma, [int(other == axis) for other in chosen], output, mode, cval, axes=chosen,
                             **kwargs) for axis in chosen]
    return np.sqrt(sum(part * part for part in parts))
