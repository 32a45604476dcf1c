"""sweeps: a NumPy program whose reverse sweep is again such a program, for systems that call both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.compile.compiling import compile
from tapegrad.transforms.grad import vjp
from tapegrad.tree.flatten import Structure, flatten, leaves_of


class Sweeps:
    """A program `f`. A call with arrays and numbers returns the nesting and the leaves of its result, computed by
    compiled tapes.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f, self.run = f, compile(f)
        self._pulled: dict[Any, Sweeps] = {}

    def __call__(self, *args: Any) -> tuple[Structure, list[Any]]:
        leaves: list[Any] = []
        into = flatten(self.run(*args), "", leaves, [], shared=False)
        return into, leaves

    def pulled(self, count: int, wrt: Sequence[int], returned: Sequence[int]) -> Sweeps:
        """Return the program of the reverse sweep, from the `count` arguments and the cotangents of the result's leaves
        `returned` to the cotangents of the arguments `wrt`. It recomputes `f`.
        """
        key = (count, tuple(wrt), tuple(returned))

        def chosen(*args: Any) -> tuple[Any, ...]:
            leaves = leaves_of(self.f(*args))
            return tuple([leaves[i] for i in returned])

        def sweep(*given: Any) -> tuple[Any, ...]:
            dxs = vjp(chosen, *given[:count])[1](tuple(given[count:]))
            return tuple([dxs[i] for i in wrt])
        if key not in self._pulled:
            self._pulled[key] = Sweeps(sweep)
        return self._pulled[key]


def inexact(xs: Sequence[Any]) -> list[int]:
    """Return the positions of values that have a cotangent: real and complex arrays and numbers."""
    return [i for i, x in enumerate(xs) if np.dtype(x.dtype if hasattr(x, "dtype") else np.result_type(x)).kind in "fc"]
