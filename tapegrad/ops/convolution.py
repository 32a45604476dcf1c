"""Convolution of arrays of shape (batch, channels, *space) with weights of shape (out, channels / groups, *kernel),
over any number of axes.

It is linear in both, and so are its two derivatives: `conv`, `conv_input` (which is also the transposed convolution)
and `conv_weight` are the derivatives of one trilinear form of input, weight and output, and each one's rule is made of
the other two.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.numbers import tensors
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.ops.batched_layer import images
from tapegrad.ops.elementwise import conj
from tapegrad.ops.reduce import sum
from tapegrad.rules import types
from tapegrad.rules.facts import EACH, FRESH, direct
from tapegrad.rules.registry import define

Sizes = tuple[int, ...]


def _everywhere(n: int, stride: Sizes, padding: Sizes, dilation: Sizes) -> tuple[Sizes, Sizes, Sizes]:
    """Return the parameters along each axis: steps of 1 and no padding where nothing else was said."""
    return stride or (1,) * n, padding or (0,) * n, dilation or (1,) * n


class _Windows:
    """Where each element of the kernel meets the input: for an offset k, the elements (stride * i +
    dilation * k - padding).
    """

    def __init__(self, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, groups: int) -> None:
        self.kernel, self.groups = kernel, groups
        self.stride, self.padding, self.dilation = _everywhere(len(kernel), stride, padding, dilation)

    def output(self, space: Sizes) -> Sizes:
        """Return the output's sizes in space."""
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1
                     for n, k, s, p, d in zip(space, self.kernel, self.stride, self.padding, self.dilation))

    def padded(self, x: Array) -> Any:
        return np.pad(x, ((0, 0), (0, 0), *((p, p) for p in self.padding)))

    def cropped(self, x: Array) -> Any:
        index: tuple[Any, ...] = (Ellipsis, *(slice(p, n - p) for p, n in zip(self.padding, x.shape[2:])))
        return x[index]

    def __iter__(self) -> Iterator[Sizes]:
        return itertools.product(*map(range, self.kernel))

    def tap(self, offset: Sizes) -> tuple[Any, ...]:
        """Return the index of an offset of the kernel in the weights."""
        return (Ellipsis, *offset)

    def at(self, offset: Sizes, space: Sizes) -> tuple[Any, ...]:
        """Return the index of what an offset of the kernel meets in the padded input, for an output of these sizes."""
        return (..., *(slice(d * k, d * k + s * (n - 1) + 1, s)
                       for d, k, s, n in zip(self.dilation, offset, self.stride, space)))

    def grouped(self, x: Any, axis: int = 1) -> Any:
        """Return an array with the groups as an axis before that of its channels."""
        return x.reshape(*x.shape[:axis], self.groups, x.shape[axis] // self.groups, *x.shape[axis + 1:])


def _convolution(x: Any, w: Any, b: Any = None, *, stride: Sizes = (), padding: Sizes = (), dilation: Sizes = (),
                 groups: int = 1) -> Any:
    on = _Windows(w.shape[2:], stride, padding, dilation, groups)
    space = on.output(x.shape[2:])
    padded, weights = on.padded(x), on.grouped(w, 0)
    y = np.zeros((len(x), len(w), *space), np.result_type(x, w))
    for k in on:
        part = on.grouped(padded[on.at(k, space)])
        y += np.einsum("ngc...,goc->ngo...", part, weights[on.tap(k)]).reshape(y.shape)
    return y if b is None else y + b.reshape(-1, *(1,) * len(space))


def _conv_input(dy: Cotangent, w: Array, *, shape: Sizes, stride: Sizes = (), padding: Sizes = (), dilation: Sizes = (),
                groups: int = 1) -> Any:
    on = _Windows(w.shape[2:], stride, padding, dilation, groups)
    weights, pieces = on.grouped(w, 0), on.grouped(dy)
    dx = on.padded(np.zeros(shape, np.result_type(dy, w)))
    for k in on:
        part = np.einsum("ngo...,goc->ngc...", pieces, weights[on.tap(k)])
        dx[on.at(k, dy.shape[2:])] += part.reshape(len(dy), -1, *dy.shape[2:])
    return on.cropped(dx)


def _in_line(x: Any, n: int) -> Any:
    """Return an array with the axes after the first `n` as one."""
    return x.reshape(*x.shape[:n], math.prod(x.shape[n:]))


def _conv_weight(dy: Cotangent, x: Array, *, shape: Sizes, stride: Sizes = (), padding: Sizes = (),
                 dilation: Sizes = (), groups: int = 1) -> Any:
    on = _Windows(shape[2:], stride, padding, dilation, groups)
    padded, pieces = on.padded(x), _in_line(on.grouped(dy), 3)
    dw = np.zeros(shape, np.result_type(dy, x))
    for k in on:
        part = on.grouped(padded[on.at(k, dy.shape[2:])])
        dw[on.tap(k)] = np.einsum("ngos,ngcs->goc", pieces, _in_line(part, 3)).reshape(shape[:2])
    return dw


def _alike(*xs: Any) -> list[Any]:
    return list(xs) if all(x.dtype is xs[0].dtype for x in xs) else tensors.together(xs)


def _by_parts(product: Any) -> Any:
    """Let a product of two tensors be one of complex numbers too, for which torch has no kernel."""
    def run(a: Any, b: Any, c: Any = None, **how: Any) -> Any:
        if not (a.is_complex() or b.is_complex()):
            return product(a, b, **how) if c is None else product(a, b, c, **how)
        (p, q), (r, s) = ((x.real, x.imag) if x.is_complex() else (x, torch.zeros_like(x)) for x in (a, b))
        y = torch.complex(product(p, r, **how) - product(q, s, **how), product(p, s, **how) + product(q, r, **how))
        return y if c is None else y + c.reshape(-1, *(1,) * (y.ndim - 2))
    return run


@_by_parts
def _on_torch(x: Any, w: Any, b: Any = None, *, stride: Sizes = (), padding: Sizes = (), dilation: Sizes = (),
              groups: int = 1) -> Any:
    x, w, *bias = _alike(x, w) if b is None else _alike(x, w, b)
    n = x.ndim - 2
    return torch.convolution(x, w, bias[0] if bias else None, *_everywhere(n, stride, padding, dilation), False,
                             (0,) * n, groups)


@_by_parts
def _input_on_torch(dy: Cotangent, w: Array, *, shape: Sizes, stride: Sizes = (), padding: Sizes = (),
                    dilation: Sizes = (), groups: int = 1) -> Any:
    dy, w = _alike(dy, w)
    stride, padding, dilation = _everywhere(dy.ndim - 2, stride, padding, dilation)
    reached = [s * (n - 1) - 2 * p + d * (k - 1) + 1
               for n, k, s, p, d in zip(dy.shape[2:], w.shape[2:], stride, padding, dilation)]
    # what no window reached, because the stride does not go into the input's size
    beyond = [n - m for n, m in zip(shape[2:], reached)]
    return torch.convolution(dy, w, None, stride, padding, dilation, True, beyond, groups)


@_by_parts
def _weight_on_torch(dy: Cotangent, x: Any, *, shape: Sizes, stride: Sizes = (), padding: Sizes = (),
                     dilation: Sizes = (), groups: int = 1) -> Any:
    dy, x = _alike(dy, x)
    like = x.new_empty(()).expand(shape)  # its shape alone is asked for
    how = _everywhere(n := dy.ndim - 2, stride, padding, dilation)
    whole = _Windows(shape[2:], stride, padding, dilation, groups).output(x.shape[2:])
    if whole != tuple(dy.shape[2:]):  # the input goes on for further windows: nothing flows from those
        dy = torch.constant_pad_nd(dy, [part for have, want in zip(dy.shape[:1:-1], whole[::-1])
                                        for part in (0, want - have)])
    return torch.ops.aten.convolution_backward(dy, x, like, None, *how, False, (0,) * n, groups,
                                               (False, True, False))[1]


def _within(y: Array, like: Array) -> Any:
    """Return the part of a convolution that a smaller output has: the input may go on for further windows."""
    shape = shape_of(like)
    return y if shape_of(y) == shape else y[tuple(map(slice, shape))]


def _by_bias(dy: Cotangent, _y: Array, _x: Array, _w: Any, _b: Array, **_: Any) -> Any:
    return sum(dy, axis=(0, *range(2, len(shape_of(dy)))))


def _conv_tangent(ts: Any, _y: Array, x: Any, w: Any, b: Any = None, **how: Any) -> Any:
    dx, dw, db = (*ts, None)[:3]
    parts = [conv(dx, w, **how)] if dx is not None else []
    parts += [conv(x, dw, **how)] if dw is not None else []
    parts += [db.reshape(-1, *(1,) * (len(shape_of(x)) - 2))] if db is not None else []
    return functools.reduce(operator.add, parts)


conv = define("conv", _convolution, direct(
    lambda dy, _y, _x, w, _b=None, **how: conv_input(dy, conj(w), shape=shape_of(_x), **how),
    lambda dy, _y, x, _w, _b=None, **how: conv_weight(dy, conj(x), shape=shape_of(_w), **how), _by_bias),
              torch=_on_torch, tangent=_conv_tangent, batch=images, memory=FRESH, spec=types.conv)
conv_input = define("conv_input", _conv_input, direct(
    lambda dx, _y, dy, w, shape, **how: _within(conv(dx, conj(w), **how), dy),
    lambda dx, _y, dy, _w, shape, **how: conv_weight(conj(dy), dx, shape=shape_of(_w), **how)),
                    torch=_input_on_torch, tangent=EACH,
    batch=images, memory=FRESH, spec=types.conv_by)
conv_weight = define("conv_weight", _conv_weight, direct(
    lambda dw, _y, dy, x, shape, **how: _within(conv(conj(x), dw, **how), dy),
    lambda dw, _y, dy, _x, shape, **how: conv_input(conj(dy), dw, shape=shape_of(_x), **how)),
                     torch=_weight_on_torch, tangent=EACH,
    batch=False, memory=FRESH, spec=types.conv_by)
