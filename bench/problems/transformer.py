"""A transformer block of torch.nn with the cross-entropy of the next token: torch code, for the
peers that take a module.
"""

from __future__ import annotations

import numpy as np

from bench.problems.problem import Data, Problem, Size

NORMS = ("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias")
WEIGHTS = ("embedding.weight", *NORMS[:2], "attention.in_proj_weight", "attention.in_proj_bias",
           "attention.out_proj.weight",
           "attention.out_proj.bias", *NORMS[2:], "mlp.0.weight", "mlp.0.bias", "mlp.2.weight", "mlp.2.bias",
           "out.weight", "out.bias")


def objective(**data: object) -> float:
    """Return the mean cross-entropy of `labels` (batch, length) under the block's prediction for `tokens`, by the
    parameters of their names.
    """
    from bench.problems import transformer_torch
    return float(transformer_torch.objective(*transformer_torch.arguments(data)).detach())


def make(batch: int, length: int, width: int, heads: int, vocabulary: int, seed: int = 0,
         dtype: type = np.float32) -> Data:
    """Draw weights of Glorot's scale, small biases, and uniform tokens."""
    rng = np.random.default_rng(seed)
    w, v = width, vocabulary
    shapes = dict(zip(WEIGHTS, [(v, w), (w,), (w,), (3 * w, w), (3 * w,), (w, w), (w,), (w,), (w,), (4 * w, w),
                                (4 * w,), (w, 4 * w), (w,), (v, w), (v,)]))
    data: Data = {name: (rng.standard_normal(shape) * (np.sqrt(2 / sum(shape)) if len(shape) > 1 else 0.1)
                         + (name in NORMS[::2])).astype(dtype)
                  for name, shape in shapes.items()}
    return {**data, "tokens": rng.integers(v, size=(batch, length)), "labels": rng.integers(v, size=(batch, length)),
            "heads": heads}


def size_of(data: Data) -> Size:
    """Return the batch's size, the length of its sequences, and the sizes of the block."""
    batch, length = data["tokens"].shape
    vocabulary, width = data["embedding.weight"].shape
    return {"batch": batch, "length": length, "width": width, "heads": data["heads"], "vocabulary": vocabulary}


PROBLEM = Problem("transformer", objective, WEIGHTS, make,
                  {"batch": 8, "length": 64, "width": 128, "heads": 4, "vocabulary": 256}, size_of,
                  tolerance=1e-5, module=True,
                  behind="torch's kernels are called one by one from Python, views and transposes among them: joint "
                         "kernels for a linear layer's "
                         "gradients and fewer views would close it; not profiled further.")
"""In float32, as such a block is trained, where sums of hundreds of products differ by their order."""
