"""The benchmarks' objectives written a second time, number by number or by another library: what they must equal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.special import erf, log_softmax
from scipy.stats import multivariate_normal


def rational(a: float, b: float) -> float:
    return a * (a + b ** 2) ** -1


def recurrence(x: float, r: float, iterations: int) -> float:
    return r if iterations == 0 else recurrence(x, r * x - math.sin(r), iterations - 1)


def tr_mul(a: Any, b: Any) -> float:
    n = len(a)
    return sum(float(a[i, j] * b[j, i]) for i in range(n) for j in range(n))


def rosenbrock(x: Any) -> float:
    return sum(100 * (high - low ** 2) ** 2 + (1 - low) ** 2 for low, high in zip(x.tolist(), x.tolist()[1:]))


def mlp(w1: Any, b1: Any, w2: Any, b2: Any, w3: Any, b3: Any, x: Any, labels: Any) -> float:
    def relu(values: Any) -> Any:
        return np.where(values > 0, values, 0)
    losses = [-log_softmax(w3.T @ relu(w2.T @ relu(w1.T @ row + b1) + b2) + b3)[label] for row, label in zip(x, labels)]
    return sum(losses) / len(losses)


def elementwise(x: Any) -> float:
    return sum(math.exp(-value * math.sin(value)) / (1 + value ** 2) for value in x.tolist())


def gmm(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> float:
    """As ADBench's C++ has it."""
    (n, d), K = x.shape, len(alphas)

    def logsumexp(values: list[float]) -> float:
        top = max(values)
        return top + math.log(sum(math.exp(value - top) for value in values))

    total = -n * d * 0.5 * math.log(2 * math.pi)
    for point in x:
        terms = []
        for k in range(K):
            centred = [point[i] - means[k, i] for i in range(d)]
            y = [math.exp(icf[k, i]) * centred[i] for i in range(d)]
            at = d
            for i in range(d):
                for j in range(i + 1, d):
                    y[j] += icf[k, at] * centred[i]
                    at += 1
            terms.append(alphas[k] + sum(icf[k, :d]) - 0.5 * sum(value ** 2 for value in y))
        total += logsumexp(terms)
    total -= n * logsumexp(list(alphas))

    degrees = d + m + 1
    log_gamma_distrib = 0.25 * d * (d - 1) * math.log(math.pi) + sum(math.lgamma(0.5 * degrees + 0.5 * (1 - j)) for j in range(1, d + 1))
    constant = degrees * d * (math.log(gamma) - 0.5 * math.log(2)) - log_gamma_distrib
    for k in range(K):
        frobenius = sum(math.exp(q) ** 2 for q in icf[k, :d]) + sum(value ** 2 for value in icf[k, d:])
        total += 0.5 * gamma ** 2 * frobenius - m * sum(icf[k, :d])
    return float(total - K * constant)


def ba(cameras: Any, points: Any, weights: Any, camera: Any, point: Any, features: Any) -> float:
    """One observation after another; the rotation is the exponential of a skew-symmetric matrix."""
    total = 0.0
    for weight, i, j, feature in zip(weights, camera, point, features):
        a, b, c = cameras[i, :3]
        x, y, z = expm(np.array([[0, -c, b], [c, 0, -a], [-b, a, 0]])) @ (points[j] - cameras[i, 3:6])
        focal, u0, v0, k1, k2 = cameras[i, 6:]
        square = (x / z) ** 2 + (y / z) ** 2
        scale = focal * (1 + k1 * square + k2 * square ** 2) / z
        for image, seen in ((x * scale + u0, feature[0]), (y * scale + v0, feature[1])):
            total += 0.5 * (weight * (image - seen)) ** 2
        total += 0.5 * (1 - weight ** 2) ** 2
    return total


def lstm(main: Any, extra: Any, state: Any, sequence: Any) -> float:
    """As ADBench's C++ has it."""
    (characters, bits), layers = sequence.shape, len(main) // 2
    state = state.copy()
    total = 0.0
    for t in range(characters - 1):
        x = [sequence[t, j] * extra[0, j] for j in range(bits)]
        for i in range(layers):
            for j in range(bits):
                hidden, cell = state[2 * i, j], state[2 * i + 1, j]
                f, g, o, c = (main[2 * i, k * bits + j] * (hidden if k % 2 else x[j]) + main[2 * i + 1, k * bits + j] for k in range(4))
                cell = cell / (1 + math.exp(-f)) + math.tanh(c) / (1 + math.exp(-g))
                x[j] = math.tanh(cell) / (1 + math.exp(-o))
                state[2 * i, j], state[2 * i + 1, j] = x[j], cell
        predicted = [x[j] * extra[1, j] + extra[2, j] for j in range(bits)]
        norm = math.log(2 + sum(map(math.exp, predicted)))
        total += sum(sequence[t + 1, j] * (predicted[j] - norm) for j in range(bits))
    return -total / (bits * (characters - 1))


def gp(amplitude: float, lengthscale: float, noise: float, x: Any, y: Any) -> float:
    K = [[math.exp(2 * amplitude - math.dist(a, b) ** 2 / math.exp(lengthscale) ** 2 / 2) for b in x] for a in x]
    return -float(multivariate_normal(cov=K + math.exp(noise) ** 2 * np.eye(len(x))).logpdf(y))


def rk4(x: float, y: float, z: float, sigma: float, rho: float, beta: float, dt: float, steps: int) -> float:
    """The solution that the method approximates, to six digits at these sizes."""
    def slope(_: float, at: Any) -> list[float]:
        return [sigma * (at[1] - at[0]), at[0] * (rho - at[2]) - at[1], at[0] * at[1] - beta * at[2]]
    end = solve_ivp(slope, (0, dt * steps), [x, y, z], rtol=1e-11, atol=1e-11).y[:, -1]
    return float(end @ end)


def fft_filter(signal: Any, cutoff: float, delay: float, target: Any) -> float:
    """Every transform as the sum that it is."""
    n = len(signal)
    filtered = np.zeros(n, complex)
    for k in range(n):
        f = (k if k <= n // 2 else k - n) / n
        response = np.exp(-2j * np.pi * f * delay) / (1 + (f / cutoff) ** 2)
        if 2 * k == n:
            response = response.real  # what the inverse of a real signal's transform takes of the last frequency
        wave = np.exp(2j * np.pi * k * np.arange(n) / n)
        filtered += wave * response * (signal @ wave.conj()) / n
    assert abs(filtered.imag).max() < 1e-12
    return float(sum((a - b) ** 2 for a, b in zip(filtered.real, target)) / (2 * n))


def filling(x: Any) -> float:
    u = [sum(0.5 ** (i - j) * x[j] for j in range(i + 1)) for i in range(len(x))]
    return sum(value ** 2 for value in u)


def transformer(tokens: Any, labels: Any, heads: int, **w: Any) -> float:
    """A block, one sequence, head and position after the other."""
    def norm(x: Any, name: str) -> Any:
        return (x - x.mean()) / np.sqrt(x.var() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x: Any) -> Any:
        return x * (1 + erf(x / math.sqrt(2))) / 2
    w = {name: value.astype(float) for name, value in w.items()}
    losses = []
    for sequence, wanted in zip(tokens, labels):
        xs = [w["embedding.weight"][token] for token in sequence]
        projected = [w["attention.in_proj_weight"] @ norm(x, "norm1") + w["attention.in_proj_bias"] for x in xs]
        split = [np.reshape(part, (3, heads, -1)) for part in projected]
        for at, (x, label) in enumerate(zip(xs, wanted)):
            mixed = []
            for head in range(heads):
                q = split[at][0, head]
                weights = np.exp([q @ split[i][1, head] / math.sqrt(len(q)) for i in range(at + 1)])
                mixed.append(sum(weight * split[i][2, head] for i, weight in enumerate(weights / weights.sum())))
            x = x + w["attention.out_proj.weight"] @ np.concatenate(mixed) + w["attention.out_proj.bias"]
            h = gelu(w["mlp.0.weight"] @ norm(x, "norm2") + w["mlp.0.bias"])
            scores = w["out.weight"] @ (x + w["mlp.2.weight"] @ h + w["mlp.2.bias"]) + w["out.bias"]
            losses.append(-log_softmax(scores)[label])
    return float(np.mean(losses))
