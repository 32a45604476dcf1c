"""plain_values: converts traced values to plain ones at the end of a trace, in the objects that the program stored."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tapegrad.numbers.tensors import duplicate, is_memory
from tapegrad.numbers.text import Text
from tapegrad.numbers.view_path import follow
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Input, Operation, Tape
from tapegrad.trace.global_arrays import OutsideArray
from tapegrad.trace.interposition import original
from tapegrad.trace.redirection import set_class
from tapegrad.trace.substitution import FIXED, filled
from tapegrad.tree.attributes import attributes_of
from tapegrad.tree.flatten import OPAQUE

MOST = 10_000  # objects searched among those that the program made and stored
_NESTS = (*FIXED, list, deque, set, dict)


class PlainValues:
    """Converts traced values to plain ones: an unwritten argument to itself, other arrays to copies (views of one array
    to views of one copy), copied objects to their originals. Containers that the program made are filled with plain
    values in place.
    """

    def __init__(self, tracer: Any, tape: Tape, given: Sequence[Any], originals: dict[int, Any]) -> None:
        self.tracer, self.tape, self.given, self.originals = tracer, tape, given, originals
        self.made: dict[int, Any] = {}
        self.memory: dict[int, tuple[Any, Any]] = {}
        self.alive: list[Any] = []  # keeps objects alive whose ids are keys
        self.tables: dict[int, Any] = {}  # attribute dicts of traced arrays of classes, converted with the arrays
        self.left = MOST

    def __call__(self, x: Any, kept: dict[int, Any] | None = None) -> Any:
        """Return the plain form of a value; `kept` maps ids of values to those of the original object."""
        if kept and id(x) in kept and isinstance(x, Traced):
            return kept[id(x)]
        if isinstance(x, Traced):
            return self.number(x)
        if (known := original(x)) is not x:  # a stand-in of a function
            return known
        if id(x) in self.originals:
            return self.originals[id(x)]
        if id(x) in self.made:
            return self.made[id(x)]
        self.left -= 1
        if self.left < 0:
            return x
        self.made[id(x)] = x
        self.alive.append(x)
        self.made[id(x)] = found = self.rebuilt(x)
        return found

    def rebuilt(self, x: Any) -> Any:
        """Return a container or object with plain values in it: the same one if it is mutable."""
        if type(x) is Text:
            return str.__str__(x)
        if isinstance(x, FunctionType):
            for cell in x.__closure__ or () if x not in OPAQUE else ():
                filled(cell, self)
            return x
        if isinstance(x, _NESTS) or not (isinstance(x, type) or callable(getattr(type(x), "__array__", None))
                                         or not attributes_of(x)):
            return filled(x, self)
        return x

    def number(self, x: Any) -> Any:
        """Return the plain value of a proxy, with its class and attributes."""
        if x._tracer is not self.tracer:
            return x
        found, cls = self.array(x), getattr(type(x), "_viewed_as", None)
        if cls is not None and type(found) is np.ndarray:
            found, own = _of_class(found, cls), vars(x)
            self.tables[id(own)] = own
            vars(found).update({name: self(part) for name, part in own.items()})
        return found

    def array(self, x: Any) -> Any:
        """Return the array or number of a proxy."""
        view = x._view
        if view is None:
            return self.whole(x._op, x._op, x._val)
        storage = view.storage
        if isinstance(storage, OutsideArray):
            return follow(storage.val, view.path)
        return follow(self.whole(storage, storage.op, storage.val), view.path)

    def whole(self, owner: Any, op: Operation, val: Any) -> Any:
        """Return the content of a piece of memory: the argument, or one copy shared by all its views."""
        if type(op) is Input and self.tape.ops[op.id - 1] is op and op.id > 1:
            return self.given[op.id - 2]
        if id(owner) in self.memory:
            return self.memory[id(owner)][1]
        if isinstance(val, Traced) or not is_memory(val):
            return val
        self.memory[id(owner)] = owner, duplicate(val)
        return self.memory[id(owner)][1]

    def traced(self, x: Any) -> Iterator[Any]:
        """Yield the proxies in a written value."""
        stack, seen = [x], set[int]()
        while stack:
            x = stack.pop()
            if id(x) in seen:
                continue
            seen.add(id(x))
            if isinstance(x, Traced):
                if x._tracer is self.tracer:
                    yield x
            elif isinstance(x, (list, tuple, set, frozenset, deque)):
                stack += x
            elif isinstance(x, dict):
                stack += x.values()


class _Blank(np.ndarray):
    """An array whose class is assigned after its creation."""


def _of_class(x: Any, cls: type) -> Any:
    """Return the same memory as an array of a program's class, without running the class's code."""
    found = x.view(_Blank)
    try:
        set_class(found, cls)
    except TypeError:  # a class with slots
        return x.view(cls)
    return found
