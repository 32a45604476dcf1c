"""Ops that build nested structures, and take them apart."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.errors import GuardError
from tapegrad.numbers.cotangents import ZERO, Scatter, accumulate
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.tensors import on_host
from tapegrad.rules import types
from tapegrad.rules.facts import CONSTANT, FRESH, SHARED, Joint
from tapegrad.rules.registry import define
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Call, Operation, Tape, value_of
from tapegrad.tree.flatten import Structure, flatten


def _pack_vjp(y: Array, *leaves: Any, into: Structure) -> Callable[[Any], tuple[Any, ...]]:
    # all parts in one pass: a search for each in the whole would take quadratic time
    def pack_pullback(dy: Cotangent) -> tuple[Any, ...]:
        return tuple([ZERO if part is None else part for part in into.unmirror(dy)])
    return pack_pullback


LONG = 16  # length of a tuple from which on the cotangents of single parts are combined at the end, in one pass


def _getfield_cotangent(dy: Cotangent, _y: Array, x: Array, key: Any) -> Any:
    if isinstance(x, dict):
        return {key: dy}
    at = key % len(x)
    if len(x) >= LONG:
        return Scatter(_parts, x, dy, (at,))
    return *(ZERO,) * at, dy, *(ZERO,) * (len(x) - at - 1)


def _parts(x: Any, pieces: Any, indices: Any, _paths: Any) -> tuple[Any, ...]:
    """Return the cotangent of a tuple from those of its parts."""
    parts: list[Any] = [ZERO] * len(x)
    for piece, (at,) in zip(pieces, indices):
        parts[at] = accumulate(parts[at], piece)
    return tuple(parts)


pack = define("pack", lambda *leaves, into: into.build(list(leaves)), rule=Joint(_pack_vjp),
              torch=lambda *leaves, into: into.build(list(leaves)), memory=SHARED, spec=types.packed)
getfield = define("getfield", lambda x, key: x[key], (_getfield_cotangent, None), torch=lambda x, key: x[key],
                  memory=SHARED, spec=types.field)


def whole_of(op: Any) -> Any:
    """Return the operation of whose value a call takes the part `op.args[1]`; None for anything else."""
    taken = type(op) is Call and op.fn is getfield and len(op.args) == 2 and isinstance(op.args[0], Operation)
    return op.args[0] if taken else None


def unpacked(result: Operation) -> tuple[tuple[Any, ...], Any]:
    """Return the parts of a result and their nesting; for a single value, that value and None."""
    return (result.args, result.kwargs["into"]) if result.fn is pack else ((result,), None)


_RESULT = Origin("result")


def nest_result(tape: Tape, parts: Sequence[Any], into: Any, origin: Origin | None = _RESULT) -> None:
    """Make a nest of operations and plain values the result of a tape."""
    tape.result = tape.push(Call(pack, tuple(parts), {"into": into}, into.build(list(map(value_of, parts))), origin))


def put_results(body: Tape, parts: Sequence[Any]) -> None:
    """Make the tuple of `parts` the result of a body."""
    nest_result(body, parts, flatten(tuple([0] * len(parts)), "", [], [], shared=False), None)


# -- constants that are determined by integers: a minibatch's data

BRANCH_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "index": operator.index}
"""Facts about a number by which constants can be looked up."""


class Table:
    """The constants for each path that integers selected in a program; all tapes that are derived from one share it."""

    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def __repr__(self) -> str:
        return f"<{len(self.rows)} rows>"


def _choose(*steering: Any, facts: tuple[str, ...], table: Table) -> tuple[Any, ...]:
    key = tuple([BRANCH_CONVERSIONS[fact](x) for fact, x in zip(facts, steering)])
    row = table.rows.get(key)
    if row is None:
        raise GuardError("no recorded trace took this path: "
                         f"{', '.join(f'{fact} {x!r}' for fact, x in zip(facts, key))}",
                         None, "compile the function instead of the tape, since it traces again; or trace it with "
                               "these arguments")
    # copies, because the tape may write to the results
    return tuple([x.copy(order="K") if isinstance(x, np.ndarray) else x for x in row])


choose = define("choose", _choose, rule=CONSTANT, torch=on_host(_choose), memory=FRESH,
                spec=types.opaque("a table of the program's constants decides"))
