"""compile: what a program looks up by the text of a number is on no tape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tg


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
def test_text_of_a_number_is_asked_again() -> None:
    found = tg.compile(lambda x: {"1.0": 5.0}.get(str(x), x))
    for x in (1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 1.0):
        assert found(np.float64(x)) == (5.0 if x == 1.0 else x)


@pytest.mark.filterwarnings("ignore::tapegrad.RetraceWarning")
@pytest.mark.parametrize("f", [
    lambda x: f"{x:.1f}", lambda x: {f"{x:.1f}": 1}, lambda x: {f"{x:.1f}": x}, lambda x: (f"{x:.1f}",), lambda x: ((format(x, ".1f"), 2),), lambda x: (str(x), x), lambda x: [{"a": (f"{x}",)}]])
def test_a_text_that_is_returned_is_plain(f: Any) -> None:
    def types(x: Any) -> list[Any]:
        parts = [*x, *x.values()] if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else []
        return [type(x), *(found for part in parts for found in types(part))]
    step = tg.compile(f, warmup=1)
    for got, x in ((tg.trace(f, 1.5)[0], 1.5), (step(1.5), 1.5), (step(2.5), 2.5)):
        assert got == f(x) and types(got) == types(f(x))
