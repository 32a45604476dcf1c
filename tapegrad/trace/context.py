"""context: decides which functions are primitive and how their calls are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from tapegrad.rules.op import Op
from tapegrad.rules.user import op_of
from tapegrad.tape.tape import (
    Call,
    Tape,
    Variable,
)
from tapegrad.tree.flatten import OPAQUE


class Context:
    """Decides what becomes one operation and how it is put on the tape; subclass it to trace differently.

    `primitives` are functions whose calls are recorded whole instead of being traced through. With `paths` each
    operation stores the calls that led to its line (`op.path`), at about a microsecond an operation.

    >>> import tapegrad as tg
    >>> def double(x):
    ...     return x + x
    >>> value, tape = tg.trace(lambda x: double(x) * 3, 2.0, ctx=Context(primitives=[double]))
    >>> [op.fn.__name__ for op in tape if op.kind == "call"]
    ['double', 'multiply']
    """

    def __init__(self, primitives: Iterable[Callable[..., Any]] = (), paths: bool = False) -> None:
        self.primitives, self.paths = tuple(primitives), paths
        self._ops = {fn: op_of(fn) for fn in self.primitives}
        OPAQUE.update(fn for fn in self.primitives if isinstance(fn, FunctionType))

    @property
    def knows(self) -> bool:
        """True if any function has been declared primitive."""
        return bool(self._ops)

    def is_primitive(self, fn: Callable[..., Any]) -> bool:
        """Return whether a call of `fn` becomes one operation; called for ops, composites and registered functions."""
        return isinstance(fn, Op) or fn in self._ops

    def record(self, tape: Tape, call: Call) -> Variable:
        """Put an evaluated call on the tape; return the variable of its result."""
        return tape.push(call)

    def op(self, fn: Callable[..., Any]) -> Op:
        """Return the op under which `fn` is recorded."""
        if fn not in self._ops:
            self._ops[fn] = op_of(fn)
        return self._ops[fn]


DEFAULT = Context()
