"""Writes the examples of README and docs as modules, one for each page, and `test_typing.py`, into a folder outside of the
checkout's packages, where a type checker sees tapegrad as it is installed: `python -m tests.docs.examples FOLDER`.
"""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

from tests.docs.test_site import DOCS, cells

SETTINGS = """{
  // the examples are not annotated, and some libraries have no types: what is left is whether tapegrad's types accept them
  "include": ["."], "typeCheckingMode": "standard", "useLibraryCodeForTypes": false, "reportMissingImports": false,
  "reportMissingModuleSource": false, "reportUnusedExpression": false, "reportRedeclaration": false,
  "reportPossiblyUnboundVariable": false, "reportFunctionMemberAccess": false
}
"""


def write(folder: Path) -> None:
    """Write the modules, and pyright's settings beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_typing.py").write_text((DOCS.parent / "tests" / "test_typing.py").read_text("utf-8"), encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(SETTINGS, encoding="utf-8")
    for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]:
        sources = [cell.source for cell in cells(page)] or [
            example.source for example in doctest.DocTestParser().get_examples(page.read_text("utf-8"))]
        (folder / f"{page.stem}_page.py").write_text("\n".join(sources), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
