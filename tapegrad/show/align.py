"""Align: the primal operations of a gradient tape, and what the reverse sweep does for each."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.show.line import Fields, listed, place_of, reverse_start
from tapegrad.tape.origin import BESIDE
from tapegrad.tape.tape import Call, Input, Operation, Tape, operands


def align(tape: Tape, fields: Fields, guards: bool = True) -> tuple[list[Operation], dict[Operation, list[Operation]]]:
    """Return the primal operations, and what the reverse sweep does for each, both in the tape's order.

    On a tape of triples origins tell; on a flat one the place in the program, which a primal call shares with what its
    pullback dissolved into, and `d%4`, one of its arguments. Where a place ran often, the sweep meets its calls from
    the last to the first.
    """
    start = reverse_start(tape)
    if start == len(tape):
        raise ArgumentError(f"the tape of {tape.name or 'nothing'} has no reverse sweep to show beside it",
                            try_="tg.gradtape(f, *args).show('mirror'), or tape.show('tree')")
    forward = listed(tape.ops[:start], fields, guards)
    beside: dict[Operation, list[Operation]] = {op: [] for op in forward}
    owners = _Owners(tape, forward, fields)
    for op in listed(tape.ops[start:], fields, guards):
        beside[owners.of(op)].append(op)
    return forward, beside


class _Owners:
    """Finds, in the order of the sweep, the primal operation that each of its operations is for."""

    def __init__(self, tape: Tape, forward: list[Operation], fields: Fields) -> None:
        self.tape, self.forward = tape, forward
        self.row = {op: i for i, op in enumerate(forward)}
        self.row |= {field: self.row[of] for of, group in fields.items() if of in self.row for field in group}
        self.users: dict[Any, list[int]] = defaultdict(list)  # by place and argument: the rows, those still to come
        for i, op in enumerate(forward):
            for used in operands(op):
                self.users[place_of(op), used.id].append(i)
        self.inputs = {x.label or x.name: i for i, x in enumerate(forward) if isinstance(x, Input)}
        result = tape.result
        y = result.args[0] if isinstance(result, Call) and result.args else None
        self.at = self.row.get(y, len(forward) - 1) if isinstance(y, Operation) else len(forward) - 1
        self.argument = 0  # of the operation at this row: those before it are done with
        self.summed = False  # this one, too

    def of(self, op: Operation) -> Operation:
        """Return the primal operation that one of the reverse sweep is for."""
        kind, number, name = op.origin or ("", 0, "")
        if kind == "gradient":
            return self.forward[self.inputs.get(name or f"%{number}", 0)]
        beside = kind in BESIDE and number > 0
        if not beside and kind != "seed" and op.code is None:
            return self.forward[0]  # the result
        if beside and number <= len(self.tape):
            if kind == "pullback":
                self.move(self.row.get(self.tape[number], self.at))
            elif place_of(op) is not None:
                self.contribution(place_of(op), number, kind == "accumulation")
        return self.forward[self.at]

    def contribution(self, where: Any, number: int, last: bool) -> None:
        """Go to the call at a place that has the argument `%number`: this one, if it is still to come
        there, or one before it.

        A contribution ends with its accumulation.
        """
        argument = self.find(number) if where == place_of(self.forward[self.at]) else None
        if argument is None:
            rows = self.users.get((where, number), [])
            while rows and rows[-1] >= self.at:
                rows.pop()
            if not rows:
                return
            self.move(rows[-1])
            argument = self.find(number)
        self.argument, self.summed = argument or 0, last

    def find(self, number: int) -> int | None:
        """Return the position of an argument that is not done with."""
        here = [used.id for used in operands(self.forward[self.at])]
        start = self.argument + self.summed
        return here.index(number, start) if number in here[start:] else None

    def move(self, row: int) -> None:
        """Go to another row."""
        if row != self.at:
            self.at, self.argument, self.summed = row, 0, False
