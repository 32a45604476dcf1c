"""simplify: rewrites calls by a table of rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.optimise import algebra, products, shapes
from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Input, Operation, Tape
from tapegrad.transforms.walk import Walk

Rule = Callable[..., Any]
"""`(walk, op, *args, **kwargs) -> replacement or None`; `args` are on the new tape."""

RULES: dict[Any, list[Rule]] = {}
NEEDS: dict[Any, frozenset[Any] | None] = {}
"""For each op, the calls that one of its arguments must be, unless it is a constant, for a rule to apply; None for any.
"""

_LOOKS_AT = {**algebra.LOOKS_AT, **shapes.LOOKS_AT}
_ROWS: tuple[Any, ...] = (*shapes.SHAPES, *products.PRODUCTS, *algebra.ALGEBRA)
for _op, _rule in _ROWS:
    RULES.setdefault(_op, []).append(_rule)
    _known, _more = NEEDS.setdefault(_op, frozenset()), _LOOKS_AT.get(_rule)
    NEEDS[_op] = None if _known is None or _more is None else _known | _more

DEPTH = 8  # times that a replacement is itself rewritten, at most


def simplify(tape: Tape) -> Tape:
    """Return a tape on which each call is rewritten by the rules of `algebra`, `shapes` and `products`.

    A rule inspects a call and the calls that compute its arguments. Where it relies on shapes or types, guards check
    these on every replay.
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
    """Return whether an argument is a constant or a call that some rule of the op looks for; mostly none is."""
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
