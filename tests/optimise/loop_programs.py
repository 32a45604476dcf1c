"""loop_programs: programs with loops, made at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tg

START = """
s = u * 0.5
t = x[0] + 0.25
a = x * 1.0
b = y * 2.0
c = y + 0.5
e = 1.0 + 0.5j
q = x[1] * y[1]
n = 1
g = np.outer(x[:4], y[:3])
out = np.zeros(x.shape, x.dtype)
hist = []
st = State(x[2] * 0.5)
d = {"k": y * 1.0}
"""

def _lines(text: str) -> list[str]:
    return text.replace("\n", "|").split("|")


SCALARS = _lines("""s, t = t, s + t * 0.5|s = s * 0.9 + x[i]|t = t + i * 0.5 * s|t = np.sin(s) - i|s = s + x[2 * i % 7] * y[i]|s = np.maximum(s, t) * 0.9
s = max(s, t) * 0.5|s = s + a.max() * 0.1|s = s + (a * a).sum() * 0.01|s = s + COEFFS[i] * t|n = n + 1; s = s + n * 0.1|t = math.tanh(t) + s * 0.1
s = math.cos(s) * u|t = s / (1.0 + t * t)|st.v = st.v * 0.5 + s|s = s * 0.5 + st.v|q = q + 0.0|t = t + np.sin(q) * i|e = e * 0.5j + s
s = s * 0.5 + abs(e) * 0.1|t = -t if i % 2 else t * 0.5|s = s * SIGN[i]|s = s * -i * 0.1|s = s + g[i % 4, 1] * 0.1|s = s + g.sum() * 0.05|s = a[i] * b[i - 1]
s = s * 0.5 + a[0:0].sum()|s = np.float64(s) * 0.75|s = s ** 2 * 0.1|t = abs(t) ** 0.5|s = s + i ** 2 * 0.01|n = (n * 3 + 1) % 17; t = t + n * 0.1|s = u * 1.0
s = s + a.mean() - b.min()|s = s + d["k"][i]|t = t + 0 * np.sum(a)|s, t, q = q, s, t|t = t * 0.5 + a @ b * 0.01|s = s + np.prod(a[:2])|s = s + b[3] * a[i] * i""")

ARRAYS = _lines("""a, b = b, a * 0.5 + b * 0.1|a = a + np.sin(b) * i|a[i] = s|a[i] = a[i] * 0.5 + b[i] * s|a[i] += b[i] * t|a[1:] += b[:-1] * 0.1|a[i] = a[i - 1] * 0.5 + b[i]
a[::2] *= 0.9|out[i] = s * t|out[i] = out[i - 1] * 0.5 + a[i]|out[i] += s|out[2] += a[i]|v = a[1:]; v *= 0.9|v = a[::-1]; v[i] = s|g.T[0] += a[:4] * 0.1
g[i % 4, :] = b[:3]|g[i % 4] *= 0.5|row = g[i % 4]; row[:] = row * 0.5 + s|r = a.reshape(2, -1); r[0] *= 0.5|g = g @ MATRIX|g = g * 0.5 + a[:3]|b = a|b = a.copy()
c = a; a = a * 0.5|b = c * 0.5 + 1|b = a[::-1]|b = np.concatenate([a[1:], a[:1]])|a = np.where(a > b, a, b * 0.5)|a = np.sort(a) + 0.1 * b|a = np.cumsum(a) * 0.1
a = np.maximum(a, b) * 0.5|a = a * TABLE[i]|a = a * LIST[i % 3]|a = np.tanh(a)|d["k"] = d["k"] * 0.5 + a|a = a - d["k"] * 0.1|p = x * y; a = a + p * 0.1
a = a * (x > 0)|hist.append(a * s)|hist.append(a)|hist.append(out.copy())|c = b; b = b * 0.9|a = c - a * 0.1|c[i] += s|a = a + c[i]|a = a / (1 + np.abs(a).sum())
a = a.T + 0.0|g = g.reshape(3, 4).T * 0.5|g = np.ascontiguousarray(g.T).T * 0.9|g[:, 1] = g[:, 0] * s|g.T[1, i % 4] = t|b = np.roll(a, 1)|b = a * 1.0; b[i] = 0.5|c = a[:]
b[i] = a[i]; a[i] = c[i]|a[i], a[i - 1] = a[i - 1], a[i]|a = np.asarray([s, t] * (len(a) // 2)) * 0.3|c = g[:, 0].sum() + c|a = a + np.broadcast_to(s, a.shape) * 0.1|c = np.zeros_like(a)
a = a.astype(x.dtype)|a = np.full(a.shape, 0.25) + t|c = np.full_like(c, 0.5); c[i] = s|a -= b * 0.05|b = np.flip(b)|c[1:3] = a[i:i + 2]|a = np.abs(a)|a[x > 0.5] = s|a = np.clip(a, -2, 2)""")

OTHERS = [
    "if s > t: s = s * 0.5", "if s > 5: break", "if a.sum() > 3: a = a * 0.5",
    'try:\n    s = s * 0.5 + math.sqrt(s)\nexcept ValueError:\n    s = -s\nwith np.errstate(all="ignore"): s = s * 0.5 + np.log(np.abs(s) + 1)',
    "t = t + a[b > 0].sum() * 0.1", "for j in range(3): s = s * 0.9 + a[j] * 0.1", "for j in range(4): g[j] = g[j] * 0.9 + s",
    "for j in range(3): a[j] = a[j + 1] * 0.5 + i * j * 0.1",
    "for j in range(4):\n    for k in range(3): g[j, k] = g[j, k] * 0.8 + g[j - 1, k - 1] * 0.1\nk = 0\nwhile k < 3 and s < 4:\n    s = s * 1.3 + 0.1\n    k += 1",
    "s = twice(s)", "if i == 3: a = a * 2", "for v in a[:3]: t = t + v * v * 0.1", "for j in range(2): c = a; a = a * 0.9 + b[i + j] * 0.1",
    "for j in range(3): b = a; a[j] = a[j] * 0.5 + s", "for j in range(4): out[j] = out[j - 1] * 0.5 + s; t = t + out[2]",
    "if a[i] > b[i]: t = t + 1", "if s > 1: n = n + 1", "if i == 2: continue", "for j in range(3): hist.append(a * j)", "if s != s: break",
    "for row in g: t = t + row.sum() * 0.1; row *= 0.9",
]

MIXTURES = [(1, 0, 0), (2, 5, 0), (2, 5, 0), (1, 2, 1), (0, 1, 0), (3, 3, 2)]  # how often a line is of each of the three


def program(seed: int) -> str:
    """Return the text of `f(x, y, u)`: one to three loops, one after the other."""
    rng = random.Random(seed)
    tables = rng.choices([SCALARS, ARRAYS, OTHERS], rng.choice(MIXTURES), k=8)
    lines = START.strip().split("\n")
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        body = [rng.choice(table) for table in tables[:rng.randint(1, 6)]]
        rng.shuffle(tables)
        count = rng.randint(3, 11)
        often = f"int(abs(u) * 2) % 4 + {min(count, 8)}"
        lines.append(f"for i in range({rng.choice([f'{count}', f'{count}', f'{count}, 0, -1', often])}):")
        lines += [f"    {line}" for part in body for line in part.split("\n")]
        lines += rng.choices(SCALARS + ARRAYS, k=rng.choice([0, 0, 1, 2]))
    lines.append("return total(s, t, a, b, c, e, g, out, hist, st.v, d['k'], u)")
    return "def f(x, y, u):\n    i = 1\n" + "".join(f"    {line}\n" for line in lines)


class State:
    """A value that a program keeps in an object."""

    def __init__(self, v: Any) -> None:
        self.v = v


@tg.primitive
def twice(x: Any) -> Any:
    """Return 2x, by a rule of the user's."""
    return 2 * x


@tg.rrule(twice)
def _(x: Any) -> Any:
    return 2 * x, lambda dy: (2 * dy,)


def total(*parts: Any) -> Any:
    """Return a number that depends on all parts."""
    found: Any = 0.0
    for k, part in enumerate(parts):
        for piece in part[-3:] if isinstance(part, list) else [part]:
            if isinstance(piece, complex):
                found = found + abs(piece) * 0.1
            elif np.ndim(piece):
                found = found + (piece * np.linspace(0.1, 1.0 + 0.1 * k, np.size(piece)).reshape(np.shape(piece))).sum()
            else:
                found = found + piece * (0.3 + k)
    return found


def made(seed: int) -> Callable[..., Any]:
    """Return a program as a function."""
    rng = np.random.default_rng(seed)
    namespace: dict[str, Any] = {
        "np": np, "math": math, "total": total, "State": State, "twice": twice, "COEFFS": rng.normal(size=16).tolist(), "MATRIX": rng.normal(size=(3, 3)) * 0.5,
        "TABLE": rng.normal(size=(16, 14)), "LIST": [0.5, 2.0, -1.0], "SIGN": [1, -1] * 8}
    exec(program(seed), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def arguments(seed: int) -> list[tuple[Any, ...]]:
    """Return several sets of arguments: of one kind twice, of another path, of other types."""
    rng = np.random.default_rng(seed)
    kinds: list[Callable[[], tuple[Any, ...]]] = [
        lambda: (rng.normal(size=14), rng.normal(size=14), float(rng.normal())),
        lambda: (rng.normal(size=14), rng.normal(size=14), np.float64(rng.normal())),
        lambda: (rng.normal(size=14).astype(np.float32), rng.normal(size=14).astype(np.float32), float(rng.normal())),
        lambda: (rng.normal(size=14), rng.normal(size=14).astype(np.float32), np.float32(rng.normal())),
        lambda: (rng.normal(size=14), rng.normal(size=14), int(rng.integers(-3, 4))),
        lambda: (rng.normal(size=28)[::2], rng.normal(size=14)[::-1], float(rng.normal())),
    ]
    first, other = kinds[0 if seed % 3 else seed // 3 % 6], kinds[seed % 6]
    return [first(), first(), tuple(part * 3 for part in first()), other()]
