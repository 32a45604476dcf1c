"""ownership: results of users' functions that share memory: with an argument, or with an array that the function or the
program keeps.

On a tape the results of a call own their memory, so shared results are copied and the sharing is noted. It is harmless
until somebody writes; then the write, or the use of a changed array, is refused.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from sys import getprofile, getrefcount
from types import FunctionType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensors import duplicate, is_memory, overlap
from tapegrad.rules.op import Traced
from tapegrad.trace.views import Storage, place
from tapegrad.tree.copies import is_empty

COPY = "return a copy from the function"


class Part(NamedTuple):
    """An array among the results of a call: the arguments and the earlier results that share its memory, and the array
    that others hold.
    """

    args: list[Any]
    parts: list[int]
    original: Any  # the array that others hold, or None

    @property
    def is_own(self) -> bool:
        """True if nobody else refers to the array or its memory."""
        return not self.args and not self.parts and self.original is None


class SharedResult(NamedTuple):
    """An array that a user's function returned and somebody keeps, with its content at that time."""

    storage: ref[Storage]
    original: Any
    content: Any
    name: str


def arrays_in(val: Any) -> Iterator[Any]:
    """Yield the arrays and tensors, plain or traced, in the results of a call, in the order of `fields`."""
    if is_memory(plain(val)):
        yield val
    elif isinstance(val, (tuple, list, dict)):
        for part in val.values() if isinstance(val, dict) else val:
            yield from arrays_in(part)


def _mapped(fn: Callable[[Any], Any], val: Any) -> Any:
    if is_memory(plain(val)):
        return fn(val)
    if isinstance(val, dict):
        return {key: _mapped(fn, part) for key, part in val.items()}
    if isinstance(val, (tuple, list)):
        parts = [_mapped(fn, part) for part in val]
        return type(val)(*parts) if hasattr(val, "_fields") else type(val)(parts)
    return val


def counts(val: Any) -> list[tuple[int, int]]:
    """Return the reference counts of each array among the results of a call, and of its base."""
    found = []
    parts = list(arrays_in(val))
    for x in parts:
        base = getattr(x, "base", None) if type(x) is np.ndarray else None
        found.append((getrefcount(x), 0 if base is None else getrefcount(base)))
    return found


def received(tracer: Any, op: Any, val: Any, pb: Any, given: Sequence[Any]) -> tuple[Any, list[Part]]:
    """Return the results of a user's function, copied where they share memory, and a Part for each array if any does.
    """
    found = counts(val)  # a statement of its own: other arguments would add references
    parts = _look(val, found, pb, given)
    if tracer.lasting:
        renew(tracer)
    return (_apart(val, parts) if parts else val), parts


class Fresh(NamedTuple):
    """The reference counts in `received` of an array that nobody else holds."""

    alone: int
    inside: int  # in a tuple
    base: int  # the base of a view in a tuple


@functools.cache
def _fresh(profiled: bool) -> Fresh:
    """Measure these counts: Python 3.10 holds the variables of each frame twice while a profiler is set."""
    def counted(val: Any) -> tuple[int, int]:
        return counts(val)[0]
    val: Any = np.empty(1)
    alone, _ = counted(val)
    val = (np.empty(2)[1:],)
    return Fresh(alone, *counted(val))


def _look(val: Any, found: list[tuple[int, int]], pb: Any, given: Sequence[Any]) -> list[Part]:
    """Return a Part for each array among the results, or [] if nobody shares or holds any."""
    arrays = list(arrays_in(val))
    given = [x for x in given if is_memory(plain(x))]
    known = list(_of_pullback(pb))
    parts = []
    for i, (x, count) in enumerate(zip(arrays, found)):
        args = [arg for arg in given if _share(x, arg)]
        before = [k for k in range(i) if _share(x, arrays[k])]
        # an untraced array: the tape has a copy of it
        outside = next((arg for arg in args if not isinstance(arg, Traced)), None)
        held = outside is not None or (not args and (_is_held(x, count, arrays, known, x is val) or _refused(x)))
        parts.append(Part(args, before, (x if outside is None else outside) if held else None))
    return [] if all(part.is_own for part in parts) else parts


def _share(a: Any, b: Any) -> bool:
    if isinstance(a, Traced) and isinstance(b, Traced):  # of an outer trace
        while b._tracer is not a._tracer and isinstance(b._val, Traced):
            b = b._val
        x, y = (None if v._view is None else v._view.storage for v in (a, b))
        return a is b or (x is not None and y is not None and (x is y or (x.family is not None and y in x.family)))
    return overlap(a, b._op.val if isinstance(b, Traced) else b)


def _refused(x: Any) -> bool:
    return isinstance(x, Traced) and x._view is not None and bool(x._view.storage.held)


def _is_held(x: Any, count: tuple[int, int], arrays: list[Any], known: list[Any], alone: bool) -> bool:
    """Return whether anything besides the results and their pullback refers to an array or to its base."""
    if type(x) is not np.ndarray:
        return False
    fresh = _fresh(getprofile() is not None)
    times = sum(other is x for other in arrays) + sum(other.base is x for other in arrays if type(other) is np.ndarray)
    if count[0] > (fresh.alone if alone else fresh.inside + 2 * (times - 1)) + sum(other is x for other in known):
        return True
    views = {id(other) for other in [*arrays, *known] if type(other) is np.ndarray and other.base is x.base}
    return count[1] > fresh.base + len(views) - 1 + sum(other is x.base for other in [*known, *arrays, *arrays])


def _of_pullback(pb: Any) -> Iterator[Any]:
    """Yield the arrays that a user's pullback captured: it may hold the result, where the program cannot reach it."""
    stack, seen = [getattr(pb, "fn", None)], set[int]()
    while stack:
        fn = stack.pop()
        if isinstance(fn, functools.partial):
            stack += [fn.func, *fn.args]
        elif isinstance(fn, tuple):
            stack += fn
        elif isinstance(fn, FunctionType):
            for cell in fn.__closure__ or ():
                if id(cell) not in seen and not is_empty(cell):
                    seen.add(id(cell))
                    stack.append(cell.cell_contents)
            stack += fn.__dict__.values()
        elif type(fn) is np.ndarray:
            yield fn
        elif callable(fn) and not isinstance(fn, type) and id(fn) not in seen:
            seen.add(id(fn))
            stack += getattr(fn, "__dict__", {}).values()


def _apart(val: Any, parts: list[Part]) -> Any:
    """Return the results of a call with shared arrays copied."""
    rest = iter(parts)

    def own(x: Any) -> Any:
        part = next(rest)
        return x if part.is_own or isinstance(x, Traced) else duplicate(x)
    return _mapped(own, val)


def tie(tracer: Any, name: str, y: Any, parts: list[Part]) -> None:
    """Relate the storages of the results' proxies to those that share memory in the program."""
    made = list(arrays_in(y))
    for x, part in zip(made, parts):
        storage = place(x).storage
        for other in [arg for arg in part.args if isinstance(arg, Traced)] + [made[k] for k in part.parts]:
            place(other).storage.relate(storage)
        if part.original is not None:
            storage.held = f"an array that {name} returned, and that it or the program still refers to, is written to"
            if not isinstance(part.original, Traced):
                tracer.lasting.append(SharedResult(ref(storage), part.original, duplicate(part.original), name))


def note(tracer: Any, y: Any, given: Sequence[Any]) -> None:
    """Note the pairs of argument and result arrays that share no memory; the first write guards that."""
    args = [x for x in given if isinstance(x, Traced) and x._tracer is tracer and is_memory(plain(x))]
    tracer.lent += [(x._op, part._op) for part in arrays_in(y) for x in args]


def check(tracer: Any, op: Any = None) -> None:
    """Raise if untraced code has written to an array that a user's function returned, or changed a list that the called
    function `op` reads by name.
    """
    if tracer.rerouting is not None:
        tracer.rerouting.check_outside(tracer.tape, op)
    for kept in tracer.lasting:
        if not _unchanged(kept):
            raise MutationError(f"an array that {kept.name} returned was written to through another reference",
                                user_location(), COPY)


def renew(tracer: Any) -> None:
    """Invalidate results that a later call of the user's function overwrote, as when it always returns the same array.
    """
    for kept in tracer.lasting:
        storage = kept.storage()
        if storage is not None and not _unchanged(kept):
            storage.lose(f"an array that {kept.name} returned was written to by a later call")
    tracer.lasting = list(filter(_unchanged, tracer.lasting))


def _unchanged(kept: SharedResult) -> bool:
    x, y = kept.original, kept.content
    return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")) if type(x) is np.ndarray else bool(x.equal(y))
