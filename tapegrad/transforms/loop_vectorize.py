"""loop_vectorize: replaces loops whose iterations do not depend on each other by operations on arrays.

Each iteration of such a loop reads elements of arrays, computes with them, and writes the result to an element that no
other iteration writes, appends it to a list, or adds it to a sum. This takes a few operations on slices, and so does
the reverse sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import (
    add,
    divide,
    empty,
    getitem,
    maximum,
    minimum,
    multiply,
    scatter,
    setitem,
    stack,
    subtract,
    sum,
    zeros,
)
from tapegrad.ops.loop import Loop, is_loop, live, range_of, taken
from tapegrad.ops.structure import whole_of
from tapegrad.replay.raising import may_end_replay
from tapegrad.rules.batching import elementwise, rule_of
from tapegrad.rules.types import spec_of_call
from tapegrad.tape.spec import Absent, Spec, absent, spec_of
from tapegrad.tape.tape import NO_KWARGS, Call, Constant, Guard, Input, Operation, Tape, operands, value_of
from tapegrad.trace.guards import FIXED
from tapegrad.transforms.walk import Walk, is_call, literal, pure

FLOAT = np.dtype(float)
COUNTED = frozenset([add, subtract, multiply, divide, maximum, minimum])  # they treat integers as the equal floats
SINGLE = 4  # a loop is kept if more elements of a list that it collects are used outside of a stack


def vectorized(tape: Tape) -> Tape:
    """Return a tape on which operations on arrays replace the loops whose iterations do not depend on each other.

    The values are those of the loop, except for the rounding of sums and for the last bit of functions that NumPy
    computes differently for arrays. The shapes and dtypes of the arrays whose elements the loop reads are guarded.
    """
    if not any(map(is_loop, tape.ops)):
        return tape
    used, users = taken([*tape.ops, tape.result]), dict[Operation, list[Operation]]()
    for op in tape.ops:
        for arg in operands(op):
            users.setdefault(arg, []).append(op)
    found: dict[Operation, _Arrays] = {}
    stacked: dict[Operation, set[Operation]] = {}  # tuples that become arrays: elements used only in a stack
    for op in tape.ops:
        if is_loop(op) and op is not tape.result:
            arrays = _Arrays(op, used[op])  # type: ignore[arg-type]
            lists = arrays.lists(users, tape.result) if arrays.are_all else None
            if lists is not None:
                found[op], stacked = arrays, stacked | lists
    if not found:
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        whole = whole_of(op)
        if op in found:
            found[op].write(walk)
        elif whole in found:
            walk.stand_in(op, found[whole].results[op.args[1]])
        elif whole in stacked:
            if op not in stacked[whole]:
                walk.stand_in(op, walk.instead(op, getitem, walk.bind(whole), op.args[1]))
        elif is_call(op, stack) and (joined := _joined(op)) in stacked:
            walk.stand_in(op, walk.bind(joined))
        else:
            walk.keep(op)
    return walk.done()


def _is_number(x: Spec) -> bool:
    """Return whether a spec is a float64 or bool of NumPy's without axes."""
    return x.is_numpy and not x.ndim and x.dtype in (FLOAT, np.dtype(bool))


def _joined(op: Operation) -> Any:
    """Return the tuple of which a call stacks all elements in order, None for other calls."""
    whole = whole_of(op.args[0]) if is_call(op, stack) and op.kwargs.get("axis") == 0 else None
    alike = whole is not None and len(op.args) == len(spec_of(whole).parts)
    return whole if alike and all(whole_of(x) is whole and x.args[1] == k for k, x in enumerate(op.args)) else None


class _Arrays:
    """A loop as operations on arrays.

    each: the operations of the body whose value differs between iterations. same: those with one value in all.
    writes: by carried input, the calls that write to it. sums: by carried input, `add` or `subtract`, which accumulates
    into it. are_all: whether this covers everything that the results need.
    """

    def __init__(self, op: Call, used: set[int]) -> None:
        self.op, self.loop = op, op.fn
        loop: Loop = op.fn
        steps, given, listed, carried = loop.parts()
        self.carried = carried
        self.outer: dict[Operation, Any] = dict(zip([*given, *listed, *carried], op.args))
        self.steps: dict[Any, tuple[Any, ...]] = dict(zip(steps, loop.steps))
        stops = [x for x in loop.body.ops if may_end_replay(x, None, steps) and not (
            isinstance(x, Guard) and x.fact in FIXED and isinstance(x.args[0], Call))]
        self.live, leads = live(loop, used, stops)
        needed = [x for x in loop.body.ops if leads[x.id] and not isinstance(x, Input)]
        self.same: set[Any] = {*given, *(x for x in needed if type(x) is Constant)}
        self.each: dict[Operation, None] = {}
        for x in needed:
            if type(x) is Call and (self._is_element(x) or self._is_computed(x)):
                if self.same.issuperset(operands(x)):
                    self.same.add(x)
                else:
                    self.each[x] = None
        self.writes = {j: chain for j in self.live if j < len(carried) and (chain := self._writes(j))}
        self.sums = {j: fn for j in self.live if j < len(carried) and (fn := self._sum(j))}
        made = {*self.each, *self.same, *(x for chain in self.writes.values() for x in chain),
                *(loop.results[j] for j in self.sums)}
        self.are_all = not stops and made.issuperset(needed) and all(
            j in self.writes or j in self.sums or (j >= len(carried) and loop.results[j] in self.each)
            for j in self.live)

    def lists(self, users: dict[Operation, list[Operation]], result: Any) -> dict[Operation, set[Operation]] | None:
        """Return the collected tuples that become arrays, each with its elements that are used only in a stack of the
        whole tuple. Return None if a tuple is used in any other way, apart from a few single elements.
        """
        found: dict[Operation, set[Operation]] = {}
        for field in users.get(self.op, ()):
            if whole_of(field) is not self.op:
                return None
            j = field.args[1]
            if j >= len(self.carried):
                elements = users.get(field, [])
                found[field] = stacked = {x for x in elements if x is not result
                                          and all(_joined(y) is field for y in users.get(x, ()))}
                if (field is result or self.loop.results[j].spec.is_array or len(elements) - len(stacked) > SINGLE
                        or not all(whole_of(x) is field for x in elements)):
                    return None
        return found

    def _place(self, shape: tuple[int, ...], index: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the slices that cover an index of single elements over all iterations, None if none do."""
        found: list[Any] = []
        for i, n in zip(index, shape):
            runs = range_of(self.steps[i]) if isinstance(i, Operation) and i in self.steps else None
            if runs is not None and max(runs) < 0:
                runs = range(runs.start + n, runs.stop + n, runs.step)
            if runs is None and type(i) is int:
                found.append(i % n)
            elif runs is not None and min(runs) >= 0:
                found.append(slice(runs.start, runs.stop if runs.stop >= 0 else None, runs.step))
        alone = len(found) == len(index) == len(shape) and [type(i) for i in found].count(slice) == 1
        return tuple(found) if alone else None

    def _is_element(self, op: Call) -> bool:
        """Return whether a call reads an element of an array from outside, another element in each iteration."""
        x = op.args[0] if is_call(op, getitem) else None
        return (x in self.outer and x in self.same and x.spec.is_array and x.spec.is_numpy and x.spec.dtype == FLOAT
                and self._place(x.spec.shape, op.args[1:]) is not None)

    def _is_computed(self, op: Call) -> bool:
        """Return whether a call computes a number elementwise from known ones, or the same value in all iterations."""
        if not pure(op.fn) or self.same.issuperset(operands(op)):
            return pure(op.fn) and not op.fn.memory.blank
        return (rule_of(op.fn) is elementwise and not op.kwargs and _is_number(op.spec)
                and all(x in self.each or x in self.same or x in self.steps for x in operands(op))
                and all(spec_of(x).type is float or type(x) is int or _is_number(spec_of(x))
                        or (x in self.steps and op.fn in COUNTED) for x in op.args))

    def _uses(self, inside: set[Operation]) -> list[tuple[Operation, int]]:
        """Return the uses of some operations in the body as (user, argument number) pairs; the result comes last."""
        return [(op, i) for op in self.loop.body.ops for i, arg in enumerate(op.args)
                if isinstance(arg, Operation) and arg in inside]

    def _writes(self, j: int) -> list[Call]:
        """Return the writes to a carried array in order, if the body does nothing else with it and no two iterations
        write the same element; two writes of one iteration may share their place.
        """
        x, chain, last = self.carried[j], list[Call](), self.loop.results[j]
        while is_call(last, setitem):
            chain.insert(0, last)
            last = last.args[0]
        if not (chain and last is x and x.spec.is_numpy and x.spec.dtype == FLOAT and self._uses({x, *chain})
                == [*((op, 0) for op in chain), (self.loop.body.result, j)]):
            return []
        numbers, places = np.arange(x.spec.size).reshape(x.spec.shape), dict[str, Any]()
        for op in chain:
            value, place = op.args[1], self._place(x.spec.shape, op.args[2:])
            if place is None or not (literal(value) or value in self.each
                                     or (value in self.same and not spec_of(value).ndim)):
                return []
            places[str(place)] = np.ravel(numbers[place])
        written = np.concatenate(list(places.values()))
        return chain if len(np.unique(written)) == len(written) else []

    def _sum(self, j: int) -> Any:
        """Return `add` or `subtract` if that accumulates into a carried number and the body does nothing else with it,
        None otherwise.
        """
        x, op = self.carried[j], self.loop.results[j]
        if not (isinstance(op, Call) and op.fn in (add, subtract) and op.spec.type is np.float64 and x in operands(op)):
            return None
        i = int(op.args[0] is not x)
        alone = self._uses({x, op}) == [(op, i), (self.loop.body.result, j)]
        return op.fn if alone and op.args[1 - i] in self.each and (i == 0 or op.fn is add) else None

    # -- the new tape

    def write(self, walk: Walk) -> None:
        """Push the operations to the new tape, and set `results`: what replaces each result of the loop."""
        at: dict[Any, Any] = {x: walk.bind(arg) for x, arg in self.outer.items()}

        def call(like: Operation, fn: Any, *args: Any, **kwargs: Any) -> Operation:
            for x in args:
                if isinstance(x, Operation) and x in self.steps and x not in at:
                    at[x] = walk.new.push(Constant(np.array(self.steps[x], FLOAT)).at(like))
            args = tuple([at.get(x, x) if isinstance(x, Operation) else x for x in args])
            values = list(map(value_of, args))
            if any(type(x) is Absent for x in values):
                val: Any = absent(spec_of_call(fn, args, kwargs))
            else:
                with np.errstate(all="ignore"):
                    val = fn(*values, **kwargs)
            return walk.new.push(Call(fn, args, kwargs or NO_KWARGS, val).at(like))
        for x in dict.fromkeys(at[x.args[0]] for x in self.each if self._is_element(x)):  # type: ignore[arg-type]
            for fact in ("shape", "dtype") if isinstance(x, Operation) else ():
                walk.new.push(Guard(x, fact, getattr(x.spec, fact)).at(self.op))
        for x in self.loop.body.ops:
            if type(x) is Constant:
                at[x] = walk.new.push(Constant(x.val).at(x))
            elif type(x) is Call and self._is_element(x) and x in self.each:
                at[x] = call(x, getitem, x.args[0], *(self._place(x.args[0].spec.shape, x.args[1:]) or ()))
            elif type(x) is Call and (x in self.each or x in self.same):
                at[x] = call(x, x.fn, *x.args, **x.kwargs)
        self.results: dict[int, Any] = {j: at[self.loop.results[j]] for j in self.live if j >= len(self.carried)}
        for j, chain in self.writes.items():
            self.results[j] = made = at[self.carried[j]]
            places = [self._place(x.spec.shape, x.args[2:]) or () for x in chain]
            if made.fn in (zeros, empty) and len(set(map(str, places))) == len(chain) \
                    and all(x.args[1] in self.each for x in chain):
                parts = [part for x, place in zip(chain, places) for part in (x.args[1], *place)]
                self.results[j] = call(chain[-1], scatter, *parts, shape=made.spec.shape,
                                       ranks=tuple(map(len, places)))
                continue
            for x, place in zip(chain, places):
                self.results[j] = call(x, setitem, self.results[j], x.args[1], *place)
        for j, fn in self.sums.items():
            op, x = self.loop.results[j], self.carried[j]
            total = call(op, sum, *(y for y in op.args if y is not x))
            self.results[j] = call(op, fn, x, total)
