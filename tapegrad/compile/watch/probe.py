"""probe: a freshness check for unobserved traces, which explains why the next trace differs.

The operations of such a trace name their code objects. The places that these read are noted after the run. If the next
trace differs and one of these places was changed in between, that explains the difference.
"""

from __future__ import annotations

import sys
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from tapegrad.compile.skeleton import Skeleton
from tapegrad.compile.watch.freshness import Freshness
from tapegrad.compile.watch.reads import Reads
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.signature import Signature

MOST = 1_000  # places that a probe compares, with each traced call
_modules: dict[str, dict[str, Any]] = {}  # by file
_count = [0]


def codes_of(f: Any, skeleton: Skeleton) -> frozenset[CodeType]:
    """Return the code objects of a trace's operations and of the function. Callers' code, which still runs after the
    trace, is left out: an operation that stems from no line of the program names it.
    """
    fn = f.__func__ if type(f) is MethodType else f
    frame: FrameType | None = sys._getframe()
    callers = set()
    while frame is not None:
        callers.add(frame.f_code)
        frame = frame.f_back
    return frozenset([code for code, _ in skeleton.where if type(code) is CodeType and code not in callers]
                     + ([fn.__code__] if type(fn) is FunctionType else []))


def probe(f: Any, codes: frozenset[CodeType], structure: Signature) -> Freshness:
    """Return an approximate freshness check of the places that code objects of `f` read. It samples arrays and covers
    at most `MOST` places: it explains changes but does not exclude them.
    """
    reads = Reads(samples=True, most=MOST)
    reads.reach(structure)
    fn = f.__func__ if type(f) is MethodType else f
    for code in codes:
        scope = (fn.__globals__ if type(fn) is FunctionType and code.co_filename == fn.__code__.co_filename
                 else _scope(code.co_filename))
        if scope is not None:
            reads.enter(code, scope)
    return reads.result()


def _scope(file: str) -> dict[str, Any] | None:
    """Return the globals of the user's module in a file, None if there is none."""
    if _count[0] != len(sys.modules):
        _count[0] = len(sys.modules)
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__dict__", {}).get("__file__")
            if place and not is_foreign(name):
                _modules[place] = vars(module)
    return _modules.get(file)
