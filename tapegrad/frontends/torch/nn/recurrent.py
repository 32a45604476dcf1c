"""Cells of recurrent layers, in the products and activations of torch's definition: a loop over cells becomes a loop on
the tape.
"""

from __future__ import annotations

from typing import Any

from tapegrad import ops
from tapegrad.frontends.torch.nn.common import functional, real
from tapegrad.frontends.torch.nn.linear import linear
from tapegrad.frontends.torch.shape import chunk, ndim
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array


def _fits(count: int, input: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> bool:
    """Return whether the tensors fit a cell with `count` gates; if not, torch's function reports the error."""
    if not real(input, hx, w_ih, w_hh, b_ih, b_hh) or (b_ih is None) is not (b_hh is None):
        return False
    if ndim(input) != ndim(hx) or not 1 <= ndim(input) <= 2 or ndim(w_ih) != 2 or ndim(w_hh) != 2:
        return False
    (*batch, width), (*others, size) = shape_of(input), shape_of(hx)
    biases = b_ih is None or shape_of(b_ih) == shape_of(b_hh) == (count * size,)
    return (batch == others and biases and shape_of(w_ih) == (count * size, width)
            and shape_of(w_hh) == (count * size, size))


@functional("lstm_cell")
def lstm_cell(input: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    if not isinstance(hx, (tuple, list)) or len(hx) != 2 or not _fits(4, input, hx[0], w_ih, w_hh, b_ih, b_hh):
        return NotImplemented
    h, c = hx
    if not real(input, c) or shape_of(c) != shape_of(h):
        return NotImplemented
    gates = ops.add(linear(h, w_hh, b_hh), linear(input, w_ih, b_ih))
    i, f, g, o = chunk(gates, 4, -1)
    c = ops.add(ops.multiply(ops.expit(f), c), ops.multiply(ops.expit(i), ops.tanh(g)))
    return ops.multiply(ops.expit(o), ops.tanh(c)), c


@functional("gru_cell")
def gru_cell(input: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    if not _fits(3, input, hx, w_ih, w_hh, b_ih, b_hh):
        return NotImplemented
    (ri, zi, ni), (rh, zh, nh) = chunk(linear(input, w_ih, b_ih), 3, -1), chunk(linear(hx, w_hh, b_hh), 3, -1)
    reset, update = ops.expit(ops.add(rh, ri)), ops.expit(ops.add(zh, zi))
    new = ops.tanh(ops.add(ni, ops.multiply(reset, nh)))
    return ops.add(ops.multiply(ops.subtract(hx, new), update), new)


def _plain(name: str, activation: Any) -> None:
    def cell(input: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
        if not _fits(1, input, hx, w_ih, w_hh, b_ih, b_hh):
            return NotImplemented
        return activation(ops.add(linear(hx, w_hh, b_hh), linear(input, w_ih, b_ih)))
    functional(name)(cell)


_plain("rnn_tanh_cell", ops.tanh)
_plain("rnn_relu_cell", ops.relu)
