"""Every test compiles a path when it comes for the second time, whatever that costs: what a path's calls cost is no fact of the program's."""

from __future__ import annotations

import pytest

from tapegrad.replay import cache


@pytest.fixture(autouse=True)
def compile_at_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", 1)
