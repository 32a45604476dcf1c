"""Ordinary NumPy programs, as people write them: value, gradient, and replays that are right or refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.testing import contract
from tests.cases.case import draw
from tests.harness.compare import same
from tests.harness.sample import kept as fresh
from tests.harness.table import examine_program


class Program(NamedTuple):
    """A function as it stands in somebody's script, arguments, and others to replay its tape on."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    others: list[tuple[Any, ...]]
    refused: dict[str, type[Exception]] = {}  # noqa: RUF012


# -- linear systems, element by element


def thomas(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Solve a tridiagonal system."""
    n = len(d)
    cp = np.zeros(n)
    dp = np.zeros(n)
    cp[0] = c[0] / b[0]
    dp[0] = d[0] / b[0]
    for i in range(1, n):
        m = b[i] - a[i] * cp[i - 1]
        cp[i] = c[i] / m
        dp[i] = (d[i] - a[i] * dp[i - 1]) / m
    x = np.empty(n)
    x[-1] = dp[-1]
    for i in range(n - 2, -1, -1):
        x[i] = dp[i] - cp[i] * x[i + 1]
    return x


def cholesky_solve(a: Any, b: Any) -> Any:
    """Solve by a Cholesky factorisation in place, and by forward and back substitution."""
    n = a.shape[0]
    l = a.copy()
    for j in range(n):
        for k in range(j):
            l[j:, j] -= l[j:, k] * l[j, k]
        l[j, j] = np.sqrt(l[j, j])
        l[j + 1:, j] /= l[j, j]
        l[j, j + 1:] = 0.0
    y = np.zeros_like(b)
    for i in range(n):
        y[i] = (b[i] - l[i, :i] @ y[:i]) / l[i, i]
    x = np.zeros_like(b)
    for i in reversed(range(n)):
        x[i] = (y[i] - l[i + 1:, i] @ x[i + 1:]) / l[i, i]
    return x, 2 * np.sum(np.log(np.diag(l)))


def conjugate_gradients(a: Any, b: Any) -> Any:
    a = a.T @ a + np.eye(len(b))
    x = np.zeros(len(b))
    r = b - a @ x
    p = r.copy()
    rs = r @ r
    steps = 0
    while np.sqrt(rs) > 1e-9 and steps < 20:
        ap = a @ p
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        steps += 1
    return x


def gauss_jordan(a: Any) -> Any:
    """Invert with partial pivoting, rows swapped in place."""
    n = len(a)
    m = np.hstack([a, np.eye(n)])
    for i in range(n):
        pivot = i + np.argmax(np.abs(m[i:, i]))
        if pivot != i:
            m[[i, pivot]] = m[[pivot, i]]
        m[i] /= m[i, i]
        for j in range(n):
            if j != i:
                m[j] -= m[j, i] * m[i]
    return m[:, n:]


def expm(a: Any) -> Any:
    """Return the matrix exponential, by scaling and squaring of a Taylor series."""
    norm = np.max(np.sum(np.abs(a), axis=0))
    squarings = max(0, int(np.ceil(np.log2(norm))) + 1)
    a = a / 2.0 ** squarings
    term = np.eye(len(a))
    total = np.eye(len(a))
    for k in range(1, 12):
        term = term @ a / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


# -- differential equations


def heat(u: Any, alpha: Any) -> Any:
    u = u.copy()
    for _ in range(4):
        new = u.copy()
        new[1:-1] = u[1:-1] + alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
        new[0], new[-1] = new[1], 0.0
        u = new
    return u


def heat_in_place(u: Any, alpha: Any) -> Any:
    for _ in range(3):
        u[1:-1] += alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[0] = u[-1] = 0.0
    return u


def wave(u: Any, speed: Any) -> Any:
    steps, n = 5, len(u)
    field = np.zeros((steps, n))
    field[0] = u
    field[1] = u
    for t in range(1, steps - 1):
        field[t + 1, 1:-1] = 2 * field[t, 1:-1] - field[t - 1, 1:-1] + speed ** 2 * np.diff(field[t], 2)
    return field


def lorenz(state: Any, sigma: Any, rho: Any, beta: Any) -> Any:
    def rhs(s: Any) -> Any:
        x, y, z = s
        return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    h = 0.01
    for _ in range(5):
        k1 = rhs(state)
        k2 = rhs(state + h / 2 * k1)
        k3 = rhs(state + h / 2 * k2)
        k4 = rhs(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def leapfrog(q: Any, p: Any, k: Any) -> Any:
    def orbit(q: Any, p: Any) -> Any:
        while True:
            p = p - 0.05 * k * np.sin(q)
            q = q + 0.1 * p
            p = p - 0.05 * k * np.sin(q)
            yield q, p

    energy = []
    for step, (at, speed) in enumerate(orbit(q, p)):
        energy.append(speed ** 2 / 2 - k * np.cos(at))
        if step == 4:
            break
    return np.array(energy), at


# -- signals


def low_pass(x: Any, cutoff: Any) -> Any:
    spectrum = np.fft.rfft(x)
    frequency = np.fft.rfftfreq(len(x))
    return np.fft.irfft(spectrum / (1 + (frequency / cutoff) ** 4), n=len(x))


def frequency_response(poles: Any, zeros: Any, gain: Any) -> Any:
    z = np.exp(1j * np.linspace(0.1, 3.0, 5))
    h = gain * np.ones_like(z)
    for q in zeros:
        h *= (z - q) * (z - np.conj(q))
    for p in poles:
        h /= (z - p) * (z - np.conj(p))
    return 20 * np.log10(np.abs(h)), np.unwrap(np.angle(h))


def iir(b: Any, a: Any, x: Any) -> Any:
    y = np.zeros(len(x))
    for n in range(len(x)):
        y[n] = b[0] * x[n]
        for k in range(1, len(b)):
            if n - k >= 0:
                y[n] += b[k] * x[n - k] - a[k - 1] * y[n - k]
    return y


def kalman(z: Any, q: Any, r: Any) -> Any:
    a = np.array([[1.0, 0.1], [0.0, 1.0]])
    h = np.array([[1.0, 0.0]])
    x, p = np.zeros(2), np.eye(2)
    likelihood = 0.0
    track = []
    for measured in z:
        x = a @ x
        p = a @ p @ a.T + q * np.eye(2)
        s = h @ p @ h.T + r
        gain = p @ h.T @ np.linalg.inv(s)
        miss = measured - h @ x
        x = x + gain @ miss
        p = (np.eye(2) - gain @ h) @ p
        likelihood -= 0.5 * (miss @ np.linalg.solve(s, miss) + np.log(np.linalg.det(s)))
        track.append(x[0])
    return likelihood, np.array(track)


# -- learning


def mlp(params: Any, x: Any, y: Any) -> Any:
    for layer in params["layers"][:-1]:
        x = np.maximum(x @ layer["w"] + layer["b"], 0.0)
    last = params["layers"][-1]
    logits = (x @ last["w"] + last["b"]) * params["scale"]
    logits = logits - logits.max(axis=1, keepdims=True)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(y)), y].mean()


def layers(seed: int) -> dict[str, Any]:
    return {"layers": [{"w": draw(3, 4, seed=seed), "b": draw(4, seed=seed + 1)}, {"w": draw(4, 2, seed=seed + 2), "b": draw(2, seed=seed + 3)}],
            "scale": 0.7 + seed / 10}


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhqk,bkhd->bqhd", weights, v)


def k_means(points: Any, centres: Any) -> Any:
    for _ in range(2):
        distance = ((points[:, None, :] - centres[None]) ** 2).sum(-1)
        nearest = np.argmin(distance, axis=1)
        new = np.zeros_like(centres)
        for k in range(len(centres)):
            mine = points[nearest == k]
            new[k] = mine.mean(axis=0) if len(mine) else centres[k]
        centres = new
    return centres, np.min(((points[:, None, :] - centres[None]) ** 2).sum(-1), axis=1).sum()


def adam(a: Any, w: Any) -> Any:
    m, v = np.zeros(3), np.zeros(3)
    for t in range(1, 4):
        g = a.T @ (a @ w - 1)
        m = 0.9 * m + 0.1 * g
        v = 0.99 * v + 0.01 * g ** 2
        w -= 0.1 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-3)
    return w


def convolution(image: Any, kernel: Any) -> Any:
    out = np.zeros((4, 4))
    for i in range(3):
        for j in range(3):
            out += kernel[i, j] * image[i:i + 4, j:j + 4]
    return np.maximum(out, 0).reshape(2, 2, 2, 2).max(axis=(1, 3))


class Kernel:
    """A kernel that remembers what it has computed."""

    def __init__(self, length: float) -> None:
        self.length = length
        self.cache: dict[tuple[int, int], Any] = {}

    def __call__(self, xs: Any, i: int, j: int) -> Any:
        key = (min(i, j), max(i, j))
        if key not in self.cache:
            self.cache[key] = np.exp(-((xs[i] - xs[j]) ** 2) / (2 * self.length ** 2))
        return self.cache[key]


def gram(xs: Any, length: Any) -> Any:
    kernel = Kernel(length)
    n = len(xs)
    k = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            k[i, j] = kernel(xs, i, j)
    assert len(kernel.cache) == n * (n + 1) // 2
    return k @ xs


# -- arrays, written to


def softplus(x: Any) -> Any:
    out = np.empty_like(x)
    large = x > 1.0
    out[large] = x[large] + np.log1p(np.exp(-x[large]))
    out[~large] = np.log1p(np.exp(x[~large]))
    return out


def bubble_sort(x: Any) -> Any:
    x = x.copy()
    for i in range(len(x)):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    return x * np.arange(len(x))


def rotate(t: Any, points: Any) -> Any:
    turn = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    return points @ turn.T


def soft_edit_distance(a: Any, b: Any, gap: Any) -> Any:
    n, m = len(a), len(b)
    table = np.full((n + 1, m + 1), np.inf)
    table[0, 0] = 0.0
    for i in range(1, n + 1):
        table[i, 0] = table[i - 1, 0] + gap
    for j in range(1, m + 1):
        table[0, j] = table[0, j - 1] + gap
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            ways = np.array([table[i - 1, j] + gap, table[i, j - 1] + gap, table[i - 1, j - 1] + (a[i - 1] - b[j - 1]) ** 2])
            least = ways.min()
            table[i, j] = least - np.log(np.sum(np.exp(least - ways)))
    return table[n, m]


def tree_sum(node: Any) -> Any:
    if not isinstance(node, (list, tuple)):
        return np.tanh(node) * node
    return sum(tree_sum(child) for child in node) ** 2 / len(node)


def newton(c: Any) -> Any:
    x = c / 2
    while abs(x * x - c) > 1e-10:
        x = 0.5 * (x + c / x)
    return x


def mandelbrot_distance(c: Any) -> Any:
    z, dz = 0j, 0j
    for _ in range(6):
        dz = 2 * z * dz + 1
        z = z * z + c
        if abs(z) > 4:
            break
    return abs(z) * np.log(abs(z)) / abs(dz)


def discrete_fourier(x: Any) -> Any:
    """Transform recursively, by Cooley and Tukey's radix 2."""
    n = len(x)
    if n == 1:
        return x.astype(complex)
    even, odd = discrete_fourier(x[::2]), discrete_fourier(x[1::2])
    turned = np.exp(-2j * np.pi * np.arange(n // 2) / n) * odd
    return np.concatenate([even + turned, even - turned])


SPD = draw(4, 4) @ draw(4, 4).T + 4 * np.eye(4)
POLES = np.array([0.5 + 0.4j, -0.3 + 0.6j])
POINTS = np.array([[0.1, 0.2], [0.3, -0.1], [2.0, 2.2], [2.4, 1.9], [0.0, 0.4]])

PROGRAMS = {
    "thomas": Program(thomas, (draw(5), 5 + draw(5, seed=1), draw(5, seed=2), draw(5, seed=3)), [(draw(5, seed=4), 6 + draw(5), draw(5), draw(5))]),
    "cholesky": Program(cholesky_solve, (SPD, draw(4)), [(SPD + np.eye(4), draw(4, seed=1)), (SPD[:3, :3], draw(3))]),
    "conjugate gradients": Program(conjugate_gradients, (draw(3, 3), draw(3)), [(draw(3, 3, seed=1), draw(3)), (np.eye(3), draw(3)), (np.zeros((3, 3)), draw(3))]),
    "gauss jordan": Program(gauss_jordan, (draw(3, 3),), [(draw(3, 3) * 1.1,), (draw(3, 3)[::-1].copy(),)]),
    "expm": Program(expm, (draw(3, 3),), [(draw(3, 3)[:, ::-1].copy(),), (draw(3, 3) * 9,)]),
    "heat": Program(heat, (draw(6), 0.2), [(draw(6, seed=1), 0.3), (draw(7), 0.2)]),
    "heat in place": Program(heat_in_place, (draw(6), 0.2), [(draw(6, seed=1), 0.3), (draw(7), 0.2)]),
    "wave": Program(wave, (draw(6), 0.5), [(draw(6, seed=1), 0.7), (draw(7), 0.5)]),
    "runge kutta": Program(lorenz, (draw(3), 10.0, 28.0, 8 / 3), [(draw(3, seed=1), 9.0, 20.0, 2.0)]),
    "leapfrog": Program(leapfrog, (0.5, 0.1, 1.3), [(0.2, 0.3, 1.0)]),
    "low pass": Program(low_pass, (draw(8), 0.2), [(draw(8, seed=1), 0.3), (draw(7), 0.2)]),
    "frequency response": Program(frequency_response, (POLES, POLES[::-1] * 1.7, 1.5), [(POLES * 0.9, POLES, 1.0)]),
    "iir": Program(iir, (draw(3), draw(2), draw(6)), [(draw(3, seed=1), draw(2), draw(6)), (draw(2), draw(1), draw(6))]),
    "kalman": Program(kalman, (draw(4), 0.1, 0.5), [(draw(4, seed=1), 0.2, 0.3), (draw(5), 0.1, 0.5)]),
    "mlp": Program(mlp, (layers(0), draw(5, 3), np.array([0, 1, 1, 0, 1])), [(layers(3), draw(5, 3, seed=1), np.array([1, 1, 0, 0, 1])), (layers(0), draw(2, 3), np.array([1, 0]))]),
    "attention": Program(attention, (draw(1, 3, 2, 2), draw(1, 3, 2, 2, seed=1), draw(1, 3, 2, 2, seed=2)),
                         [(draw(1, 3, 2, 2, seed=3), draw(1, 3, 2, 2), draw(1, 3, 2, 2)), (draw(2, 3, 1, 2), draw(2, 3, 1, 2), draw(2, 3, 1, 2))]),
    "k means": Program(k_means, (POINTS, POINTS[[0, 2]]), [(POINTS * 1.1, POINTS[[1, 3]]), (POINTS, POINTS[[2, 3]]), (POINTS[::-1].copy(), POINTS[[0, 2]])]),
    "adam": Program(adam, (draw(4, 3), draw(3)), [(draw(4, 3, seed=1), draw(3)), (draw(2, 3), draw(3))]),
    "convolution": Program(convolution, (draw(6, 6), draw(3, 3)), [(draw(6, 6, seed=1), draw(3, 3))]),
    "gram": Program(gram, (draw(3), 0.8), [(draw(3, seed=1), 1.2), (draw(4), 0.8)]),
    "softplus": Program(softplus, (draw(6),), [(draw(6) + 0.5,), (draw(6)[::-1].copy(),), (draw(6) * 9,)]),
    "bubble sort": Program(bubble_sort, (draw(5),), [(draw(5) * 2,), (draw(5)[::-1].copy(),)]),
    "rotation": Program(rotate, (0.3, draw(4, 2)), [(0.7, draw(4, 2, seed=1)), (0.3, draw(3, 2))]),
    "soft edit distance": Program(soft_edit_distance, (draw(3), draw(4, seed=1), 0.6), [(draw(3, seed=2), draw(4), 0.9), (draw(2), draw(4), 0.6)]),
    "tree sum": Program(tree_sum, ([0.3, [0.5, -1.0, [2.0]], (0.7, 0.1)],), [([0.4, [0.2, 1.0, [0.3]], (0.1, 0.9)],)]),
    "newton": Program(newton, (3.0,), [(3.1,), (4.0,), (300.0,), (1e-3,)]),
    "mandelbrot": Program(mandelbrot_distance, (-0.4 + 0.6j,), [(-0.5 + 0.5j,), (1.5 + 1j,), (3 + 3j,)]),
    "discrete fourier": Program(discrete_fourier, (draw(8),), [(draw(8, seed=1),), (draw(4),)]),
}
ROWS = [pytest.param(program, id=name) for name, program in PROGRAMS.items()]


@pytest.mark.parametrize("program", ROWS)
def test_every_mode(program: Program) -> None:
    before = fresh(program.args)
    examine_program(program.fn, program.args, program.refused)
    same(program.args, before, 0.0)


@pytest.mark.parametrize("program", ROWS)
def test_a_replay_is_right_or_refused(program: Program) -> None:
    _, tape = tg.trace(program.fn, *fresh(program.args))
    written = tg.gradtape(lambda *xs: contract(program.fn(*xs)), *fresh(program.args))
    flat = tg.primitivize(written)
    replays = 0
    for args in program.others:
        expected = program.fn(*fresh(args))
        gradient = tg.grad(lambda *xs: contract(program.fn(*xs)), *fresh(args))
        for other, wanted in ((tape, expected), (written, gradient), (flat, gradient)):
            try:
                played = other.play(*fresh(args))
            except tg.GuardError:
                continue
            same(played, wanted, 1e-12)
            replays += 1
    assert replays, "no tape was replayed: choose others on the recorded path too"


@pytest.mark.parametrize(("f", "x", "error"), [
    (lambda x: math.log(x), -1.0, ValueError), (lambda x: math.log(x, 3.0), 0.0, ValueError), (lambda x: math.sqrt(x), -1.0, ValueError),
    (lambda x: math.exp(x), 1e4, OverflowError), (lambda x: math.log(x), 1j, TypeError), (lambda x: math.fsum([x, 1.0]), 1j, TypeError),
    (lambda x: math.hypot(x, 1.0), 1j, TypeError)])
def test_math_raises_what_it_raises(f: Any, x: Any, error: type[Exception]) -> None:
    for run in (f, lambda x: tg.grad(f, x)):
        with pytest.raises(error):
            run(x)


def test_math_gives_python_numbers() -> None:
    for f in (math.log, math.sqrt, lambda x: math.hypot(x, 3.0), lambda x: math.hypot(x, 1.0, 2.0), lambda x: math.log(x, 3.0), lambda x: math.dist((x, 1.0), (2.0, x))):
        for x in (2.5, np.float64(2.5), np.float32(2.5)):
            value, tape = tg.trace(lambda x, f=f: f(x), x) if f not in (math.log, math.sqrt) else tg.trace(f, x)
            assert value == f(x) and type(value) is float and tape.play(x) == pytest.approx(value)
    assert tg.trace(lambda x: x * math.floor(x) + math.ceil(x) * x, np.float32(2.5))[0] == 12.5
