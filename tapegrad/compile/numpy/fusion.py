"""fusion: groups of elementwise calls of large arrays become one call each, that an executor computes
without whole temporaries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.numpy.blocked_executor import Blocks
from tapegrad.compile.numpy.call_facts import reduced, ufunc_of
from tapegrad.ops.fused import Fused, Made, fields_of
from tapegrad.tape.spec import Spec, absent, spec_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape, operands
from tapegrad.transforms.walk import Walk, pure
from tapegrad.tree.flatten import flatten

# elements of an array, from which on blocks pay : at half of it one thread loses up to 13 %, at
# four times it saves half
LARGE = 1 << 18
DTYPES = "?fdFD"

Shape = tuple[int, ...]


class Group(NamedTuple):
    """What may be computed together: calls on one shape that no other call stands between."""

    level: int
    shape: Any


class Members(NamedTuple):
    """Which calls may be in groups: `shapes` says over what each of them runs, `together` whether a call may use
    another's value inside a group; a group has so many calls at `least`.
    """

    shapes: dict[Operation, Any]
    together: Callable[[Operation, Operation], bool]
    least: int = 2


def large(tape: Tape) -> Members:
    """Return the elementwise calls of large arrays, and their full reductions."""
    shapes = {op: shape for op in tape.ops if (shape := shape_of(op)) is not None}
    return Members(shapes, lambda arg, op: arg.spec.has_axes and shapes.get(op) == shapes[arg])


def fuse(tape: Tape, executor: Made = Blocks, choose: Callable[[Tape], Members] = large) -> Tape:
    """Return a tape on which calls that one loop can compute, those that `choose` says, are grouped into calls of
    executors.

    What belongs together is found by levels: a call is one level above the groups whose results it needs, and what
    stands behind a guard, a draw or a call of a user's function is at least on its level. Level by level, first what is
    in no group is computed, in the order of the tape, then the groups. A tape without such groups is returned as it is.

    >>> import numpy as np, tapegrad as tg
    >>> from tapegrad.compile.numpy.fusion import fuse
    >>> value, tape = tg.trace(lambda x: np.sum(np.exp(x) * x), np.ones(300_000))
    >>> [op.body for op in fuse(tape) if op.kind == "call"]
    ['fused(exp, multiply, sum)(%2)']
    """
    members = choose(tape)
    shapes = members.shapes
    if len(shapes) < members.least:
        return tape
    levels = _levels(tape, members)
    _sink(tape, members, levels)
    groups: dict[Group, list[Operation]] = defaultdict(list)
    for op in tape.ops:
        if op in shapes:
            groups[Group(levels[op], shapes[op])].append(op)
    chosen = {key: calls for key, calls in groups.items() if len(calls) >= members.least}
    return _regroup(tape, levels, chosen, executor)


def unfuse(tape: Tape) -> Tape:
    """Return a tape on which groups are the calls they were made of: what can be written as source.

    The values of calls within a group are absent.
    """
    walk = Walk(tape)
    inner: dict[Operation, list[Operation]] = {}
    for op in tape.ops:
        fn = fields_of(op)
        if fn is not None:
            walk.stand_in(op, inner[op.args[0]][op.args[1]])
        elif isinstance(op, Call) and isinstance(op.fn, Fused):
            at: dict[Operation, Any] = dict(zip(op.fn.inputs, walk.args(op)))
            for call in op.fn.calls:
                args = tuple(at[arg] if isinstance(arg, Operation) else arg for arg in call.args)
                at[call] = walk.new.push(Call(call.fn, args, call.kwargs, call.val).at(call))
            inner[op] = [at[y] for y in op.fn.results]
            walk.stand_in(op, inner[op][0])
        else:
            walk.keep(op)
    return walk.done()


def shape_of(op: Operation) -> Shape | None:
    """Return the shape over which a call of large arrays runs element by element, None for another."""
    if type(op) is not Call:
        return None
    if (found := reduced(op)) is not None:
        x = spec_of(op.args[0])
        whole = found[1] is None or len(np.atleast_1d(found[1])) == x.ndim
        return x.shape if whole and not found[2] and op.spec.is_scalar and _is_large(x) else None
    if not (_chooses(op) or ufunc_of(op) is not None) or not _is_large(op.spec):
        return None
    return op.spec.shape if all(_fits(arg, op.spec.shape) for arg in op.args) else None


def _chooses(op: Call) -> bool:
    return op.fn is ops.where and len(op.args) == 3 and not op.kwargs and spec_of(op.args[0]).kind == "b"


def _is_large(x: Spec) -> bool:
    return x.has_axes and x.size >= LARGE and x.dtype.char in DTYPES and x.is_contiguous


def _fits(arg: Any, shape: Shape) -> bool:
    x = spec_of(arg)
    if x.has_axes:
        return isinstance(arg, Operation) and x.shape == shape and x.kind in "biufc" and x.is_contiguous
    return x.is_python or (x.is_numpy and x.kind in "biufc")


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


def _regroup(tape: Tape, levels: dict[Operation, int], groups: dict[Group, list[Operation]], executor: Made) -> Tape:
    """Write the tape level by level; the groups of a level stand behind what is in none."""
    if not groups:
        return tape
    inside = {op: key for key, calls in groups.items() for op in calls}
    used: set[Operation] = {tape.result}  # type: ignore[arg-type]
    for op in tape.ops:
        used.update(arg for arg in operands(op) if arg in inside and inside[arg] != inside.get(op))
    by_level: dict[int, list[Group]] = defaultdict(list)
    rest: dict[int, list[Operation]] = defaultdict(list)
    for key in groups:
        by_level[key.level].append(key)
    for op in tape.ops:
        if op not in inside:
            rest[levels[op]].append(op)
    walk = Walk(tape)
    for level in sorted({*by_level, *rest}):
        for op in rest[level]:
            walk.keep(op)
        for key in by_level[level]:
            _call(walk, groups[key], [op for op in groups[key] if op in used], executor)
    return walk.done()


def _call(walk: Walk, calls: list[Operation], results: list[Operation], executor: Made) -> None:
    """Put the call of a group on the new tape, and its results."""
    first, inside = calls[0], set(calls)
    given = list(dict.fromkeys(arg for op in calls for arg in operands(op) if arg not in inside))
    fused = executor(_subtape(calls, given, results))
    args = tuple(walk.bind(arg) for arg in given)
    if len(results) == 1:
        made: Operation = walk.new.push(Call(fused, args, None, results[0].val).at(first))
        walk.stand_in(results[0], made)
        return
    made = walk.new.push(Call(fused, args, None, tuple(op.val for op in results)).at(first))
    for number, op in enumerate(results):
        walk.stand_in(op, walk.new.push(Call(ops.getfield, (made, number), None, op.val).at(op)))


def _subtape(calls: list[Operation], given: list[Operation], results: list[Operation]) -> Tape:
    """Return a tape of a group's calls, without values."""
    tape, at = Tape(None, "group"), dict[Operation, Operation]()
    for arg in given:
        at[arg] = tape.push(Input(absent(arg.spec), f"x{len(at)}"))
    for op in calls:
        assert isinstance(op, Call)
        args = tuple(at[arg] if isinstance(arg, Operation) else arg for arg in op.args)
        at[op] = tape.push(Call(op.fn, args, op.kwargs, absent(op.spec)).at(op))
    if len(results) == 1:
        tape.result = at[results[0]]
    else:
        parts = tuple(at[op] for op in results)
        into = flatten(tuple([0] * len(parts)), "", [], [])
        tape.result = tape.push(Call(ops.pack, parts, {"into": into}, tuple([part.val for part in parts])))
    return tape
