"""Ops that make an array of nothing but its shape. What they make may be written in place at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.rules import define


def _make(name: str, impl: Any) -> Any:
    return define(name, impl, differentiable=False, owns=True)


zeros = _make("zeros", np.zeros)
ones = _make("ones", np.ones)
empty = _make("empty", np.zeros)  # what the program does not write is 0 on every run
full = _make("full", np.full)
zeros_like = _make("zeros_like", np.zeros_like)
ones_like = _make("ones_like", np.ones_like)
empty_like = _make("empty_like", np.zeros_like)
full_like = _make("full_like", np.full_like)
