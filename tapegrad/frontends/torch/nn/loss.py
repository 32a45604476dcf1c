"""Losses. What is rare among them is recorded whole, or runs as torch wrote it: see body.py."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch.nn._reduction import legacy_get_string

from tapegrad import ops
from tapegrad.frontends.torch.generic import recorded_whole
from tapegrad.frontends.torch.nn.common import functional, given, number, real
from tapegrad.frontends.torch.shape import ndim
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.kinds import Array


def reduced(losses: Any, reduction: str) -> Any:
    """Return losses as they are, their mean or their sum."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return losses if reduction == "none" else ops.mean(losses) if reduction == "mean" else ops.sum(losses)


def wanted(reduction: str, size_average: Any, reduce: Any) -> str:
    """Return the reduction, by the arguments that torch had before `reduction=` too."""
    return reduction if size_average is None and reduce is None else legacy_get_string(size_average, reduce)


def alike(*xs: Any) -> bool:
    """True for tensors of real numbers of one dtype and shape."""
    return real(*xs) and len({tuple(shape_of(x)) for x in xs}) == 1


# -- of a difference


def _weighted(losses: Any, weight: Array, reduction: str) -> Any:
    """Return weighted losses; their mean is that by weight."""
    if weight is None:
        return reduced(losses, reduction)
    total = ops.multiply(losses, weight)
    return (ops.divide(ops.sum(total), ops.sum(ops.broadcast_to(weight, shape_of(losses)))) if reduction == "mean"
            else reduced(total, reduction))


@functional("nn.functional.mse_loss")
def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
             weight: Any = None) -> Any:
    if not alike(input, target):
        return NotImplemented
    return _weighted(ops.square(ops.subtract(input, target)), weight, wanted(reduction, size_average, reduce))


@functional("nn.functional.l1_loss")
def l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
            weight: Any = None) -> Any:
    if not alike(input, target):
        return NotImplemented
    return _weighted(ops.abs(ops.subtract(input, target)), weight, wanted(reduction, size_average, reduce))


@functional("nn.functional.smooth_l1_loss")
def smooth_l1_loss(input: Array, target: Array, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
                   beta: float = 1.0) -> Any:
    beta = number(beta)
    if not alike(input, target) or beta < 0:
        return NotImplemented
    if not beta:
        return l1_loss(input, target, size_average, reduce, reduction)
    d = ops.subtract(input, target)
    far = ops.abs(d)
    losses = ops.where(ops.less(far, beta), ops.multiply(ops.square(d), 0.5 / beta), ops.subtract(far, 0.5 * beta))
    return reduced(losses, wanted(reduction, size_average, reduce))


@functional("nn.functional.huber_loss")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    delta = number(delta)
    if not alike(input, target) or delta <= 0:
        return NotImplemented
    d = ops.subtract(input, target)
    far = ops.abs(d)
    losses = ops.where(ops.less_equal(far, delta), ops.multiply(ops.square(d), 0.5),
                       ops.multiply(ops.subtract(far, 0.5 * delta), delta))
    return _weighted(losses, weight, reduction)


# -- of classes


@functional("nn.functional.nll_loss")
def nll_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
             reduce: Any = None, reduction: str = "mean") -> Any:
    reduction = wanted(reduction, size_average, reduce)
    if not real(input, weight) or not ndim(input) or reduction not in ("none", "mean", "sum"):
        return NotImplemented
    if weight is None:
        return ops.nll_loss(input, target, **given(ignore=(ignore_index, -100), reduction=(reduction, "mean")))
    keep, at = _classes(target, ignore_index)
    weights = ops.where(keep, ops.take(weight, at, axis=0), 0.0)
    losses = ops.negative(ops.multiply(_picked(input, at), weights))
    return ops.divide(ops.sum(losses), ops.sum(weights)) if reduction == "mean" else reduced(losses, reduction)


def _classes(target: Array, ignore_index: Any) -> tuple[Any, Any]:
    """Return which targets count, and the targets with class 0 for those that do not."""
    keep = ops.not_equal(target, number(ignore_index))
    return keep, ops.where(keep, target, 0)


def _axis(x: Array) -> int:
    return 0 if ndim(x) == 1 else 1


def _picked(logp: Array, at: Any) -> Any:
    """Return the number of each sample's class."""
    axis = _axis(logp)
    return ops.squeeze(ops.take_along_axis(logp, ops.expand_dims(at, axis=axis), axis=axis), axis=(axis,))


def _per_class(weight: Array, x: Array) -> Any:
    return ops.reshape(weight, (-1, *(1,) * max(ndim(x) - 2, 0)))


@functional("nn.functional.cross_entropy")
def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: int = -100,
                  reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0) -> Any:
    reduction, smoothing = wanted(reduction, size_average, reduce), number(label_smoothing)
    if not real(input, weight) or not ndim(input) or reduction not in ("none", "mean", "sum"):
        return NotImplemented
    logp = ops.log_softmax(input, axis=_axis(input))
    if dtype_of(target).kind == "f":
        return _of_probabilities(logp, target, weight, reduction, smoothing)
    found = nll_loss(logp, target, weight, ignore_index=ignore_index, reduction=reduction)
    if not smoothing:
        return found
    even = _evenly(logp, target, weight, ignore_index, reduction)
    return ops.add(ops.multiply(found, 1 - smoothing), ops.multiply(even, smoothing / shape_of(input)[_axis(input)]))


def _of_probabilities(logp: Array, target: Array, weight: Array, reduction: str, smoothing: float) -> Any:
    if tuple(shape_of(target)) != tuple(shape_of(logp)):
        raise RuntimeError("Expected floating point type target with class probabilities to have the shape of input")
    classes = shape_of(logp)[_axis(logp)]
    if smoothing:
        target = ops.add(ops.multiply(target, 1 - smoothing), smoothing / classes)
    terms = ops.multiply(logp, target)
    if weight is not None:
        terms = ops.multiply(terms, _per_class(weight, logp))
    if reduction == "mean":
        return ops.divide(ops.negative(ops.sum(terms)),
                          float(math.prod(shape_of(logp)) / classes) if classes else math.nan)
    return reduced(ops.negative(ops.sum(terms, axis=_axis(logp))), reduction)


def _evenly(logp: Array, target: Array, weight: Array, ignore_index: Any, reduction: str) -> Any:
    """Return the loss against each class alike, which smoothed labels add."""
    keep, at = _classes(target, ignore_index)
    terms = logp if weight is None else ops.multiply(logp, _per_class(weight, logp))
    losses = ops.where(keep, ops.negative(ops.sum(terms, axis=_axis(logp))), 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    count = (ops.astype(keep, dtype=dtype_of(logp)) if weight is None
             else ops.where(keep, ops.take(weight, at, axis=0), 0.0))
    return ops.divide(ops.sum(losses), ops.sum(count))


# -- of probabilities


@functional("nn.functional.binary_cross_entropy")
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    if weight is None or not alike(input, target):
        return NotImplemented
    # torch has no derivative by the weight
    losses = recorded_whole(F.binary_cross_entropy, (input, target), {"reduction": "none"})
    return reduced(ops.multiply(losses, weight), wanted(reduction, size_average, reduce))


@functional("nn.functional.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                                     reduce: Any = None, reduction: str = "mean", pos_weight: Any = None) -> Any:
    if not alike(input, target) or not real(input, weight, pos_weight):
        return NotImplemented
    losses = ops.multiply(ops.subtract(1, target), input)
    logs = ops.log_expit(input)
    if pos_weight is not None:
        logs = ops.multiply(logs, ops.add(ops.multiply(ops.subtract(pos_weight, 1), target), 1))
    losses = ops.subtract(losses, logs)
    losses = losses if weight is None else ops.multiply(losses, weight)
    return reduced(losses, wanted(reduction, size_average, reduce))


@functional("nn.functional.kl_div")
def kl_div(input: Array, target: Array, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
           log_target: bool = False) -> Any:
    if not alike(input, target):
        return NotImplemented
    if log_target:
        losses = ops.multiply(ops.exp(target), ops.subtract(target, input))
    else:
        losses = ops.subtract(ops.xlogy(target, target), ops.multiply(target, input))
    if size_average is None and reduce is None and reduction == "batchmean":
        return ops.divide(ops.sum(losses), shape_of(input)[0]) if ndim(input) else losses
    return reduced(losses, wanted(reduction, size_average, reduce))


@functional("nn.functional.poisson_nll_loss")
def poisson_nll_loss(input: Any, target: Any, log_input: bool = True, full: bool = False, size_average: Any = None,
                     eps: float = 1e-8, reduce: Any = None, reduction: str = "mean") -> Any:
    if not alike(input, target) or full:
        return NotImplemented
    losses = (ops.subtract(ops.exp(input), ops.multiply(target, input)) if log_input
              else ops.subtract(input, ops.multiply(target, ops.log(ops.add(input, number(eps))))))
    return reduced(losses, wanted(reduction, size_average, reduce))


@functional("nn.functional.soft_margin_loss")
def soft_margin_loss(input: Array, target: Array, size_average: Any = None, reduce: Any = None,
                     reduction: str = "mean") -> Any:
    if not alike(input, target):
        return NotImplemented
    return reduced(ops.negative(ops.log_expit(ops.multiply(input, target))), wanted(reduction, size_average, reduce))
