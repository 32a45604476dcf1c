"""simplify: calls are rewritten by a table of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.optimise import algebra, products, shapes
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tapegrad.transforms.walk import Walk

Rule = Callable[..., Any]
"""`(walk, op, *args, **kwargs) -> what takes its place, or None`: `args` are on the new tape."""

RULES: dict[Any, list[Rule]] = {}
NEEDS: dict[Any, frozenset[Any] | None] = {}
"""For each op what one of its arguments must be for a rule to apply, a call of one of these, or a constant;
None where it may be anything.
"""

_LOOKS_AT = {**algebra.LOOKS_AT, **shapes.LOOKS_AT}
_ROWS: tuple[Any, ...] = (*shapes.SHAPES, *products.PRODUCTS, *algebra.ALGEBRA)
for _op, _rule in _ROWS:
    RULES.setdefault(_op, []).append(_rule)
    _known, _more = NEEDS.setdefault(_op, frozenset()), _LOOKS_AT.get(_rule)
    NEEDS[_op] = None if _known is None or _more is None else _known | _more

DEPTH = 8  # what a rule has made is looked at again, so often at most


def simplify(tape: Tape) -> Tape:
    """Return a tape on which each call is as simple as the rules of `algebra`, `shapes` and `products` make it.

    A rule looks at a call and at what computes its arguments. Where it speaks of shapes or types, guards make
    sure of them on every replay.
    """
    walk = Walk(tape, learn=True, count=True)
    for op in tape.ops:
        if type(op) is Call and type(op.fn) is Op and op.fn in RULES:
            _rewrite(walk, op)
        else:
            walk.keep(op)
    return walk.done()


def _rewrite(walk: Walk, op: Call) -> None:
    args = walk.args(op)
    made = _apply(walk, op, op.fn, args, op.kwargs) if _may_apply(op.fn, args) else None
    if made is None:
        walk.keep(op, args)
        return
    for _ in range(DEPTH):
        if not isinstance(made, Call) or made.fn not in RULES or made is not walk.new.ops[-1]:
            break
        again = _apply(walk, made, made.fn, made.args, made.kwargs)
        if again is None:
            break
        made = again
    walk.stand_in(op, made)


def _may_apply(fn: Op, args: tuple[Any, ...]) -> bool:
    """True unless no argument is what a rule of this op looks for: so it is of most calls."""
    needs = NEEDS[fn]
    if needs is None:
        return True
    for arg in args:
        if type(arg) is not Call:
            if type(arg) is not Input:
                return True  # a constant
        elif type(arg.fn) is Op and arg.fn in needs:
            return True
    return False


def _apply(walk: Walk, op: Call, fn: Callable[..., Any], args: tuple[Any, ...],
           kwargs: dict[str, Any]) -> Operation | Any | None:
    if "through" in kwargs:
        return None
    for arg in args:
        if isinstance(arg, Operation) and not walk.known[arg.id]:
            return None
    for rule in RULES[fn]:
        made = rule(walk, op, *args, **kwargs)
        if made is not None:
            return made
    return None
