"""groups: calls on a tape that one loop can compute, as one call each of a subtape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad import ops
from tapegrad.ops.loop import is_loop, put
from tapegrad.ops.structure import put_results
from tapegrad.optimise.dce import dce
from tapegrad.rules.op import Op
from tapegrad.tape.spec import absent, same_type, spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, operands
from tapegrad.transforms.walk import Walk, pure
from tapegrad.tree.flatten import flatten

MANY = 8  # values in a row that are one
EDGES = 3  # of them that may be others, where a loop's first or last run has more to do
SHOWN = 3  # functions that the name of a group names


class Batch:
    """A group of calls as one function, of the subtape's inputs to its results."""

    aliases = None

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.results, into = ops.unpacked(tape.result)
        self.single = into is None
        self.inputs = tape.inputs[1:]
        self.calls = [op for op in tape.ops if isinstance(op, Call) and op.fn is not ops.pack]
        names = [op.fn.__name__ for op in self.calls]
        self.__name__ = f"batch({', '.join(names[:SHOWN] + ['...'] * (len(names) > SHOWN))})"


class Joined:
    """A stack of all that a loop has collected, between others, as one function: of the tuple, and of these."""

    aliases = None
    __name__ = "joined"

    def __init__(self, before: int, count: int) -> None:
        self.before, self.count = before, count

    def expanded(self, walk: Walk, op: Operation) -> Operation:
        """Put the calls it was made of on a tape."""
        whole, *others = walk.args(op)
        parts = [walk.new.push(Call(ops.getfield, (whole, k), None, absent(part)).at(op))
                 for k, part in enumerate(spec_of(whole).parts)]
        args = (*others[:self.before], *parts, *others[self.before:])
        return walk.new.push(Call(ops.stack, args, {"axis": 0}, op.val).at(op))


class Taken:
    """Rows of an array, from one on, as one function that returns them in a tuple: what a loop is listed."""

    aliases = None
    __name__ = "taken"

    def __init__(self, start: int) -> None:
        self.start = start

    def expanded(self, walk: Walk, op: Operation) -> Operation:
        """Put the calls it was made of on a tape."""
        x, = walk.args(op)
        parts = [walk.new.push(Call(ops.getitem, (x, k), None, absent(part)).at(op))
                 for k, part in enumerate(op.spec.parts, self.start)]
        into = flatten(tuple([0] * len(parts)), "", [], [])
        return walk.new.push(Call(ops.pack, tuple(parts), {"into": into}, op.val).at(op))


def collected(tape: Tape) -> Tape:
    """Return a tape on which the calls that make an array of what a loop has collected, or that take it apart for a
    loop, one for each run, are one.
    """
    walk, found = Walk(tape), False
    for op in tape.ops:
        made = None
        if op.fn is ops.stack and op.kwargs.get("axis") == 0 and len(op.args) >= MANY:
            made = _joined(walk, op)
        elif op.fn is ops.pack and op is not tape.result and len(op.args) >= MANY:
            made = _taken(walk, op)
        if made is None:
            walk.keep(op)
        else:
            walk.stand_in(op, made)
            found = True
    return dce(walk.done()) if found else tape


def _read(x: Any, fn: Op) -> tuple[Any, int] | None:
    """Return what a call takes one element out of, and its number; None for what does something else."""
    if isinstance(x, Operation) and x.fn is fn and len(x.args) == 2 and not x.kwargs and type(x.args[1]) is int:
        return x.args[0], x.args[1]
    return None


def _joined(walk: Walk, op: Operation) -> Operation | None:
    found = [_read(x, ops.getfield) for x in op.args]
    before, first = next(((k, read) for k, read in enumerate(found) if read and not read[1]), (0, None))
    if first is None or first[0].fn is not ops.getfield:
        return None
    whole, count = first[0], len(first[0].spec.parts)
    if count < MANY or found[before:before + count] != [(whole, k) for k in range(count)]:
        return None
    args = whole, *op.args[:before], *op.args[before + count:]
    return walk.new.push(Call(Joined(before, count), tuple(map(walk.bind, args)), None, op.val).at(op))


def _taken(walk: Walk, op: Operation) -> Operation | None:
    """Return the call; what is no row of the array is written to a copy of it."""
    found = [_read(x, ops.getitem) for x in op.args]
    at, first = next(((k, read) for k, read in enumerate(found) if read), (0, None))
    if first is None or not first[0].spec.is_array:
        return None
    x, start = first[0], first[1] - at
    others = [k for k, read in enumerate(found) if read != (x, start + k)]
    if len(others) > EDGES or not 0 <= start <= x.spec.shape[0] - len(found) or any(
            not same_type(spec_of(op.args[k]), op.args[at].spec) for k in others):
        return None
    array = walk.bind(x)
    for k in others:
        array = walk.new.push(Call(ops.setitem, (array, walk.bind(op.args[k]), start + k), None, absent(x.spec)).at(op))
    return walk.new.push(Call(Taken(start), (array,), None, op.val).at(op))


def calls_of(op: Operation) -> int:
    """Return of how many calls that compute native code of an operation spares the interpreter."""
    fn = op.fn
    return sum(map(calls_of, fn.calls)) if isinstance(fn, Batch) else int(type(fn) is Op and not fn.memory.moved)


class Members(NamedTuple):
    """Which calls may be in groups: `shapes` says over what each of them runs, `together` whether a call may use
    another's value inside a group, `alone` whether it may be a group by itself.
    """

    shapes: dict[Operation, Any]
    together: Callable[[Operation, Operation], bool]
    alone: Callable[[Operation], bool]


Group = tuple[int, Any]
"""What may be computed together: calls on one level and of one shape, which no other call stands between."""


def grouped_by(tape: Tape, members: Members) -> Tape:
    """Return a tape on which calls that one loop can compute are grouped into calls of batches.

    What belongs together is found by levels: a call is one level above the groups whose results it needs, and what
    stands behind a guard, a draw or a call of a user's function is at least on its level. Level by level, first what is
    in no group is computed, in the order of the tape, then the groups. A tape without such groups is returned as it is.
    """
    shapes = members.shapes
    if not shapes:
        return tape
    levels = _levels(tape, members)
    _sink(tape, members, levels)
    groups: dict[Group, list[Operation]] = defaultdict(list)
    for op in tape.ops:
        if op in shapes:
            groups[levels[op], shapes[op]].append(op)
    return _regroup(tape, levels, {key: calls for key, calls in groups.items()
                                   if len(calls) > 1 or members.alone(calls[0])})


def ungrouped(tape: Tape) -> Tape:
    """Return a tape on which groups, in loops too, are the calls they were made of: what can be written as source.

    The values of calls within a group are absent.
    """
    walk = Walk(tape)
    inner: dict[Operation, list[Operation]] = {}
    for op in tape.ops:
        if (batch := ops.whole_of(op)) in inner:
            walk.stand_in(op, inner[batch][op.args[1]])
        elif isinstance(op.fn, Batch):
            at: dict[Operation, Any] = dict(zip(op.fn.inputs, walk.args(op)))
            for call in op.fn.calls:
                args = tuple(at[arg] if isinstance(arg, Operation) else arg for arg in call.args)
                at[call] = walk.new.push(Call(call.fn, args, call.kwargs, call.val).at(call))
            inner[op] = [at[y] for y in op.fn.results]
            walk.stand_in(op, inner[op][0])
        elif isinstance(op.fn, (Joined, Taken)):
            walk.stand_in(op, op.fn.expanded(walk, op))
        elif is_loop(op):
            loop: Any = walk.keep(op)
            loop.fn = loop.fn.with_body(ungrouped(loop.fn.body))
        else:
            walk.keep(op)
    return walk.done()


def _levels(tape: Tape, members: Members) -> dict[Operation, int]:
    levels: dict[Operation, int] = {}
    floor = 0  # that of the last call or guard that must stay before what follows it
    for op in tape.ops:
        at = floor
        for arg in operands(op):
            at = max(at, levels[arg] + (arg in members.shapes and not members.together(arg, op)))
        levels[op] = at
        if isinstance(op, Guard) or (isinstance(op, Call) and not pure(op.fn) and op.fn is not ops.pack):
            floor = at
    return levels


def _sink(tape: Tape, members: Members, levels: dict[Operation, int]) -> None:
    """Move calls down to the group that uses them, where that keeps no more arrays between the groups:
    their values stay in blocks.
    """
    users: dict[Operation, list[Operation]] = defaultdict(list)
    for op in tape.ops:
        for arg in operands(op):
            users[arg].append(op)
    for op in reversed(tape.ops):
        if op not in members.shapes or not op.spec.has_axes or not users[op] or op is tape.result:
            continue
        latest = min(levels[user] - (not members.together(op, user)) for user in users[op])
        if latest <= levels[op]:
            continue
        held = {arg for arg in operands(op) if arg.spec.has_axes and not isinstance(arg, (Input, Constant))
                and all(levels[user] < latest for user in users[arg] if user is not op)}
        if len(held) < 2:
            levels[op] = latest


def _regroup(tape: Tape, levels: dict[Operation, int], groups: dict[Group, list[Operation]]) -> Tape:
    """Write the tape level by level; the groups of a level stand behind what is in none."""
    inside = {op: key for key, calls in groups.items() for op in calls}
    used: set[Operation] = {tape.result}
    for op in tape.ops:
        used.update(arg for arg in operands(op) if arg in inside and inside[arg] != inside.get(op))
    by_level: dict[int, list[Group]] = defaultdict(list)
    rest: dict[int, list[Operation]] = defaultdict(list)
    for key in groups:
        by_level[key[0]].append(key)
    for op in tape.ops:
        if op not in inside:
            rest[levels[op]].append(op)
    walk = Walk(tape)
    for level in sorted({*by_level, *rest}):
        for op in rest[level]:
            walk.keep(op)
        for key in by_level[level]:
            _call(walk, groups[key], [op for op in groups[key] if op in used])
    return walk.done()


def _call(walk: Walk, calls: list[Operation], results: list[Operation]) -> None:
    """Put the call of a group on the new tape, and its results."""
    first, inside = calls[0], set(calls)
    given = list(dict.fromkeys(arg for op in calls for arg in operands(op) if arg not in inside))
    batch = Batch(_subtape(calls, given, results))
    args = tuple(walk.bind(arg) for arg in given)
    if len(results) == 1:
        made: Operation = walk.new.push(Call(batch, args, None, results[0].val).at(first))
        walk.stand_in(results[0], made)
        return
    made = walk.new.push(Call(batch, args, None, tuple(op.val for op in results)).at(first))
    for number, op in enumerate(results):
        walk.stand_in(op, walk.new.push(Call(ops.getfield, (made, number), None, op.val).at(op)))


def _subtape(calls: list[Operation], given: list[Operation], results: list[Operation]) -> Tape:
    """Return a tape of a group's calls, without values."""
    tape, at = Tape(None, "group"), dict[Operation, Operation]()
    for arg in given:
        at[arg] = tape.push(Input(absent(arg.spec), f"x{len(at)}"))
    for op in calls:
        put(tape, op, at).val = absent(op.spec)
    if len(results) == 1:
        tape.result = at[results[0]]
    else:
        put_results(tape, [at[op] for op in results])
    return tape
