"""checks: whether what stands in a place is what stood there, one class for each kind of thing: a number by its value,
an array by its content, a list or dict by what is in it, a function by identity.
"""

from __future__ import annotations

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

FEW = 1 << 12  # bytes that are compared in less time than a call takes
PLAIN: tuple[type, ...] = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype, np.ufunc, CodeType,
                           Enum)
DATA = (int, float, complex, str, bytes, bool, list, tuple, dict, set, np.ndarray)
Check = Callable[[Any], bool]
"""Says of what is found whether it is the same as what there was."""


class Plain:
    """What is one thing for good: a number, a text, a function, an object, known by identity
    or, where it has one, by value.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, found: Any) -> bool:
        value = self.value
        return found is value or original(found) is value or (isinstance(value, PLAIN) and alike(found, value))


class Sequence:
    """What is in a list, tuple or deque, item by item. A class of the user's is not asked
    for it: it might do anything.
    """

    __slots__ = ("items", "kind", "then", "value")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.value, self.kind = value, type(value)
        self.then, self.items = [original(part) for part in parts_of(value)], _listed(checks)

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and _are_same(parts_of(found), self.then, self.items)


class Table:
    """What is in a dict, key by key, in its order."""

    __slots__ = ("items", "keys", "kind", "then", "value")

    def __init__(self, value: Any, checks: list[Any]) -> None:
        self.value, self.kind = value, type(value)
        self.keys, self.then = parts_of(value), [original(part) for part in values_of(value)]
        self.items = _listed(checks)

    def __call__(self, found: Any) -> bool:
        return (are_made_alike(found, self.value) and _are_same(parts_of(found), self.keys, ())
                and _are_same(values_of(found), self.then, self.items))


class Members:
    """What is in a set."""

    __slots__ = ("items", "kind", "then", "value")

    def __init__(self, value: Any) -> None:
        # in their order, which depends on how they came in
        self.value, self.kind, self.then, self.items = value, type(value), parts_of(value), ()

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and _are_same(parts_of(found), self.then, ())


_CONTAINERS = (Sequence, Table, Members)


def container_check(reads: Any, x: Any, label: str) -> Check:
    """Return what compares what is in a container, which `reads` notes."""
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
    """True for the check of a container, which `Within` looks into."""
    return type(check) in _CONTAINERS


def _listed(checks: list[Any]) -> list[tuple[int, Any]]:
    """Return the checks of those parts that are not known by identity, each with its place."""
    return [(at, check) for at, check in enumerate(checks) if type(check) is not Plain]


def _are_same(found: list[Any], then: list[Any], checks: Iterable[tuple[int, Any]]) -> bool:
    """Return whether parts are what they were: things for good, and what `checks` say of those in their places."""
    if len(found) != len(then):
        return False
    if not all(map(is_, found, then)):
        looked = {at for at, _ in checks}
        if not all(at in looked or Plain(value)(part) for at, (value, part) in enumerate(zip(then, found))):
            return False
    return all(check(found[at]) for at, check in checks)


class Within:
    """What is in all the lists, dicts and sets that were read, and in those within them, each looked at once.

    That these stand where they stood is for others to say.
    """

    __slots__ = ("checks", "parts")

    def __init__(self, checks: Iterable[Check]) -> None:
        stack: list[tuple[Any, Any]] = [(check, check.value) for check in checks if isinstance(check, _CONTAINERS)]
        seen: set[int] = set()
        self.checks: list[Any] = []  # of what may change, and is no class of the user's
        self.parts: list[tuple[Check, Any]] = []  # what has to be asked one by one
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
        for check, value in self.parts:  # noqa: SIM110  (no generator: asked at every call)
            if not check(value):
                return False
        return True


_ASKED = frozenset([list, dict, defaultdict, set, deque])  # what is no class of the user's
_FIXED = (tuple, frozenset)


class Array:
    """The numbers of an array. Of a large one to which nobody can write, some will do."""

    __slots__ = ("bytes", "held", "kind", "value")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.value, self.kind = value, _kind(value)  # which may be set in place
        self.bytes = np.ndarray.tobytes(value) if value.nbytes <= FEW and not value.dtype.hasobject else None
        self.held = None if self.bytes is not None or (is_sealed(value) and value.nbytes > FEW) else _held(value)

    def __call__(self, found: Any) -> bool:
        if not isinstance(found, np.ndarray) or _kind(found) != self.kind or not are_made_alike(found, self.value):
            return False
        if self.bytes is not None:
            return np.ndarray.tobytes(found) == self.bytes
        if self.held is not None:
            return _is_held(found, self.held)
        return found is self.value or (is_sealed(self.value) and _is_held(found, _held(self.value)))


def _kind(x: np.ndarray[Any, Any]) -> Any:
    return type(x), x.shape, x.dtype, x.strides, is_sealed(x)


class Objects:
    """What is in an array of objects, one by one."""

    __slots__ = ("items", "kind")

    def __init__(self, value: np.ndarray[Any, Any], checks: list[Check]) -> None:
        self.kind, self.items = (type(value), value.shape), Sequence(list(value.flat), checks)

    def __call__(self, found: Any) -> bool:
        return (isinstance(found, np.ndarray) and (type(found), found.shape) == self.kind and found.dtype.hasobject
                and self.items(list(found.flat)))


class Sample:
    """Some of the numbers of an array."""

    __slots__ = ("kind", "then")

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        self.kind, self.then = (type(value), value.dtype, value.shape), print_of(np.asarray(value))

    def __call__(self, found: Any) -> bool:
        return (isinstance(found, np.ndarray) and (type(found), found.dtype, found.shape) == self.kind
                and print_of(np.asarray(found)) == self.then)


def is_sealed(x: np.ndarray[Any, Any]) -> bool:
    """True for an array to which nobody can write."""
    return not x.flags.writeable and x.base is None


def _held(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.hasobject:
        return [(id(part), repr(part)) for part in x.flat]
    return _bits(x).copy()


def _is_held(found: np.ndarray[Any, Any], held: Any) -> bool:
    return _held(found) == held if found.dtype.hasobject else bool((_bits(found) == held).all())


def _bits(x: np.ndarray[Any, Any]) -> Any:
    """Return the memory of an array of numbers as whole numbers, where it lies without gaps; a copy of it otherwise."""
    flat = np.asarray(x).ravel(order="K").view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat


class Unwritten:
    """A tensor, and how often torch has counted a write to it."""

    __slots__ = ("count", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.count = value, _writes(value)

    def __call__(self, found: Any) -> bool:
        return found is self.value and _writes(found) == self.count


def _writes(x: Any) -> int:
    return 0 if x.is_inference() else x._version  # type: ignore[no-any-return]


class Tensor:
    """The numbers of a tensor, and what torch knows besides."""

    __slots__ = ("held", "kind", "trained", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.kind, self.trained, self.held = value, type(value), value.requires_grad, value.detach().clone()

    def __call__(self, found: Any) -> bool:
        held = self.held
        return (type(found) is self.kind and found.requires_grad == self.trained and not has_hook(found)
                and found.shape == held.shape and found.dtype == held.dtype
                and found.device == held.device and torch.equal(found.detach(), held))


class SparseTensor:
    """The numbers of a sparse tensor, and where they stand."""

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
    """Return the check of a tensor: of its numbers where it is `exact`."""
    if is_sparse_tensor(x):
        return SparseTensor(x)
    return Tensor(x) if exact else Unwritten(x)


class Bytes:
    """What is in a bytearray, or in an array of the standard library's."""

    __slots__ = ("then", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.then = value, bytes(memoryview(value))

    def __call__(self, found: Any) -> bool:
        return are_made_alike(found, self.value) and bytes(memoryview(found)) == self.then


class Cached:
    """A function with a cache, as long as that is not cleared; once `settled`, as long as what it kept then is there:
    of a compiled call nobody asks it.
    """

    __slots__ = ("info", "kept", "settled", "value")

    def __init__(self, value: Any) -> None:
        self.value, self.info, self.settled = value, value.cache_info(), False
        self.kept: dict[int, tuple[Any, Any]] | None = None

    def settle(self) -> bool:
        """Take the cache as the run has left it; return whether it was not cleared meanwhile."""
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


class Edits:
    """The operations of a tape, which the program may play, and others edit."""

    __slots__ = ("then", "value")

    def __init__(self, value: Tape) -> None:
        self.value, self.then = value, _operations(value)

    def __call__(self, found: Any) -> bool:
        if found is not self.value:
            return False
        now = _operations(found)
        return len(now) == len(self.then) and all(map(is_, now, self.then))


def _operations(tape: Tape) -> list[Any]:
    """Return what a tape's operations are made of, which an edit replaces."""
    return [tape.result, *[part for op in tape.ops
                           for part in (op, op.val if type(op) is Constant else op.args, op.fn)]]


class Never:
    """What nobody can compare: an iterator, which is used up."""

    __slots__ = ()

    def __call__(self, found: Any) -> bool:
        return False
