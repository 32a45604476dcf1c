"""compile: what a program looks up by the text of a number is on no tape."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tg


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_text_of_a_number_is_asked_again() -> None:
    found = tg.compile(lambda x: {"1.0": 5.0}.get(str(x), x))
    for x in (1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.0):
        assert found(np.float64(x)) == (5.0 if x == 1.0 else x)
