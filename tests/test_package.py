"""The package: what importing it costs, which way imports point, how long its files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tapegrad

ROOT = Path(tapegrad.__file__).parent

# A room imports only rooms that stand above it here (DESIGN: where code lives).
ORDER = ["errors", "numbers", "tape", "tree", "rules", "ops", "trace", "frontends", "replay", "transforms", "optimise", "compile", "store",
         "show", "debug", "testing", "passes", "api", "__init__", "cli", "__main__"]


def layer(module: str) -> int:
    parts = module.split(".")[1:]
    return ORDER.index(parts[0] if parts else "__init__")


def test_imports_point_one_way() -> None:
    for path in ROOT.rglob("*.py"):
        name = ".".join(["tapegrad", *path.relative_to(ROOT).with_suffix("").parts])
        here = layer("tapegrad" if name == "tapegrad.__init__" else name)
        for node in ast.parse(path.read_text()).body:  # top level: what is bound late is said so where it stands
            names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names] if isinstance(node, ast.Import) else []
            for imported in names:
                if imported and imported.split(".")[0] == "tapegrad":
                    targets = [f"tapegrad.{a.name}" for a in node.names] if imported == "tapegrad" and isinstance(node, ast.ImportFrom) else [imported]
                    for target in targets:
                        assert layer(target) <= here, f"{name} imports {target}"


def test_import_brings_neither_torch_nor_rich() -> None:
    code = "import sys, tapegrad; print([m for m in ('torch', 'rich', 'networkx', 'scipy', 'jax') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_no_file_is_longer_than_500_lines() -> None:
    long = {path.name: count for path in ROOT.rglob("*.py") if (count := len(path.read_text().splitlines())) > 500}
    assert not long


def test_the_core_reads_in_one_sitting() -> None:
    files = ["tape/tape", "trace/tracer", "transforms/rewrite", "transforms/reverse", "transforms/grad"]
    assert sum(len((ROOT / f"{name}.py").read_text().splitlines()) for name in files) < 1200
