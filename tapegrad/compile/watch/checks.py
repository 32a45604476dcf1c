"""checks: comparisons of the current value of a place with the recorded one, one class for each kind: numbers by value,
arrays by content, lists and dicts by their items, functions by identity.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from enum import Enum
from operator import is_
from types import CodeType, MappingProxyType
from typing import Any

import numpy as np

from tapegrad.compile.watch.namespaces import Attributes
from tapegrad.compile.watch.wrappers import kept_in
from tapegrad.numbers.equality import alike, are_made_alike, parts_of, values_of
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.sparse_tensors import is_sparse_tensor, taken_apart
from tapegrad.tape.tape import Constant, Tape
from tapegrad.trace.inputs import print_of
from tapegrad.trace.interposition import original
from tapegrad.tree.modules import has_hook

FEW = 1 << 12  # bytes whose comparison takes less time than a call
PLAIN: tuple[type, ...] = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, np.ufunc, CodeType,
                           Enum)
DATA = (int, float, complex, str, bytes, bool, list, tuple, dict, set, np.ndarray)
Check = Callable[[Any], bool]
"""Returns whether the value found is the same as the recorded one."""


class Plain:
    """Compares by identity, or by value for numbers, strings and the other classes in `PLAIN`."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, found: Any) -> bool:
        value = self.value
        return found is value or original(found) is value or (isinstance(value, PLAIN) and alike(found, value))


class Sequence:
    """Compares a list, tuple or deque item by item, without calling methods of user-defined subclasses."""

    __slots__ = ("items", "kind", "then", "value")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.value, self.kind = value, type(value)
        self.then, self.items = [original(part) for part in parts_of(value)], _listed(checks)

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and _are_same(parts_of(found), self.then, self.items)


class Table:
    """Compares a dict's keys, their order and values."""

    __slots__ = ("items", "keys", "kind", "then", "value")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.value, self.kind = value, type(value)
        self.keys, self.then = parts_of(value), [original(part) for part in values_of(value)]
        self.items = _listed(checks)

    def __call__(self, found: Any) -> bool:
        return (are_made_alike(found, self.value) and _are_same(parts_of(found), self.keys, ())
                and _are_same(values_of(found), self.then, self.items))


class Members:
    """Compares the elements of a set."""

    __slots__ = ("items", "kind", "then", "value")

    def __init__(self, value: Any) -> None:
        # in iteration order, which depends on the order of insertion
        self.value, self.kind, self.then, self.items = value, type(value), parts_of(value), ()

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and _are_same(parts_of(found), self.then, ())


_CONTAINERS = (Sequence, Table, Members)


def container_check(reads: Any, x: Any, label: str) -> Check:
    """Return the check of a container; `reads` notes its content."""
    parts = parts_of(x)
    if isinstance(x, defaultdict):
        reads.place(Attributes(x), "default_factory", f"default_factory of {label}")
    if isinstance(x, (dict, MappingProxyType)):
        for key in parts:
            if type(key) not in DATA:
                reads.explore(key, f"a key of {label}")
        found = zip(parts, values_of(x))
        return Table(x, [reads.explore(original(part), f"{label}[{key!r}]") for key, part in found])
    checks = [reads.explore(original(part), f"{label}[{at}]" if isinstance(x, (list, tuple)) else label)
              for at, part in enumerate(parts)]
    return Members(x) if isinstance(x, (set, frozenset)) else Sequence(x, checks)


def is_container(check: Check) -> bool:
    """Return whether a check is that of a container, whose items `Within` compares."""
    return type(check) in _CONTAINERS


def _listed(checks: list[Any]) -> list[tuple[int, Any]]:
    """Return (position, check) of the parts that are not compared by identity or value."""
    return [(at, check) for at, check in enumerate(checks) if type(check) is not Plain]


def _are_same(found: list[Any], then: list[Any], checks: Iterable[tuple[int, Any]]) -> bool:
    """Return whether parts are unchanged: those at the positions in `checks` by these, the others as by `Plain`."""
    if len(found) != len(then):
        return False
    if not all(map(is_, found, then)):
        looked = {at for at, _ in checks}
        if not all(at in looked or Plain(value)(part) for at, (value, part) in enumerate(zip(then, found))):
            return False
    return all(check(found[at]) for at, check in checks)


class Within:
    """Compares the content of all lists, dicts and sets that were read, nested ones too, each once.

    Whether their places still hold these containers is checked elsewhere.
    """

    __slots__ = ("checks", "parts")

    def __init__(self, checks: Iterable[Check]) -> None:
        stack: list[tuple[Any, Any]] = [(check, check.value) for check in checks if isinstance(check, _CONTAINERS)]
        seen: set[int] = set()
        self.checks: list[Any] = []  # of mutable containers of builtin classes
        self.parts: list[tuple[Check, Any]] = []  # all others, with their values
        while stack:
            check, value = stack.pop()
            if id(check) in seen:
                continue
            seen.add(id(check))
            if type(check) not in _CONTAINERS or not (check.kind in _ASKED or issubclass(check.kind, _FIXED)):
                self.parts.append((check, value))
                continue
            if not issubclass(check.kind, _FIXED):
                self.checks.append(check)
            stack += [(part, check.then[at]) for at, part in check.items]

    def __bool__(self) -> bool:
        return bool(self.checks or self.parts)

    def __call__(self) -> bool:
        for check in self.checks:
            if not check(check.value):
                return False
        for check, value in self.parts:  # noqa: SIM110  (no generator: runs at every call)
            if not check(value):
                return False
        return True


_ASKED = frozenset([list, dict, defaultdict, set, deque])  # mutable, and no user-defined subclass
_FIXED = (tuple, frozenset)


class Array:
    """Compares the numbers of an array; a large one that nobody can write to by identity first."""

    __slots__ = ("bytes", "held", "kind", "value")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value, self.kind = value, _kind(value)  # noted now: shape and dtype may be set in place
        self.bytes = np.ndarray.tobytes(value) if value.nbytes <= FEW and not value.dtype.hasobject else None
        sampled = self.bytes is not None or (is_read_only_owner(value) and value.nbytes > FEW)
        self.held = None if sampled else _held(value)

    def __call__(self, found: Any) -> bool:
        if not isinstance(found, np.ndarray) or _kind(found) != self.kind or not are_made_alike(found, self.value):
            return False
        if self.bytes is not None:
            return np.ndarray.tobytes(found) == self.bytes
        if self.held is not None:
            return _is_held(found, self.held)
        return found is self.value or (is_read_only_owner(self.value) and _is_held(found, _held(self.value)))


def _kind(x: np.ndarray[Any, Any]) -> Any:
    return type(x), x.shape, x.dtype, x.strides, is_read_only_owner(x)


class Objects:
    """Compares an object array element by element."""

    __slots__ = ("items", "kind")

    def __init__(self, value: np.ndarray[Any, Any], checks: list[Check]) -> None:
        self.kind, self.items = (type(value), value.shape), Sequence(list(value.flat), checks)

    def __call__(self, found: Any) -> bool:
        return (isinstance(found, np.ndarray) and (type(found), found.shape) == self.kind and found.dtype.hasobject
                and self.items(list(found.flat)))


class Sample:
    """Compares some of the numbers of an array."""

    __slots__ = ("kind", "then")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.kind, self.then = (type(value), value.dtype, value.shape), print_of(np.asarray(value))

    def __call__(self, found: Any) -> bool:
        return (isinstance(found, np.ndarray) and (type(found), found.dtype, found.shape) == self.kind
                and print_of(np.asarray(found)) == self.then)


def is_read_only_owner(x: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is read-only and owns its memory, so that nobody can write to it."""
    return not x.flags.writeable and x.base is None


def _held(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.hasobject:
        return [(id(part), repr(part)) for part in x.flat]
    return _bits(x).copy()


def _is_held(found: np.ndarray[Any, Any], held: Any) -> bool:
    return _held(found) == held if found.dtype.hasobject else bool((_bits(found) == held).all())


def _bits(x: np.ndarray[Any, Any]) -> Any:
    """Return the memory of a numeric array as unsigned integers; a copy if the memory is not contiguous."""
    flat = np.asarray(x).ravel(order="K").view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat


class Unwritten:
    """Compares a tensor by identity and torch's count of in-place writes to it."""

    __slots__ = ("count", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.count = value, _writes(value)

    def __call__(self, found: Any) -> bool:
        return found is self.value and _writes(found) == self.count


def _writes(x: Any) -> int:
    return 0 if x.is_inference() else x._version  # type: ignore[no-any-return]


class Tensor:
    """Compares a tensor's numbers, class, shape, dtype, device and requires_grad, and the absence of hooks."""

    __slots__ = ("held", "kind", "trained", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.kind, self.trained, self.held = value, type(value), value.requires_grad, value.detach().clone()

    def __call__(self, found: Any) -> bool:
        held = self.held
        return (type(found) is self.kind and found.requires_grad == self.trained and not has_hook(found)
                and found.shape == held.shape and found.dtype == held.dtype
                and found.device == held.device and torch.equal(found.detach(), held))


class SparseTensor:
    """Compares a sparse tensor's values and indices."""

    __slots__ = ("form", "parts", "trained")

    def __init__(self, value: Any) -> None:
        self.form, parts = taken_apart(value)
        self.parts, self.trained = list(map(Tensor, parts)), value.requires_grad

    def __call__(self, found: Any) -> bool:
        if not is_sparse_tensor(found) or found.requires_grad != self.trained or has_hook(found):
            return False
        form, parts = taken_apart(found)
        return form == self.form and all(check(part) for check, part in zip(self.parts, parts))


def tensor_check(x: Any, exact: bool) -> Check:
    """Return the check of a tensor, which compares a dense one's numbers only if it is `exact`."""
    if is_sparse_tensor(x):
        return SparseTensor(x)
    return Tensor(x) if exact else Unwritten(x)


class Bytes:
    """Compares a bytearray or an `array.array`."""

    __slots__ = ("then", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.then = value, bytes(memoryview(value))

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and bytes(memoryview(found)) == self.then


class Cached:
    """Checks that a function's `lru_cache` was not cleared during the run, and once `settled`, that the entries of that
    time remain: a compiled call does not call the function.
    """

    __slots__ = ("info", "kept", "settled", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.info, self.settled = value, value.cache_info(), False
        self.kept: dict[int, tuple[Any, Any]] | None = None

    def settle(self) -> bool:
        """Note the cache's entries after the run; return whether it was not cleared during the run."""
        if not self(self.value):
            return False
        self.info, self.settled, self.kept = self.value.cache_info(), True, kept_in(self.value)
        return True

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now, then = self.value.cache_info(), self.info
        if not self.settled:
            return bool(now.hits >= then.hits and now.misses >= then.misses and now.currsize >= then.currsize)
        if now == then:
            return True
        kept = None if self.kept is None else kept_in(self.value)
        if kept is None or self.kept is None or any(key not in kept or kept[key][1] is not result
                                                    for key, (_, result) in self.kept.items()):
            return False
        self.info = now
        return True


class TapeUnedited:
    """Checks that a tape, which the program may play, was not edited."""

    __slots__ = ("then", "value")

    def __init__(self, value: Tape) -> None:
        self.value, self.then = value, _operations(value)

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now = _operations(found)
        return len(now) == len(self.then) and all(map(is_, now, self.then))


def _operations(tape: Tape) -> list[Any]:
    """Return the parts of a tape's operations that an edit replaces."""
    return [tape.result, *[part for op in tape.ops
                           for part in (op, op.val if type(op) is Constant else op.args, op.fn)]]


class Counted:
    """Checks that an `itertools.count` was not advanced."""

    __slots__ = ("then", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.then = value, repr(value)

    def __call__(self, found: Any) -> bool:
        return found is self.value and repr(found) == self.then


def is_counter(x: Any) -> bool:
    """Return whether an iterator is an `itertools.count`, whose repr tells all, with plain integers."""
    return type(x) is itertools.count and not repr(x).strip("count(-0123456789, )")


class Never:
    """The check of an iterator, which cannot be compared without consuming it: always fails."""

    __slots__ = ()

    def __call__(self, found: Any) -> bool:
        return False
