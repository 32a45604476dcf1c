"""Normalisations. Where one writes running statistics, the tape does, and not the module: see `_moved_on`."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tapegrad import ops
from tapegrad.frontends.torch.nn.common import functional, given, number, real, sizes
from tapegrad.frontends.torch.nn.saved import saved
from tapegrad.frontends.torch.shape import ndim
from tapegrad.frontends.torch.write import owned
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_dtypes import torch_dtype
from tapegrad.rules.facts import CLOSED, CONSTANT
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import of_frontend
from tapegrad.trace import writes

aten = torch.ops.aten


def _mask(*tensors: Any) -> tuple[bool, ...]:
    return tuple(x is not None for x in tensors)


layer_norm_op = saved(
    "layer_norm", lambda x, w=None, b=None, *, shape, eps=1e-5: F.layer_norm(x, shape, w, b, eps),
    lambda x, w=None, b=None, *, shape, eps=1e-5: torch.native_layer_norm(x, shape, w, b, eps),
    lambda dy, m, r, x, w=None, b=None, *, shape, eps=1e-5: aten.native_layer_norm_backward(
        dy, x, shape, m, r, w, b, _mask(x, w, b)))


def _grouped(x: Array, groups: int) -> tuple[int, int, int, int]:
    return x.shape[0], x.shape[1], math.prod(x.shape[2:]), groups


group_norm_op = saved(
    "group_norm", lambda x, w=None, b=None, *, groups, eps=1e-5: F.group_norm(x, groups, w, b, eps),
    lambda x, w=None, b=None, *, groups, eps=1e-5: torch.native_group_norm(x.contiguous(), w, b, *_grouped(x, groups),
                                                                           eps),
    lambda dy, m, r, x, w=None, b=None, *, groups, eps=1e-5: aten.native_group_norm_backward(
        dy.contiguous(), x.contiguous(), m, r, w, *_grouped(x, groups), _mask(x, w, b)))
batch_norm_op = saved(
    "batch_norm", lambda x, w=None, b=None, *, eps=1e-5: F.batch_norm(x, None, None, w, b, True, 0.0, eps),
    lambda x, w=None, b=None, *, eps=1e-5: torch.native_batch_norm(x, w, b, None, None, True, 0.0, eps),
    lambda dy, m, r, x, w=None, b=None, *, eps=1e-5: aten.native_batch_norm_backward(dy, x, w, None, None, m, r, True,
                                                                                     eps, _mask(x, w, b)))


def _affine(x: Array, weight: Array, bias: Array) -> tuple[Any, ...]:
    return (x, weight, bias) if bias is not None else (x, weight) if weight is not None else (x,)


@functional("nn.functional.layer_norm", "layer_norm")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    shape = sizes(normalized_shape, 1)
    if not real(input, weight, bias) or tuple(shape_of(input))[-len(shape):] != shape:
        return NotImplemented
    return layer_norm_op(*_affine(input, weight, bias), shape=shape, **given(eps=(eps, 1e-5)))


@functional("nn.functional.rms_norm", "rms_norm")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    shape = sizes(normalized_shape, 1)
    if not real(input, weight) or tuple(shape_of(input))[-len(shape):] != shape:
        return NotImplemented
    eps = torch.finfo(torch_dtype(dtype_of(input))).eps if eps is None else number(eps)
    squares = ops.mean(ops.square(input), axis=tuple(range(-len(shape), 0)), keepdims=True)
    y = ops.divide(input, ops.sqrt(ops.add(squares, eps)))
    return y if weight is None else ops.multiply(y, weight)


@functional("nn.functional.group_norm")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    if (not real(input, weight, bias) or ndim(input) < 2 or 0 in shape_of(input)
        or shape_of(input)[1] % number(num_groups)):
        return NotImplemented
    return group_norm_op(*_affine(input, weight, bias), groups=number(num_groups), **given(eps=(eps, 1e-5)))


@functional("nn.functional.batch_norm")
def batch_norm(input: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    if not real(input, weight, bias) or ndim(input) < 2 or (bool(training) and 0 in shape_of(input)):
        return NotImplemented
    if not training:
        return _by_running(input, running_mean, running_var, weight, bias, number(eps))
    if math.prod(shape_of(input)) == shape_of(input)[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size "
                         f"{tuple(shape_of(input))}")
    if running_mean is not None:
        axes = (0, *range(2, ndim(input)))
        _moved_on(input, axes, (running_mean, running_var), number(momentum))
    return batch_norm_op(*_affine(input, weight, bias), **given(eps=(eps, 1e-5)))


@functional("nn.functional.instance_norm")
def instance_norm(input: Any, running_mean: Any = None, running_var: Any = None, weight: Any = None, bias: Any = None,
                  use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Any:
    if not real(input, weight, bias) or ndim(input) < 3 or 0 in shape_of(input):
        return NotImplemented
    if not use_input_stats:
        return _by_running(input, running_mean, running_var, weight, bias, number(eps))
    if math.prod(shape_of(input)[2:]) == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {tuple(shape_of(input))}")
    if running_mean is not None:
        _moved_on(input, tuple(range(2, ndim(input))), (running_mean, running_var), number(momentum))
    return group_norm_op(*_affine(input, weight, bias), groups=shape_of(input)[1], **given(eps=(eps, 1e-5)))


def _by_running(x: Array, mean: Array, var: Any, weight: Array, bias: Array, eps: float) -> Any:
    """Normalise by statistics that were kept: a product and a sum."""
    if mean is None or var is None:
        raise ValueError("Expected running_mean and running_var to be defined when training=False")
    scale = ops.divide(1.0 if weight is None else weight, ops.sqrt(ops.add(var, eps)))
    shift = ops.negative(ops.multiply(mean, scale))
    shift = shift if bias is None else ops.add(bias, shift)
    shape = (-1, *(1,) * (ndim(x) - 2))
    return ops.add(ops.multiply(x, ops.reshape(scale, shape)), ops.reshape(shift, shape))


# -- running statistics


def _running(x: Array, mean: Array, var: Any, *, axes: tuple[int, ...], momentum: float = 0.1) -> tuple[Any, Any]:
    now_var, now_mean = torch.var_mean(x, axes)  # the unbiased one, as torch keeps it
    if 0 not in axes:  # of each instance, and then the mean of those
        now_var, now_mean = now_var.mean(0), now_mean.mean(0)
    return torch.lerp(mean, now_mean.to(mean.dtype), momentum), torch.lerp(var, now_var.to(var.dtype), momentum)


running_stats = of_frontend(Op("running_stats", _running, rule=CONSTANT, effects=CLOSED, torch=_running))


def _moved_on(x: Array, axes: tuple[int, ...], buffers: tuple[Any, Any], momentum: float) -> None:
    """Write new running statistics to the buffers, on the tape alone."""
    if not isinstance(x, Traced) and not isinstance(buffers[0], Traced):
        return
    for buffer in buffers:
        owned(buffer)
    for buffer, new in zip(buffers, running_stats(x, *buffers, axes=axes, **given(momentum=(momentum, 0.1)))):
        writes.replace(buffer, new)
