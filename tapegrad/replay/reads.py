"""reads: what code reads besides its arguments, noted when it first runs."""

from __future__ import annotations

import decimal
import functools
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tapegrad.alike import kind_of, parts_of, values_of
from tapegrad.copies import class_of, code_of
from tapegrad.installed import library_of
from tapegrad.interpose import original
from tapegrad.modules import is_module
from tapegrad.parts import Record, Static
from tapegrad.replay.freshness import (
    PLAIN,
    Array,
    Bytes,
    Cached,
    Check,
    Freshness,
    Members,
    Missing,
    Never,
    Place,
    Plain,
    Sample,
    Sequence,
    Table,
    Tensor,
    is_sealed,
)
from tapegrad.replay.mentions import chains, global_names, is_foreign, modules_of, names_of, reads_by_name, reads_modules_by_name
from tapegrad.replay.namespaces import SETTINGS, Attributes, Context, Held
from tapegrad.replay.world import SILENT, reads_the_world
from tapegrad.rules import Traced
from tapegrad.tensors import is_tensor
from tapegrad.tree import Signature, is_empty, is_generator

MOST = 50_000  # places: a function that reads more is not worth watching
_CONTAINERS = (list, tuple, deque, set, frozenset, dict, MappingProxyType)
_IMMUTABLE = frozenset([FunctionType, MethodType, ModuleType, tuple, functools.partial])
_CACHED = type(functools.lru_cache(len))
_OF_ALL = frozenset(["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__",
                     "__builtins__", "__spec__", "__loader__", "__cached__", "__file__", "__path__", "__name__", "__package__"])
_INERT = ("logging", "re", "warnings", "tapegrad")  # whose objects lead to much, and to no number


class Reads:
    """Gathers what the code that runs reads: told of each code object when it first runs, it notes the places as they stand then.

    What the arguments are made of, and what the function captured, are inputs, and looked at otherwise.
    """

    def __init__(self, budget: float = math.inf, samples: bool = False) -> None:
        self.budget = budget  # bytes that may be compared at each call
        self.samples = samples  # of arrays, a few of their numbers will do
        self.inputs: set[int] = set()
        self.names: set[str] = set()
        self.by_name: set[str] = set()  # whose code reads names that it computes: libraries', "" for the user's
        self.ran: set[CodeType] = set()
        self.places: dict[tuple[int, Any], Place] = {}
        self.sizes: dict[int, tuple[Mapping[Any, Any], int, str]] = {}
        self.open: list[tuple[Mapping[str, Any], str, str]] = []  # attributes of objects, classes and modules, of which the code names some
        self.classes: dict[type, Mapping[str, Any]] = {}  # the same namespace whenever it is asked for
        self.functions: set[int] = set()  # those that are known to run
        self.seen: dict[int, Any] = {}  # by id, alive
        self.waiting: dict[CodeType, list[FunctionType]] = {}  # functions that have not run
        self.meet: Callable[[Any], None] = lambda source: None  # is told of random generators
        self.refused = ""  # why nobody can say whether what was read is the same

    def result(self) -> Freshness:
        """Return what tells whether all of it is the same."""
        return Freshness(self.places.values(), self.sizes.values())

    def settle(self) -> None:
        """Take caches as the run that has ended left them."""
        for place in self.places.values():
            if isinstance(place.same, Cached) and not place.same.settle():
                self.refused = f"it clears the cache of {place.label}"

    def reach(self, structure: Signature) -> None:
        """Note what leads on from the arguments and what the function captured: classes and functions. What is in them is looked at otherwise."""
        parts = (structure.function, *structure.args, *structure.kwargs.values())
        self.inputs.update(key for part in parts for key, node in part.seen.items() if not isinstance(node, Static))
        stack = [part.spec for part in parts]
        nodes: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in nodes:
                continue
            nodes.add(id(node))
            stack += getattr(node, "children", ())
            if isinstance(node, Static) and (isinstance(node.value, type) or type(node.value) in _IMMUTABLE):
                self.explore(node.value, "an argument")
            elif isinstance(node, (Static, Record)):
                held = node.value if isinstance(node, Static) else node.prototype
                self.follow(held if type(held) is FunctionType else type(held), "an argument")

    def enter(self, code: CodeType, scope: dict[str, Any]) -> None:
        """Note what a code object reads, which is about to run."""
        self.ran.add(code)
        mentioned = names_of(code)
        if reads_by_name(code):
            self.enter_by_name(library_of(scope.get("__name__", "")), reads_modules_by_name(code))
        new = mentioned - self.names
        self.names |= new
        module = scope.get("__name__", "")
        for name in global_names(code):
            self.place(scope, name, f"{name} of {module}" if module != "__main__" else name)
        for namespace, label, _ in self.open if new else ():
            self.note(namespace, new & namespace.keys(), label)
        for found in modules_of(scope, mentioned):
            self.explore(found, found.__name__)
            self.note(vars(found), mentioned & vars(found).keys(), found.__name__)
        for owner, name in chains(code):
            held = scope.get(owner)
            if type(held) is ModuleType and not is_foreign(held.__name__) and name not in vars(held):
                self.place(vars(held), name, f"{owner}.{name}")
        for fn in self.waiting.pop(code, ()):
            self.activate(fn)

    def enter_by_name(self, library: str, modules: bool) -> None:
        """Note all that is in what a library's code, or the user's, "", may read by a name that it computes."""
        whose = {library, _modules_of(library)} if modules else {library}
        if not whose <= self.by_name:
            self.by_name |= whose
            for namespace, label, owner in [*self.open]:
                if self.is_read_whole(owner):
                    self.note(namespace, namespace.keys() - _OF_ALL, label)

    def note(self, namespace: Mapping[Any, Any], names: Iterable[Any], label: str) -> None:
        for name in names:
            self.place(namespace, name, f"{label}.{name}" if label else str(name))

    def place(self, namespace: Mapping[Any, Any], name: Any, label: str) -> None:
        """Note what stands in a place, unless it is known."""
        key = (id(namespace), name)
        if key in self.places or self.refused:
            return
        if len(self.places) >= MOST:
            self.refused = f"it reads more than {MOST} places besides its arguments"
            return
        value = original(namespace.get(name, Missing))
        check: Check = Plain(value)
        self.places[key] = Place(namespace, name, value, check, label)  # before what it leads to, which may lead back
        check = self.explore(value, label)
        if type(check) is not Plain:
            self.places[key] = Place(namespace, name, value, check, label)

    def explore(self, x: Any, label: str) -> Check:
        """Note what a thing leads to, and return what tells whether another is the same."""
        kind = type(x)
        if issubclass(kind, PLAIN):
            return Plain(x)
        if kind is decimal.Decimal:
            self.follow(kind, label)
            return Plain(x)
        if issubclass(kind, Traced):
            self.refused = self.refused or f"{label} holds a traced value"
            return Plain(x)
        if kind in (FunctionType, MethodType) or isinstance(x, (type, ModuleType)):
            self.follow(x, label)
            return Plain(x)
        if id(x) in self.inputs:
            return Plain(x)
        known = self.seen.get(id(x))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]
        if (why := reads_the_world(x, SILENT)):
            self.refused = self.refused or f"{label} is {why}"
        self.seen[id(x)] = (x, Plain(x))
        check = self.content(x, label)
        self.seen[id(x)] = (x, check)
        return check

    def content(self, x: Any, label: str) -> Check:
        """Note what is in a thing that is seen for the first time."""
        kind = type(x)
        if isinstance(x, np.ndarray):
            if self.samples and not x.dtype.hasobject:
                return Sample(x)
            return Plain(x) if not is_sealed(x) and self.is_too_much(x.nbytes, label) else Array(x)
        if is_tensor(x):
            return Plain(x) if self.samples or self.is_too_much(x.nbytes, label) else Tensor(x)
        if kind in _CONTAINERS or (isinstance(x, dict) and not hasattr(x, "__dict__")):
            return self.container(x, label)
        if isinstance(x, (bytearray, array)):
            return Bytes(x)
        if kind is BuiltinFunctionType or kind.__name__ == "method-wrapper":  # F = d.get
            owner = x.__self__
            if owner is not None and type(owner) is not ModuleType:
                self.places[id(x), "__self__"] = Place({"__self__": owner}, "__self__", owner, self.explore(owner, label), label)
            return Plain(x)
        if kind is ContextVar:
            self.place(Context(x), x.name, label)
            return Plain(x)
        if kind is functools.partial:
            self.explore_parts(x, {"func": x.func, "args": x.args, "keywords": x.keywords}, label)
            return Plain(x)
        if kind is _CACHED:
            self.follow(x.__wrapped__, label, runs=True)
            return Cached(x)
        if kind in (property, staticmethod, classmethod, functools.cached_property):
            for name in ("fget", "fset", "__func__", "func"):
                if (part := getattr(x, name, None)) is not None:
                    self.explore(part, label)
            return Plain(x)
        if is_generator(x):  # what it draws is recorded, or found missing
            self.meet(x)
            return Plain(x)
        if isinstance(x, Iterator):
            return Never()
        if kind_of(x) is not None:  # a user's kind of container, with attributes
            self.object(x, label)
            return self.container(x, label)
        self.object(x, label)
        return Plain(x)

    def container(self, x: Any, label: str) -> Check:
        """Note what is in a container."""
        parts = parts_of(x)
        if isinstance(x, (dict, MappingProxyType)):
            return Table(x, [self.explore(part, f"{label}[{key!r}]") for key, part in zip(parts, values_of(x))])
        checks = [self.explore(part, f"{label}[{at}]" if isinstance(x, (list, tuple)) else label) for at, part in enumerate(parts)]
        return Members(x) if isinstance(x, (set, frozenset)) else Sequence(x, checks)

    def is_too_much(self, size: int, label: str) -> bool:
        """Return whether to compare so many bytes more would take too long."""
        self.budget -= size
        if self.budget < 0:
            self.refused = self.refused or (f"{label} would have to be compared at each call, {size:,} bytes, which takes as long as to trace "
                                            "(what is read-only, .flags.writeable = False, is not compared)")
        return self.budget < 0

    def explore_parts(self, owner: Any, parts: dict[str, Any], label: str) -> None:
        self.note(parts, list(parts), label)
        self.seen[id(parts)] = (owner, Plain(owner))

    def follow(self, x: Any, label: str, runs: bool = False) -> None:
        """Note what leads on from a function, a class or a module, which are known by identity."""
        if id(x) in self.seen and not runs:
            return
        self.seen[id(x)] = (x, Plain(x))
        if type(x) is MethodType:
            self.explore(x.__func__, label)
            self.explore(x.__self__, label)
        elif type(x) is FunctionType:
            if is_foreign(x.__module__):
                return
            if runs:  # what a cache answers was computed by it, at another time
                self.run_unheard(x)
            if code_of(x) in self.ran:
                self.activate(x)
            else:
                self.waiting.setdefault(code_of(x), []).append(x)
            wrapped = x.__dict__.get("__wrapped__")
            if wrapped is not None:
                self.explore(wrapped, label)
        elif isinstance(x, type):
            for cls in x.__mro__:
                if cls not in self.classes and not is_foreign(cls.__module__):
                    namespace = self.classes[cls] = vars(cls)
                    self.attributes(namespace, cls.__qualname__, library_of(cls.__module__), sized=True)
                    self.note(namespace, [name for name in namespace if name.startswith("__") and name not in _OF_ALL], cls.__qualname__)
            if type(x) is not type:
                self.follow(type(x), label)
        elif isinstance(x, ModuleType) and not is_foreign(x.__name__):
            if type(x) is not ModuleType:  # a lazy one, or one that computes attributes
                self.follow(type(x), label)
            self.attributes(vars(x), x.__name__, _modules_of(library_of(x.__name__)), sized=False)
        if getattr(x, "__module__", getattr(x, "__name__", "")) == "decimal":
            self.place(SETTINGS, "decimal", "decimal's context")

    def run_unheard(self, fn: FunctionType) -> None:
        """Note what a function reads, and those that it names, as if they ran now."""
        stack = [fn]
        while stack:
            fn = stack.pop()
            if type(fn) is FunctionType and code_of(fn) not in self.ran and not is_foreign(fn.__module__):
                self.enter(code_of(fn), fn.__globals__)
                self.activate(fn)
                stack += [found for name in global_names(code_of(fn)) if type(found := fn.__globals__.get(name)) is FunctionType]

    def activate(self, fn: FunctionType) -> None:
        """Note what a function that runs holds itself: its code, its defaults, its variables."""
        if id(fn) in self.functions:
            return
        self.functions.add(id(fn))
        name = fn.__qualname__
        held = Held(fn)
        self.seen[id(held)] = (held, None)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            self.place(held, part, f"{part} of {name}")
        for at, cell in enumerate(fn.__closure__ or () if id(fn) not in self.inputs else ()):
            if not is_empty(cell):
                self.place(held, at, f"{code_of(fn).co_freevars[at]} of {name}")
        self.attributes(fn.__dict__, name, library_of(str(fn.__module__)), sized=True)

    def is_read_whole(self, owner: str) -> bool:
        """Return whether there is code that may read any name of what is a library's, or the user's, "". A library reads so what is its own."""
        return "" in self.by_name or owner in self.by_name or (bool(self.by_name) and not owner)

    def attributes(self, namespace: Mapping[str, Any], label: str, owner: str, sized: bool) -> None:
        """Note those attributes that code names, those that it will name too; and, if `sized`, that none comes that shadows another."""
        self.open.append((namespace, label, owner))
        self.note(namespace, (namespace.keys() - _OF_ALL if self.is_read_whole(owner) else self.names & namespace.keys()), label)
        if sized:
            self.sizes[id(namespace)] = (namespace, len(namespace), label)

    def object(self, x: Any, label: str) -> None:
        """Note what an object has: the attributes that code names, of its own and of its class."""
        cls = class_of(x)
        module = str(cls.__module__).partition(".")[0]
        if module in _INERT or isinstance(x, BaseException):
            if module == "tapegrad" and (fn := getattr(x, "__wrapped__", None)) is not None:  # a compiled function
                self.explore(fn, label)
            return
        self.follow(cls, label)
        self.places[id(x), "__class__"] = Place(Attributes(x), "__class__", cls, Plain(cls), f"the class of {label}")
        own = getattr(x, "__dict__", None)
        if type(own) is dict:
            if is_module(x):  # torch's own code reads it
                self.note(own, list(own), label)
                self.sizes[id(own)] = (own, len(own), label)
                self.attributes(own, label, library_of(cls.__module__), sized=True)
            elif is_foreign(module) and cls.__name__ not in ("SimpleNamespace", "Namespace"):
                self.note(own, list(own), label)
            else:
                self.attributes(own, label, library_of(cls.__module__), sized=True)
        slots = [name for base in cls.__mro__ for name in _slots(base) if not is_foreign(base.__module__)]
        if slots:
            held = Attributes(x)
            self.seen[id(held)] = (held, None)
            self.note(held, [name for name in slots if hasattr(x, name)], label)


def _modules_of(library: str) -> str:
    """Return whose a library's modules are: its code reads names of objects far more often than those of a module."""
    return f"modules of {library}" if library else ""


def _slots(cls: type) -> list[str]:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else slots
    found = [f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]
    return [name for name in found if name not in ("__dict__", "__weakref__")]


