"""store_forwarding: replaces reads of array elements by the values that were just written there.

A loop that fills an array by elements or rows reads the one it wrote a step before; its reverse sweep adds into one
element of a cotangent, reads it and clears it. Only the numbers remain, and arrays where something uses them as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.ops import add, getitem, scatter, setitem
from tapegrad.ops.index import pieces_with_indices
from tapegrad.rules.types import spec_of_call
from tapegrad.tape.spec import Spec, absent, same_type, spec_of
from tapegrad.tape.tape import Call, Constant, Input, Operation, Tape
from tapegrad.transforms.walk import Walk, is_call, literal

FEW = 4  # pieces of a scatter that are added one by one: for more, zeros of the whole size are cheaper

Key = tuple[Any, ...]
"""The integers of an index of one element or row: constants, counted from the front, or inputs of a loop's body."""


class Writes:
    """The writes into one array, in order, each of one element or row."""

    __slots__ = ("found", "keys", "open", "rank", "root", "version")

    def __init__(self, root: Operation, rank: int) -> None:
        self.root, self.rank, self.version = root, rank, 0
        self.found: dict[Key, list[tuple[int, Any]]] = {}  # by place: number and value of each write
        self.keys: list[Key] = []  # of the writes, in order
        self.open = False  # one of them is not constant: it may equal another

    def write(self, key: Key, value: Any) -> int:
        """Add the next write; return its number."""
        self.version += 1
        self.keys.append(key)
        self.open = self.open or not is_fixed(key)
        self.found.setdefault(key, []).append((self.version, value))
        return self.version

    def read(self, key: Key, version: int) -> Any:
        """Return the value at a place after `version` writes, None if none is known."""
        if (self.open or not is_fixed(key)) and self.keys[version - 1:version] != [key]:
            return None
        for when, value in reversed(self.found.get(key, ())):
            if when <= version:
                return value
        return None


def is_fixed(key: Key) -> bool:
    """Return whether a place is constant."""
    return all(type(part) is int for part in key)


def forwarding(tape: Tape) -> Tape:
    """Return a tape without reads of elements or rows that were just written, and without writes that are overwritten
    unread. A piece that is added to a larger array is added at its place instead of to zeros of that size.
    """
    if not any(map(_writes, tape.ops)):
        return tape
    walk = Walk(tape, learn=True, count=True)
    escaping = _escaping(tape)
    at: dict[Operation, tuple[Writes, int]] = {}
    for op in tape.ops:
        made = None
        if is_call(op, getitem):
            made = _read(walk, op, at, walk.args(op), escaping[op.args[0].id])
        elif is_call(op, setitem):
            made = _write(walk, op, at, *walk.args(op), **op.kwargs)
        elif is_call(op, add):
            made = _add(walk, op, at, escaping[op.id])
        if made is None:
            walk.keep(op)
        else:
            walk.stand_in(op, made)
    return walk.done()


def _writes(op: Operation) -> bool:
    """Return whether an operation writes one element or row, or is a sum that may do so."""
    if type(op) is not Call:
        return False
    if op.fn is add:
        return bool(_pieces(op.args[0]) or _pieces(op.args[1]))
    return is_call(op, setitem) and _constants(op.args[2:])


def _escaping(tape: Tape) -> bytearray:
    """Return, by position, which arrays are used other than by element or row, also after further writes to them."""
    escapes = bytearray(len(tape.ops) + 1)
    if tape.result is not None:
        escapes[tape.result.id] = 1
    for op in reversed(tape.ops):
        for i, arg in enumerate(op.args):
            if isinstance(arg, Operation) and not (i == 0 and is_call(op, getitem) and _constants(op.args[1:])):
                passes = (i == 0 and is_call(op, setitem)
                          and _constants(op.args[2:])) or (is_call(op, add) and bool(_pieces(op.args[1 - i])))
                escapes[arg.id] |= escapes[op.id] if passes else 1
    return escapes


def _constants(index: tuple[Any, ...]) -> bool:
    return bool(index) and all(type(_plain(part)) is int for part in index)


def _key(index: tuple[Any, ...], x: Operation) -> Key | None:
    """Return the place that an index selects, None if that is not one element or row."""
    shape = x.spec.shape
    if not _constants(index) or len(index) > len(shape):
        return None
    return tuple(part % n if type(part) is int else part for part, n in zip(index, shape) if n)


def _read(walk: Walk, op: Operation, at: dict[Operation, tuple[Writes, int]], args: tuple[Any, ...],
          escapes: int = 1) -> Any:
    """Return the value that a read finds, or a read of the array before the writes; None if the read stays."""
    x, *index = args
    if not isinstance(x, Operation) or x not in at or not walk.known[x.id]:
        return None
    writes, version = at[x]
    key = _key(tuple(index), x)
    if key is None or len(key) != writes.rank:
        return None
    found = writes.read(key, version)
    if found is not None:
        return _fit(found, op.spec)
    root = writes.root
    if writes.open or not is_fixed(key):
        return None
    if isinstance(root, Constant):
        return root.val[key] if literal(root.val[key]) else None
    return None if escapes else walk.instead(op, getitem, root, *index)


def _fit(found: Any, y: Spec) -> Any:
    """Return a written value if its type is that of the read; a plain number is converted."""
    if isinstance(found, Operation):
        return found if same_type(found.spec, y) else None
    return y.type(found) if y.is_scalar and y.kind == "f" and type(found) in (int, float) else None


def _write(walk: Walk, op: Operation, at: dict[Operation, tuple[Writes, int]], x: Any, value: Any, *index: Any,
           through: Any = ()) -> Any:
    """Note a write; drop the write before it if that has the same place and no other use."""
    key = None if through or not isinstance(x, Operation) or not walk.known[x.id] else _key(index, x)
    if key is None:
        return None
    writes, version = at.get(x, (None, 0))
    if writes is None or writes.rank != len(key) or version != writes.version:
        writes = Writes(x, len(key))
    if is_call(x, setitem) and walk.once(x) and not x.kwargs.get("through") and _key(x.args[2:], x) == key:
        x = x.args[0]
    made = walk.instead(op, setitem, x, value, *index)
    at[made] = writes, writes.write(key, value)
    return made


def _pieces(x: Any) -> list[tuple[Any, ...]]:
    """Return the pieces of a scatter at constant places, each followed by its index; empty for other values, and for
    more than FEW pieces.
    """
    if not (is_call(x, scatter) and len(x.kwargs["ranks"]) <= FEW):
        return []
    found = [(piece, *index) for piece, index in pieces_with_indices(x.args, x.kwargs["ranks"])]
    return found if all(_basic(index) for _, *index in found) else []


def _basic(index: Sequence[Any]) -> bool:
    return all(type(_plain(part)) is int or part is Ellipsis or (isinstance(part, slice) and not any(
        isinstance(end, Operation) for end in (part.start, part.stop, part.step))) for part in index)


def _plain(part: Any) -> Any:
    """Return an index part, for a loop's integer input its first value: all its values select parts of one shape."""
    return part.val if isinstance(part, Input) else part


def _add(walk: Walk, op: Operation, at: dict[Operation, tuple[Writes, int]], escapes: int) -> Any:
    """x + scatter(piece, index) is x with `x[index] + piece` written at that index."""
    for x, y in (walk.args(op), walk.args(op)[::-1]):
        pieces = _pieces(y)
        if (not pieces or not walk.once(y) or not isinstance(x, Operation) or not walk.known[x.id]
            or not walk.known[y.id]):
            continue
        if not (same_type(x.spec, op.spec) and op.spec.is_array and op.spec.ndim and y.spec.shape == op.spec.shape):
            continue  # in a broadcast scatter the index is another place
        parts = [spec_of_call(getitem, (x.spec, *map(_plain, index))) for _, *index in pieces]
        fits = all(spec_of_call(add, (part, spec_of(piece))).has_dtype(op.spec.dtype)
                   for part, (piece, *_) in zip(parts, pieces))
        if not fits or 2 * sum(part.size for part in parts) > op.spec.size:
            continue
        for part, (piece, *index) in zip(parts, pieces):
            like = Call(getitem, (), None, absent(part), op.origin).at(op)
            found = _read(walk, like, at, (x, *index), escapes)
            total = walk.make(op, add, walk.make(op, getitem, x, *index) if found is None else found, piece)
            x = _write(walk, op, at, x, total, *index) or walk.instead(op, setitem, x, total, *index)
        return x
    return None
