"""deferred_writes: a program's writes to its objects, deferred until its call has succeeded. Each is a callable without
arguments that holds plain values.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from tapegrad.numbers.nested import tuple_of
from tapegrad.numbers.tensors import detached, is_tensor
from tapegrad.rules.op import Traced
from tapegrad.trace.global_arrays import write_refused
from tapegrad.tree.copies import base_of, is_hashed_by_identity

NOTHING: Any = object()


def content(x: Any) -> Any:
    """Return a plain copy of the items of a container."""
    base = base_of(x)
    return dict(base.items(x)) if issubclass(base, dict) else list(base.__iter__(x))


def holds(x: Any, kept: Any) -> bool:
    """Return whether a container holds the same objects as before in the same order; for a set, in any order."""
    now = content(x)
    if isinstance(x, set):
        return {*map(id, now)} == {*map(id, kept)}
    values = all(map(is_, now.values(), kept.values())) if isinstance(x, dict) else True
    return len(now) == len(kept) and values and all(map(is_, now, kept))


def fill(x: Any, kept: Any) -> None:
    """Restore the items of a container."""
    (TableWrite(x, kept, True) if isinstance(x, dict) else GroupWrite(x, kept))()


def rekey(x: Any, copies: dict[int, Any]) -> list[tuple[Any, Any]]:
    """Replace objects by their copies in a set and among the keys of a dict, if they hash by identity. Return the new
    tuples and frozensets that were made to hold copies, each with its original.
    """
    made: list[tuple[Any, Any]] = []
    if not isinstance(x, (set, dict)):
        return made
    items = content(x)
    if any(id(key) in copies or isinstance(key, _NESTS) for key in items):
        keys = [_with_copies(key, copies, made) for key in items]
        if not all(map(is_, keys, items)):
            fill(x, dict(zip(keys, items.values())) if isinstance(x, dict) else keys)
    return made


_NESTS = (tuple, frozenset)


def _with_copies(key: Any, copies: dict[int, Any], made: list[tuple[Any, Any]]) -> Any:
    """Return the copy of a key that hashes by identity, a tuple or frozenset with such parts replaced; else the key."""
    if not isinstance(key, _NESTS):
        return copies.get(id(key), key) if is_hashed_by_identity(key) else key
    base: Any = tuple if isinstance(key, tuple) else frozenset
    parts = [_with_copies(part, copies, made) for part in base.__iter__(key)]
    if all(map(is_, parts, base.__iter__(key))):
        return key
    new = tuple_of(type(key), parts) if base is tuple else base.__new__(type(key), parts)
    made.append((new, key))
    return new


class Write:
    """A write of a value into an object, at the place `at` if the object has several."""

    def __init__(self, x: Any, value: Any, at: Any = None) -> None:
        self.x, self.value, self.at = x, value, at


class TableWrite(Write):
    """Sets a dict's items; `at` is true if their order matters: the dict is then emptied first."""

    def __call__(self) -> None:
        base = base_of(self.x)
        if self.at:
            base.clear(self.x)
        else:
            for key in [key for key in base.__iter__(self.x) if key not in self.value]:
                base.__delitem__(self.x, key)
        for key, value in self.value.items():
            if base.get(self.x, key, NOTHING) is not value:
                base.__setitem__(self.x, key, value)


class GroupWrite(Write):
    """Sets the items of a list, a deque, a set or a bytearray."""

    def __call__(self) -> None:
        base = base_of(self.x)
        if base is bytearray:
            self.x[:] = bytes(self.value)  # at equal length this keeps the memory, which others may see
            return
        base.clear(self.x)
        (base.update if base is set else base.extend)(self.x, self.value)


class CellWrite(Write):
    """Assigns a captured variable, or unbinds it."""

    def __call__(self) -> None:
        if self.value is NOTHING:
            del self.x.cell_contents
        else:
            self.x.cell_contents = self.value


class AttributeWrite(Write):
    """Sets the attribute in a slot, or deletes it."""

    def __call__(self) -> None:
        if self.value is NOTHING:
            object.__delattr__(self.x, self.at)
        else:
            object.__setattr__(self.x, self.at, self.value)


class RefillWrite(Write):
    """Writes in place into an array that an object or a function keeps, or into a module's buffer."""

    def __call__(self) -> None:
        if isinstance(self.value, Traced) and not isinstance(self.x, Traced):  # of an outer trace
            raise write_refused()
        if is_tensor(self.x):
            x: Any = self.x
            x = x if isinstance(x, Traced) else detached(x)
            x.copy_(self.value)
        else:
            self.x[...] = self.value
