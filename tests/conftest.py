"""Every test compiles a path when it comes for the second time, whatever that costs: what a path's calls cost is no fact of the program's."""

from __future__ import annotations

import gc
import os
from types import SimpleNamespace

os.environ["TAPEGRAD_CACHE"] = ""  # no code of earlier runs
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # most of what JAX's gradients take is XLA's compiling
if "PYTEST_XDIST_WORKER" in os.environ:  # workers share the cores: threads of libraries would wait for each other
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import pytest

from tapegrad.compile import cache, memo
from tapegrad.compile.native import disk_cache, machine

made: dict[str, bytes] = {}
"""Machine code by its key: tests compile the same text again and again, of which each process makes code once."""
machine.disk_cache = SimpleNamespace(key_of=disk_cache.key_of, load=made.get, save=made.__setitem__)  # type: ignore[assignment]
machine.LEVEL = 0  # compiling takes a quarter of the time; the tests of machine code itself take users' level


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files of tests/golden anew, and run no tests")


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    if not config.getoption("--update-golden"):
        return None
    from tests.golden.texts import update

    changed = update()
    print(*changed, f"{len(changed)} golden files changed: git diff shows how", sep="\n")
    return 0


def pytest_collection_finish() -> None:
    gc.freeze()  # what collecting made lives to the end: no collection walks it again


def pytest_runtest_setup() -> None:
    cache.WARMUP = 1  # a hook, for a fixture costs a millisecond a test


@pytest.hookimpl(trylast=True)  # when fixtures have restored what they found
def pytest_runtest_teardown() -> None:
    cache.WARMUP = None
    memo.kept.clear()
