"""loop_pruning: removes unused results and arguments of loops, and moves invariant calls out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.loop import Loop, is_loop, live, put, taken
from tapegrad.ops.structure import put_results, whole_of
from tapegrad.optimise.dce import dce
from tapegrad.replay.raising import may_end_replay
from tapegrad.tape.spec import part_of
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, append_copy
from tapegrad.trace.guards import FIXED
from tapegrad.transforms.walk import Walk, literal, pure, with_bodies


def loops(tape: Tape, optimise: Callable[[Tape], Tape], guarded: bool = True) -> Tape:
    """Return a tape whose loop bodies, and bodies of checkpoints, are optimised by `optimise`. Loops return and take
    only what is needed, and loop-invariant calls stand before them. If `guarded`, the bodies' guards of their inputs'
    types are dropped, as the tape guards them before.
    """
    if not any(map(carries, tape.ops)):
        return tape

    def inner(given: Tape) -> Tape:
        body = optimise(given)
        return _unguarded(body) if guarded else body
    return pruned(with_bodies(pruned(tape), inner))


def pruned(tape: Tape) -> Tape:
    """Return a tape whose loops return, carry and take only what is needed, and compute only what varies from run to
    run.
    """
    while any(map(is_loop, tape.ops)):
        tape = dce(tape)
        used = taken(tape.ops)
        new = {op: _Pruned(op, used[op]) for op in tape.ops if is_loop(op)}  # type: ignore[arg-type]
        if all(made.same for made in new.values()):
            break
        walk = Walk(tape)
        for op in tape.ops:
            if op in new:
                new[op].write(walk)
            elif (loop := whole_of(op)) in new:
                walk.keep(op, (walk.bind(loop), new[loop].place[op.args[1]]))
            else:
                walk.keep(op)
        tape = walk.done()
    return tape


def _unguarded(body: Tape) -> Tape:
    """Return a body without guards of its inputs' types, which follow from the guards of the outer tape."""
    walk = Walk(body)
    for op in body.ops:
        if not (isinstance(op, Guard) and op.fact in FIXED and isinstance(op.args[0], Input)):
            walk.keep(op)
    return walk.done()


def _is_known(x: Any) -> bool:
    """Return whether a value is a constant that a loop's body may contain: a number, or a NumPy array."""
    return literal(x) or (type(x) is Constant and type(x.val) is np.ndarray)


class _Pruned:
    """A loop reduced to the results that are used."""

    def __init__(self, op: Call, used: set[int]) -> None:
        self.op = op
        self.loop: Loop = op.fn
        loop = self.loop
        steps, given, listed, carried = loop.parts()
        self.arg: dict[Operation, Any] = dict(zip([*given, *listed, *carried], op.args))
        left, needed = live(loop, used, [op for op in loop.body.ops if may_end_replay(op, None, steps)])
        self.numbers = sorted(left)
        self.place = {n: at for at, n in enumerate(self.numbers)}
        first: dict[Any, Operation] = {}
        stands: dict[Operation, Any] = {}  # replacements of inputs that are duplicates or constants
        for x in given:
            arg = self.arg[x]
            stands[x] = arg if _is_known(arg) else first.setdefault(arg, x) if isinstance(arg, Operation) else x
        self.stands = {x: other for x, other in stands.items() if other is not x}
        self.given = [x for x in given if needed[x.id] and x not in self.stands]
        self.listed = [x for x in listed if needed[x.id]]
        self.carried = [carried[n] for n in self.numbers if n < len(carried)]
        self.steps = [(x, values) for x, values in zip(steps, loop.steps) if needed[x.id]]
        self.before = self._before()
        sizes = (len(self.steps), len(self.given), len(self.listed), len(self.carried))
        self.same = sizes == loop.sizes and len(self.numbers) == len(loop.results) and not self.before

    def _before(self) -> list[Operation]:
        """Return the loop-invariant calls and guards of the body."""
        same: set[Any] = {*self.given, *self.stands, *(op for op in self.loop.body.ops if type(op) is Constant)}
        before: list[Operation] = []
        for op in self.loop.body.ops[1:]:
            alike = all(arg in same for arg in op.args if isinstance(arg, Operation))
            if alike and (isinstance(op, Guard) or (type(op) is Call and pure(op.fn) and not op.fn.memory.blank)):
                same.add(op)
                before.append(op)
        return before

    def write(self, walk: Walk) -> None:
        """Append the loop to the new tape, its invariant calls first."""
        outside: dict[Any, Any] = {x: walk.bind(self.arg[x]) for x in self.given}
        outside |= {x: walk.bind(other) if _is_known(other) else outside.get(other)
                    for x, other in self.stands.items()}
        for op in self.before:
            for arg in op.args:
                if type(arg) is Constant and arg not in outside:
                    append_copy(walk.new, arg, outside)
            if not (isinstance(op, Guard) and not isinstance(outside[op.args[0]], Operation)):
                append_copy(walk.new, op, outside)
        inside = set(self.before)
        leaving = [op for op in self.before if type(op) is Call
                   and any(op in other.args for other in self.loop.body.ops if other not in inside)]
        body = self.loop.body.blank()
        at: dict[Operation, Any] = {}

        for x in [self.loop.body.ops[0], *(x for x, _ in self.steps), *self.given]:
            put(body, x, at)
        for op in leaving:
            at[op] = body.push(Input(op.val).at(op))
        for x in [*self.listed, *self.carried]:
            put(body, x, at)
        for x, other in self.stands.items():
            if type(other) is Constant:
                at[x] = put(body, other, at)
            elif literal(other) or other in at:
                at[x] = other if literal(other) else at[other]
        for op in self.loop.body.ops[1:]:
            if not (op in inside or isinstance(op, Input) or op is self.loop.body.result) and self._runs(op, at):
                put(body, op, at)
        results = [self.loop.results[n] for n in self.numbers]
        put_results(body, [at[part] if isinstance(part, Operation) else part for part in results])
        loop = Loop(dce(body), self.loop.count, [values for _, values in self.steps], len(self.given) + len(leaving),
                    len(self.listed), len(self.carried), self.loop.reverse)
        args = [*(outside[x] for x in self.given), *(outside[op] for op in leaving),
                *(walk.bind(self.arg[x]) for x in [*self.listed, *self.carried])]
        val = self.op.val
        parts = tuple([part_of(val, n) for n in self.numbers])
        walk.stand_in(self.op, walk.new.push(Call(loop, tuple(args), None, parts, self.op.origin).at(self.op)))

    def _runs(self, op: Operation, at: dict[Operation, Any]) -> bool:
        """Return whether an operation of the body stays: all its operands are in the new body."""
        if isinstance(op, Guard) and not isinstance(at.get(op.args[0], op), Operation):
            return False
        return all(arg in at for arg in op.args if isinstance(arg, Operation))
