"""Case: one row of the table of ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """A function as a user calls it, the ops it exercises, samples of its arguments, and inputs that it must refuse.

    Each sample is a tuple of positional arguments; what is not an array or a number among them is static. `torch` is
    the same function of torch tensors, where there is one. `errors` pairs arguments with the exception that plain
    NumPy raises for them, and tapegrad must raise too. `smooth` allows second-order checks; `grid` says that samples may not be
    moved (ties and kinks have a convention, not a derivative). Cases of one `kind` have ops that one function defines:
    what is the same for all of them, that they are saved and compiled, is tested with the first.
    """

    name: str
    fn: Callable[..., Any]
    samples: Sequence[tuple[Any, ...]]
    ops: tuple[str, ...] = ()
    torch: Callable[..., Any] | None = None
    errors: Sequence[tuple[tuple[Any, ...], type[Exception]]] = field(default=())
    smooth: bool = True
    kind: str = ""

    def __post_init__(self) -> None:
        if not self.ops:
            object.__setattr__(self, "ops", (self.name.partition(":")[0],))


def does(fn: Callable[..., Any], *args: Any) -> bool:
    """True if this version of NumPy or SciPy has a function for such arguments: cases of newer ones are left out."""
    try:
        fn(*args)
    except ValueError:
        return False
    return True


def draw(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0, dtype: Any = float) -> Any:
    """Return an array of distinct values from (low, high), reproducible; for an integer dtype, of integers."""
    rng = np.random.default_rng([seed, *shape])
    if np.dtype(dtype).kind in "iu":
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    # evenly spread and shuffled, not drawn: neighbours stay apart, so that a step of a central difference makes no tie
    size = int(np.prod(shape))
    x = (low + (high - low) * (np.arange(size) + 0.5 + 0.2 * rng.random(size)) / max(size, 1)).reshape(shape)
    return rng.permuted(x).astype(dtype)[()] if shape else x[()]
