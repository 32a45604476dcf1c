"""on_torch: the modes in which tapes of NumPy code run on tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import tapegrad as tg
from tapegrad.compile import memo
from tests.cases.replay import replayed
from tests.harness.compare import alike
from tests.harness.sample import Sample, draws, quiet


def tensors(args: Any) -> Any:
    """Return arguments with tensors for arrays and NumPy's numbers."""
    return tuple(torch.tensor(np.array(x, order="C")) if isinstance(x, (np.ndarray, np.generic)) else x for x in args)


def on_torch(sample: Sample) -> None:
    """A function compiled on torch, given arrays and tensors."""
    if not draws(sample) and sample.is_differentiable:
        memo.kept.clear()  # of the same function, another sample's, it would be the one that there is
        step = tg.value_and_grad(sample.loss, argnums=None, backend="torch")
        with quiet(), np.errstate(all="ignore"):
            for given in (sample.fresh(), sample.fresh(), tensors(sample.args), tensors(sample.args)):
                alike(step(*given), sample.gradient)
        assert step.stats.traces == 1  # type: ignore[attr-defined]


def tape_on_torch(sample: Sample) -> None:
    """A tape compiled on torch."""
    if draws(sample):
        return
    tape, expected = sample.best, sample.gradient if sample.is_differentiable else sample.plain
    with quiet(), np.errstate(all="ignore"):
        fast = tg.compile(tape, backend="torch", passes=())
        for given in (sample.fresh(), tensors(sample.args)):
            alike(fast(*given), expected)


def on_tensors(sample: Sample, primitive: bool) -> None:
    """Tapes recorded with arrays, played on tensors: of the value, of the gradient, and that in primitive calls."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's and SciPy's own, of the numbers that a row is about
        replayed(sample.traced[1], sample.args, "float64", "cpu")
        if sample.is_differentiable:
            replayed(sample.written, sample.args, "float64", "cpu")
            if primitive:
                replayed(sample.primitive, sample.args, "float64", "cpu")
