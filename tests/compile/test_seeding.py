"""A program that seeds a random generator itself: compiled, it draws the plain program's numbers, leaves generators in the plain program's
states, and hits, or says once why it does not, with the line and what to do."""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tapegrad as tg

OWN = torch.Generator()


def seeded(x: Any) -> Any:
    torch.manual_seed(3)
    return (x * torch.randn(3)).sum()


def seeded_later(x: Any) -> Any:
    x = x * torch.randn(3)
    torch.manual_seed(3)
    return (F.dropout(x, 0.5) * torch.rand_like(x)).sum()


def forked(x: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        y = torch.randn(3)
    return (x * y * torch.randn(3)).sum()


def seeded_for_nothing(x: Any) -> Any:
    torch.manual_seed(3)
    return (x * x).sum()


def seeded_own(x: Any) -> Any:
    OWN.manual_seed(3)
    return (x * torch.randn(3, generator=OWN)).sum()


def made_inside(x: Any) -> Any:
    return (x * torch.randn(3, generator=torch.Generator().manual_seed(3))).sum()


def seeded_numpy(x: Any) -> Any:
    np.random.seed(3)
    return (x * np.random.randn(3)).sum()


def seeded_numpy_for_nothing(x: Any) -> Any:
    np.random.seed(3)
    return (x * x).sum()


def seeded_python(x: Any) -> Any:
    random.seed(3)
    return (x * random.gauss(0.0, 1.0)).sum()


def seeded_python_for_nothing(x: Any) -> Any:
    random.seed(3)
    return (x * x).sum()


ARRAY, TENSOR = np.ones(3), torch.ones(3)
OF_TORCH = "sets the state of torch's global generator"
CASES: list[tuple[Any, Any, str]] = [
    (seeded, TENSOR, OF_TORCH), (seeded_later, TENSOR, OF_TORCH), (forked, TENSOR, OF_TORCH), (seeded_for_nothing, TENSOR, OF_TORCH),
    (seeded_own, TENSOR, "draws from a torch.Generator, which was seeded just before"), (made_inside, TENSOR, ""),
    (seeded_numpy, ARRAY, ""), (seeded_numpy_for_nothing, ARRAY, ""),
    (seeded_python, ARRAY, "calls random.seed"), (seeded_python_for_nothing, ARRAY, "calls random.seed"),
]


def run(f: Any, x: Any, k: int) -> tuple[Any, ...]:
    """Return what a function returns when generators are seeded outside, and what they draw next."""
    torch.manual_seed(k)
    np.random.seed(k)
    random.seed(k)
    OWN.manual_seed(k)
    torch.rand(2, generator=OWN)
    y = f(x)
    return float(y[0] if isinstance(y, tuple) else y), float(torch.rand(())), np.random.rand(), random.random(), float(torch.rand((), generator=OWN))


@pytest.mark.parametrize("make", [tg.compile, tg.value_and_grad])
@pytest.mark.parametrize(("f", "x", "why"), CASES)
def test_a_program_that_seeds(f: Any, x: Any, why: str, make: Any) -> None:
    step = make(f, warmup=1, **({"backend": "torch"} if x is TENSOR else {}))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(12):
            assert run(step, x, k) == pytest.approx(run(f, x, k), rel=1e-6)
    told = [str(warning.message) for warning in caught if warning.category is tg.RetraceWarning]
    assert len(told) == (1 if why else 0), told
    assert step.stats.hits == 0 if why else step.stats.hits > 5
    if why:
        line = f.__code__.co_firstlineno + (2 if f in (seeded_later, forked, seeded_own) else 1)
        assert why in told[0] and f"test_seeding.py:{line} in" in told[0] and "Generator" in told[0] + told[0].replace("default_rng", "Generator")
