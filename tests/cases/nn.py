"""Cases of the ops of neural networks: activations, products with weights. They have no names in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import tapegrad.ops as ops
from tests.cases.case import Case, draw


def activation(name: str, on_torch: Callable[..., Any], smooth: bool = True, label: str = "", **how: Any) -> Case:
    """One array: 2-d, 0-d, zero-size, strided; the op of the rule is exercised by the gradient. What a lambda captures is an input, a default is not."""
    op = getattr(ops, name)
    samples = [(draw(2, 3, low=-4, high=4),), (np.array(draw(low=-2, high=2)),), (np.zeros((0, 3)),), (draw(3, 4, low=-4, high=4, seed=1).T[::-1, ::2],)]
    return Case(f"{name}:{label}" if label else name, lambda x, op=op, how=how: op(x, **how), samples, ops=(name, f"{name}_backward"), torch=on_torch, smooth=smooth)


def along(name: str, on_torch: Callable[..., Any]) -> Case:
    op = getattr(ops, name)
    return Case(f"{name}:along an axis", lambda x, op=op: op(x, axis=1), [(draw(2, 3),), (draw(3, 4, 2).transpose(2, 0, 1),), (np.zeros((0, 2)),)],
                ops=(name, f"{name}_backward"), torch=on_torch)


CASES = [
    activation("relu", F.relu, smooth=False), activation("leaky_relu", lambda x: F.leaky_relu(x, 0.2), smooth=False, slope=0.2),
    activation("threshold", lambda x: F.threshold(x, 0.1, 2.0), smooth=False, at=0.1, value=2.0),
    activation("hardtanh", lambda x: F.hardtanh(x, -0.5, 1.5), smooth=False, low=-0.5, high=1.5),
    activation("hardsigmoid", lambda x: F.relu6(x + 3) / 6, smooth=False), activation("hardswish", F.hardswish, smooth=False),
    activation("hardshrink", F.hardshrink, smooth=False), activation("softshrink", F.softshrink, smooth=False),
    activation("elu", F.elu), activation("elu", F.selu, label="selu", alpha=1.6732632423543772, scale=1.0507009873554805),
    activation("elu", lambda x: F.celu(x, 2.0), label="celu", alpha=2.0, rate=0.5),
    activation("softplus", lambda x: F.softplus(x, 2.0, 5.0), beta=2.0, threshold=5.0),
    activation("gelu", F.gelu), activation("gelu", lambda x: F.gelu(x, approximate="tanh"), label="tanh", approximate="tanh"),
    activation("silu", F.silu), activation("mish", F.mish),
    along("softmax", lambda x: torch.softmax(x, 1)), along("log_softmax", lambda x: torch.log_softmax(x, 1)),
    Case("linear", ops.linear, [(draw(2, 3), draw(4, 3), draw(4)), (draw(3), draw(4, 3), draw(4)), (draw(2, 5, 3), draw(4, 3), draw(4)),
                                (draw(2, 3), draw(4, 3)), (draw(0, 3), draw(4, 3), draw(4)), (draw(3, 2).T[::-1], draw(3, 4).T, draw(4))],
         ops=("linear", "linear_weight"), torch=F.linear, errors=[((draw(2, 3), draw(4, 2)), ValueError)]),
]
