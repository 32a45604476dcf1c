"""stored_values: descriptions of what a program stores, from which a replay can store the same: operations for traced
values, originals for copies of arguments' parts, and the nests of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Input, Operation, Tape, has_value, value_of
from tapegrad.trace.views import peek
from tapegrad.tree.flatten import is_leaf

FIXED = PYTHON | {str, bytes, type(None), type(Ellipsis)}


class Result(NamedTuple):
    """The value of an operation, with a sample of it."""

    op: Operation
    sample: Any


class Given(NamedTuple):
    """Input number `number`, counted from 0, as the caller passed it."""

    number: int


class Thing(NamedTuple):
    """A part of the arguments, or of the function's captures."""

    original: Any


class Fixed(NamedTuple):
    """A value that does not depend on the arguments."""

    value: Any


class Nested(NamedTuple):
    """A tuple, list or dict that the program made."""

    kind: type
    keys: Sequence[Any]
    parts: Sequence[Form | None]


Form = Result | Given | Thing | Fixed | Nested


class Stored(NamedTuple):
    """What one write stores: in which object (`owner`; for a buffer, its input number), in which table (a module's
    table by name, "" for attributes, None for items), at which keys; and what it appends. A form is None if no replay
    can store it.
    """

    owner: Any
    table: str | None
    values: dict[Any, Form | None]
    appended: Sequence[Form | None] = ()


class Forms:
    """Describes the objects that the program of one trace stores."""

    def __init__(self, tape: Tape, tracer: Any, originals: dict[int, Any]) -> None:
        self.tape, self.tracer, self.originals = tape, tracer, originals
        self.seen: dict[int, Any] = {}
        self.inputs: dict[int, int] = {}  # id of the storage of an array that is written back -> its input number

    def __call__(self, x: Any) -> Form | None:
        kind = type(x)
        if isinstance(x, Traced):
            return self.of_traced(x)
        if kind in FIXED or isinstance(x, np.generic):
            return Fixed(x)
        if id(x) in self.originals:
            return Thing(self.originals[id(x)])
        if kind not in (tuple, list, dict) or id(x) in self.seen:
            return None  # one list in two places: a replay would make two
        self.seen[id(x)] = x
        parts = list(x.values() if kind is dict else x)
        keys = list(x) if kind is dict else []
        return Nested(kind, keys, list(map(self, parts))) if all(type(key) in FIXED for key in keys) else None

    def of_traced(self, x: Any) -> Form | None:
        if x._tracer is not self.tracer or not is_leaf(x) or (x._view is not None and x._view.path):
            return None  # possibly a view of another stored array
        if x._view is not None and (number := self.inputs.get(id(x._view.storage))) is not None:
            return Given(number)
        op = peek(x) if x._view is None or not x._view.storage.lost else x._view.storage.op
        if type(op) is Input and op.id > 1 and self.tape.ops[op.id - 1] is op:
            return Given(op.id - 2)
        sample = value_of(op) if has_value(op) else x._val
        return Result(op, sample) if is_leaf(sample) and not isinstance(sample, Traced) else None
