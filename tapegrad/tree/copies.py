"""copies: the copies that traces make of objects, and the map from originals to copies in the tracing thread."""

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

CACHED = type(functools.lru_cache(len))  # the class of functools.lru_cache wrappers
CODE: dict[FunctionType, CodeType] = {}  # the original code of functions whose code a trace replaced


class Filtering:
    """An open warnings context (None: the outermost state) in the program of an outermost tracer."""

    __slots__ = ("context", "filters", "records", "tracer")

    def __init__(self, tracer: Any, context: Any) -> None:
        self.tracer, self.context = tracer, context
        self.filters = self.records = False


class _Running(threading.local):
    """The tracers that run in this thread, innermost last, and their observers. Only constructors and copied objects
    use it; proxies know their own tracer.
    """

    def __init__(self) -> None:
        self.tracers: list[Any] = []
        self.observers: list[Any] = []
        self.filtering: list[Filtering] = []  # the contexts in which the program may filter warnings, innermost last
        self.open: list[Any] = []  # the same tracers, kept while code outside their programs runs
        self.exchanged = 0  # the number of collective calls
        # the suspended tracers while plain code runs, with a description of that code
        self.aside: list[tuple[list[Any], str]] = []


running = _Running()


class Refused:
    """Placeholder for an ambiguous or impossible copy: reading the original by another name raises MutationError."""

    __slots__ = ("try_", "what")

    def __init__(self, what: str, try_: str) -> None:
        self.what, self.try_ = what, try_


def current(x: Any) -> Any:
    """Return the copy that stands for `x` in the running program, of the innermost trace; outside a trace, `x`."""
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
    """Run plain code outside any trace; it must not read, by other names, objects that this thread's traces copied."""
    tracers, running.tracers = running.tracers, []
    running.aside.append((list(running.open), whose))
    try:
        yield
    finally:
        running.aside.pop()
        running.tracers = tracers


def check_apart(x: Any) -> None:
    """Refuse an object, or a function leading to one, that a suspended trace has copied: its gradient would be lost."""
    for tracers, whose in running.aside:
        for tracer in tracers:
            if id(x) in tracer.copies or (tracer.rerouting is not None
                                          and any(fn is x for fn in tracer.rerouting.functions)):
                raise MutationError(f"{whose} reads by another name an object that is also an argument or captured",
                                    user_location(), "read it through the argument, or pass it in args=")


def class_of(x: Any) -> type:
    """Return the class of an object, even while its class is replaced to redirect to the copy."""
    cls = type(x)
    found: type = cls.__dict__.get("_redirects_for", cls)
    return found


def space_of(fn: FunctionType) -> int:
    """Return the identity of a function's globals, which distinguishes equal code in two modules."""
    return id(getattr(fn.__globals__, "real", fn.__globals__))


def code_of(fn: FunctionType) -> CodeType:
    """Return a function's own code, even while its code is replaced."""
    return CODE.get(fn) or fn.__code__


def another(fn: FunctionType, code: CodeType | None = None, space: dict[str, Any] | None = None) -> FunctionType:
    """Return a copy of a function with other code or globals."""
    made = FunctionType(code or fn.__code__, fn.__globals__ if space is None else space, fn.__name__, fn.__defaults__,
                        fn.__closure__)
    made.__kwdefaults__ = fn.__kwdefaults__
    return made


def is_empty(cell: CellType) -> bool:
    """True for a cell whose captured variable has not been assigned."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


class Attribute:
    """A class attribute during a trace: it yields the copy in the tracing thread, the value in others."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        value = current(self.value)
        return value.__get__(instance, owner) if hasattr(type(value), "__get__") else value


KINDS = (list, deque, set, bytearray)
_BASES = (OrderedDict, dict, *KINDS, tuple)


def is_hashed_by_identity(x: Any) -> bool:
    """True for an object that sets and dicts find by identity alone."""
    kind: Any = class_of(x)
    return kind.__hash__ is object.__hash__


def base_of(x: Any) -> Any:
    """Return the built-in class whose methods read and write a container, bypassing overrides."""
    return type(x) if type(x) in _BASES else next(kind for kind in _BASES if isinstance(x, kind))


def empty_like(x: Any, cls: type) -> Any:
    """Return an empty dict, list, deque or set of a class, without running code of the class."""
    new = base_of(x).__new__(cls)
    if isinstance(x, defaultdict):
        defaultdict.__init__(new, x.default_factory)
    elif isinstance(x, deque):
        deque.__init__(new, (), x.maxlen)
    return new


def dict_of(x: Any) -> dict[str, Any]:
    """Return the attributes stored in an object itself, not those delegated by `__getattr__`."""
    return vars(x) if type(x).__dictoffset__ else {}


class StaticNumber(NamedTuple):
    """A number in an object that is not an input: a cached hash (never a traced integer), an array's stored shape."""

    value: Any


class Member(NamedTuple):
    """A bool that is an input, unlike other bools, because the members of a batch share one tape."""

    value: Any


def beside(x: Any) -> dict[str, Any]:
    """Return the attributes and slots of an object, without a container's items: a dict may be its own `__dict__`."""
    own = dict_of(x)
    slots = {name: getattr(x, name) for name in slots_of(type(x)) if hasattr(x, name)}
    return slots if own is x else {**own, **slots}


def own_attributes(x: Any) -> dict[str, Any]:
    """Return the attributes stored in an object, including its slots."""
    found = beside(x)
    if type(type(x).__hash__) is FunctionType:
        large = [name for name, part in found.items() if type(part) is int and part.bit_length() > 32]
        found.update((name, StaticNumber(found[name])) for name in large if hash(x) == found[name])
    return found
