"""assigned: the names that the program assigns to the values of a tape."""

from __future__ import annotations

import dis
from types import CodeType

from tapegrad.rules.user import is_triple
from tapegrad.show.line import code_of
from tapegrad.tape.tape import Call, Operation, Tape
from tapegrad.transforms.rewrite import is_pullback

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")


def assigned(tape: Tape) -> dict[Operation, str]:
    """Return the name that the program assigns to an operation's value, if the instruction after the call stores it.

    >>> from tapegrad.trace.tracer import trace
    >>> def f(a):
    ...     c = a * a
    ...     return c + a
    >>> [(op.name, name) for op, name in assigned(trace(f, 2.0)[1]).items()]
    [('%3', 'c')]
    """
    found: dict[Operation, str] = {}
    stored: dict[int, dict[int, str]] = {}
    last = None
    for op in reversed(tape.ops):  # the last operation that one call made is its value
        if type(op) is not Call or op.note or op.code is None or is_triple(op) or is_pullback(op):
            continue
        code = code_of(op.code)
        place = id(code), op.lasti
        if place != last and isinstance(code, CodeType):
            if place[0] not in stored:
                stored[place[0]] = _stores(code)
            if op.lasti in stored[place[0]]:
                found[op] = stored[place[0]][op.lasti]
        last = place
    return dict(reversed(found.items()))


def _stores(code: CodeType) -> dict[int, str]:
    """Return the stored names by the offset of the instruction before."""
    found, before = {}, -1
    for step in dis.get_instructions(code):
        if step.opname.startswith(_STORES):
            found[before] = step.argval if isinstance(step.argval, str) else step.argval[0]
        before = before if step.opname in ("COPY", "DUP_TOP") else step.offset  # `:=`, `a = b = ...`
    return found
