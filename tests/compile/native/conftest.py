"""Machine code as users have it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tapegrad.compile.native import machine


@pytest.fixture(autouse=True)
def level(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(machine, "LEVEL", 2)
    yield
