"""The package: what importing it costs, which way imports point, how long its files are."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tapegrad

ROOT = Path(tapegrad.__file__).parent

# A file imports only what stands above it here (DESIGN: where code lives).
ORDER = ["errors", "text", "paths", "brief", "calls", "opaque", "path", "lazy", "tensors", "tensorindex", "tensorarray", "tangent", "methods", "tape", "around", "check", "alike", "installed", "copies", "parts", "modules", "wanted", "unmirror", "tree",
         "returned", "lent", "stub", "parallel", "rules", "ops",
         "needs", "economy", "views", "kept", "context", "proxy", "operators", "frontends", "interpose", "generators", "redirect", "routes", "reroute", "trace", "rewrite", "back", "grad", "passes", "replay", "store", "show", "debug", "testing",
         "__init__", "cli", "__main__"]


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
    files = ["tape", "trace", "rewrite", "back", "grad"]
    assert sum(len((ROOT / f"{name}.py").read_text().splitlines()) for name in files) < 1200
