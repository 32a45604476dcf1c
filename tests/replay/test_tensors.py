"""A tape that computes arrays beside tensors is played with results of the recorded types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tg

torch = pytest.importorskip("torch")
T = torch.arange(3.0, dtype=torch.float64)
MIXED: list[Callable[[Any, Any], Any]] = [
    lambda x, t: x * t.numpy().sum(), lambda x, t: np.asarray(t) * x, lambda x, t: np.sin(t.numpy()) * x, lambda x, t: np.concatenate([t.numpy(), [x]]),
    lambda x, t: (x * t, t.numpy()[1] * x), lambda x, t: torch.from_numpy(t.numpy() * x), lambda x, t: t * x, lambda x, t: np.array(t.tolist()) * x]


@pytest.mark.parametrize("g", MIXED)
def test_arrays_of_tensors_stay_arrays(g: Any) -> None:
    def program(t: Any) -> Any:
        return lambda x: g(x, t)
    closed = program(T)
    for f, args in [(closed, (2.0,)), (g, (2.0, T))]:
        tape = tg.trace(f, *args)[1]
        wanted, found = f(*args), tape.play(*args)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (wanted, found)]):
            assert type(a) is type(b) and np.array_equal(a, b)
