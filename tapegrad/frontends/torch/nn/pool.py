"""Pooling: of a window, its mean or its largest element."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from tapegrad import ops
from tapegrad.frontends.torch.nn.common import functional, given, number, real, sizes
from tapegrad.frontends.torch.nn.saved import saved
from tapegrad.frontends.torch.shape import ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.rules.op import Op

aten = torch.ops.aten


def _line(x: Any) -> Any:
    """Return a line of values as a plane of one row."""
    return x.unsqueeze(-2)


def _said(n: int, size: Any, stride: Any, padding: Any, dilation: Any) -> dict[str, Any]:
    """Return the parameters of an op, without those that say nothing: windows stand side by side."""
    size = sizes(size, n)
    stride = size if stride is None or stride == [] else sizes(stride, n)
    return {"size": size, **given(stride=(stride, size), padding=(sizes(padding, n), (0,) * n),
                                  dilation=(sizes(dilation, n), (1,) * n))}


def _windows(n: int, how: dict[str, Any]) -> tuple[Any, Any, Any, Any]:
    """Return size, stride, padding and dilation."""
    return how["size"], how.get("stride", how["size"]), how.get("padding", (0,) * n), how.get("dilation", (1,) * n)


# -- the largest


def _max(n: int) -> Op:
    whole = (None, F.max_pool1d, F.max_pool2d, F.max_pool3d)[n]
    forward = (None, aten.max_pool2d_with_indices, aten.max_pool2d_with_indices, aten.max_pool3d_with_indices)[n]
    backward = (None, aten.max_pool2d_with_indices_backward, aten.max_pool2d_with_indices_backward,
                aten.max_pool3d_with_indices_backward)[n]

    def wide(how: dict[str, Any]) -> tuple[Any, ...]:
        size, stride, padding, dilation = _windows(n, how)
        front = ((1, *size), (1, *stride), (0, *padding),
                 (1, *dilation)) if n == 1 else (size, stride, padding, dilation)
        return (*front, how.get("ceil", False))

    def fore(x: Array, **how: Any) -> Any:
        if n > 1:
            return forward(x, *wide(how))  # type: ignore[misc]
        return tuple(part.squeeze(-2) for part in forward(_line(x), *wide(how)))  # type: ignore[misc]

    def back(dy: Cotangent, at: Any, x: Array, **how: Any) -> Any:
        if n > 1:
            return (backward(dy, x, *wide(how), at),)  # type: ignore[misc]
        return (backward(_line(dy), _line(x), *wide(how), _line(at)).squeeze(-2),)  # type: ignore[misc]

    def of(x: Array, **how: Any) -> Any:
        return whole(x, *_windows(n, how), how.get("ceil", False))  # type: ignore[misc]
    return saved(f"max_pool{n}d", of, fore, back)


def _means_max(n: int) -> None:
    op = _max(n)

    def meaning(input: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                ceil_mode: bool = False, return_indices: bool = False) -> Any:
        if return_indices or not real(input) or ndim(input) not in (n + 1, n + 2) or 0 in shape_of(input):
            return NotImplemented
        return op(input, **_said(n, kernel_size, stride, padding, dilation), **given(ceil=(ceil_mode, False)))
    functional(f"nn.functional.max_pool{n}d", f"nn.functional._max_pool{n}d", f"max_pool{n}d")(meaning)


# -- the mean: linear, so that a pullback asks for no more than shapes


def _mean(n: int) -> Op:
    whole = (None, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n]
    backward = (None, aten.avg_pool2d_backward, aten.avg_pool2d_backward, aten.avg_pool3d_backward)[n]

    def of(x: Array, **how: Any) -> Any:
        more = () if n == 1 else (how.get("divisor"),)
        return whole(x, *_windows(n, how)[:3], how.get("ceil", False), how.get("count_padding", True),
                     *more)  # type: ignore[misc]

    def back(dy: Cotangent, x: Array, **how: Any) -> Any:
        flags = (how.get("ceil", False), how.get("count_padding", True), how.get("divisor"))
        size, stride, padding, _ = _windows(n, how)
        if n > 1:
            return (backward(dy, x, size, stride, padding, *flags),)  # type: ignore[misc]
        wide = ((1, *size), (1, *stride), (0, *padding))
        return (backward(_line(dy), _line(x), *wide, *flags).squeeze(-2),)  # type: ignore[misc]
    return saved(f"avg_pool{n}d", of, lambda x, **how: (of(x, **how),), back)


def _means_mean(n: int) -> None:
    op = _mean(n)

    def meaning(input: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                count_include_pad: bool = True, divisor_override: Any = None) -> Any:
        if not real(input) or ndim(input) not in (n + 1, n + 2) or 0 in shape_of(input):
            return NotImplemented
        return op(input, **_said(n, kernel_size, stride, padding, 1),
                  **given(ceil=(ceil_mode, False), count_padding=(count_include_pad, True),
                          divisor=(divisor_override, None)))
    functional(f"nn.functional.avg_pool{n}d")(meaning)


for _n in (1, 2, 3):
    _means_max(_n)
    _means_mean(_n)


# -- to a size that is asked for


def _adaptive(n: int) -> None:
    whole = (None, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[n]
    backward = (None, None, aten._adaptive_avg_pool2d_backward, aten._adaptive_avg_pool3d_backward)[n]

    def back(dy: Cotangent, x: Array, size: Any) -> Any:
        if n == 1:
            return (aten._adaptive_avg_pool2d_backward(_line(dy), _line(x)).squeeze(-2),)
        return (backward(dy, x),)  # type: ignore[misc]
    op = saved(f"adaptive_avg_pool{n}d", lambda x, size: whole(x, size), lambda x, size: (whole(x, size),),  # type: ignore[misc]
               back)

    def meaning(input: Array, output_size: Any) -> Any:
        if not real(input) or ndim(input) not in (n + 1, n + 2) or 0 in shape_of(input):
            return NotImplemented
        output_size = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
        size = tuple(have if want is None else number(want) for want, have in zip(output_size, shape_of(input)[-n:]))
        if math.prod(size) == 1:
            return ops.mean(input, axis=tuple(range(ndim(input) - n, ndim(input))), keepdims=True)
        return op(input, size=size)
    functional(f"nn.functional.adaptive_avg_pool{n}d")(meaning)


for _n in (1, 2, 3):
    _adaptive(_n)
