"""constant_lookup: one tape for calls that differ only in integers that decide branches, and in the constants that
follow from these.

A minibatch is such a constant: `X[it * 20: (it + 1) * 20]` of an array that is not an input. If traces differ in
nothing else, the tape looks its constants up by the integers: it is compiled once, and another minibatch is another row
of its table. The guards on these integers are dropped, since a key without a row is a miss like a failed guard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tapegrad.compile.skeleton import Skeleton, Spot
from tapegrad.ops.structure import Table, choose, getfield
from tapegrad.tape.liveness import leading
from tapegrad.tape.spec import part_of
from tapegrad.tape.tape import Call, Constant, Guard, Operation, Tape
from tapegrad.transforms.walk import Walk, pure

ROWS = 1024  # of a table, at most


class Lookup(NamedTuple):
    """The guards whose integers select constants, and these constants, by position: operations or arguments of them."""

    guards: tuple[int, ...]
    constants: tuple[Spot, ...]
    table: Table

    def serves(self, spots: Iterable[Spot]) -> bool:
        """Return whether all differing spots are among these, and the table has room."""
        return {*self.constants, *((at, -1) for at in self.guards)}.issuperset(spots) and len(self.table.rows) < ROWS

    def add(self, tape: Tape, skeleton: Skeleton) -> bool:
        """Add a trace's constants to the table if their memory layout matches the others; return whether it does."""
        key = tuple([guard.expected for at in self.guards if type(guard := tape.ops[skeleton.places[at]]) is Guard])
        row = tuple([_constant(tape.ops[skeleton.places[at]], part) for at, part in self.constants])
        known = next(iter(self.table.rows.values()), row)
        if any(getattr(x, "strides", ()) != getattr(y, "strides", ()) for x, y in zip(row, known)):
            return False
        self.table.rows[key] = row
        return True


def lookup_of(skeleton: Skeleton, others: Iterable[Skeleton]) -> Lookup | None:
    """Return the lookup by which a tape would serve other traces too; None if no other trace differs in that alone."""
    spots: set[Spot] = set()
    for other in others:
        spots.update(skeleton.variation(other) or ())
    guards = tuple(sorted(at for at, part in spots if part < 0 and skeleton.is_guard(at)))
    constants = tuple(sorted(spot for spot in spots if spot[0] not in guards))
    return Lookup(guards, constants, Table()) if guards and constants else None


def chosen(tape: Tape, skeleton: Skeleton, choice: Lookup) -> Tape | None:
    """Return a tape that looks constants up; None if the integers cannot be computed first.

    The tape's values are needed. The computation of the integers moves to the front: it must consist of numbers only,
    without random draws or looked-up constants.
    """
    guards = [guard for at in choice.guards if type(guard := tape.ops[skeleton.places[at]]) is Guard]
    spots = [(tape.ops[skeleton.places[at]], part) for at, part in choice.constants]
    replaced = {op for op, part in spots if part < 0}
    written = {op for op, part in spots if part >= 0}
    leads = leading(tape.ops, [guard.args[0] for guard in guards])
    before = [op for op in tape.ops if leads[op.id]]
    if any(op in replaced or op in written or not _is_scalar(op) for op in before):
        return None
    choice.add(tape, skeleton)
    walk = Walk(tape)
    for given in tape.inputs:
        walk.keep(given)
    for op in before:
        if walk.at[op.id] is None:
            walk.keep(op)
    facts = tuple([guard.fact for guard in guards])
    row = walk.make(guards[0], choose, *[walk.at[guard.args[0].id] for guard in guards], facts=facts,
                    table=choice.table, val=choose.impl(*[guard.args[0].val for guard in guards], facts=facts,
                                                        table=choice.table))
    parts = {spot: walk.make(spot[0], getfield, row, number, val=part_of(row.val, number))
             for number, spot in enumerate(spots)}
    for op in tape.ops:
        if op in replaced:
            walk.stand_in(op, parts[op, -1])
        elif op in written:
            walk.keep(op, tuple([parts.get((op, number), walk.bind(arg)) for number, arg in enumerate(op.args)]))
        elif op not in guards and walk.at[op.id] is None:
            walk.keep(op)
    return walk.done()


def _is_scalar(op: Operation) -> bool:
    return (op.spec.is_python or op.spec.is_scalar) and (type(op) is not Call or pure(op.fn))


def _constant(op: Operation, part: int) -> Any:
    return op.val if type(op) is Constant else op.args[part]
