"""Machine code on disk: found by a second process, never linked when it is damaged, off where it may not be."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tapegrad.compile.native import disk_cache

pytest.importorskip("llvmlite")
PROGRAM = """
import numpy as np, tapegrad as tg
from tapegrad.compile.native import backend, disk_cache
backend.LONG = float("inf")  # a slow trace is observed by machine code, which is one more file
found = []
load = disk_cache.load
disk_cache.load = lambda key: found.append(made := load(key)) or made
step = tg.value_and_grad(lambda x: np.sum(np.exp(-x * x)), warmup=1)
for _ in range(3):
    value, dx = step(np.linspace(0.0, 1.0, 300))
print([made is not None for made in found], float(value))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setenv("TAPEGRAD_CACHE", str(path))
    return path


def ran() -> tuple[str, str]:
    out = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    flags, _, value = out.strip().rpartition(" ")
    return flags, value


def test_a_second_process_finds_what_the_first_has_made(folder: Path) -> None:
    first, second = ran(), ran()
    assert "True" not in first[0] and second[0] == first[0].replace("False", "True") and first[1] == second[1]
    for file in folder.iterdir():  # damaged: made again, and right
        file.write_bytes(file.read_bytes()[:-20] + b"\0" * 20)
    third = ran()
    assert third == first


def test_what_is_not_as_it_was_written_is_not_found(folder: Path) -> None:
    disk_cache.save("a" * 64, b"code")
    assert disk_cache.load("a" * 64) == b"code" and disk_cache.load("b" * 64) is None
    file = folder / ("a" * 64)
    for content in (b"", b"short", file.read_bytes()[:-1], file.read_bytes() + b"x", b"\0" + file.read_bytes()[1:]):
        file.write_bytes(content)
        assert disk_cache.load("a" * 64) is None
    assert not [name for name in os.listdir(folder) if name.startswith(".new-")]


def test_a_folder_of_others_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk_cache.folder() == folder and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert disk_cache.folder() is None
    disk_cache.save("c" * 64, b"code")
    assert not list(folder.iterdir()) and disk_cache.load("c" * 64) is None
    monkeypatch.setenv("TAPEGRAD_CACHE", "")
    assert disk_cache.folder() is None


def test_the_oldest_go(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(disk_cache, "FILES", 10)
    for number in range(30):
        disk_cache.save(f"{number:064}", b"code")
        os.utime(folder / f"{number:064}", (number, number))
    assert len(list(folder.iterdir())) <= 10 and disk_cache.load(f"{29:064}") == b"code"


def test_what_a_file_is_named_after() -> None:
    assert disk_cache.key_of("a", "bc") != disk_cache.key_of("ab", "c")
