"""code_mentions: the names in a code object, read without running it, and the packages of modules."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from tapegrad.trace.bytecode import ASKING, asked_for, has_docstring, named
from tapegrad.tree.attributes import FOREIGN_PACKAGES
from tapegrad.tree.installed import library_of

SEARCHES = frozenset(["get_objects", "get_referrers", "get_referents"])  # of gc
_BY_NAME = frozenset(["getattr", "vars", "globals", "__dict__", "modules", "import_module", "__import__", "attrgetter",
                      "methodcaller", "eval", "exec"])

_READING = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
_ASSIGNING = frozenset(["STORE_GLOBAL", "DELETE_GLOBAL"])


class Mentioned(NamedTuple):
    """The names in a function's code: of globals, of attributes, of imported modules, of classes that it only tests for
    (`isinstance`); and whether it assigns globals.
    """

    names: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[str]
    kinds: frozenset[str]
    assigns: bool


def names_in(code: CodeType) -> frozenset[str]:
    """Return the names of globals and attributes in a code object and its nested ones."""
    return frozenset(code.co_names).union(*[names_in(part) for part in code.co_consts if type(part) is CodeType])


_mentioned: dict[int, tuple[CodeType, Mentioned]] = {}


def mentioned(code: CodeType) -> Mentioned:
    """Return the names in a code object and its nested ones, including the words in its strings if it looks names up
    dynamically: `getattr(module, "rate")`.
    """
    known = _mentioned.get(id(code))  # by id: a code object's hash reads all its contents
    if known is None:
        if len(_mentioned) > 32768:
            _mentioned.clear()
        known = _mentioned[id(code)] = code, _mention(code)
    return known[1]


def _mention(code: CodeType) -> Mentioned:
    names: set[str] = set()
    modules: set[str] = set()
    attributes, assigns = set(code.co_names), False
    kinds = set() if attributes.isdisjoint(ASKING) else asked_for(code)
    used = attributes - kinds
    for opname, name in named(code, _READING | _ASSIGNING | {"IMPORT_NAME"}):
        if opname in _READING:
            names.add(name)
        elif opname == "IMPORT_NAME":
            modules.add(name)
        else:
            assigns = True
    if modules:
        modules |= attributes  # `from package import module`
    if not _BY_NAME.isdisjoint(code.co_names):
        texts = {name for part in code.co_consts[has_docstring(code):]
                 if type(part) is str for name in (part, *re.findall(r"\w+", part))}
        names |= texts
        attributes |= texts
        modules |= texts
        used |= texts
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = mentioned(inner)
            names |= more.names
            attributes |= more.attributes
            modules |= more.modules
            used |= (more.names | more.attributes) - more.kinds
            kinds |= more.kinds
            assigns = assigns or more.assigns
    return Mentioned(frozenset(names), frozenset(attributes), frozenset(modules), frozenset(kinds - used), assigns)


def modules_of(names: Iterable[str], scope: dict[str, Any]) -> Iterator[ModuleType]:
    """Yield the loaded modules that an import of these names may refer to in code with these globals, in its package
    and the enclosing ones, whatever the number of dots.
    """
    package, packages = scope.get("__package__") or str(scope.get("__name__")).rpartition(".")[0], [""]
    while package:
        packages.append(f"{package}.")
        package = package.rpartition(".")[0]
    for name in _ends(len(sys.modules), next(reversed(sys.modules))).intersection(name.strip(".") for name in names):
        for around in packages:
            module: Any = sys.modules.get((around + name).rstrip("."))
            if issubclass(type(module), ModuleType):
                yield module


@functools.lru_cache(maxsize=1)
def _ends(count: int, last: str) -> frozenset[str]:
    """Return what the names of loaded modules end in, by parts: of `a.b.c` also `b.c` and `c`; and nothing, which
    stands for a package itself. The arguments tell when modules were imported.
    """
    ends = {""}
    for name in [*sys.modules]:
        while name:
            ends.add(name)
            name = name.partition(".")[2]
    return frozenset(ends)


def is_foreign(module: Any) -> bool:
    """Return whether a module name belongs to an installed package or one that tapegrad knows, and not to the user."""
    return package_of(module) in FOREIGN_PACKAGES or bool(library_of(module))


def package_of(module: Any) -> str:
    """Return the top-level package of a module name."""
    return str(module).partition(".")[0]
