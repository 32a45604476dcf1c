"""walk: one pass over a tape that writes a new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.ops import hook, pow
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.loop import Loop
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.types import is_by_value, spec_of_call
from tapegrad.tape.liveness import leading
from tapegrad.tape.origin import Origin
from tapegrad.tape.spec import UNKNOWN, absent
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import NO_KWARGS, Call, Constant, Guard, Input, Operation, Tape, copy_op, operands

# the result for a real matrix may be complex
_TYPED_BY_VALUE = frozenset(op for op in OPS.values() if is_by_value(op.spec)) - {pow}
# calls of hooks must not be merged
_UNSURE = frozenset([*(OPS[name] for name in ("draw", "default_rng", "pack")), hook])
# the result type of other ops follows from their arguments' types, unless it is dynamic
_UNSTEADY = _TYPED_BY_VALUE | {pow}


def copy_tape(tape: Tape) -> Tape:
    """Return a tape of copies of the operations; values are shared."""
    walk = Walk(tape)
    for op in tape.ops:
        walk.keep(op)
    return walk.done()


def needed(tape: Tape, parts: Sequence[Any],
           guards: Callable[[Guard], bool] = lambda guard: True) -> tuple[Tape, list[Any]]:
    """Return a tape of what `parts` and the selected guards depend on, without a result, and the parts on that tape."""
    leads = leading(tape.ops, [*parts, *[op for op in tape.ops if isinstance(op, Guard) and guards(op)]])
    walk = Walk(tape)
    for op in tape.ops:
        if leads[op.id] or isinstance(op, Input):
            walk.keep(op)
    return walk.new, [walk.bind(part) for part in parts]


def own(fn: Callable[..., Any]) -> bool:
    """True for an op of tapegrad's own, whose behaviour is known, and for a loop; a user's function may do anything."""
    return (type(fn) is Op and OPS.get(fn.__name__) is fn) or type(fn) is Loop


def pure(fn: Callable[..., Any]) -> bool:
    """True for an op whose equal calls may be merged or run while a tape is optimised: no randomness, no structure."""
    return type(fn) is Op and OPS.get(fn.__name__) is fn and fn not in _UNSURE


def _steady(fn: Op) -> bool:
    return OPS.get(fn.__name__) is fn and not fn.dynamic and fn not in _UNSTEADY


def _is_steady_body(fn: Callable[..., Any]) -> bool:
    return type(fn) is Checkpoint and all(type(op.fn) is Op and _steady(op.fn) for op in fn.body.ops if type(op) is Call
                                          and op is not fn.body.result)


def literal(x: Any) -> bool:
    """True for a number that may itself be an argument of a call."""
    return isinstance(x, (int, float, complex, np.generic))


def moved(origin: Origin | None, at: Sequence[Any]) -> Origin | None:
    """Return an origin on a new tape, where `at` holds by position the stand-ins of the old operations; None if the
    operation that it refers to has none.
    """
    if origin is None or not origin.of:
        return origin
    made = at[origin.of] if origin.of < len(at) else None
    if not isinstance(made, Operation):
        return None
    return origin if made.id == origin.of else Origin(origin.kind, made.id)


_new = object.__new__


class Walk:
    """Maps the operations of a tape to those of the new one that a pass writes.

    By position: `at` holds the stand-in of each old operation, an operation or a plain number, None as long as there is
    none; `uses` counts the uses of each new operation, with `count`; `known` tells, with `learn`, whether guards ensure
    the recorded type, shape and dtype of a new operation in every replay.
    """

    __slots__ = ("_used", "at", "known", "learn", "new", "old", "uses")

    def __init__(self, tape: Tape, learn: bool = False, count: bool = False) -> None:
        self.old, self.new, self.learn = tape, tape.blank(), learn
        self.at: list[Any] = [None] * (len(tape.ops) + 1)
        self.known = bytearray(1)
        self.uses = [0]
        self._used: list[int] = count_uses(tape) if count else []  # of the old operations

    def bind(self, arg: Any) -> Any:
        """Return the stand-in of an old operation's argument."""
        return self.at[arg.id] if isinstance(arg, Operation) else arg

    def args(self, op: Operation) -> tuple[Any, ...]:
        """Return the stand-ins of all arguments."""
        at = self.at
        return tuple([at[arg.id] if isinstance(arg, Operation) else arg for arg in op.args])

    def keep(self, op: Operation, args: tuple[Any, ...] | None = None) -> Operation:
        """Copy an old operation to the new tape; return the copy. A guard of what has become a number is dropped."""
        at, ops = self.at, self.new.ops
        if type(op) is Call:  # copy_op, inlined: every pass copies all of them
            new: Any = _new(Call)
            fn = op.fn
            new.fn, new.kwargs, new.pb = at[fn.id] if isinstance(fn, Operation) else fn, op.kwargs, op.pb
            new.code, new.lasti, new.origin, new.val = op.code, op.lasti, op.origin, op.val
        elif type(op) is Guard and not isinstance(at[op.args[0].id], Operation):
            return op
        else:
            new = copy_op(op, _itself)
        new.args = tuple([at[arg.id] if isinstance(arg, Operation) else arg
                          for arg in op.args]) if args is None else args
        if op.origin is not None:
            new.origin = self.origin(op)
        ops.append(new)  # _push and stand_in, inlined
        new.id = len(ops)
        at[op.id] = new
        if self._used:
            self.uses.append(self._used[op.id])
        if self.learn:
            self.known.append(0)
            self._know(new)
        return new  # type: ignore[no-any-return]

    def origin(self, op: Operation) -> Origin | None:
        """Return the origin of an old operation on the new tape; None if the operation that it refers to is gone."""
        return moved(op.origin, self.at)

    def make(self, like: Operation, fn: Op, *args: Any, val: Any = UNKNOWN, **kwargs: Any) -> Operation:
        """Put a new call on the new tape in place of `like`, with its line and note; return it."""
        if val is UNKNOWN:
            val = absent(spec_of_call(fn, args, kwargs))
        return self._push(Call(fn, args, kwargs or NO_KWARGS, val, self.origin(like)).at(like))

    def instead(self, op: Operation, fn: Any, *args: Any, **kwargs: Any) -> Operation:
        """Put a new call on the new tape in place of `op`, with the same value; return it."""
        return self._push(Call(fn, args, kwargs or NO_KWARGS, op.val, self.origin(op)).at(op))

    def constant(self, like: Operation, val: Any) -> Any:
        """Return the stand-in of a constant value: a number itself, or an operation."""
        return val if literal(val) else self._push(Constant(val, self.origin(like)).at(like))

    def once(self, op: Operation) -> bool:
        """True if only one operation uses the stand-in `op`; requires `count`."""
        return self.uses[op.id] < 2

    def stand_in(self, old: Operation, made: Any) -> None:
        """Replace an old operation by a stand-in."""
        self.at[old.id] = made
        if self._used and isinstance(made, Operation):
            self.uses[made.id] += self._used[old.id]

    def done(self) -> Tape:
        """Give the new tape its result, and return it."""
        result = self.old.result
        if result is not None:
            made = self.at[result.id]
            self.new.result = (made if isinstance(made, Operation)
                               else self._push(Constant(made, self.origin(result)).at(result)))
        return self.new

    def _push(self, op: Operation) -> Operation:
        ops = self.new.ops
        ops.append(op)
        op.id = len(ops)
        if self._used:
            self.uses.append(0)
        if self.learn:
            self.known.append(0)
            self._know(op)
        return op

    def _know(self, op: Operation) -> None:
        known = self.known
        kind = type(op)
        if kind is Call:
            fn = op.fn
            steady = type(fn) is Op and (_steady(fn) or (fn is pow and not typed_by_value(op)))
            if op.val is UNKNOWN or not (steady or type(fn) is Loop or _is_steady_body(fn)):
                return
            for arg in op.args:
                if isinstance(arg, Operation) and not known[arg.id]:
                    return
            known[op.id] = 1
        elif kind is Constant:
            known[op.id] = 1
        elif kind is Guard:
            x = op.args[0]
            if op.fact == "type" or (op.fact == "shape" and _dtype_follows(x, known)):  # type: ignore[attr-defined]
                known[x.id] = 1
            elif op.fact == "dtype" and isinstance(x, Input):  # type: ignore[attr-defined]
                known[x.id] = 1  # specialise writes it after that of the shape


def _itself(arg: Any) -> Any:
    return arg


def count_uses(tape: Tape) -> list[int]:
    """Return, by position, the number of uses of each operation; one that uses it twice counts twice."""
    uses = [0] * (len(tape.ops) + 1)
    for op in tape.ops:
        for arg in op.args:
            if isinstance(arg, Operation):
                uses[arg.id] += 1
        if isinstance(op.fn, Operation):
            uses[op.fn.id] += 1
    return uses


def _dtype_follows(x: Operation, known: bytearray) -> bool:
    """True for an operation whose values decide nothing but the shape: once that is guarded, the type is known."""
    return isinstance(x, Call) and own(x.fn) and not typed_by_value(x) and all(known[arg.id] for arg in operands(x))


def typed_by_value(op: Operation) -> bool:
    """True for a call whose result type depends on values: a negative number to a fractional power is complex."""
    fn = op.fn
    return fn in _TYPED_BY_VALUE or (fn is pow and op.spec.dtype is None
                                     and not (type(op.args[1]) is int and op.args[1] >= 0))


def is_call(x: Any, fn: Any) -> bool:
    """True for a plain call of an op on a tape, not one through a view's path."""
    return type(x) is Call and x.fn is fn and not x.kwargs.get("through")


def with_bodies(tape: Tape, change: Callable[[Tape], Tape]) -> Tape:
    """Return a tape on which `change` has replaced the body of each call that carries one."""
    if not any(map(carries, tape.ops)):
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        made: Any = walk.keep(op)
        if carries(made):
            body = change(made.fn.body)
            made.fn = made.fn if body is made.fn.body else made.fn.with_body(body)
    return walk.done()
