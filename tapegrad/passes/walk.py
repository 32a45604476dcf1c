"""Walk: one pass over a tape, into a new one."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops import pow
from tapegrad.rules import OPS, Op
from tapegrad.tape import NO_KWARGS, UNKNOWN, Call, Constant, Guard, Input, Operation, Tape, copy_op, operands, value_of

_TYPED_BY_VALUE = frozenset(OPS[name] for name in ("eig", "sqrtm", "logm"))  # of a real matrix the result may be complex
_UNSURE = frozenset(OPS[name] for name in ("draw", "default_rng", "pack"))


def own(fn: Any) -> bool:
    """True for an op of tapegrad's own, of which all is known; a user's function may do what it likes."""
    return type(fn) is Op and OPS.get(fn.__name__) is fn


def pure(fn: Any) -> bool:
    """True for an op that may be run once instead of twice, or when the tape is optimised: no chance in it, no structure."""
    return own(fn) and fn not in _UNSURE


def same_type(a: Any, b: Any) -> bool:
    """True if two values have one type, shape and dtype, so that one may stand for the other."""
    if type(a) is not type(b) or a is UNKNOWN:
        return False
    return not hasattr(a, "dtype") or (a.dtype == b.dtype and a.shape == b.shape)


def literal(x: Any) -> bool:
    """True for a number that may stand among a call's arguments itself."""
    return isinstance(x, (int, float, complex, np.generic))


def renumber(note: str, name: Callable[[int], str]) -> str:
    """Return a note that speaks of a new tape's variables; `name` says what `%n` is called there, and "" if it is gone: then so is the note."""
    if "%" not in note:
        return note
    parts = list(_split(note))
    parts[1::2] = [name(int(number)) for number in parts[1::2]]
    return "".join(parts) if all(parts[1::2]) else ""


@functools.lru_cache(1 << 16)
def _split(note: str) -> list[str]:
    return re.split(r"%(\d+)", note)


def copied(op: Operation) -> Operation:
    """Return a copy of an operation, which stands on no tape yet. Every pass copies all of them: this is copy_op, unrolled."""
    new: Any
    if type(op) is Call:
        new = Call.__new__(Call)
        new.fn, new.kwargs, new.pb = op.fn, op.kwargs, op.pb
        new.args, new.code, new.lasti, new.note, new.val, new.id = op.args, op.code, op.lasti, op.note, op.val, 0
        return new  # type: ignore[no-any-return]
    return copy_op(op, lambda arg: arg)


class Walk:
    """What the operations of a tape have become on the new one that a pass writes.

    `at` holds for each its stand-in, an operation or a plain number; `uses` how many operations use one of the new; `known` those
    whose type, shape and dtype are the recorded ones on every replay, because guards say so of what they are computed from (a pass that
    asks for it says `learn`).
    """

    __slots__ = ("at", "known", "learn", "new", "old", "uses")

    def __init__(self, tape: Tape, learn: bool = False) -> None:
        self.old, self.new, self.learn = tape, tape.blank(), learn
        self.at: dict[Operation, Any] = {}
        self.uses: dict[Operation, int] = {}
        self.known: set[Operation] = set()

    def bind(self, arg: Any) -> Any:
        """Return what stands for an argument of an old operation on the new tape."""
        return self.at[arg] if isinstance(arg, Operation) else arg

    def args(self, op: Operation) -> tuple[Any, ...]:
        """Return what stands for all of them."""
        at = self.at
        return tuple([at[arg] if isinstance(arg, Operation) else arg for arg in op.args])

    def keep(self, op: Operation, args: tuple[Any, ...] | None = None) -> Operation:
        """Put a copy of an old operation on the new tape; return it."""
        new = copied(op)
        new.args = self.args(op) if args is None else args
        if type(new) is Call and isinstance(new.fn, Operation):
            new.fn = self.at[new.fn]
        if op.note and "%" in op.note:
            new.note = renumber(op.note, self._name)
        self.stand_in(op, new)
        return self._push(new)

    def make(self, like: Operation, fn: Op, *args: Any, val: Any = UNKNOWN, **kwargs: Any) -> Operation:
        """Put a new call on the new tape in place of `like`, whose line and note it takes; return it."""
        if val is UNKNOWN and all(arg.val is not UNKNOWN for arg in args if isinstance(arg, Operation)):
            with np.errstate(all="ignore"):
                val = fn.run(*map(value_of, args), **kwargs)
        new = Call(fn, args, kwargs or NO_KWARGS, val, renumber(like.note, self._name)).at(like)
        return self._push(new)

    def constant(self, like: Operation, val: Any) -> Any:
        """Return what stands for a constant value: a number itself, or an operation."""
        return val if literal(val) else self._push(Constant(val, renumber(like.note, self._name)).at(like))

    def count(self, op: Operation) -> None:
        """Note a use of an old operation: a rule may ask how many what it looks at has."""
        self.uses[op] = self.uses.get(op, 0) + 1

    def once(self, op: Operation) -> bool:
        """True if one operation only uses what stands here for one of the old tape."""
        return self.uses.get(op, 1) < 2

    def stand_in(self, old: Operation, made: Any) -> None:
        """Put something else in the place of an old operation."""
        self.at[old] = made
        if self.uses and isinstance(made, Operation):
            self.uses[made] = self.uses.get(made, 0) + self.uses.get(old, 0)

    def done(self) -> Tape:
        """Give the new tape its result, and return it."""
        result = self.old.result
        if result is not None:
            made = self.at[result]
            self.new.result = made if isinstance(made, Operation) else self._push(Constant(made, result.note).at(result))
        return self.new

    def _push(self, op: Operation) -> Operation:
        ops = self.new.ops
        ops.append(op)
        op.id = len(ops)
        if self.learn:
            self._know(op)
        return op

    def _know(self, op: Operation) -> None:
        known = self.known
        kind = type(op)
        if kind is Call:
            fn = op.fn  # type: ignore[attr-defined]
            if op.val is UNKNOWN or type(fn) is not Op or fn.dynamic or not own(fn) or _typed_by_value(op):
                return
            for arg in op.args:
                if isinstance(arg, Operation) and arg not in known:
                    return
            known.add(op)
        elif kind is Constant:
            known.add(op)
        elif kind is Guard:
            x = op.args[0]
            if op.fact == "type" or (op.fact == "shape" and _dtype_follows(x, known)):  # type: ignore[attr-defined]
                known.add(x)
            elif op.fact == "dtype" and isinstance(x, Input):  # type: ignore[attr-defined]
                known.add(x)  # specialise writes it behind that of the shape

    def _name(self, number: int) -> str:
        made = self.at.get(self.old.ops[number - 1]) if 0 < number <= len(self.old.ops) else None
        return made.name if isinstance(made, Operation) else ""


def _dtype_follows(x: Operation, known: set[Operation]) -> bool:
    """True for an operation of which values decide nothing but the shape: once that is guarded, all is known."""
    return isinstance(x, Call) and own(x.fn) and not _typed_by_value(x) and all(arg in known for arg in operands(x))


def _typed_by_value(op: Operation) -> bool:
    """True for a call of whose result values decide the type: a negative number to a power that is no integer is complex."""
    fn = op.fn  # type: ignore[attr-defined]
    return fn in _TYPED_BY_VALUE or (fn is pow and not hasattr(op.val, "dtype") and not (type(op.args[1]) is int and op.args[1] >= 0))


def is_call(x: Any, fn: Any) -> bool:
    """True for a call of an op on a tape; one that goes through a view's path is no plain one."""
    return type(x) is Call and x.fn is fn and not x.kwargs.get("through")


