"""The problems of bench/gpu.py, each in the size that is measured and in one for a try without a GPU."""

from __future__ import annotations

from bench.problems import PROBLEMS
from bench.problems.problem import Problem, Size

SIZES: dict[str, tuple[str, Size, Size]] = {
    "elementwise": ("elementwise", {"n": 10 ** 8}, {"n": 50}),  # gets ready first, while few others hold memory
    "recurrence": ("recurrence", {"iterations": 1000}, {"iterations": 5}),
    "lstm": ("lstm", {}, {"layers": 2, "characters": 6, "bits": 3}),
    "rk4": ("rk4", {"steps": 200}, {"steps": 4}),
    "gmm 1k": ("gmm", {"n": 1000}, {"d": 3, "K": 4, "n": 6}),
    "gmm 100k": ("gmm", {"n": 100_000}, {"d": 3, "K": 4, "n": 12}),
    "ba": ("ba", {}, {"n": 2, "m": 5, "p": 7}),
    "mlp 256": ("mlp", {"batch": 256}, {"batch": 4, "inputs": 7, "hidden": 5, "hidden2": 4, "classes": 3}),
    "mlp 4096": ("mlp", {"batch": 4096}, {"batch": 8, "inputs": 7, "hidden": 5, "hidden2": 4, "classes": 3}),
    "transformer": ("transformer", {}, {"batch": 2, "length": 5, "width": 8, "heads": 2, "vocabulary": 7}),
    "gp": ("gp", {"n": 1000}, {"n": 8})}
"""By the name in the tables: the problem's name, its size, and a small one."""


def made(name: str, small: bool = False) -> Problem:
    """Return a problem with its data."""
    problem, size, little = SIZES[name]
    return PROBLEMS[problem].made(**(little if small else size))
