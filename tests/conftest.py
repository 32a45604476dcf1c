"""Every test compiles a path when it comes for the second time, whatever that costs: what a path's calls cost is no fact of the program's."""

from __future__ import annotations

import os

if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: threads of libraries would wait for each other
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import pytest

from tapegrad.compile import cache


@pytest.fixture(autouse=True)
def compile_at_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "WARMUP", 1)
