"""residuals: which values of the primal pass a rule reads, found in the code of its partials.

What is said of a rule errs on one side: a value that it might read counts as read. So only the plain forms are looked into: partials
`(dy, y, *args)`, one per argument, and formulas wrapped by `chain` or `reduction`. A parameter that the code does not load is not
read, nor is one that it hands to a function of `LOOKS` alone: those ask for a shape or a dtype.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from types import FunctionType
from typing import Any

from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.ops.elementwise import is_complex
from tapegrad.ops.reduce import count, reduced
from tapegrad.rules.registry import Op
from tapegrad.tape.tape import Call, Operation, operands

LOOKS: tuple[Any, ...] = (shape_of, dtype_of, is_complex, count, reduced)
"""Functions that look at no more of their first argument than its type, shape and dtype."""

_SILENT = frozenset(["CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL", "RESUME"])
_WRITES = frozenset(["STORE_FAST", "DELETE_FAST"])
_CALLS = frozenset(["CALL", "CALL_FUNCTION"])


def needed(call: Call, active: Sequence[int]) -> Iterator[Operation]:
    """Yield the operations whose values the reverse sweep reads to pass the call, where `active` says by position which ones get cotangents."""
    fn, known = call.fn, (call, *call.args)
    if type(fn) is not Op or fn.rr is not None or type(fn.partials) is not tuple:
        yield call
        yield from operands(call)
        return
    for partial, x in zip(fn.partials, call.args):
        if partial is not None and isinstance(x, Operation) and active[x.id]:
            places, rest = reads(partial)
            if call.kwargs.get("dtype") is not None:  # a reduction that casts hands its rule what it has cast
                rest = 0
            yield from (op for place, op in enumerate(known) if isinstance(op, Operation) and (place in places or place >= rest))


@functools.cache
def reads(partial: Callable[..., Any]) -> tuple[Collection[int], float]:
    """Return the places in (y, *args) that a partial reads, and the place from which on it reads all.

    >>> from tapegrad import ops
    >>> reads(ops.exp.partials[0]), reads(ops.multiply.partials[0]), reads(ops.sum.partials[0])
    (([0], inf), ([2], inf), ([], inf))
    """
    rule = getattr(partial, "__wrapped__", partial)
    if type(rule) is not FunctionType:
        return [], 0
    code = rule.__code__
    names = code.co_varnames[:code.co_argcount]
    if names[:1] == ("dy",):
        names = names[1:]
    if names[:1] != ("y",):
        return [], 0
    loaded = _loaded(rule)
    star = code.co_varnames[code.co_argcount + code.co_kwonlyargcount] if code.co_flags & 4 else None  # CO_VARARGS
    return [place for place, name in enumerate(names) if name in loaded], len(names) if star in loaded else float("inf")


def _loaded(fn: FunctionType) -> set[str]:
    """Return the names of the locals that a function loads for more than a look at their shapes or dtypes."""
    lines = [line for line in dis.get_instructions(fn) if line.opname not in _SILENT]
    loaded = set(fn.__code__.co_cellvars)  # inner functions read them
    for at, line in enumerate(lines):
        if line.opname not in _WRITES and not _is_look(lines, at, fn.__globals__):
            loaded.update(line.argval if isinstance(line.argval, tuple) else (line.argval,))
    return {name for name in loaded if isinstance(name, str)}


def _is_look(lines: list[dis.Instruction], at: int, names: dict[str, Any]) -> bool:
    """True for the load of the first argument of a call of one of LOOKS: function, argument, others, call."""
    before = lines[at - 1] if at else lines[at]
    if not lines[at].opname.startswith("LOAD_FAST") or before.opname != "LOAD_GLOBAL" or names.get(before.argval) not in LOOKS:
        return False
    end = at
    while end < len(lines) and lines[end].opname.startswith(("LOAD_FAST", "LOAD_CONST")) and not isinstance(lines[end].argval, tuple):
        end += 1
    return end < len(lines) and lines[end].opname in _CALLS and lines[end].arg == end - at
