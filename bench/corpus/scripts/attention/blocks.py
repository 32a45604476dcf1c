"""A transformer's block."""
import numpy as np


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def layer_norm(x, g, b, eps=1e-5):
    mean, variance = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
    return g * (x - mean) / np.sqrt(variance + eps) + b


def attention(q, k, v, mask):
    return softmax(q @ k.T / np.sqrt(q.shape[-1]) + mask) @ v


def mha(x, w, n_head):
    qkv_heads = [np.split(part, n_head, axis=-1) for part in np.split(x @ w, 3, axis=-1)]
    mask = (1 - np.tri(x.shape[0], dtype=x.dtype)) * -1e10
    return np.hstack([attention(q, k, v, mask) for q, k, v in zip(*qkv_heads)])
