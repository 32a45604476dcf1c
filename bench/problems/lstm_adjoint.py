"""The gradient of the LSTM by hand: in the loops over time only what must be there, all else for all times at once."""

from __future__ import annotations

from typing import Any

import numpy as np


def gradient(main: Any, extra: Any, state: Any, sequence: Any) -> tuple[Any, tuple[Any, Any]]:
    """Return the value and gradient by `main` and `extra`."""
    given, wanted = sequence[:-1], sequence[1:]
    inputs, gates, cells, top = forward(main, given * extra[0], state)
    last = gates[:, -1, 2] * top[:, -1]
    predicted = last * extra[1] + extra[2]
    grown = np.exp(predicted)
    norm = 2.0 + grown.sum(axis=1, keepdims=True)
    total = np.sum(wanted * (predicted - np.log(norm)))

    dpredicted = (wanted.sum(axis=1, keepdims=True) / norm * grown - wanted) / wanted.size
    dmain, dx = backward(main, inputs, gates, cells, top, dpredicted * extra[1])
    dextra = np.stack([(dx * given).sum(axis=0), (dpredicted * last).sum(axis=0), dpredicted.sum(axis=0)])
    return -total / wanted.size, (dmain, dextra)


def forward(main: Any, x: Any, state: Any) -> tuple[Any, Any, Any, Any]:
    """Return for each time and layer what the gates saw, the gates, the cells (the first ones ahead) and their tanh.

    A sigmoid is (1 + tanh(x/2)) / 2, so that one call computes all four gates.
    """
    times, bits = x.shape
    layers = len(main) // 2
    inputs, gates = np.empty((times, layers, 4, bits)), np.empty((times, layers, 4, bits))
    cells, top = np.empty((times + 1, layers, bits)), np.empty((times, layers, bits))
    scale = np.array([0.5, 0.5, 0.5, 1.0])[:, None]
    weight, bias = main.reshape(layers, 2, 4, bits).transpose(1, 0, 2, 3) * scale
    hidden, cells[0] = list(state[::2]), state[1::2]
    for t in range(times):
        below = x[t]
        for i in range(layers):
            saw, gate = inputs[t, i], gates[t, i]
            saw[::2], saw[1::2] = below, hidden[i]
            np.multiply(saw, weight[i], out=gate)
            gate += bias[i]
            np.tanh(gate, out=gate)
            sigmoids = gate[:3]
            sigmoids *= 0.5
            sigmoids += 0.5
            cell = np.multiply(cells[t, i], gate[0], out=cells[t + 1, i])
            cell += gate[1] * gate[3]
            np.tanh(cell, out=top[t, i])
            below = hidden[i] = gate[2] * top[t, i]
    return inputs, gates, cells, top


def backward(main: Any, inputs: Any, gates: Any, cells: Any, top: Any, dlast: Any) -> tuple[Any, Any]:
    """Return the cotangents of `main` and of the network's input, from that of its output at each time."""
    times, layers, _, bits = gates.shape
    weight = main.reshape(layers, 2, 4, bits)[:, 0]
    slopes = gates * (1.0 - gates)
    slopes[:, :, 3] = 1.0 - gates[:, :, 3] ** 2
    through = gates[:, :, 2] * (1.0 - top ** 2)  # d hidden / d cell
    dgates, dx = np.empty_like(gates), np.empty_like(dlast)
    # what a cell's cotangent is multiplied by to become those of the gates; the third gate's
    # comes from the hidden state
    factors = np.stack([cells[:-1], gates[:, :, 3], top, gates[:, :, 1]], axis=2)
    dhidden, dcell = [np.zeros(bits)] * layers, [np.zeros(bits)] * layers
    for t in reversed(range(times)):
        above = dlast[t]
        for i in reversed(range(layers)):
            dh, dgate = dhidden[i] + above, dgates[t, i]
            dc = dcell[i] + dh * through[t, i]
            np.multiply(factors[t, i], dc, out=dgate)
            np.multiply(dh, top[t, i], out=dgate[2])
            dcell[i] = dc * gates[t, i, 0]
            dgate *= slopes[t, i]
            dsaw = dgate * weight[i]
            above, dhidden[i] = dsaw[0] + dsaw[2], dsaw[1] + dsaw[3]
        dx[t] = above
    dmain = np.stack([(dgates * inputs).sum(axis=0), dgates.sum(axis=0)], axis=1)
    return dmain.reshape(main.shape), dx
