"""Convolutions and transposed convolutions in one, two and three dimensions."""

from __future__ import annotations

from typing import Any

from tapegrad import ops
from tapegrad.frontends.torch.nn.common import functional, given, number, real, sizes
from tapegrad.frontends.torch.shape import ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array


def _batched(n: int, x: Array) -> tuple[Any, bool]:
    """Return an input with a batch axis, and whether it had one."""
    return (x, True) if ndim(x) == n + 2 else (ops.expand_dims(x, axis=0), False)


def _padded(x: Array, w: Array, padding: Any, dilation: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """Return the input and the padding that is left to the convolution; "same" may pad one more
    on the right, as torch does.
    """
    n = len(dilation)
    if padding == "valid":
        return x, (0,) * n
    if padding != "same":
        return x, sizes(padding, n)
    total = [d * (k - 1) for d, k in zip(dilation, shape_of(w)[2:])]
    if any(t % 2 for t in total):
        x = ops.pad(x, ((0, 0), (0, 0), *((0, t % 2) for t in total)))
    return x, tuple(t // 2 for t in total)


def _said(n: int, stride: Any, padding: Any, dilation: Any, groups: Any) -> dict[str, Any]:
    """Return the parameters of an op, without those that say nothing."""
    one, none = (1,) * n, (0,) * n
    return given(stride=(stride, one), padding=(padding, none), dilation=(dilation, one), groups=(groups, 1))


def _fits(n: int, x: Array, w: Array, b: Array) -> bool:
    return real(x, w, b) and ndim(w) == n + 2 and ndim(x) in (n + 1, n + 2) and 0 not in (*shape_of(x), *shape_of(w))


def _convolution(n: int) -> Any:
    def meaning(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                groups: Any = 1) -> Any:
        if not _fits(n, input, weight, bias):
            return NotImplemented
        stride, dilation = sizes(stride, n), sizes(dilation, n)
        if padding == "same" and set(stride) != {1}:
            return NotImplemented  # torch refuses it
        x, batched = _batched(n, input)
        x, padding = _padded(x, weight, padding, dilation)
        how = _said(n, stride, padding, dilation, groups)
        y = ops.conv(x, weight, **how) if bias is None else ops.conv(x, weight, bias, **how)
        return y if batched else ops.squeeze(y, axis=(0,))
    return meaning


def _transposed(n: int) -> Any:
    def meaning(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                groups: Any = 1, dilation: Any = 1) -> Any:
        if not _fits(n, input, weight, bias):
            return NotImplemented
        stride, padding, dilation, beyond = (sizes(part, n) for part in (stride, padding, dilation, output_padding))
        groups = number(groups)
        x, batched = _batched(n, input)
        space = tuple((m - 1) * s - 2 * p + d * (k - 1) + 1 + e
                      for m, k, s, p, d, e in zip(shape_of(x)[2:], shape_of(weight)[2:], stride, padding, dilation,
                                                  beyond))
        if shape_of(x)[1] != shape_of(weight)[0] or any(e < 0 or e >= max(s, d)
                                                        for e, s, d in zip(beyond, stride, dilation)) or min(space) < 1:
            return NotImplemented  # torch raises, or returns nothing
        shape = (shape_of(x)[0], shape_of(weight)[1] * groups, *space)
        how = _said(n, stride, padding, dilation, groups)
        y = ops.conv_input(x, weight, shape=shape, **how)
        if bias is not None:
            y = ops.add(y, ops.reshape(bias, (-1, *(1,) * n)))
        return y if batched else ops.squeeze(y, axis=(0,))
    return meaning


for _n in (1, 2, 3):
    functional(f"nn.functional.conv{_n}d")(_convolution(_n))
    functional(f"nn.functional.conv_transpose{_n}d")(_transposed(_n))
