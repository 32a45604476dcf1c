"""code_names: the global, attribute and module names that a code object mentions, found in its bytecode."""

from __future__ import annotations

import dis
import functools
import itertools
import re
import sys
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from tapegrad.trace import code_mentions
from tapegrad.trace.bytecode import name_in, named
from tapegrad.trace.interposition import original
from tapegrad.tree.attributes import is_foreign

_OF_MODULES = frozenset(["globals", "import_module", "__import__", "eval", "exec"])
# builtins that look up attributes by literal or computed names
ASKED = frozenset(["getattr", "hasattr"])
_BY_NAME = _OF_MODULES | {"vars", "__dict__", "modules", "attrgetter", "methodcaller", "__getattribute__", "dir"}
LEADING = _BY_NAME | ASKED  # functions and attributes that give access to names computed at run time
_IN_TEXTS = LEADING | {"format", "format_map"}
_IMPORTS = frozenset(["import_module", "__import__", "resolve_name"])
_GLOBAL = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"])
_IMPORTING = frozenset(["IMPORT_NAME"])
PASSED = frozenset(["CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL"])  # instructions that compute nothing
_MATCH_CLASS = dis.opmap["MATCH_CLASS"]
_FIELD = re.compile(r"\{[^{}]*?\.([\w.]+)")


def modules_of(scope: dict[str, Any], names: frozenset[str]) -> list[ModuleType]:
    """Return the user's modules among the names that code code_mentions, including imports and names in strings."""
    return [module for module in code_mentions.modules_of(names, scope) if not is_foreign(module.__name__)]


def library_parts(code: CodeType, scope: dict[str, Any], names: frozenset[str]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the places in library modules that code may read (`scipy.stats.uniform`) by the names it mentions, starting
    from modules in its globals or that it imports. Modules and functions are left out.
    """
    todo = [*(original(scope.get(owner)) for owner, _ in chains(code)), *map(sys.modules.get, _imports(code))]
    seen: set[int] = set()
    for held in todo:
        if not isinstance(held, ModuleType) or id(held) in seen or not is_foreign(held.__name__):
            continue
        seen.add(id(held))
        for name in names & vars(held).keys():
            part = vars(held)[name]
            if isinstance(part, ModuleType):
                todo.append(part)
            elif part is not sys.modules and not isinstance(part, _FUNCTIONS):
                yield vars(held), name


_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, np.ufunc)


def whose_modules(library: str) -> str:
    """Return the owner key of a library's modules, separate from that of its objects: library code computes attribute
    names of objects far more often than those of modules.
    """
    return f"modules of {library}" if library else ""


@functools.lru_cache(maxsize=4096)
def names_of(code: CodeType) -> frozenset[str]:
    """Return the names that a code object and those nested in it mention; with the words of its strings if it looks up
    attributes by name, as in `getattr(module, "rate")`.
    """
    parts = [part for part in code.co_consts if type(part) is tuple and matches_classes(code)]  # `case Point(x=0)`
    named = [part for names in parts for part in names if type(part) is str]
    own = [*code.co_names, *_strings(code), *named, *asked(code).names]
    return frozenset(own).union(*map(names_of, inner_codes(code)))


@functools.lru_cache(maxsize=4096)
def global_names(code: CodeType) -> frozenset[str]:
    """Return the mentioned names without attribute names."""
    read = [name for _, name in named(code, _GLOBAL)]
    return frozenset([*read, *_strings(code)]).union(*map(global_names, inner_codes(code)))


def step_pairs(code: CodeType) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
    """Yield consecutive pairs of instructions that compute, each as (position, opname)."""
    return itertools.pairwise((place, opname) for place, opname in enumerate(
        map(dis.opname.__getitem__, code.co_code[::2])) if opname not in PASSED)


@functools.lru_cache(maxsize=4096)
def chains(code: CodeType) -> frozenset[tuple[str, str]]:
    """Return (global name, attribute) pairs that code reads: `conf.rate`, `getattr(conf, "rate")`."""
    pairs = [(name_in(code, first), name_in(code, second)) for (first, a), (second, b) in step_pairs(code)
             if a in ("LOAD_GLOBAL", "LOAD_NAME") and b in ("LOAD_ATTR", "LOAD_METHOD")]
    return frozenset(pairs).union(asked(code).chains, *map(chains, inner_codes(code)))


class Asked(NamedTuple):
    """The literal names that code passes to `getattr` and `hasattr`; the (global, attribute) pairs among them; whether
    it computes other names; whether a literal one is in `LEADING`, as in `getattr(x, "__dict__")`.
    """

    names: frozenset[str]
    chains: frozenset[tuple[str, str]]
    computes: bool
    leads: bool


@functools.lru_cache(maxsize=4096)
def asked(code: CodeType) -> Asked:
    """Return the attributes that code reads by `getattr` and `hasattr`. A direct call with a literal name is equivalent
    to `x.rate`.
    """
    if ASKED.isdisjoint(code.co_names):
        return Asked(frozenset(), frozenset(), False, False)
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "NOP")]
    at = [k for k, step in enumerate(steps) if step.opname != "LOAD_CONST" and step.argval in ASKED]
    found = [_literal(steps[k:]) if steps[k].opname in ("LOAD_GLOBAL", "LOAD_NAME") else None for k in at]
    pairs = [(first.argval, name.argval) for first, name in filter(None, found)
             if first.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    names = frozenset(pair[1].argval for pair in found if pair is not None)
    leads = not names.isdisjoint(LEADING)
    return Asked(names, frozenset(pairs), leads or None in found, leads)


def _literal(steps: list[dis.Instruction]) -> tuple[dis.Instruction, dis.Instruction] | None:
    """Return the last instruction of the first argument, and the one that loads the second if it is a literal string,
    of the call of the function that steps[0] loads.

    The stack depth separates the arguments. The result is None if a jump intervenes or either is used otherwise.
    """
    depth, first, name = 0, steps[0], None  # depth of the stack above the function
    for step in steps[2:] if steps[1].opname == "PUSH_NULL" else steps[1:]:
        if step.opname in _CALLS and step.arg == depth:
            return None if name is None else (first, name)
        now = depth + dis.stack_effect(step.opcode, step.arg)
        pushes = step.opname in _PUSHES or (step.opname.startswith("BUILD_") and step.arg == 0)
        if now < 1 or (depth == 0 and not pushes) or step.opcode in _JUMPS or step.opname.startswith(_MOVES):
            return None
        if depth == 1 and now == 2:
            name = step if step.opname == "LOAD_CONST" and type(step.argval) is str else None
        elif now <= 2 or (depth == 2 and not pushes):
            name = None
        if now == 1:
            first = step
        depth = now
    return None


_JUMPS = frozenset([*dis.hasjrel, *dis.hasjabs])
_MOVES = ("SWAP", "COPY", "ROT", "DUP")
_CALLS = ("PRECALL",) if "PRECALL" in dis.opmap else ("CALL_FUNCTION", "CALL")
_PUSHES = frozenset(["LOAD_CONST", "LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF",
                     "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST",
                     "LOAD_FAST_BORROW", "LOAD_FAST_BORROW_LOAD_FAST_BORROW", "LOAD_SMALL_INT", "PUSH_NULL"])

def inner_codes(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


@functools.lru_cache(maxsize=4096)
def modules_asked(code: CodeType) -> frozenset[str] | None:
    """Return the literal names that code (without nested code) looks up in `sys.modules`, None if it computes some."""
    found, passed = set(), PASSED | {"NOP"}
    steps = [step for step in dis.get_instructions(code) if step.opname not in passed] if (
        "modules" in code.co_names) else []
    for at, step in enumerate(steps):
        if step.argval == "modules" and step.opname != "LOAD_CONST":
            name = _module_asked(steps[max(at - 2, 0):at], steps[at + 1:at + 5])
            if name is None:
                return None
            found.add(name)
    return frozenset(found)


def _module_asked(before: list[dis.Instruction], after: list[dis.Instruction]) -> str | None:
    """Return the literal key looked up in `sys.modules` between these instructions, None for another use."""
    if not before or len(after) < 2 or (before[-1].opname, before[-1].argval) != ("LOAD_GLOBAL", "sys"):
        return None
    if after[0].opname == "CONTAINS_OP":
        name, fits = before[0], len(before) > 1 and not before[1].is_jump_target
    elif after[0].argval == "get":
        calls = after[2:3] if len(after) < 4 or after[2].opname != "LOAD_CONST" else after[3:]
        name, fits = after[1], bool(calls) and calls[0].opname.startswith("CALL")
    else:
        name, fits = after[0], after[1].opname.startswith("BINARY_SUBSCR")
    return name.argval if fits and name.opname == "LOAD_CONST" and type(name.argval) is str else None


def reads_by_name(code: CodeType, heard: bool) -> bool:
    """Return whether code reads computed names that the observer does not see; if `heard`, it reports those of
    `getattr`, `hasattr` and `sys.modules`.
    """
    names = _BY_NAME - {"modules"} if heard or modules_asked(code) is not None else _BY_NAME
    return not names.isdisjoint(code.co_names) or asked(code).leads or (asked(code).computes and not heard)


def imported(code: CodeType, scope: dict[str, Any]) -> list[str]:
    """Return the names of the user's modules that code imports when it runs, or names in a string."""
    package = scope.get("__package__")
    names = {full for name in _imports(code) for full in ((name, f"{package}.{name}") if package else (name,))}
    own = [scope.get("__name__", "")] if "__name__" in code.co_names and _imports_by_call(code) else []
    return [name for name in (*names, *own) if name and not is_foreign(name)]


@functools.lru_cache(maxsize=4096)
def _imports(code: CodeType) -> frozenset[str]:
    found = [name for _, name in named(code, _IMPORTING)]
    texts = [text for text in code.co_consts if type(text) is str
             and text in sys.modules] if _imports_by_call(code) else []
    return frozenset([*found, *texts]).union(*map(_imports, inner_codes(code)))


def imports_by_name(code: CodeType, scope: dict[str, Any]) -> bool:
    """Return whether code imports or looks up modules by computed names."""
    return _imports_by_call(code) and not imported(code, scope)


def imports(code: CodeType) -> bool:
    """Return whether code mentions a function that imports modules."""
    return not _IMPORTS.isdisjoint(code.co_names)


def _imports_by_call(code: CodeType) -> bool:
    return imports(code) or _names_modules(code)


def _names_modules(code: CodeType) -> bool:
    return "modules" in names_of(code) and ("sys", "modules") in chains(code)


@functools.lru_cache(maxsize=4096)
def matches_classes(code: CodeType) -> bool:
    """Return whether code contains a class pattern: `case Point(x=0)`."""
    return _MATCH_CLASS in code.co_code[::2] or any(map(matches_classes, inner_codes(code)))


def names_in_format(text: str) -> list[str]:
    """Return the attribute names in a format string: "{0.rate}"."""
    return [name for found in _FIELD.findall(text) for name in found.split(".")] if "{" in text else []


def reads_modules_by_name(code: CodeType, heard: bool) -> bool:
    return not _OF_MODULES.isdisjoint(code.co_names) or (
        _names_modules(code) and not heard and any(modules_asked(part) is None for part in (code, *inner_codes(code))))


def _strings(code: CodeType) -> list[str]:
    """Return the words in the strings of a code object that looks up attributes by name."""
    strings = [part for part in code.co_consts if type(part) is str] if not _IN_TEXTS.isdisjoint(code.co_names) else []
    return [name for part in strings for name in re.findall(r"\w+", part)]
