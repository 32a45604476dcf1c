"""mentions: what code names, without running it, and whose a module is."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from tapegrad.trace.bytecode import named
from tapegrad.tree.attributes import FOREIGN_PACKAGES
from tapegrad.tree.installed import library_of

SEARCHES = frozenset(["get_objects", "get_referrers", "get_referents"])  # of gc
_BY_NAME = frozenset(["getattr", "vars", "globals", "__dict__", "modules", "import_module", "__import__", "attrgetter",
                      "methodcaller", "eval", "exec"])

_READING = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"])
_ASSIGNING = frozenset(["STORE_GLOBAL", "DELETE_GLOBAL"])


class Mentioned(NamedTuple):
    """The names that a function's code mentions: as globals, as attributes, as modules that it imports; and
    whether it assigns globals.
    """

    names: frozenset[str]
    attributes: frozenset[str]
    modules: frozenset[str]
    assigns: bool


def names_in(code: CodeType) -> frozenset[str]:
    """Return all names of globals and attributes that a code object, and those inside it, have."""
    return frozenset(code.co_names).union(*[names_in(part) for part in code.co_consts if type(part) is CodeType])


_mentioned: dict[int, tuple[CodeType, Mentioned]] = {}


def mentioned(code: CodeType) -> Mentioned:
    """Return the names that a code object, and those inside it, mention: where it reads by name,
    `getattr(module, "rate")`, its strings too.
    """
    known = _mentioned.get(id(code))  # a code object hashes all that is in it
    if known is None:
        if len(_mentioned) > 4096:
            _mentioned.clear()
        known = _mentioned[id(code)] = code, _mention(code)
    return known[1]


def _mention(code: CodeType) -> Mentioned:
    names: set[str] = set()
    modules: set[str] = set()
    attributes, assigns = set(code.co_names), False
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
        texts = {name for part in code.co_consts if type(part) is str for name in (part, *re.findall(r"\w+", part))}
        names |= texts
        attributes |= texts
        modules |= texts
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = mentioned(inner)
            names |= more.names
            attributes |= more.attributes
            modules |= more.modules
            assigns = assigns or more.assigns
    return Mentioned(frozenset(names), frozenset(attributes), frozenset(modules), assigns)


def modules_of(names: Iterable[str], scope: dict[str, Any]) -> Iterator[ModuleType]:
    """Yield the loaded modules that names may be of where code with these globals imports: in its package and those
    around it too, whatever the number of dots is.
    """
    package, packages = scope.get("__package__") or str(scope.get("__name__")).rpartition(".")[0], [""]
    while package:
        packages.append(f"{package}.")
        package = package.rpartition(".")[0]
    for name in names:
        for around in packages:
            module: Any = sys.modules.get((around + name.lstrip(".")).rstrip("."))
            if issubclass(type(module), ModuleType):
                yield module


def is_foreign(module: Any) -> bool:
    """True for the name of a module that is no user's: of a package that tapegrad knows, or any that is installed."""
    return package_of(module) in FOREIGN_PACKAGES or bool(library_of(module))


def package_of(module: Any) -> str:
    """Return the name of the package that a module of this name is in."""
    return str(module).partition(".")[0]
