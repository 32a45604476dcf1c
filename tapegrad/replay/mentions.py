"""mentions: the names that code mentions, and where it looks for them."""

from __future__ import annotations

import dis
import functools
import itertools
import re
import sys
from types import CodeType, ModuleType
from typing import Any

from tapegrad.tree import FOREIGN_PACKAGES

_OF_MODULES = frozenset(["globals", "import_module", "__import__", "eval", "exec"])
_BY_NAME = _OF_MODULES | {"getattr", "vars", "__dict__", "modules", "attrgetter"}


def modules_of(scope: dict[str, Any], names: frozenset[str]) -> list[ModuleType]:
    """Return the user's modules that code imports itself, or names in a string: those of its names that are modules'."""
    package = scope.get("__package__")
    found = [sys.modules.get(full) for name in names for full in (name, f"{package}.{name}")]
    return [module for module in found if isinstance(module, ModuleType) and not is_foreign(module.__name__)]


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> frozenset[str]:
    """Return the names that a code object, and those inside it, mention: where it reads by name, `getattr(module, "rate")`, its strings too."""
    return frozenset([*code.co_names, *_strings(code)]).union(*map(names_of, _inner(code)))


@functools.lru_cache(maxsize=4096)
def global_names(code: CodeType) -> frozenset[str]:
    """Return those of the names that are no attributes'."""
    read = [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")]
    return frozenset([*read, *_strings(code)]).union(*map(global_names, _inner(code)))


@functools.lru_cache(maxsize=4096)
def chains(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return the attributes that code reads of what a global name holds: `conf.rate`."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL")]
    pairs = [(a.argval, b.argval) for a, b in itertools.pairwise(steps)
             if a.opname in ("LOAD_GLOBAL", "LOAD_NAME") and b.opname in ("LOAD_ATTR", "LOAD_METHOD")]
    return frozenset(pairs).union(*map(chains, _inner(code)))


def _inner(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


def reads_by_name(code: CodeType) -> bool:
    return not _BY_NAME.isdisjoint(code.co_names)


def reads_modules_by_name(code: CodeType) -> bool:
    return not _OF_MODULES.isdisjoint(code.co_names) or ("sys", "modules") in chains(code)


def _strings(code: CodeType) -> list[str]:
    """Return the names in the strings of a code object that reads by name."""
    strings = [part for part in code.co_consts if type(part) is str] if reads_by_name(code) else []
    return [name for part in strings for name in re.findall(r"\w+", part)]


def is_foreign(module: Any) -> bool:
    return str(module).partition(".")[0] in FOREIGN_PACKAGES and not str(module).startswith("__main__")
