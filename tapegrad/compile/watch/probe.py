"""probe: whether what the code that recorded a tape reads has changed since, as far as the tape tells.

A trace that nobody observed leaves the code objects of its operations. What those read is noted after the run: so that
where the next trace is another, and what they read was changed between the two, that explains it.
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

MOST = 1_000  # places that a probe looks at, with each call that is traced
_modules: dict[str, dict[str, Any]] = {}  # by file
_count = [0]


def codes_of(f: Any, skeleton: Skeleton) -> frozenset[CodeType]:
    """Return the code objects of a trace's operations, and the function's. An operation that no line of the program
    asked for names a caller's, which still runs once the trace has ended: that one's reads are not the program's.
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
    """Return what tells whether what code objects read of a function's is what it is now; of arrays, some numbers, and
    of what reads by computed names, which leads anywhere, the first places: it explains a change, and answers for none.
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
    """Return the globals of the user's module in a file, None where there is none."""
    if _count[0] != len(sys.modules):
        _count[0] = len(sys.modules)
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__dict__", {}).get("__file__")
            if place and not is_foreign(name):
                _modules[place] = vars(module)
    return _modules.get(file)
