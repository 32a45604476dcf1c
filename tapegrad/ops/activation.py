"""Activations of neural networks: functions of one real number, with torch's parameters and its convention at kinks.

An entry gives the function, its slope, and its curvature where it has one. The rule of `gelu` is `gelu_backward(dy,
x)`, an op of its own: one kernel of torch's, and one line of a tape. That op is linear in `dy`: its partial by `dy` is
the op itself, that by `x` uses the curvature. At a kink the slope is that of the side which torch takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.numbers import tensors
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.elementwise import (
    abs,
    exp,
    expm1,
    greater,
    is_complex,
    less_equal,
    log1p,
    logical_and,
    maximum,
    minimum,
    tanh,
    where,
)
from tapegrad.ops.special import SQRT_TAU, expit, ndtr
from tapegrad.rules.facts import FRESH, pointwise
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define
from tapegrad.rules.types.formula import by_formula

Formula = Callable[..., Any]


def activation(name: str, impl: Formula, slope: Formula, curvature: Formula | None, on_torch: Formula,
               backward: Formula, by_value: bool = False) -> Op:
    """Define an activation and the op of its rule; `slope` and `curvature` are formulas of (x, **parameters),
    `backward` is torch's kernel.

    A slope that is the same function of y as of x (`by_value`) keeps no x, as in torch.
    """
    def by_x(d2: Any, _g: Any, dy: Cotangent, x: Array, **how: Any) -> Any:
        return d2 * dy * curvature(x, **how)  # type: ignore[misc]

    back = define(f"{name}_backward", lambda dy, x, **how: dy * slope(x, **how),
                  pointwise(lambda d2, _g, _dy, x, **how: back(d2, x, **how), by_x if curvature else None),
                  torch=_beside(backward), memory=FRESH, spec=by_formula(lambda dy, x, **how: dy * slope(x, **how)))

    def of_reals(x: Array, **how: Any) -> Any:
        if is_complex(x):
            raise TypeError(f"{name} is a function of real numbers")
        return impl(x, **how)
    rule = (lambda dy, y, _x, **how: back(dy, y, **how)) if by_value else (lambda dy, _y, x, **how: back(dy, x, **how))
    return define(name, of_reals, pointwise(rule, direct=True), torch=on_torch, memory=FRESH,
                  spec=by_formula(impl))


def _beside(kernel: Formula) -> Formula:
    """Adapt torch's kernel to a cotangent of another dtype or shape than its input."""
    def run(dy: Cotangent, x: Array, **how: Any) -> Any:
        if not tensors.is_tensor(dy) or not tensors.is_tensor(x) or dy.dtype is not x.dtype or dy.shape != x.shape:
            dy, x = torch.broadcast_tensors(*tensors.together((dy, x), number=True))
        return kernel(dy, x, **how)
    return run


def _aten(name: str) -> Any:
    return getattr(torch.ops.aten, name)


def _between(x: Array, low: float, high: float) -> Any:
    return minimum(maximum(x, low), high)


# -- piecewise linear: the slope at a kink is that on the left, unless stated otherwise

relu = activation("relu", lambda x: maximum(x, 0), lambda x: where(greater(x, 0), 1.0, 0.0), None,
                  lambda x: torch.relu(x), lambda dy, x: _aten("threshold_backward")(dy, x, 0), by_value=True)
leaky_relu = activation("leaky_relu", lambda x, slope=0.01: where(greater(x, 0), x, x * slope),
                        lambda x, slope=0.01: where(greater(x, 0), 1.0, slope), None,
                        lambda x, slope=0.01: torch.nn.functional.leaky_relu(x, slope),
                        lambda dy, x, slope=0.01: _aten("leaky_relu_backward")(dy, x, slope, False))
threshold = activation("threshold", lambda x, at, value: where(less_equal(x, at), value, x),
                       lambda x, at, value: where(less_equal(x, at), 0.0, 1.0),
                       None, lambda x, at, value: torch.threshold(x, at, value),
                       lambda dy, x, at, value: _aten("threshold_backward")(dy, x, at))
# slope 0 at both bounds
hardtanh = activation("hardtanh", lambda x, low=-1.0, high=1.0: _between(x, low, high),
                      lambda x, low=-1.0, high=1.0: where(logical_and(greater(x, low), greater(high, x)), 1.0, 0.0),
                      None, lambda x, low=-1.0, high=1.0: torch.nn.functional.hardtanh(x, low, high),
                      lambda dy, x, low=-1.0, high=1.0: _aten("hardtanh_backward")(dy, x, low, high))
hardsigmoid = activation("hardsigmoid", lambda x: _between(x + 3, 0.0, 6.0) / 6,
                         lambda x: where(logical_and(greater(x, -3), greater(3, x)), 1 / 6, 0.0), None,
                         # torch's own kernel divides by 6 in single precision
                         lambda x: torch.clamp(x + 3, 0.0, 6.0) / 6,
                         lambda dy, x: torch.where((x > -3) & (x < 3), dy / 6, 0.0))
hardshrink = activation("hardshrink", lambda x, at=0.5: where(less_equal(abs(x), at), 0.0, x),
                        lambda x, at=0.5: where(less_equal(abs(x), at), 0.0, 1.0), None,
                        lambda x, at=0.5: torch.nn.functional.hardshrink(x, at),
                        lambda dy, x, at=0.5: _aten("hardshrink_backward")(dy, x, at))
softshrink = activation("softshrink", lambda x, at=0.5: x - _between(x, -at, at),
                        lambda x, at=0.5: where(less_equal(abs(x), at), 0.0, 1.0), None,
                        lambda x, at=0.5: torch.nn.functional.softshrink(x, at),
                        lambda dy, x, at=0.5: _aten("softshrink_backward")(dy, x, at))
hardswish = activation("hardswish", lambda x: x * _between(x + 3, 0.0, 6.0) / 6,
                       lambda x: where(less_equal(x, -3), 0.0, where(greater(3, x), x / 3 + 0.5, 1.0)),
                       lambda x: where(logical_and(greater(x, -3), greater(3, x)), 1 / 3, 0.0),
                       lambda x: torch.nn.functional.hardswish(x), lambda dy, x: _aten("hardswish_backward")(dy, x))

# -- exponential on the left: elu, and by its parameters selu and celu


def _elu(x: Array, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Any:
    return scale * where(greater(x, 0), x, alpha * expm1(rate * minimum(x, 0)))


def _elu_slope(x: Array, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Any:
    return scale * where(greater(x, 0), 1.0, alpha * rate * exp(rate * minimum(x, 0)))


def _elu_curvature(x: Array, alpha: float = 1.0, scale: float = 1.0, rate: float = 1.0) -> Any:
    return where(greater(x, 0), 0.0, scale * alpha * rate * rate * exp(rate * minimum(x, 0)))


elu = activation("elu", _elu, _elu_slope, _elu_curvature,
                 lambda x, alpha=1.0, scale=1.0, rate=1.0: _aten("elu")(x, alpha, scale, rate),
                 lambda dy, x, alpha=1.0, scale=1.0, rate=1.0: _aten("elu_backward")(dy, alpha, scale, rate, False, x))

# -- smooth ones


def _is_steep(x: Array, beta: float, threshold: float) -> Any:
    return greater(x * beta, threshold)


def _softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return where(_is_steep(x, beta, threshold), x, log1p(exp(minimum(x * beta, threshold))) / beta)


def _softplus_slope(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    return where(_is_steep(x, beta, threshold), 1.0, expit(x * beta))


def _softplus_curvature(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Any:
    s = expit(x * beta)
    return where(_is_steep(x, beta, threshold), 0.0, beta * s * (1 - s))


softplus = activation("softplus", _softplus, _softplus_slope, _softplus_curvature,
                      lambda x, beta=1.0, threshold=20.0: torch.nn.functional.softplus(x, beta, threshold),
                      lambda dy, x, beta=1.0, threshold=20.0: _aten("softplus_backward")(dy, x, beta, threshold))

# gelu's approximation: 0.5 x (1 + tanh(BETA (x + KAPPA x^3))), Hendrycks and Gimpel 2016
_BETA, _KAPPA = math.sqrt(2 / math.pi), 0.044715


def _bend(x: Array) -> tuple[Any, Any, Any]:
    """Return t = tanh(u), u' and u'' for gelu's approximation."""
    return tanh(_BETA * (x + _KAPPA * x * x * x)), _BETA * (1 + 3 * _KAPPA * x * x), 6 * _BETA * _KAPPA * x


def _gelu(x: Array, approximate: str = "none") -> Any:
    return x * ndtr(x) if approximate == "none" else 0.5 * x * (1 + _bend(x)[0])


def _gelu_slope(x: Array, approximate: str = "none") -> Any:
    if approximate == "none":
        return ndtr(x) + x * exp(-0.5 * x * x) / SQRT_TAU
    t, du, _ = _bend(x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du


def _gelu_curvature(x: Array, approximate: str = "none") -> Any:
    if approximate == "none":
        return (2 - x * x) * exp(-0.5 * x * x) / SQRT_TAU
    t, du, d2u = _bend(x)
    return (1 - t * t) * (du * (1 - x * t * du) + 0.5 * x * d2u)


gelu = activation("gelu", _gelu, _gelu_slope, _gelu_curvature,
                  lambda x, approximate="none": torch.nn.functional.gelu(x, approximate=approximate),
                  lambda dy, x, approximate="none": _aten("gelu_backward")(dy, x, approximate=approximate))


def _silu_slope(x: Array) -> Any:
    s = expit(x)
    return s * (1 + x * (1 - s))


def _silu_curvature(x: Array) -> Any:
    s = expit(x)
    return s * (1 - s) * (2 + x * (1 - 2 * s))


silu = activation("silu", lambda x: x * expit(x), _silu_slope, _silu_curvature,
                  lambda x: torch.nn.functional.silu(x), lambda dy, x: _aten("silu_backward")(dy, x))


def _mish_slope(x: Array) -> Any:
    t = tanh(_softplus(x))
    return t + x * expit(x) * (1 - t * t)


def _mish_curvature(x: Array) -> Any:
    t, s = tanh(_softplus(x)), expit(x)
    dt = s * (1 - t * t)
    return 2 * dt + x * dt * (1 - s - 2 * t * s)


mish = activation("mish", lambda x: x * tanh(_softplus(x)), _mish_slope, _mish_curvature,
                  lambda x: torch.nn.functional.mish(x), lambda dy, x: _aten("mish_backward")(dy, x))
