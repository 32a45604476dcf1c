"""code_names: the names that code mentions, and where it looks for them."""

from __future__ import annotations

import dis
import functools
import itertools
import re
import sys
from types import CodeType, ModuleType
from typing import Any

from tapegrad.tree.flatten import is_foreign

_OF_MODULES = frozenset(["globals", "import_module", "__import__", "eval", "exec"])
_BY_NAME = _OF_MODULES | {"getattr", "vars", "__dict__", "modules", "attrgetter", "methodcaller", "__getattribute__", "dir"}
_IN_TEXTS = _BY_NAME | {"format", "format_map"}
_IMPORTS = frozenset(["import_module", "__import__", "resolve_name"])
_FIELD = re.compile(r"\{[^{}]*?\.([\w.]+)")


def modules_of(scope: dict[str, Any], names: frozenset[str]) -> list[ModuleType]:
    """Return the user's modules that code imports itself, or names in a string: those of its names that are modules'."""
    package = scope.get("__package__")
    found = [sys.modules.get(full) for name in names for full in (name, f"{package}.{name}")]
    return [module for module in found if isinstance(module, ModuleType) and not is_foreign(module.__name__)]


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> frozenset[str]:
    """Return the names that a code object, and those inside it, mention: where it reads by name, `getattr(module, "rate")`, its strings too."""
    parts = [part for part in code.co_consts if type(part) is tuple and matches_classes(code)]  # `case Point(x=0)`
    named = [part for names in parts for part in names if type(part) is str]
    return frozenset([*code.co_names, *_strings(code), *named]).union(*map(names_of, _inner(code)))


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


def imported(code: CodeType, scope: dict[str, Any]) -> list[str]:
    """Return the user's modules that code imports when it runs, or names in a string."""
    package = scope.get("__package__")
    names = {full for name in _imports(code) for full in ((name, f"{package}.{name}") if package else (name,))}
    own = [scope.get("__name__", "")] if "__name__" in code.co_names and _imports_by_call(code) else []
    return [name for name in (*names, *own) if name and not is_foreign(name)]


@functools.lru_cache(maxsize=4096)
def _imports(code: CodeType) -> frozenset[str]:
    found = [step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"]
    texts = [text for text in code.co_consts if type(text) is str and text in sys.modules] if _imports_by_call(code) else []
    return frozenset([*found, *texts]).union(*map(_imports, _inner(code)))


def imports_by_name(code: CodeType, scope: dict[str, Any]) -> bool:
    """Return whether code asks for modules by names that do not stand in it."""
    return _imports_by_call(code) and not imported(code, scope)


def _imports_by_call(code: CodeType) -> bool:
    return not _IMPORTS.isdisjoint(code.co_names) or ("sys", "modules") in chains(code)


@functools.lru_cache(maxsize=4096)
def matches_classes(code: CodeType) -> bool:
    """True for code that matches classes: `case Point(x=0)`."""
    return any(step.opname == "MATCH_CLASS" for step in dis.get_instructions(code)) or any(map(matches_classes, _inner(code)))


def names_in_format(text: str) -> list[str]:
    """Return the attributes that a text asks for if it is formatted: "{0.rate}"."""
    return [name for found in _FIELD.findall(text) for name in found.split(".")] if "{" in text else []


def reads_modules_by_name(code: CodeType) -> bool:
    return not _OF_MODULES.isdisjoint(code.co_names) or ("sys", "modules") in chains(code)


def _strings(code: CodeType) -> list[str]:
    """Return the names in the strings of a code object that reads by name."""
    strings = [part for part in code.co_consts if type(part) is str] if not _IN_TEXTS.isdisjoint(code.co_names) else []
    return [name for part in strings for name in re.findall(r"\w+", part)]
