"""hooks: whether a function that a reverse sweep calls may be compiled: one of the cotangent without side effects and
random draws.
"""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from tapegrad.compile.watch.code_names import global_names, names_of
from tapegrad.trace.random_state import Found
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import code_of, is_empty

_WRITES = ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL", "STORE_DEREF", "DELETE_ATTR", "DELETE_SUBSCR", "STORE_SLICE")
# conversions to plain numbers, which no tape records
_PLAIN = frozenset(["float", "int", "complex", "bool", "item", "tolist", "value"])
_KEEPING = frozenset(["add", "append", "appendleft", "clear", "extend", "insert", "pop", "put", "remove", "setdefault",
                      "send", "update", "write"])


def is_repeatable(fn: Callable[..., Any]) -> bool:
    """Return whether replaying a hook's recorded operations is equivalent to calling it."""
    if not Found(fn, (), {}, watched=False).silent:
        return False
    stack, seen = [fn], set[int]()
    while stack:
        part = stack.pop()
        if id(part) in seen or is_foreign(getattr(part, "__module__", None) or type(part).__module__):
            continue
        seen.add(id(part))
        if not isinstance(part, FunctionType):
            return False  # a callable object: what it reads is unknown
        code = code_of(part)
        if _writes(code) or not (_PLAIN | _KEEPING).isdisjoint(names_of(code)):
            return False
        held = [part.__globals__.get(name) for name in global_names(code)]
        held += [cell.cell_contents for cell in part.__closure__ or () if not is_empty(cell)]
        stack += [x for x in held if isinstance(x, FunctionType)]
    return True


def _writes(code: CodeType) -> bool:
    return any(step.opname in _WRITES for step in dis.get_instructions(code)) or any(
        _writes(part) for part in code.co_consts if isinstance(part, CodeType))
