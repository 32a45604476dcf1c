"""The sweep over NumPy's functions finds what is wrong, and nothing where nothing is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapegrad.rules.registry import FOREIGN
from tests.fuzz.functions import examine

SOUND = ("np.sin", "np.shape", "np.sum", "np.concatenate", "np.clip", "np.maximum", "np.linalg.norm", "x.reshape", "np.fft.fft")


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_function_has_no_finds(name: str) -> None:
    assert not [find for seed in range(40) for find in examine(seed, name)[0]]


def test_a_wrong_meaning_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Any = FOREIGN[np.shape]
    monkeypatch.setitem(FOREIGN, np.shape, lambda a: () if isinstance(a, list) else right(a))
    found = [find for seed in range(200) for find in examine(seed, "np.shape")[0]]
    assert "f([x, y])" in {find.form for find in found}
