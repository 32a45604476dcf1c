"""The documentation: its executed pages run, its reference has every public name. Pages of `>>>` examples run as doctests."""

from __future__ import annotations

import configparser
import linecache
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import tapegrad as tg

DOCS = Path(__file__).parents[2] / "docs"
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n((?::[^\n]*\n)*)(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXECUTED = [path for path in sorted(DOCS.rglob("*.md")) if CELL.search(path.read_text("utf-8"))]


class Cell(NamedTuple):
    """A cell of an executed page, and its tags."""

    source: str
    tags: str


def cells(path: Path) -> list[Cell]:
    """Return the cells of a page, in order."""
    return [Cell(match[2], match[1]) for match in CELL.finditer(path.read_text("utf-8"))]


def run(path: Path) -> dict[str, Any]:
    """Run a page's cells in one namespace, but for those that only draw: matplotlib is not among what tests need, and draws when CI builds the site."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path), 1):
        if "picture" in cell.tags:
            continue
        name = f"In [{number}]"
        linecache.cache[name] = len(cell.source), None, cell.source.splitlines(keepends=True), name
        exec(compile(cell.source, name, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: path.stem)
def test_an_executed_page_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    run(path)


@pytest.mark.quick
def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (DOCS / "reference").glob("*.md"))
    told = set(re.findall(r"auto\w+:: (?:tapegrad\.)?(\w+)$", text, re.MULTILINE)) | {"inspect", "numbers"}
    assert set(tg.__all__) - told == set()


def test_every_example_is_run() -> None:
    """A block of Python is a doctest that is not skipped, or a cell."""
    for path in DOCS.rglob("*.md"):
        text = path.read_text("utf-8")
        assert "+SKIP" not in text, path.name
        for block in FENCE.findall(text):
            assert block.lstrip().startswith(">>>"), f"{path.name}: {block[:60]}"


def test_a_package_index_shows_the_description_whole() -> None:
    """It has the text alone: a picture or a page that is named by its path is not found."""
    settings = configparser.ConfigParser()
    settings.read(DOCS.parent / "setup.cfg", encoding="utf-8")
    text = (DOCS.parent / settings["metadata"]["long_description"].removeprefix("file: ")).read_text("utf-8")
    assert re.findall(r"\]\((?!http)[^)]*\)|<img|\{image\}", text) == []
