"""probe: whether what the code that recorded a tape reads has changed since, as far as the tape tells.

A trace that nobody observed leaves the code objects of its operations. What those read is noted after the run: so that
where the next trace is another, and what they read was changed between the two, that explains it.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType, MethodType
from typing import Any

from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.reads import Reads
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.signature import Signature

_modules: dict[str, dict[str, Any]] = {}  # by file
_count = [0]


def codes_of(f: Any, skeleton: Skeleton) -> frozenset[CodeType]:
    """Return the code objects of a trace's operations, and the function's."""
    fn = f.__func__ if type(f) is MethodType else f
    return frozenset([where[0] for where in skeleton.where if type(where[0]) is CodeType]
                     + ([fn.__code__] if type(fn) is FunctionType else []))


def probe(f: Any, codes: frozenset[CodeType], structure: Signature) -> Freshness:
    """Return what tells whether what code objects read of a function's is what it is now; of arrays, some numbers."""
    reads = Reads(samples=True)
    reads.reach(structure)
    fn = f.__func__ if type(f) is MethodType else f
    for code in codes:
        scope = (fn.__globals__ if type(fn) is FunctionType and code.co_filename == fn.__code__.co_filename
                 else _scope(code.co_filename))
        if scope is not None:
            reads.enter(code, scope)
    return reads.result()


def _scope(file: str) -> dict[str, Any] | None:
    """Return the globals of the user's module in a file, None where there is none."""
    if _count[0] != len(sys.modules):
        _count[0] = len(sys.modules)
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__dict__", {}).get("__file__")
            if place and not is_foreign(name):
                _modules[place] = vars(module)
    return _modules.get(file)
