"""ADBench's LSTM: a recurrent network over a sequence of characters, thousands of operations on small arrays.

F. Srajer, Z. Kukelova, A. Fitzgibbon (2018), arXiv 1807.10129. Its matrices are diagonal, so
products go element by element.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.problems.problem import Data, Problem, Size


def objective(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Return the mean loss of predicting each character (bits,) of `sequence` from those before.

    `main` (2 layers, 4 bits) has weights and biases in turn, `state` (2 layers, bits) the first hidden and cell states
    in turn, `extra` (3, bits) the weight of the input, weight and bias of the output.
    """
    characters, bits = sequence.shape
    layers = len(main) // 2
    hidden, cell = [state[2 * i] for i in range(layers)], [state[2 * i + 1] for i in range(layers)]
    total = 0.0
    for t in range(characters - 1):
        x = sequence[t] * extra[0]
        for i in range(layers):
            hidden[i], cell[i] = lstm(main[2 * i], main[2 * i + 1], hidden[i], cell[i], x)
            x = hidden[i]
        predicted = x * extra[1] + extra[2]
        normalised = predicted - np.log(2.0 + np.sum(np.exp(predicted)))
        total = total + np.sum(sequence[t + 1] * normalised)
    return -total / (bits * (characters - 1))


def lstm(weight: Any, bias: Any, hidden: Any, cell: Any, x: Any) -> tuple[Any, Any]:
    """Return the next hidden state and cell of one layer."""
    n = len(hidden)
    gates = np.concatenate((x, hidden, x, hidden)) * weight + bias
    forget, take, give = sigmoid(gates[:n]), sigmoid(gates[n:2 * n]), sigmoid(gates[2 * n:3 * n])
    cell = cell * forget + take * np.tanh(gates[3 * n:])
    return give * np.tanh(cell), cell


def sigmoid(x: Any) -> Any:
    """Return the logistic function."""
    return 1.0 / (1.0 + np.exp(-x))


def make(layers: int, characters: int, bits: int, seed: int = 0) -> Data:
    """Draw data as ADBench does: uniform parameters, characters of random bits."""
    rng = np.random.default_rng(seed)
    return {"main": rng.random((2 * layers, 4 * bits)), "extra": rng.random((3, bits)),
            "state": rng.random((2 * layers, bits)),
            "sequence": rng.integers(2, size=(characters, bits)).astype(float)}


def read(path: Path) -> Data:
    """Read ADBench's text format: `layers characters bits`; main and extra parameters, state and sequence, a row each.

    Raises ValueError for a file of another length.
    """
    numbers = np.array(Path(path).read_text().split(), float)
    layers, characters, bits = map(int, numbers[:3])
    shapes = {"main": (2 * layers, 4 * bits), "extra": (3, bits), "state": (2 * layers, bits),
              "sequence": (characters, bits)}
    ends = np.cumsum([3] + [math.prod(shape) for shape in shapes.values()])
    if len(numbers) != ends[-1]:
        raise ValueError(f"{path}: {layers} layers, {characters} characters of {bits} bits need {ends[-1]} numbers, "
                         f"and the file has {len(numbers)}")
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), np.split(numbers, ends[:-1])[1:])}


def size_of(data: Data) -> Size:
    """Return layers, characters, bits of a character."""
    return {"layers": len(data["main"]) // 2, "characters": data["sequence"].shape[0],
            "bits": data["sequence"].shape[1]}


PROBLEM = Problem("lstm", objective, ("main", "extra"), make, {"layers": 2, "characters": 1024, "bits": 14}, size_of,
                  read, file="lstm_l2_c1024.txt",
                  behind="each gate keeps its exponential beside its value, and its pullback multiplies once more.")
