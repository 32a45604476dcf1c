"""The objectives of some problems as loops that make small arrays, or write into arrays made beforehand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench.problems.gmm import wishart_constant


def recurrence(x: Any, r: Any, iterations: int) -> Any:
    """Compute what `recurrence.objective` does, in an array of the whole orbit."""
    orbit = np.empty(iterations + 1)
    orbit[0] = r
    for i in range(iterations):
        orbit[i + 1] = orbit[i] * x - np.sin(orbit[i])
    return orbit[iterations]


def rosenbrock(x: Any) -> Any:
    """Compute what `rosenbrock.objective` does, in an array with a row for each kind of term."""
    terms = np.zeros((2, len(x)))
    for i in range(len(x) - 1):
        terms[0, i] = x[i + 1] - x[i] ** 2
        terms[1, i] = 1.0 - x[i]
    return 100.0 * np.sum(terms[0] ** 2) + np.sum(terms[1] ** 2)


def rk4(x: Any, y: Any, z: Any, sigma: Any, rho: Any, beta: Any, dt: float, steps: int) -> Any:
    """Compute what `rk4.objective` does, with the state as an array of three."""
    def slope(u: Any) -> Any:
        return np.array([sigma * (u[1] - u[0]), u[0] * (rho - u[2]) - u[1], u[0] * u[1] - beta * u[2]])
    state = np.array([x, y, z])
    for _ in range(steps):
        a = slope(state)
        b = slope(state + 0.5 * dt * a)
        c = slope(state + 0.5 * dt * b)
        d = slope(state + dt * c)
        state = state + dt / 6 * (a + 2.0 * (b + c) + d)
    return np.sum(state * state)


def lstm(main: Any, extra: Any, state: Any, sequence: Any) -> Any:
    """Compute what `lstm.objective` does, with states that are written in place."""
    characters, bits = sequence.shape
    layers = len(main) // 2
    hidden, cell, total = np.empty((layers, bits)), np.empty((layers, bits)), np.zeros(characters - 1)
    hidden[:], cell[:] = state[::2], state[1::2]
    gates = np.empty((4, bits))
    for t in range(characters - 1):
        x = sequence[t] * extra[0]
        for i in range(layers):
            weight, bias = main[2 * i].reshape(4, bits), main[2 * i + 1].reshape(4, bits)
            gates[0], gates[1], gates[2], gates[3] = x, hidden[i], x, hidden[i]
            seen = gates * weight + bias
            forget, take, give = 1.0 / (1.0 + np.exp(-seen[:3]))
            cell[i] = cell[i] * forget + take * np.tanh(seen[3])
            hidden[i] = give * np.tanh(cell[i])
            x = hidden[i]
        predicted = x * extra[1] + extra[2]
        total[t] = np.sum(sequence[t + 1] * (predicted - np.log(2.0 + np.sum(np.exp(predicted)))))
    return -np.sum(total) / (bits * (characters - 1))


def gmm(alphas: Any, means: Any, icf: Any, x: Any, gamma: float, m: int) -> Any:
    """Compute what `gmm.objective` does, a component at a time."""
    (n, d), K = x.shape, len(means)
    scores, squares, sums = np.empty((K, n)), np.empty(K), np.empty(K)
    for k in range(K):
        Q, at = np.diag(np.exp(icf[k, :d])), d
        for j in range(d - 1):
            Q[j + 1:, j] = icf[k, at:at + d - 1 - j]
            at += d - 1 - j
        sums[k], squares[k] = np.sum(icf[k, :d]), np.sum(Q ** 2)
        scores[k] = alphas[k] + sums[k] - 0.5 * np.sum(((x - means[k]) @ Q.T) ** 2, axis=1)
    top, first = np.max(scores, axis=0), np.max(alphas)
    likelihood = np.sum(top + np.log(np.sum(np.exp(scores - top), axis=0)))
    weights = first + np.log(np.sum(np.exp(alphas - first)))
    prior = 0.5 * gamma ** 2 * np.sum(squares) - m * np.sum(sums) - K * wishart_constant(d, gamma, int(m))
    return likelihood - n * weights - n * d * 0.5 * math.log(2 * math.pi) + prior


def ba(cameras: Any, points: Any, weights: Any, camera: Any, point: Any, features: Any) -> Any:
    """Compute what `ba.objective` does, in arrays that are written column by column."""
    seen = cameras[camera]
    v, x = seen[:, :3], points[point] - seen[:, 3:6]
    angle = np.sqrt(v[:, 0] ** 2 + v[:, 1] ** 2 + v[:, 2] ** 2)
    axis, across, inside = np.empty((len(x), 3)), np.empty((len(x), 3)), np.empty((len(x), 3))
    for i in range(3):
        axis[:, i] = v[:, i] / angle
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        across[:, i] = axis[:, j] * x[:, k] - axis[:, k] * x[:, j]
    along = np.sum(axis * x, axis=1) * (1.0 - np.cos(angle))
    for i in range(3):
        inside[:, i] = x[:, i] * np.cos(angle) + across[:, i] * np.sin(angle) + axis[:, i] * along
    flat, errors = np.empty((len(x), 2)), np.empty((len(x), 2))
    for i in range(2):
        flat[:, i] = inside[:, i] / inside[:, 2]
    square = flat[:, 0] ** 2 + flat[:, 1] ** 2
    distortion = 1.0 + seen[:, 9] * square + seen[:, 10] * square ** 2
    for i in range(2):
        errors[:, i] = weights * (flat[:, i] * distortion * seen[:, 6] + seen[:, 7 + i] - features[:, i])
    return 0.5 * (np.sum(errors ** 2) + np.sum((1.0 - weights ** 2) ** 2))
