"""Align: pairs the primal operations of a gradient tape with the operations of its reverse sweep."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.show.line import Fields, listed, place_of, reverse_start
from tapegrad.tape.origin import BESIDE
from tapegrad.tape.tape import Call, Input, Operation, Tape, operands


def align(tape: Tape, fields: Fields, guards: bool = True) -> tuple[list[Operation], dict[Operation, list[Operation]]]:
    """Return the primal operations, and the operations of the reverse sweep for each, both in the tape's order.

    On a tape of triples, origins pair them. On a flat tape the place in the program does, which a primal call shares
    with the operations of its inlined pullback, and the argument in the origin (`d%4`). If a place ran several times,
    the sweep reaches its calls from the last to the first.
    """
    start = reverse_start(tape)
    if start == len(tape):
        raise ArgumentError(f"the tape of {tape.name or 'nothing'} has no reverse sweep to show next to it",
                            try_="tg.gradtape(f, *args).show('mirror'), or tape.show('tree')")
    forward = listed(tape.ops[:start], fields, guards)
    beside: dict[Operation, list[Operation]] = {op: [] for op in forward}
    owners = _Owners(tape, forward, fields)
    for op in listed(tape.ops[start:], fields, guards):
        beside[owners.of(op)].append(op)
    return forward, beside


class _Owners:
    """Finds the primal operation of each operation of the reverse sweep, in the sweep's order."""

    def __init__(self, tape: Tape, forward: list[Operation], fields: Fields) -> None:
        self.tape, self.forward = tape, forward
        self.row = {op: i for i, op in enumerate(forward)}
        self.row |= {field: self.row[of] for of, group in fields.items() if of in self.row for field in group}
        self.users: dict[Any, list[int]] = defaultdict(list)  # by place and argument: rows not yet passed
        for i, op in enumerate(forward):
            for used in operands(op):
                self.users[place_of(op), used.id].append(i)
        self.inputs = {x.label or x.name: i for i, x in enumerate(forward) if isinstance(x, Input)}
        result = tape.result
        y = result.args[0] if isinstance(result, Call) and result.args else None
        self.at = self.row.get(y, len(forward) - 1) if isinstance(y, Operation) else len(forward) - 1
        self.argument = 0  # position among this row's arguments: those before it are done
        self.summed = False  # this argument is done, too

    def of(self, op: Operation) -> Operation:
        """Return the primal operation of an operation of the reverse sweep."""
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
        """Move to the call at a place that has the argument `%number`: the current call if that argument is not done,
        or an earlier one. A contribution ends with its accumulation.
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
        """Return the position of an argument that is not done."""
        here = [used.id for used in operands(self.forward[self.at])]
        start = self.argument + self.summed
        return here.index(number, start) if number in here[start:] else None

    def move(self, row: int) -> None:
        """Move to another row."""
        if row != self.at:
            self.at, self.argument, self.summed = row, 0, False
