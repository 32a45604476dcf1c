"""groups: groups calls on a tape that one loop can compute into single calls of subtapes."""

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

MANY = 8  # consecutive values that are joined into one call, at least
EDGES = 3  # exceptions among them, since a loop's first or last run may do more
SHOWN = 3  # functions shown in the name of a group


class Batch:
    """A group of calls as one function, from the subtape's inputs to its results."""

    aliases = None

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.results, into = ops.unpacked(tape.result)
        self.single = into is None
        self.inputs = tape.inputs[1:]
        self.calls = [op for op in tape.ops if isinstance(op, Call) and op.fn is not ops.pack]
        names = [op.fn.__name__ for op in self.calls]
        self.__name__ = f"batch({', '.join(names[:SHOWN] + ['...'] * (len(names) > SHOWN))})"


class StackedResults:
    """A stack of all values that a loop has collected, between other values, as a function of their tuple and these."""

    aliases = None
    __name__ = "joined"

    def __init__(self, before: int, count: int) -> None:
        self.before, self.count = before, count

    def expanded(self, walk: Walk, op: Operation) -> Operation:
        """Put the original calls on a tape."""
        whole, *others = walk.args(op)
        parts = [walk.new.push(Call(ops.getfield, (whole, k), None, absent(part)).at(op))
                 for k, part in enumerate(spec_of(whole).parts)]
        args = (*others[:self.before], *parts, *others[self.before:])
        return walk.new.push(Call(ops.stack, args, {"axis": 0}, op.val).at(op))


class Taken:
    """Consecutive rows of an array, as one function that returns their tuple: the input sequence of a loop."""

    aliases = None
    __name__ = "taken"

    def __init__(self, start: int) -> None:
        self.start = start

    def expanded(self, walk: Walk, op: Operation) -> Operation:
        """Put the original calls on a tape."""
        x, = walk.args(op)
        parts = [walk.new.push(Call(ops.getitem, (x, k), None, absent(part)).at(op))
                 for k, part in enumerate(op.spec.parts, self.start)]
        into = flatten(tuple([0] * len(parts)), "", [], [])
        return walk.new.push(Call(ops.pack, tuple(parts), {"into": into}, op.val).at(op))


def collected(tape: Tape) -> Tape:
    """Return a tape on which the calls that stack a loop's collected values, or that split an array for a loop, one for
    each run, are joined into one call.
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
    """Return the operand and the index of a call of `fn` that takes out one element; None for another operation."""
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
    return walk.new.push(Call(StackedResults(before, count), tuple(map(walk.bind, args)), None, op.val).at(op))


def _taken(walk: Walk, op: Operation) -> Operation | None:
    """Return the call; values that are not rows of the array are written to a copy of it."""
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
    """Return the number of arithmetic calls that native code of an operation saves the interpreter."""
    fn = op.fn
    return sum(map(calls_of, fn.calls)) if isinstance(fn, Batch) else int(type(fn) is Op and not fn.memory.moved)


class Members(NamedTuple):
    """The calls that may be in groups: `shapes` maps them to their loop's shape, `together` tells whether a call may
    use another's value inside a group, `alone` whether it may be a group by itself.
    """

    shapes: dict[Operation, Any]
    together: Callable[[Operation, Operation], bool]
    alone: Callable[[Operation], bool]


Group = tuple[int, Any]
"""What may be computed together: calls on one level and of one shape, which no other call stands between."""


def grouped_by(tape: Tape, members: Members) -> Tape:
    """Return a tape on which calls that one loop can compute are grouped into calls of batches.

    Groups are found by levels: a call is one level above the groups whose results it needs, and at least on the level
    of a preceding guard, draw or call of a user's function. On each level, ungrouped calls come first, in the order of
    the tape, then the groups. A tape without groups is returned unchanged.
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
    """Return a tape on which groups, in loops too, are replaced by their calls, which can be written as source.

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
        elif isinstance(op.fn, (StackedResults, Taken)):
            walk.stand_in(op, op.fn.expanded(walk, op))
        elif is_loop(op):
            loop: Any = walk.keep(op)
            loop.fn = loop.fn.with_body(ungrouped(loop.fn.body))
        else:
            walk.keep(op)
    return walk.done()


def _levels(tape: Tape, members: Members) -> dict[Operation, int]:
    levels: dict[Operation, int] = {}
    floor = 0  # the level of the last call or guard that must precede all later ones
    for op in tape.ops:
        at = floor
        for arg in operands(op):
            at = max(at, levels[arg] + (arg in members.shapes and not members.together(arg, op)))
        levels[op] = at
        if isinstance(op, Guard) or (isinstance(op, Call) and not pure(op.fn) and op.fn is not ops.pack):
            floor = at
    return levels


def _sink(tape: Tape, members: Members, levels: dict[Operation, int]) -> None:
    """Move calls down to the level of the group that uses them, unless more arrays would have to be kept between
    groups: their values then stay in blocks.
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
    """Write the tape level by level; on each level the groups come after the ungrouped calls."""
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
    """Put the call of a group and its results on the new tape."""
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
