"""Writes the examples of README and docs as modules, two for each page, and `test_typing.py`, into a folder outside of the
checkout's packages, where a type checker sees tapegrad as it is installed: `python -m tests.docs.examples FOLDER`.

One module is the page as it stands. In the other, which is checked in strict mode, all is known but what tapegrad's own
signatures leave open: the page's functions have types, and what it imports of other libraries is `Any`.
"""

from __future__ import annotations

import ast
import doctest
import sys
from pathlib import Path
from typing import Any

from tests.docs.test_site import DOCS, cells

SETTINGS = """{
  // the examples are not annotated, and some libraries have no types: what is left is whether tapegrad's types accept them
  "include": ["."], "typeCheckingMode": "standard", "useLibraryCodeForTypes": false, "reportMissingImports": false,
  "reportMissingModuleSource": false, "reportUnusedExpression": false, "reportRedeclaration": false,
  "reportPossiblyUnboundVariable": false, "reportFunctionMemberAccess": false
}
"""
STRICT = """# pyright: strict, reportMissingModuleSource=false, reportUnusedExpression=false, reportRedeclaration=false
# pyright: reportPossiblyUnboundVariable=false, reportFunctionMemberAccess=false
# what a page imports, names or unpacks to show it, and defines again under one name
# pyright: reportUnusedImport=false, reportUnusedVariable=false, reportConstantRedefinition=false
from typing import Any, Callable

def any_of(*args: Any) -> Any: ...
def is_any(x: Any, kind: Any) -> bool: return isinstance(x, kind)
def any_0(f: Callable[[], Any]) -> Callable[[], Any]: return f
def any_1(f: Callable[[Any], Any]) -> Callable[[Any], Any]: return f
def any_2(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]: return f
def any_3(f: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]: return f
def any_4(f: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any], Any]: return f
def any_5(f: Callable[[Any, Any, Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any, Any], Any]: return f
def any_6(f: Callable[[Any, Any, Any, Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any, Any, Any], Any]: return f
"""
KNOWN = {"tapegrad", *sys.stdlib_module_names}


class Typed(ast.NodeTransformer):
    """Gives a page's functions types, and what it imports of other libraries."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        parts = node.args
        for x in [*parts.posonlyargs, *parts.args, *parts.kwonlyargs, parts.vararg, parts.kwarg]:
            if x is not None and x.annotation is None and x.arg != "self":
                x.annotation = ast.Name("Any")
        node.returns = node.returns or ast.Name("None" if node.name == "__init__" else "Any")
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.generic_visit(node)  # a lambda has the types that are expected of it
        return ast.Name("any_of") if node.args.vararg else ast.Call(ast.Name(f"any_{len(node.args.args)}"), [node], [])

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        return node if node.elts or isinstance(node.ctx, ast.Store) else ast.parse("list[Any]()", mode="eval").body

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)  # one of parameters has values of several types
        made = ast.parse("dict[Any, Any]()", mode="eval").body
        made.args.append(node)  # type: ignore[attr-defined]
        return made

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("is_any", node.ctx) if node.id == "isinstance" else node  # it makes `tuple[Unknown, ...]` of Any

    def visit_Import(self, node: ast.Import) -> Any:
        return [ast.Import([x]) if x.name.partition(".")[0] in KNOWN else _unknown(x.asname or x.name.partition(".")[0]) for x in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        return node if str(node.module).partition(".")[0] in KNOWN else [_unknown(x.asname or x.name) for x in node.names]


def _unknown(name: str) -> ast.stmt:
    return ast.AnnAssign(ast.Name(name, ast.Store()), ast.Name("Any"), ast.Constant(None), 1)


def write(folder: Path) -> None:
    """Write the modules, and pyright's settings beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_typing.py").write_text((DOCS.parent / "tests" / "test_typing.py").read_text("utf-8"), encoding="utf-8")
    (folder / "pyrightconfig.json").write_text(SETTINGS, encoding="utf-8")
    for page in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]:
        sources = [cell.source for cell in cells(page)] or [
            example.source for example in doctest.DocTestParser().get_examples(page.read_text("utf-8"))]
        text = "\n".join(sources)
        (folder / f"{page.stem}_page.py").write_text(text, encoding="utf-8")
        typed = ast.unparse(ast.fix_missing_locations(Typed().visit(ast.parse(text))))
        (folder / f"{page.stem}_typed.py").write_text(STRICT + typed, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
