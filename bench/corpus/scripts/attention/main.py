"""What a small language model loses."""
import numpy as np

from .blocks import gelu, layer_norm, mha, softmax

TOKENS = [3, 1, 4, 1, 5, 2]
rng = np.random.default_rng(0)


def objective(params, wte):
    x = wte[TOKENS] + 0.1 * np.sin(np.arange(len(TOKENS)))[:, None]
    x = x + mha(layer_norm(x, np.ones(8), np.zeros(8)), params[0], 2)
    x = x + gelu(layer_norm(x, 1.0, 0.0) @ params[1]) @ params[2]
    p = softmax(layer_norm(x, 1.0, 0.0) @ wte.T)
    return -np.mean([np.log(p[i, t]) for i, t in enumerate(TOKENS[1:])])


START = ([0.3 * rng.normal(size=(8, 24)), 0.3 * rng.normal(size=(8, 16)), 0.3 * rng.normal(size=(16, 8))],
         rng.normal(size=(6, 8)))
