"""copies: the objects that a trace has copied, and the copy that each stands for in the thread that traces."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

from tapegrad.errors import MutationError, user_location
from tapegrad.numbers.object_state import slots_of

CACHED = type(functools.lru_cache(len))  # what functools makes of a function whose results it keeps
CODE: dict[FunctionType, CodeType] = {}  # of functions that a trace has given other code: their own


class Filtering:
    """An open context of warnings, None for what is around all, in the program that an outermost tracer runs."""

    __slots__ = ("context", "filters", "records", "tracer")

    def __init__(self, tracer: Any, context: Any) -> None:
        self.tracer, self.context = tracer, context
        self.filters = self.records = False


class _Running(threading.local):
    """The tracers that run in this thread, innermost last, and who observes them. Only constructors and what was copied
    ask: what has a proxy asks that.
    """

    def __init__(self) -> None:
        self.tracers: list[Any] = []
        self.observers: list[Any] = []
        self.filtering: list[Filtering] = []  # where the program may filter warnings, innermost last
        self.open: list[Any] = []  # the same tracers, also while code runs that is none of their programs'
        self.exchanged = 0  # calls for which other processes wait
        # those that are set aside while plain code runs, and whose code that is
        self.aside: list[tuple[list[Any], str]] = []


running = _Running()


class Refused:
    """Stands for the copy that cannot be told, or not be made: whoever reaches the original by
    another name is told so.
    """

    __slots__ = ("try_", "what")

    def __init__(self, what: str, try_: str) -> None:
        self.what, self.try_ = what, try_


def current(x: Any) -> Any:
    """Return what the running program has instead of `x`: the copy that its trace made, the copy of that in a trace
    inside; `x` itself elsewhere.
    """
    check_apart(x)
    for tracer in running.tracers:
        if tracer.copies:
            found = tracer.copies.get(id(x))
            if found is not None:
                if type(found) is Refused:
                    raise MutationError(found.what, user_location(), found.try_)
                tracer.rerouting.used[id(x)] = x
                x = found
    return x


@contextlib.contextmanager
def apart(whose: str) -> Iterator[None]:
    """Run plain code in no trace: what the traces of this thread have copied is not to be read there by other names."""
    tracers, running.tracers = running.tracers, []
    running.aside.append((list(running.open), whose))
    try:
        yield
    finally:
        running.aside.pop()
        running.tracers = tracers


def check_apart(x: Any) -> None:
    """Refuse an object, or a function that leads to one, of which a trace that is set aside has a copy:
    its gradient would be lost.
    """
    for tracers, whose in running.aside:
        for tracer in tracers:
            if id(x) in tracer.copies or (tracer.rerouting is not None
                                          and any(fn is x for fn in tracer.rerouting.functions)):
                raise MutationError(f"{whose} reads by another name what is an argument too, or was captured",
                                    user_location(), "read it through the argument, or pass it on in args=")


def class_of(x: Any) -> type:
    """Return the class of an object, also while it redirects to its copy."""
    cls = type(x)
    found: type = cls.__dict__.get("_redirects_for", cls)
    return found


def space_of(fn: FunctionType) -> int:
    """Return by which globals two functions of equal code are the same: two modules may hold the same text."""
    return id(getattr(fn.__globals__, "real", fn.__globals__))


def code_of(fn: FunctionType) -> CodeType:
    """Return a function's own code, also while it redirects."""
    return CODE.get(fn) or fn.__code__


def another(fn: FunctionType, code: CodeType | None = None, space: dict[str, Any] | None = None) -> FunctionType:
    """Return a function with the name, defaults and captured variables of another, and other code or globals."""
    made = FunctionType(code or fn.__code__, fn.__globals__ if space is None else space, fn.__name__, fn.__defaults__,
                        fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def is_empty(cell: CellType) -> bool:
    """True for the cell of a captured variable that has not been assigned."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


class Attribute:
    """Stands for the value of a class's attribute while a trace runs: the copy in the thread that
    traces, the value in others.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = current(self.value)
        return value.__get__(instance, owner) if hasattr(type(value), "__get__") else value


KINDS = (list, deque, set, bytearray)


def is_hashed_by_identity(x: Any) -> bool:
    """True for an object that is found in a set, or as a dict's key, by its identity alone."""
    kind: Any = class_of(x)
    return kind.__hash__ is object.__hash__


def base_of(x: Any) -> Any:
    """Return the class of Python's by whose methods a container is read and written, past what it overrides."""
    return next(kind for kind in (OrderedDict, dict, *KINDS, tuple) if isinstance(x, kind))


def empty_like(x: Any, cls: type) -> Any:
    """Return a dict, list, deque or set of a class without items, made as Python's own make it: no code of the class
    runs.
    """
    new = base_of(x).__new__(cls)
    if isinstance(x, defaultdict):
        defaultdict.__init__(new, x.default_factory)
    elif isinstance(x, deque):
        deque.__init__(new, (), x.maxlen)
    return new


def dict_of(x: Any) -> dict[str, Any]:
    """Return the attributes that an object keeps itself, and not those of another that it asks by `__getattr__`."""
    return vars(x) if type(x).__dictoffset__ else {}


class NoInput(NamedTuple):
    """A number that an object keeps, and that is no input: its hash, for no traced integer is one; a shape, of an array
    with attributes.
    """

    value: Any


class Member(NamedTuple):
    """A bool of a batch of them, which is an input although bools are none: members of a batch share one tape."""

    value: Any


def beside(x: Any) -> dict[str, Any]:
    """Return the attributes and slots of an object, those that a container has beside its items: a dict may be
    its own attributes.
    """
    own = dict_of(x)
    slots = {name: getattr(x, name) for name in slots_of(type(x)) if hasattr(x, name)}
    return slots if own is x else {**own, **slots}


def own_attributes(x: Any) -> dict[str, Any]:
    """Return the attributes that an object keeps itself, in its slots too."""
    found = beside(x)
    if type(type(x).__hash__) is FunctionType:
        large = [name for name, part in found.items() if type(part) is int and part.bit_length() > 32]
        found.update((name, NoInput(found[name])) for name in large if hash(x) == found[name])
    return found
