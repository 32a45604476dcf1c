"""python -m bench.loops: ordinary programs with loops, compiled beside themselves.

Each is a loop as users write it: a solver, an optimiser, a stencil, a network, a list of what each step makes. A row is
the shortest call of the program and of its compiled gradient, by turns in one process, and how many seconds of the
processor making that took. None is a problem of `python -m bench`: a row that stands out is a mechanism to mend.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table

import tapegrad as tg
from bench.machine import describe, load

STEPS = 100


def adam(x: Any, y: Any) -> Any:
    """An optimiser inside of the program."""
    m, v = np.zeros(len(x)), np.zeros(len(x))
    for t in range(1, STEPS):
        g = 2 * (x - y)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        x = x - 0.01 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.99 ** t)) + 1e-8)
    return np.sum(x * x)


def attention(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        e = np.exp(x - x.max())
        x = e / e.sum() + 0.5 * y * x
    return np.sum(x * x)


def clipped(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = np.where(x > 0.5, np.clip(x * y, -1, 1) + 0.1, np.maximum(x, 0.1 * y))
    return np.sum(x)


def contraction(x: Any, a: Any) -> Any:
    for _ in range(STEPS):
        x = np.einsum("i,ij->j", x, a) * 0.1 + x
    return np.sum(x)


def convolved(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = np.convolve(x, y[:3], mode="same")
    return np.sum(x * x)


def heat(u: Any, k: Any) -> Any:
    """A stencil written into an array of zeros."""
    for _ in range(STEPS):
        lap = np.zeros_like(u)
        lap[1:-1, 1:-1] = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        u = u + 0.1 * np.tanh(k) * lap
    return np.sum(u * u)


def heat_by_roll(u: Any, k: Any) -> Any:
    for _ in range(STEPS):
        u = u + 0.1 * np.tanh(k) * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
    return np.sum(u * u)


def interpolated(x: Any, y: Any) -> Any:
    at = np.linspace(0, 1, len(y))
    for _ in range(STEPS):
        x = x + 0.01 * np.interp(x, at, y)
    return np.sum(x)


def inverse(a: Any, b: Any) -> Any:
    for _ in range(STEPS // 4):
        a = np.linalg.inv(a) + np.diag(b[0])
    return np.sum(a)


def kalman(a: Any, x: Any) -> Any:
    p, q = np.eye(len(a)), 0.1 * np.eye(len(a))
    for _ in range(STEPS):
        p = a @ p @ a.T + q
        p = p / (1 + np.sum(p * p))
        x = a @ x * 0.5
    return np.sum(p) + np.sum(x)


def layers(x: Any, y: Any) -> Any:
    """Arrays that are kept in a list, and stacked."""
    found = []
    for _ in range(STEPS):
        x = np.tanh(x * y)
        found.append(x)
    return np.sum(np.stack(found) ** 2)


def network(w: Any, h: Any) -> Any:
    for _ in range(STEPS):
        h = np.tanh(w @ h)
    return np.sum(h)


def normed(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = x / np.linalg.norm(x) + y
    return np.sum(x)


def padded(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        p = np.pad(x, 1, mode="edge")
        x = x + 0.1 * y * (p[2:] + p[:-2] - 2 * x)
    return np.sum(x * x)


def rotation(q: Any, w: Any) -> Any:
    """A matrix that each step makes anew of what does not change."""
    for _ in range(STEPS):
        m = np.array([[0, -w[0], -w[1], -w[2]], [w[0], 0, w[2], -w[1]], [w[1], -w[2], 0, w[0]], [w[2], w[1], -w[0], 0]])
        q = q + 0.01 * m @ q
        q = q / np.sqrt(np.sum(q * q))
    return q[1]


def sorted_(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = x + 0.01 * np.sort(x) * y
    return np.sum(x * x)


def solved(a: Any, b: Any) -> Any:
    b = b[0]
    for _ in range(STEPS):
        b = np.linalg.solve(a, b)
        b = b / np.sqrt(np.sum(b * b))
    return np.sum(b)


def summed(x: Any, y: Any) -> Any:
    for _ in range(STEPS):
        x = np.cumsum(x) * 0.01 + x * y
    return np.sum(x)


def trajectory(x: Any, k: Any) -> Any:
    """States that are kept in a list, and made an array."""
    states = [x]
    for _ in range(STEPS):
        x = x + 0.01 * np.array([x[1], -k[0] * np.sin(x[0])])
        states.append(x)
    return np.sum((np.array(states)[:, 0] - 1) ** 2)


RNG = np.random.default_rng(0)
VECTOR, MATRIX = RNG.normal(size=40), 0.1 * RNG.normal(size=(40, 40)) + np.eye(40)
OF_VECTORS = (adam, attention, clipped, convolved, interpolated, layers, normed, padded, sorted_, summed)
CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    *((f, (VECTOR[:n] if n < 40 else np.resize(VECTOR, n), 0.3 * np.resize(VECTOR, n)[::-1].copy()))
      for f in OF_VECTORS for n in (7, 40, 200)),
    (contraction, (VECTOR, MATRIX)), *((f, (MATRIX[:20, :20].copy(), 0.3)) for f in (heat, heat_by_roll)),
    (inverse, (MATRIX, MATRIX)), (kalman, (0.3 * RNG.normal(size=(4, 4)), VECTOR[:4])),
    (network, (0.3 * RNG.normal(size=(20, 20)), VECTOR[:20])), (rotation, (VECTOR[:4], VECTOR[4:7])),
    (solved, (MATRIX, MATRIX)), (trajectory, (VECTOR[:2], VECTOR[2:3]))]


def measured(f: Callable[..., Any], args: tuple[Any, ...], seconds: float) -> dict[str, Any]:
    """Return the shortest time of a call of the program and of its compiled gradient, and what making that took."""
    step = tg.value_and_grad(f, argnums=(0, 1), warmup=1)
    step(*args)
    begun = process_time()
    step(*args)
    made = process_time() - begun
    value = step(*args)[0]
    times: dict[str, float] = {"program": np.inf, "gradient": np.inf}
    end = perf_counter() + seconds
    while perf_counter() < end:
        for name, run in (("program", f), ("gradient", step)):
            start = perf_counter()
            run(*args)
            times[name] = min(times[name], perf_counter() - start)
    return {**times, "made": made, "right": bool(np.allclose(value, f(*args), 1e-8)), "hits": step.stats.hits}  # type: ignore[attr-defined]


def main() -> None:
    """Print a table, and write it to a file if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each row")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    before, rows = load(), []
    for f, args in track(CASES, "loops", transient=True):
        found = measured(f, args, options.seconds)
        rows.append({"name": f.__name__.rstrip("_"), "size": int(np.size(args[0])), **found})
    table = Table(Column("a loop of", no_wrap=True), "numbers", "program, µs", "gradient, µs", "ratio",
                  "compiled in, s", "right")
    for row in sorted(rows, key=lambda row: -row["gradient"] / row["program"]):
        table.add_row(row["name"], str(row["size"]), f"{1e6 * row['program']:.0f}", f"{1e6 * row['gradient']:.1f}",
                      f"{row['gradient'] / row['program']:.2f}", f"{row['made']:.2f}", "yes" if row["right"] else "NO")
    Console().print(table)
    if options.json:
        found = {"machine": describe(), "load": [before, load()], "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
