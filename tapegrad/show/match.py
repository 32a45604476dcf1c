"""Match: pairs the operations of two tapes that are the same, whatever their numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import brief, count_of, plain
from tapegrad.numbers.tensors import is_tensor
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.rules.op import Op
from tapegrad.show.line import place_of
from tapegrad.tape.tape import Call, Constant, Guard, Input, Operation, Tape

Key = tuple[Any, ...]


class Matching:
    """Pairs each operation of a new tape with its old one, in `old_of`; `why` describes the pairs that differ.

    Operations that compute the same are paired first: value numbering over both tapes at once, the line decides between
    several. Then, in order, operations whose arguments are matched by now; last, between two matched neighbours, those
    of the same line and function, or of the same arguments: the same operation, changed. Time is linear in the length.
    """

    def __init__(self, old: Tape, new: Tape, bodies: Callable[[Loop, Loop], str]) -> None:
        self.bodies = bodies  # describes how two loops differ
        self.numbers: dict[Key, int] = {}  # value numbers
        self.number_of: dict[Operation, int] = {}
        self.old_of: dict[Operation, Operation] = {}
        self.taken: set[Operation] = set()
        for tape in (old, new):
            for op, key in zip(tape, self.keys(tape)):
                self.number_of[op] = self.numbers.setdefault(key, len(self.numbers))
        self.waiting: dict[Any, deque[Operation]] = defaultdict(deque)
        for op in old:
            self.waiting[self.number_of[op]].append(op)
            self.waiting[self.number_of[op], place_of(op)].append(op)
        for exactly in (True, False):
            for op in new:
                if op not in self.old_of:
                    self.match_same(op, exactly)
        self.changed: list[tuple[Operation, Operation]] = []
        self.match_changed(old, new)
        self.why = {op: self.difference(then, op) for then, op in self.changed}

    def keys(self, tape: Tape) -> Iterator[Key]:
        """Yield the key of each operation; the operations before it have their numbers by then."""
        inputs = 0
        for op in tape:
            yield ("input", inputs, op.label) if isinstance(op, Input) else self.key(op)
            inputs += type(op) is Input

    def key(self, op: Operation) -> Key:
        """Return a key of an operation's computation, in terms of its arguments' numbers."""
        args = tuple(map(self.argument, op.args))
        if isinstance(op, Call):
            return "call", self.argument(op.fn), args, *((name, static(arg)) for name, arg in op.kwargs.items())
        if isinstance(op, Guard):
            return "guard", op.fact, static(op.expected), args
        return op.kind, args, static(op.val) if isinstance(op, Constant) else None

    def argument(self, arg: Any) -> Any:
        """Return the number of an operation, or a key of any other argument."""
        return self.number_of[arg] if isinstance(arg, Operation) else static(arg)

    def match_same(self, op: Operation, exactly: bool) -> bool:
        """Match an operation with the first unmatched one of the same number, if `exactly` in the same place."""
        number = self.number_of[op]
        waiting = self.waiting.get((number, place_of(op)) if exactly else number)
        while waiting and waiting[0] in self.taken:
            waiting.popleft()
        if waiting:
            self.put(op, waiting.popleft())
            return True
        return False

    def put(self, new: Operation, old: Operation) -> None:
        """Match two operations and give them one number, so that their users may match."""
        self.old_of[new] = old
        self.taken.add(old)
        self.number_of[new] = self.number_of[old]

    def match_changed(self, old: Tape, new: Tape) -> None:
        """Match changed operations, and those that follow from them."""
        left = [op for op in old if op not in self.taken]
        likely: dict[Key, list[Operation]] = defaultdict(list)
        for op in left:
            for key in self.match_keys(op):
                likely[key].append(op)
        bounds = self.bounds(new, len(old) + 1)
        before = 0
        for op, after in zip(new, bounds):
            if op in self.old_of:
                before = self.old_of[op].id
                continue
            if isinstance(op, Input) or not left:
                continue
            self.number_of[op] = self.numbers.setdefault(self.key(op), len(self.numbers))
            if not (self.match_same(op, True) or self.match_same(op, False)):
                found = self.find(op, likely, before, after)
                if found is None:
                    continue
                self.changed.append((found, op))
                self.put(op, found)
            before = self.old_of[op].id

    def bounds(self, new: Tape, end: int) -> list[int]:
        """Return, for each operation, the old position of the next matched one."""
        found = []
        for op in reversed(new.ops):
            end = self.old_of[op].id if op in self.old_of else end
            found.append(end)
        return found[::-1]

    def match_keys(self, op: Operation) -> list[Key]:
        """Return the keys by which a changed operation is recognised, the surest first."""
        if isinstance(op, (Call, Guard)):
            what = (self.argument(op.fn) if isinstance(op, Call) and not isinstance(op.fn, Operation) else op.kind
                    if isinstance(op, Call) else op.fact)
            what = Loop if is_loop(op) else what
            keys: list[Key] = [("what", what, place_of(op), op.purpose),
                               ("of", tuple(map(self.argument, op.args)), op.kind)]
            return keys if op.code is not None else keys[::-1]  # no line to go by
        return [(op.kind, place_of(op), op.note)]

    def find(self, op: Operation, likely: dict[Key, list[Operation]], before: int, after: int) -> Operation | None:
        """Return the old operation of a changed one, between those of its neighbours."""
        for key in self.match_keys(op):
            ops = likely.get(key, [])
            for candidate in ops[bisect_left(ops, before + 1, key=lambda op: op.id):]:
                if before < after <= candidate.id:
                    break
                if candidate not in self.taken:
                    return candidate
        return None

    def difference(self, old: Operation, new: Operation) -> str:
        """Describe the differences between an operation and its changed form."""
        found = []
        if isinstance(old, Call) and isinstance(new, Call):
            if self.argument(old.fn) != self.argument(new.fn):
                found.append(self.bodies(old.fn, new.fn) if is_loop(old) and is_loop(new) else f"was {brief(old.fn)}")
            for name in {**old.kwargs, **new.kwargs}:
                was, now = (brief(op.kwargs[name]) if name in op.kwargs else "not given" for op in (old, new))
                found += [f"{name} was {was}"] if was != now else []
        if isinstance(old, Guard) and isinstance(new, Guard) and static(old.expected) != static(new.expected):
            found.append(f"was {brief(old.expected)}")
        if len(old.args) != len(new.args):
            found.append(f"had {count_of(len(old.args), 'argument')}")
        for was, now in zip(old.args, new.args):
            if self.argument(was) != self.argument(now):
                gone = isinstance(was, Operation) and was not in self.taken
                found.append(f"{brief(now)} was {brief(was)}" + " (removed)" * gone)
        return ", ".join(found) or f"was {old.body}"


def _inner(op: Operation) -> Any:
    """Return a key for an operation of a loop's body."""
    args = tuple((Operation, arg.id) if isinstance(arg, Operation) else static(arg) for arg in op.args)
    if isinstance(op, Call):
        return "call", static(op.fn), args, *((name, static(arg)) for name, arg in op.kwargs.items())
    return (op.kind, args, static(op.val) if isinstance(op, Constant) else (op.fact, static(op.expected))
            if isinstance(op, Guard) else None)


def static(value: Any) -> Any:
    """Return a key for an argument that is no operation, equal for equal numbers and arrays. Tensors and callable
    objects are compared by identity, other objects by their text.
    """
    kind = type(value)
    if kind is Op:
        return Op, value.__name__
    if kind is Loop:
        return Loop, value.count, value.sizes, value.reverse, static(value.steps), *map(_inner, value.body)
    if kind is float or kind is int or kind is bool or kind is str or value is None:
        return kind, repr(value)  # so nan equals nan, and -0.0 differs from 0.0
    value = plain(value)
    if isinstance(value, (tuple, list)):
        return type(value), *map(static, value)
    if isinstance(value, dict):
        return (dict, *((key, static(part)) for key, part in value.items()))
    if isinstance(value, slice):
        return slice, static(value.start), static(value.stop), static(value.step)
    if isinstance(value, np.ndarray):
        content = tuple(map(static, value.ravel().tolist())) if value.dtype == object else value.tobytes()
        return np.ndarray, str(value.dtype), value.shape, content
    if isinstance(value, FunctionType):
        return FunctionType, value.__code__  # a function may be defined anew at each run
    if is_tensor(value) or (callable(value) and not hasattr(type(value), "_brief")):
        return type(value), id(value)
    return type(value), brief(value, 10 ** 6)
