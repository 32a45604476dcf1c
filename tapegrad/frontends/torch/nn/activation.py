"""torch's activation functions, with torch's names and parameters."""

from __future__ import annotations

from typing import Any

from tapegrad import ops
from tapegrad.frontends.torch.common import brought
from tapegrad.frontends.torch.nn.common import functional, given, number, real
from tapegrad.frontends.torch.shape import axis_of, chunk, ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array

# Klambauer et al. 2017
_SELU = {"alpha": 1.6732632423543772848170429916717, "scale": 1.0507009873554804934193349852946}


def _one(name: str, op: Any) -> None:
    """Register an op of one argument for torch's functions of this name."""
    def meaning(input: Array) -> Any:
        return op(input) if real(input) else NotImplemented
    functional(f"nn.functional.{name}", *({"relu": ("relu", "Tensor.relu")}.get(name, ())))(meaning)


for _name, _op in {"relu": ops.relu, "hardsigmoid": ops.hardsigmoid, "hardswish": ops.hardswish, "silu": ops.silu,
                   "mish": ops.mish,
                   "logsigmoid": ops.log_expit, "sigmoid": ops.expit, "tanh": ops.tanh}.items():
    _one(_name, _op)


@functional("nn.functional.relu6")
def relu6(input: Array) -> Any:
    return hardtanh(input, 0.0, 6.0)


@functional("nn.functional.hardtanh")
def hardtanh(input: Array, min_val: Any = -1.0, max_val: Any = 1.0) -> Any:
    return ops.hardtanh(input, **given(low=(min_val, -1.0), high=(max_val, 1.0))) if real(input) else NotImplemented


@functional("nn.functional.leaky_relu")
def leaky_relu(input: Array, negative_slope: Any = 0.01) -> Any:
    return ops.leaky_relu(input, **given(slope=(negative_slope, 0.01))) if real(input) else NotImplemented


@functional("nn.functional.threshold", "threshold")
def threshold(input: Array, threshold: Any, value: Array) -> Any:
    return ops.threshold(input, at=number(threshold), value=number(value)) if real(input) else NotImplemented


@functional("nn.functional.hardshrink", "hardshrink", "Tensor.hardshrink")
def hardshrink(input: Array, lambd: Any = 0.5) -> Any:
    return ops.hardshrink(input, **given(at=(lambd, 0.5))) if real(input) else NotImplemented


@functional("nn.functional.softshrink")
def softshrink(input: Array, lambd: Any = 0.5) -> Any:
    return ops.softshrink(input, **given(at=(lambd, 0.5))) if real(input) and number(lambd) >= 0 else NotImplemented


@functional("nn.functional.elu")
def elu(input: Array, alpha: Any = 1.0) -> Any:
    return ops.elu(input, **given(alpha=(alpha, 1.0))) if real(input) else NotImplemented


@functional("nn.functional.selu", "selu")
def selu(input: Array) -> Any:
    return ops.elu(input, **_SELU) if real(input) else NotImplemented


@functional("nn.functional.celu", "celu")
def celu(input: Array, alpha: Any = 1.0) -> Any:
    return ops.elu(input, **given(alpha=(alpha, 1.0),
                                  rate=(1 / number(alpha), 1.0))) if real(input) and number(alpha) else NotImplemented


@functional("nn.functional.softplus")
def softplus(input: Array, beta: Any = 1.0, threshold: Any = 20.0) -> Any:
    return ops.softplus(input,
                        **given(beta=(beta, 1.0), threshold=(threshold, 20.0))) if real(input) else NotImplemented


@functional("nn.functional.gelu")
def gelu(input: Array, *, approximate: str = "none") -> Any:
    return (ops.gelu(input, **given(approximate=(approximate, "none"))) if real(input)
            and approximate in ("none", "tanh") else NotImplemented)


@functional("nn.functional.softsign")
def softsign(input: Array) -> Any:
    return ops.divide(input, ops.add(ops.abs(input), 1)) if real(input) else NotImplemented


@functional("nn.functional.tanhshrink")
def tanhshrink(input: Array) -> Any:
    return ops.subtract(input, ops.tanh(input)) if real(input) else NotImplemented


@functional("nn.functional.glu")
def glu(input: Array, dim: int = -1) -> Any:
    if not real(input) or shape_of(input)[axis_of(input, dim)] % 2:
        return NotImplemented
    a, b = chunk(input, 2, dim)
    return ops.multiply(a, ops.expit(b))


@functional("nn.functional.prelu", "prelu", "Tensor.prelu")
def prelu(input: Array, weight: Array) -> Any:
    if not real(input, weight) or ndim(weight) > 1:
        return NotImplemented
    if ndim(weight) and ndim(input) > 1:
        if shape_of(weight)[0] not in (1, shape_of(input)[1]):
            return NotImplemented
        weight = ops.reshape(weight, (-1, *(1,) * (ndim(input) - 2)))
    return ops.where(ops.greater(input, 0), input, ops.multiply(weight, input))


# -- along an axis


def _along(op: Any, sign: int = 1) -> Any:
    def meaning(input: Any, dim: Any = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        input = input if dtype is None else brought(input, dtype)
        if dim is None or not ndim(input) or not real(input):
            return NotImplemented
        return op(input if sign > 0 else ops.negative(input), axis=axis_of(input, dim))
    return meaning


def _positional(meaning: Any) -> Any:
    return lambda input, dim=None, dtype=None: meaning(input, dim, dtype=dtype)


functional("nn.functional.softmin")(_along(ops.softmax, -1))
for _name, _op in {"softmax": ops.softmax, "log_softmax": ops.log_softmax}.items():
    functional(f"nn.functional.{_name}")(_along(_op))
    functional(_name, f"Tensor.{_name}", f"special.{_name}")(_positional(_along(_op)))
