"""Programs that are called again and again, as users write them: small ones, and training and fitting in the manner of
HIPS autograd's examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
IMAGES = RNG.random((1000, 64))
POINTS = RNG.standard_normal((20, 2))
TARGETS = np.sin(POINTS).sum(axis=1)
INPUTS, LABELS = RNG.standard_normal((32, 8)), RNG.integers(3, size=32)
TARGET = RNG.random((16, 16))
BATCH, BATCHES = 20, 50

STATE = np.random.RandomState(1)  # what programs of that time draw from


@dataclass
class Program:
    """A function, and the arguments of each of its calls."""

    name: str
    f: Callable[..., Any]
    args: Callable[[int], tuple[Any, ...]]


def two_scalars(a: Any, b: Any) -> Any:
    """Divide."""
    return a / (a + b * b)


def rosenbrock(x: Any) -> Any:
    """Return Rosenbrock's function of a vector."""
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def mlp(params: Any) -> Any:
    """Return the cross-entropy of a perceptron with two layers."""
    (w1, b1), (w2, b2) = params
    scores = np.maximum(INPUTS @ w1 + b1, 0.0) @ w2 + b2
    scores = scores - np.max(scores, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(scores), axis=1)) - scores[np.arange(len(LABELS)), LABELS])


def gaussian_process(params: Any) -> Any:
    """Return minus the log marginal likelihood of twenty observations."""
    amplitude, lengthscale, noise = params
    squares = np.sum((POINTS[:, None, :] - POINTS[None, :, :]) ** 2, axis=2)
    K = np.exp(2.0 * amplitude - 0.5 * squares * np.exp(-2.0 * lengthscale)) + np.exp(2.0 * noise) * np.eye(len(POINTS))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, TARGETS))
    return 0.5 * np.dot(TARGETS, alpha) + np.sum(np.log(np.diag(L))) + 0.5 * len(POINTS) * math.log(2 * math.pi)


def scalar_loop(x: Any) -> Any:
    """Iterate a map three hundred times."""
    y = x
    for _ in range(300):
        y = 0.5 * y + math.sin(x * y)
    return y


def dense(params: Any, x: Any) -> Any:
    """Apply layers of tanh, the last one without."""
    for w, b in params[:-1]:
        x = np.tanh(np.dot(x, w) + b)
    w, b = params[-1]
    return np.dot(x, w) + b


def layers(*widths: int) -> list[tuple[Any, Any]]:
    """Return small weights, and biases."""
    return [(0.1 * RNG.standard_normal((a, b)), np.zeros(b)) for a, b in pairwise(widths)]


def images(it: int) -> Any:
    """Return the minibatch of an iteration."""
    at = it % BATCHES
    return IMAGES[at * BATCH: (at + 1) * BATCH]


def minibatches(params: Any, it: int) -> Any:
    """Return how far an autoencoder's output is from its minibatch."""
    x = images(it)
    return np.mean((dense(params, x) - x) ** 2)


def vae(params: Any, it: int) -> Any:
    """Return minus the evidence lower bound of a minibatch, by one draw of the codes."""
    encoder, decoder = params
    x = images(it)
    code = dense(encoder, x)
    mean, log_std = code[:, :10], code[:, 10:]
    z = mean + np.exp(log_std) * STATE.randn(*mean.shape)
    prior = np.sum(-0.5 * z ** 2 - 0.5 * np.log(2 * np.pi), axis=1)
    entropy = np.sum(log_std + 0.5 * (1.0 + np.log(2 * np.pi)), axis=1)
    logits = dense(decoder, z)
    likelihood = -np.sum(np.logaddexp(0, np.where(x > 0.5, -1.0, 1.0) * logits), axis=1)
    return -np.mean(likelihood + prior + entropy)


def gan(params: Any, it: int) -> Any:
    """Return the generator's and the discriminator's objectives, one against the other."""
    generator, discriminator = params
    fake = 1.0 / (1.0 + np.exp(-dense(generator, STATE.rand(BATCH, 10))))
    real = images(it)
    scores_fake, scores_real = dense(discriminator, fake), dense(discriminator, real)
    return np.mean(np.logaddexp(0, -scores_real)
                   + np.logaddexp(0, scores_fake)) - np.mean(np.logaddexp(0, -scores_fake))


def project(vx: Any, vy: Any) -> tuple[Any, Any]:
    """Project velocities to be nearly free of divergence, by a few steps of Jacobi's."""
    p = np.zeros(vx.shape)
    h = 1.0 / vx.shape[0]
    div = -0.5 * h * (np.roll(vx, -1, axis=0) - np.roll(vx, 1, axis=0) + np.roll(vy, -1, axis=1)
                      - np.roll(vy, 1, axis=1))
    for _ in range(4):
        p = (div + np.roll(p, 1, axis=0) + np.roll(p, -1, axis=0) + np.roll(p, 1, axis=1)
             + np.roll(p, -1, axis=1)) / 4.0
    vx = vx - 0.5 * (np.roll(p, -1, axis=0) - np.roll(p, 1, axis=0)) / h
    vy = vy - 0.5 * (np.roll(p, -1, axis=1) - np.roll(p, 1, axis=1)) / h
    return vx, vy


def advect(f: Any, vx: Any, vy: Any) -> Any:
    """Move a field along velocities, by the weights of the four cells around where each one comes from."""
    rows, cols = f.shape
    cell_ys, cell_xs = np.meshgrid(np.arange(rows), np.arange(cols))
    center_xs, center_ys = (cell_xs - vx).ravel(), (cell_ys - vy).ravel()
    left_ix, top_ix = np.floor(center_xs).astype(int), np.floor(center_ys).astype(int)
    rw, bw = center_xs - left_ix, center_ys - top_ix
    left_ix, right_ix = np.mod(left_ix, rows), np.mod(left_ix + 1, rows)
    top_ix, bot_ix = np.mod(top_ix, cols), np.mod(top_ix + 1, cols)
    flat = (1 - rw) * ((1 - bw) * f[left_ix, top_ix] + bw * f[left_ix, bot_ix]) + rw * ((1 - bw) * f[right_ix, top_ix]
                                                                                        + bw * f[right_ix, bot_ix])
    return np.reshape(flat, (rows, cols))


def fluid(velocities: Any, smoke: Any) -> Any:
    """Return how far smoke is from a target after a few steps of a fluid."""
    vx, vy = velocities
    for _ in range(4):
        vx, vy = project(advect(vx, vx, vy), advect(vy, vx, vy))
        smoke = advect(smoke, vx, vy)
    return np.mean((TARGET - smoke) ** 2)


def always(*args: Any) -> Callable[[int], tuple[Any, ...]]:
    """Return the same arguments for every call."""
    return lambda it: args


SMALL = [
    Program("two scalars", two_scalars, always(2.0, 3.0)),
    Program("Rosenbrock, 10 numbers", rosenbrock, always(np.linspace(-1.0, 1.0, 10))),
    Program("MLP", mlp, always(layers(8, 16, 3))),
    Program("Gaussian process, 20 points", gaussian_process, always((0.1, -0.2, -1.5))),
    Program("loop of 300 steps", scalar_loop, always(0.3)),
]
TRAINING: list[Program] = []


def _training() -> None:
    params = layers(64, 32, 64)
    both = [layers(64, 32, 20), layers(10, 32, 64)]
    rivals = [layers(10, 32, 64), layers(64, 32, 1)]
    flow = tuple(0.1 * RNG.standard_normal((2, 16, 16)))
    TRAINING.extend([
        Program("minibatches", minibatches, lambda it: (params, it)), Program("VAE", vae, lambda it: (both, it)),
        Program("GAN", gan, lambda it: (rivals, it)), Program("fluid", fluid, always(flow, TARGET.T.copy()))])


_training()
