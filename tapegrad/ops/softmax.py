"""softmax: log-sum-exp, softmax and its logarithm, for arrays and tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers import tensor_dtypes, tensors
from tapegrad.numbers.kinds import Array, Axis, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.ops.elementwise import (
    conj,
    equal,
    exp,
    is_complex,
    isfinite,
    logical_and,
    logical_not,
    where,
)
from tapegrad.ops.reduce import restore, sum
from tapegrad.ops.special import check_real, implementation
from tapegrad.rules import batching, types
from tapegrad.rules.facts import FRESH, Joint, direct
from tapegrad.rules.op import Op
from tapegrad.rules.registry import define
from tapegrad.rules.types.formula import by_formula


def _weight(y: Array, x: Array, b: Array, axis: Axis) -> Any:
    """Return b exp(x - y), this term's share of the sum; 0 where b is 0."""
    y = restore(y, x, axis)
    # only there: where b is 0 elsewhere, the weight still grows with b
    nothing = logical_and(equal(b, 0), logical_not(isfinite(exp(x - y))))
    return b * exp(where(nothing, -np.inf, x) - y)


def _lse_vjp(y: Any, x: Any, b: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    def logsumexp_pullback(dy: Cotangent) -> tuple[Any, ...]:
        dy = restore(dy, x, axis)
        of_x = exp(x - restore(y, x, axis)) if b is None else _weight(y, x, b, axis)
        return (dy * conj(of_x),) if b is None else (dy * conj(of_x), dy * conj(exp(x - restore(y, x, axis))))
    return logsumexp_pullback


def _signed_vjp(y: Array, x: Array, b: Array, axis: Axis = None, keepdims: bool = False) -> Any:
    check_real("signed_logsumexp", x)

    def signed_logsumexp_pullback(dy: Cotangent) -> tuple[Any, ...]:
        dx, db = _lse_vjp(y[0], x, b, axis)(dy[0] * y[1])
        return dx, db
    return signed_logsumexp_pullback


def _terms(x: Any, b: Any, axis: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Return b exp(x - m), the largest real part m along the axes, and the axes."""
    x, b = tensors.together((x, 1 if b is None else b), number=True)
    x, b = torch.broadcast_tensors(x, b)
    x = torch.where(b == 0, -math.inf, x)
    axes = tensors.dims(x, axis)
    m = x.real.amax(axes, keepdim=True) if axes else x.real
    m = torch.where(torch.isfinite(m), m, 0.0)
    return b * torch.exp(x - m), m, axes


def _scaled_logsumexp(x: Any, b: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    terms, m, axes = _terms(x, b, axis)
    y = torch.log(terms.sum(axes, keepdim=True) if axes else terms) + m
    return y if keepdims or not axes else y.squeeze(axes)


def _signed_logsumexp(x: Array, b: Array, axis: Axis = None, keepdims: bool = False) -> Any:
    terms, m, axes = _terms(x, b, axis)
    total = terms.sum(axes, keepdim=True) if axes else terms
    parts = torch.log(torch.abs(total)) + m, torch.sgn(total)
    return parts if keepdims or not axes else tuple(part.squeeze(axes) for part in parts)


def _softmax(x: Any, axis: Any = None) -> Any:
    if type(axis) is int and x.is_floating_point():
        return torch.softmax(x, axis)
    e, _, axes = _terms(x, None, axis)
    return e / e.sum(axes, keepdim=True) if axes else e / e


def _log_softmax(x: Any, axis: Any = None) -> Any:
    if type(axis) is int and x.is_floating_point():
        return torch.log_softmax(x, axis)
    x = x.to(tensor_dtypes.inexact_type(x))
    e, m, axes = _terms(x, None, axis)
    return x - m - torch.log(e.sum(axes, keepdim=True) if axes else e)


_logsumexp = implementation("logsumexp")
# SciPy's logsumexp, which scales each term and is more accurate than `logsumexp`, a reduction by logaddexp
scaled_logsumexp = define("scaled_logsumexp",
                          lambda x, b=None, axis=None, keepdims=False: _logsumexp(x, axis, b, keepdims),
                          rule=Joint(_lse_vjp),
                          batch=batching.along(None, "all", arrays=2), torch=_scaled_logsumexp, memory=FRESH,
                          spec=types.by_logsumexp(False))


signed_logsumexp = define("signed_logsumexp",
                          lambda x, b, axis=None, keepdims=False: _logsumexp(x, axis, b, keepdims, True),
                          rule=Joint(_signed_vjp), batch=batching.along(None, "all", arrays=2), torch=_signed_logsumexp,
                          memory=FRESH, spec=types.by_logsumexp(True))


def _softmax_back(dy: Cotangent, y: Array, axis: Axis = None) -> Any:
    return conj(y) * (dy - sum(conj(y) * dy, axis=axis, keepdims=True))


def _softmax_back_by_y(d2: Any, _g: Any, dy: Cotangent, y: Array, axis: Axis = None) -> Any:
    return d2 * (dy - sum(y * dy, axis=axis, keepdims=True)) - dy * sum(y * d2, axis=axis, keepdims=True)


def _log_softmax_back(dy: Cotangent, y: Array, axis: Axis = None) -> Any:
    return dy - conj(exp(y)) * sum(dy, axis=axis, keepdims=True)


def _kernel(name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's kernel for a cotangent and an output; `otherwise` serves several axes, complex or mixed dtypes."""
    def run(dy: Any, y: Any, axis: Any = None) -> Any:
        if (type(axis) is int and tensors.is_tensor(dy) and dy.dtype is y.dtype and dy.shape == y.shape
            and y.is_floating_point()):
            return getattr(torch.ops.aten, name)(dy, y, axis, y.dtype)
        return unwrap(otherwise(wrap(dy), wrap(y), axis))
    return run


softmax_backward = define("softmax_backward", _softmax_back, (
    lambda d2, _g, _dy, y, axis=None: softmax_backward(d2, y, axis=axis), _softmax_back_by_y),
                          batch=batching.along(None, "all", arrays=2),
                          torch=_kernel("_softmax_backward_data", _softmax_back), memory=FRESH,
                          spec=by_formula(_softmax_back))


log_softmax_backward = define("log_softmax_backward", _log_softmax_back, (
    lambda d2, _g, _dy, y, axis=None: d2 - sum(exp(y) * d2, axis=axis, keepdims=True),
    lambda d2, _g, dy, y, axis=None: -d2 * exp(y) * sum(dy, axis=axis, keepdims=True)),
    batch=batching.along(None, "all", arrays=2), torch=_kernel("_log_softmax_backward_data", _log_softmax_back),
    memory=FRESH, spec=by_formula(_log_softmax_back))


def _by_kernel(op: Op, formula: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dy, y, _x, axis=None: formula(dy, y, axis) if is_complex(y) else op(dy, y, axis=axis)


softmax = define("softmax", implementation("softmax"), direct(_by_kernel(softmax_backward, _softmax_back)),
                 batch=batching.along(None), torch=_softmax, memory=FRESH, spec=types.by_loop(np.exp))


log_softmax = define("log_softmax", implementation("log_softmax"),
                     direct(_by_kernel(log_softmax_backward, _log_softmax_back)),
                     batch=batching.along(None), torch=_log_softmax, memory=FRESH, spec=types.by_loop(np.exp))
