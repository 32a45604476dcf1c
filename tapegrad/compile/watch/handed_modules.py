"""handed_modules: modules that code hands on as values, `vars(conf)`, `conf.__dict__`, `attrgetter(n)(conf)`.

Where code of their package reads names that it computes, it may read any of such a module's.
"""

from __future__ import annotations

import dis
import functools
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

from tapegrad.compile.watch.code_names import PASSED
from tapegrad.trace.bytecode import name_in
from tapegrad.tree.installed import library_of

_LOADING = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])
_READING = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_PATHLESS = frozenset(["__globals__", "getmodule", "resolve_name"])


@functools.lru_cache(maxsize=4096)
def handed_names(code: CodeType) -> frozenset[str]:
    """Return the names that code loads for something else than to read an attribute that stands in it."""
    steps = [(place, opname) for place, opname in enumerate(map(dis.opname.__getitem__, code.co_code[::2]))
             if opname not in PASSED]
    found = [name_in(code, place) for (place, opname), (following, then) in itertools.pairwise(steps)
             if opname in _LOADING and (then not in _READING or name_in(code, following) == "__dict__")]
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return frozenset(found).union(*map(handed_names, inner))


def asks_for_modules(code: CodeType) -> bool:
    """Return whether code gets at modules, or their namespaces, that no name in it leads to."""
    return not _PATHLESS.isdisjoint(code.co_names)


def handed_modules(places: Iterable[tuple[Mapping[Any, Any], Any, Any]], names: set[str],
                   libraries: set[str]) -> Iterator[ModuleType]:
    """Yield the modules of these libraries that stand in places of such names, or were found among all modules."""
    for namespace, name, value in places:
        if isinstance(value, ModuleType) and (name in names or namespace is sys.modules) and (
                library_of(value.__name__) in libraries):
            yield value
