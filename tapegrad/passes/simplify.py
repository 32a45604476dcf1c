"""simplify: calls are rewritten by a table of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.passes.algebra import ALGEBRA
from tapegrad.passes.products import PRODUCTS
from tapegrad.passes.shapes import SHAPES
from tapegrad.passes.walk import Walk, own
from tapegrad.tape import Call, Operation, Tape, operands

Rule = Callable[..., Any]
"""`(walk, op, *args, **kwargs) -> what takes its place, or None`: `args` are on the new tape."""

RULES: dict[Any, list[Rule]] = {}
_ROWS: tuple[Any, ...] = (*SHAPES, *PRODUCTS, *ALGEBRA)
for _op, _rule in _ROWS:
    RULES.setdefault(_op, []).append(_rule)

DEPTH = 8  # what a rule has made is looked at again, so often at most


def simplify(tape: Tape) -> Tape:
    """Return a tape on which each call is as simple as the rules of `algebra`, `shapes` and `products` make it.

    A rule looks at a call and at what computes its arguments. Where it speaks of shapes or types, guards make sure of them on every replay.
    """
    walk = Walk(tape, learn=True)
    for op in tape.ops:
        for used in operands(op):
            walk.count(used)
    for op in tape.ops:
        if isinstance(op, Call) and own(op.fn) and op.fn in RULES and _rewritten(walk, op):
            continue
        walk.keep(op)
    return walk.done()


def _rewritten(walk: Walk, op: Call) -> bool:
    args = walk.args(op)
    made = _apply(walk, op, op.fn, args, op.kwargs)
    if made is None:
        return False
    for _ in range(DEPTH):
        if not isinstance(made, Call) or made.fn not in RULES or made is not walk.new.ops[-1]:
            break
        again = _apply(walk, made, made.fn, made.args, made.kwargs)
        if again is None:
            break
        made = again
    walk.stand_in(op, made)
    return True


def _apply(walk: Walk, op: Call, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Operation | Any | None:
    if "through" in kwargs:
        return None
    for arg in args:
        if isinstance(arg, Operation) and arg not in walk.known:
            return None
    for rule in RULES[fn]:
        made = rule(walk, op, *args, **kwargs)
        if made is not None:
            return made
    return None
