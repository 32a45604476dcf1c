"""Whose a module is: one answer, whoever asks."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tapegrad.trace.code_mentions import is_foreign
from tapegrad.tree.installed import library_of


@pytest.mark.parametrize(("folder", "library"), [("site-packages", "space_for_a_test"), ("dist-packages", "space_for_a_test"), ("my-site-packages", "")])
def test_a_package_without_a_file_of_its_own(folder: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / folder / "space_for_a_test").mkdir(parents=True)
    (tmp_path / folder / "space_for_a_test" / "part.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / folder)
    for _ in range(2):
        assert library_of("space_for_a_test.part") == "" and not is_foreign("space_for_a_test.part")  # before it is imported
        importlib.import_module("space_for_a_test.part")
        assert library_of("space_for_a_test.part") == library and is_foreign("space_for_a_test.part") is bool(library)
        for name in ("space_for_a_test.part", "space_for_a_test"):
            del sys.modules[name]


def test_the_program_is_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", pytest.__file__, raising=False)
    assert library_of("__main__") == "" and not is_foreign("__main__")
