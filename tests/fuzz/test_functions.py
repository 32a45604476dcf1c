"""The sweep over the functions of NumPy, SciPy and torch finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg
from tapegrad.rules.registry import DISPATCH
from tests.fuzz.functions import examine, namespace

SOUND = ("np.sin", "np.shape", "np.sum", "np.concatenate", "np.clip", "np.maximum", "np.linalg.norm", "x.reshape", "np.fft.fft")


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_function_has_no_finds(name: str) -> None:
    assert not [find for seed in range(8) for find in examine(seed, name)[0]]


def test_a_wrong_meaning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Any = DISPATCH[np.shape]
    monkeypatch.setitem(DISPATCH, np.shape, lambda a: () if isinstance(a, list) else right(a))
    found = [find for seed in range(60) for find in examine(seed, "np.shape")[0]]
    assert "f([x, y])" in {find.form for find in found}


@pytest.mark.parametrize("name", ["torch.square", "Tensor.add_", "torch.amax", "special.gammaln", "stats.norm.logpdf", "signal.correlate"])
def test_a_sound_function_of_another_library_has_no_finds(name: str) -> None:
    assert not [find for seed in range(8) for find in examine(seed, name)[0] if find.silent]


@pytest.mark.parametrize(("name", "mode"), [("torch.square", "torch.autograd"), ("special.gammaln", "differences")])
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, name: str, mode: str) -> None:
    fn = namespace(name).functions[name]
    right: Any = DISPATCH[fn]
    monkeypatch.setitem(DISPATCH, fn, lambda x: (lambda y: tg.stop_gradient(y) + 0.5 * (y - tg.stop_gradient(y)))(right(x)))
    found = [find for seed in range(60) for find in examine(seed, name)[0]]
    assert any(find.mode.startswith(mode) for find in found)
