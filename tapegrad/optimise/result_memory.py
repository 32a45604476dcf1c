"""result_memory: keeps the results of an optimised tape in memory of their own, in the recorded order."""

from __future__ import annotations

from typing import Any

from tapegrad.ops import copy, pack
from tapegrad.rules.op import memory_of
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape
from tapegrad.transforms.walk import Walk, own


def own_results(tape: Tape, before: Tape) -> Tape:
    """Return a tape that copies the arrays it returns that had memory of their own `before` the passes and no longer
    do.

    A pass may have replaced a result by an argument, a view of one, or another result, but callers may write to
    results. It may also have changed the memory order of a result; the copy then restores it.
    """
    orders = {part: _order(part, was) for part, was in zip(parts_of(tape), parts_of(before))
              if (_lies(part, tape) and not _lies(was, before)) or _order(part, was) != "K"}
    if not orders:
        return tape
    walk = Walk(tape)
    result = tape.result
    packs = packs_of(tape)
    copies: dict[Operation, Operation] = {}  # copies that the tape makes anyway and does not share
    for op in tape.ops:
        if op in packs:
            walk.keep(op, tuple(_own(walk, arg, orders[arg], copies) if arg in orders else walk.bind(arg)
                                for arg in op.args))
        else:
            walk.keep(op)
            if (op.fn is copy and op.kwargs.get("order") == "C"
                and _wants_rows(op.args[0], orders) and _stays_here(op, tape)):
                copies[op.args[0]] = walk.bind(op)
    if not is_pack(result) and result is not None:
        walk.stand_in(result, _own(walk, result, orders[result], copies))
    return walk.done()


def _own(walk: Walk, op: Operation, order: str, copies: dict[Operation, Operation]) -> Operation:
    if (known := copies.pop(op, None)) is not None:
        return known
    return walk.instead(op, copy, walk.bind(op)) if order == "K" else walk.make(op, copy, walk.bind(op), order=order)


def _order(part: Any, was: Any) -> str:
    """Return the memory order ("C" or "F") that a result had if it now has another, "K" if it may stay."""
    if not all(isinstance(op, Operation) and op.spec.is_array and op.spec.ndim > 1 for op in (part, was)):
        return "K"
    return was.spec.order if was.spec.order != part.spec.order else "K"


def _wants_rows(op: Operation, orders: dict[Any, str]) -> bool:
    """Return whether a result must be copied, in C order."""
    return op in orders and (orders[op] == "C" or (orders[op] == "K" and op.spec.is_contiguous))


def _stays_here(op: Operation, tape: Tape) -> bool:
    """Return whether an array is neither returned nor passed to a function outside tapegrad, which might keep it or
    write to it.
    """
    return all(op not in other.args or (isinstance(other, Call) and own(other.fn) and other.fn is not pack)
               for other in tape.ops)


def is_pack(op: Any) -> bool:
    """Return whether an operation is a `pack` call, which nests a tape's results."""
    return isinstance(op, Call) and op.fn is pack


def packs_of(tape: Tape) -> set[Operation]:
    """Return the calls that nest a tape's results: its result and the nested packs, as for a dict in a tuple."""
    found: set[Operation] = set()
    stack = [tape.result]
    while stack:
        op = stack.pop()
        if is_pack(op) and op not in found:
            found.add(op)
            stack += op.args
    return found


def parts_of(tape: Tape) -> list[Any]:
    """Return the results of a tape in order, those in nested packs included."""
    found, stack = [], [tape.result]
    while stack:
        op = stack.pop()
        if is_pack(op):
            stack += reversed(op.args)
        else:
            found.append(op)
    return found


def _lies(part: Any, tape: Tape) -> bool:
    """Return whether an array is read-only, or lies in the memory of an argument, a constant or another result."""
    if not isinstance(part, Operation) or not part.spec.is_array:
        return False
    root, locked = _root(part)
    return locked or isinstance(root, (Input, Constant)) or [_root(other)[0]
                                                             for other in parts_of(tape)].count(root) > 1


def _root(op: Any) -> tuple[Any, bool]:
    """Return the operation whose memory a value may lie in, and whether the value is a read-only view."""
    locked = False
    while isinstance(op, Call) and memory_of(op.fn).of == 0 and isinstance(op.args[0], Operation):
        locked |= op.fn.memory.readonly
        op = op.args[0]
    return op, locked
