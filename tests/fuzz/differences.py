"""differences: a gradient against central differences along random directions, at several steps."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.leaves import Path, changed, is_smooth, leaves

STEPS = (1e-3, 1e-4, 1e-5, 1e-6)
COARSE = (1e-1, 3e-2, 1e-2, 3e-3)
FINER = (1e-6, 1e-7, 1e-8, 1e-9)  # than a program's jumps may be apart, which the others then take for a slope


def verdict(value: Callable[[Callable[[Any], Any]], Any], arguments: Any, gradient: Any, seed: int, coarse: bool) -> str:
    """Return "" where a gradient is right, "kink" where differences do not tell, and what differs where it is wrong.

    `value(move)` runs the program, with what `move` makes of its arguments, and returns a real scalar.
    """
    random = np.random.default_rng(seed)
    given = {path: x for path, x in leaves(arguments) if is_smooth(x)}
    claims = dict(leaves(gradient))
    verdicts = [along(value, direction(random, given), claims, coarse) for _ in range(2)]
    wrong = [v for v in verdicts if v not in ("", "kink")]
    return wrong[0] if len(wrong) == len(verdicts) or any(v.startswith("shape") for v in wrong) else "" if "" in verdicts else "kink"


def direction(random: np.random.Generator, given: dict[Path, Any]) -> dict[Path, Any]:
    """Draw a direction: for each leaf something of its shape."""
    found = {}
    for path, x in given.items():
        shape = np.shape(x)
        found[path] = random.normal(size=shape)
        if np.asarray(x).dtype.kind == "c":
            found[path] = found[path] + 1j * random.normal(size=shape)
    return found


def along(value: Callable[[Callable[[Any], Any]], Any], toward: dict[Path, Any], claims: dict[Path, Any], coarse: bool) -> str:
    """Compare the slope along one direction."""
    claimed, parts = 0.0, 0.0
    for path, d in toward.items():
        g = claims.get(path)
        if g is None:
            continue
        if np.shape(g) != np.shape(d):
            return f"shape {np.shape(g)} of the gradient at {list(path)}"
        terms = (np.conj(g) * d).real
        claimed, parts = claimed + float(np.sum(terms)), parts + float(np.sum(np.abs(terms)))

    def at(h: float) -> float:
        def move(arguments: Any) -> Any:
            return changed(arguments, lambda path, x: as_before(x, x + h * toward[path]) if path in toward else x)
        return float(np.real(value(move)))

    def pair(h: float) -> tuple[float, float]:
        return (at(h) - base) / h, (base - at(-h)) / h
    try:
        base = at(0.0)
        pairs = [pair(h) for h in (COARSE if coarse else STEPS)]  # no map, which a StopIteration of the program's would end
    except Exception:
        return "kink"  # on one side of here the program raises
    slopes = np.array([(right + left) / 2 for right, left in pairs])
    if not np.isfinite(slopes).all() or not np.isfinite(base):
        return "kink"
    size = max(abs(claimed), float(np.min(np.abs(slopes))), 0.02 * parts, 1e-4)
    room = (3e-2 if coarse else 1e-5) * size
    if np.any(np.abs(slopes - claimed) < room):
        return ""
    if abs(base) * 1e-15 > 1e-2 * abs(slopes[1] - claimed) * (COARSE if coarse else STEPS)[1]:
        return "kink"  # of so large a value differences tell nothing
    agree = np.abs(np.diff(slopes))  # a slope that differences agree on, and both sides
    sides = np.abs(np.array([right - left for right, left in pairs]))
    error = abs(slopes[2] - claimed) if np.isfinite(claimed) else np.inf
    steady = agree[1] < 1e-2 * abs(slopes[2]) + 1e-6 * min(error, size) and agree[2] < 0.1 * error + 1e-6 * size
    if steady and agree[1] < 0.1 * error and sides[2] < max(0.1 * min(error, 1e9), 1e-3 * size):
        try:
            near = [abs((right + left) / 2 - claimed) < 0.05 * error for right, left in [pair(h) for h in FINER]]
        except Exception:
            return "kink"
        if not any(map(operator.and_, near, near[1:])):  # between jumps it would be right
            return f"a slope of {claimed!r}, of differences {slopes.tolist()}"
    return "kink"


def as_before(x: Any, new: Any) -> Any:
    """Return a number of the type that x is of."""
    return new if isinstance(x, np.ndarray) else type(x)(new)
