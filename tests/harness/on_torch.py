"""on_torch: the modes in which tapes of NumPy code run on tensors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tapegrad as tg
from tapegrad.compile import memo
from tapegrad.compile.torch import backend, buffer_reuse, masks
from tapegrad.compile.torch.tape_function import eager
from tapegrad.tree.flatten import leaves_of
from tests.cases.replay import replayed
from tests.harness.compare import alike, assert_close, numbers
from tests.harness.sample import Sample, draws, kept, quiet


def at_any_size(program: Any, leaves: list[Any]) -> Any:
    """Return a program as a function that runs it as it is and as one of large values is, with the same numbers."""
    small = eager(program, leaves)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masks, "LARGE", 0)
        patch.setattr(buffer_reuse, "LARGE", 0)
        large = eager(program, leaves)

    def run(*args: Any, **kwargs: Any) -> Any:
        copies = [kept(x) for x in args], {key: kept(x) for key, x in kwargs.items()}
        found = small(*args, **kwargs)
        for a, b in zip(leaves_of(large(*copies[0], **copies[1])), leaves_of(found), strict=True):
            assert type(a) is type(b) and getattr(a, "dtype", None) == getattr(b, "dtype", None)
            # as do complex products, of which some are contracted
            loose = 1e-12 if "fft" in large.source else 1e-15 if np.iscomplexobj(numbers(b)) else 0.0  # which library sums how depends on where in memory its arguments lie
            assert_close(numbers(a), numbers(b), loose, loose)
        return found
    run.source = large.source  # type: ignore[attr-defined]
    return run


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
    """A tape compiled on torch, where it runs as it is and as one of large values is."""
    if draws(sample):
        return
    tape, expected = sample.best, sample.gradient if sample.is_differentiable else sample.plain
    with pytest.MonkeyPatch.context() as patch, quiet(), np.errstate(all="ignore"):
        patch.setitem(backend.MODES, "auto", at_any_size)
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
