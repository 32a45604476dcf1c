"""modules_as_values: modules that code passes on as values: `vars(conf)`, `conf.__dict__`, `attrgetter(n)(conf)`.

If code of the module's package reads computed names, it may read any name of such a module.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, ModuleType

from tapegrad.compile.watch.code_names import inner_codes, step_pairs
from tapegrad.compile.watch.freshness import Place
from tapegrad.trace.bytecode import name_in

_LOADING = frozenset(["LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM"])
_READING = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_PATHLESS = frozenset(["__globals__", "getmodule", "resolve_name"])


@functools.lru_cache(maxsize=4096)
def handed_names(code: CodeType) -> frozenset[str]:
    """Return the names that code loads other than to read a literal attribute."""
    found = [name_in(code, place) for (place, opname), (following, then) in step_pairs(code)
             if opname in _LOADING and (then not in _READING or name_in(code, following) == "__dict__")]
    return frozenset(found).union(*map(handed_names, inner_codes(code)))


def asks_for_modules(code: CodeType) -> bool:
    """Return whether code may reach modules or their namespaces that it does not name."""
    return not _PATHLESS.isdisjoint(code.co_names)


def handed_modules(places: Iterable[Place], names: set[str]) -> Iterator[ModuleType]:
    """Yield the modules in places with one of the names, or in `sys.modules`."""
    for place in places:
        if isinstance(place.value, ModuleType) and (place.name in names or place.namespace is sys.modules):
            yield place.value
