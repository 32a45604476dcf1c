"""reads: what code reads besides its arguments, noted when it first runs."""

from __future__ import annotations

import abc
import builtins
import decimal
import functools
import gc
import math
import operator
import sys
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from tapegrad.copies import class_of, code_of
from tapegrad.interpose import original
from tapegrad.modules import is_module
from tapegrad.parts import Record, Static
from tapegrad.replay.freshness import (
    PLAIN,
    Array,
    Bytes,
    Cached,
    Check,
    Edits,
    Freshness,
    Members,
    Missing,
    Never,
    Objects,
    Place,
    Plain,
    Sample,
    Sequence,
    Table,
    Tensor,
    is_sealed,
    shape,
)
from tapegrad.replay.mentions import (
    chains,
    global_names,
    imported,
    imports_by_name,
    is_foreign,
    matches_classes,
    modules_of,
    names_in_format,
    names_of,
    reads_by_name,
)
from tapegrad.replay.namespaces import SETTINGS, Attributes, Contents, Held, Typed, slots_of
from tapegrad.replay.world import BY_NAME, is_opaque, reads_the_world
from tapegrad.rules import Traced
from tapegrad.tape import Tape
from tapegrad.tensors import is_tensor
from tapegrad.tree import Signature, is_empty, is_generator

MOST = 50_000  # places: a function that reads more is not worth watching
_LISTS = (list, tuple, deque)
_SETS = (set, frozenset)
_DICTS = (dict, MappingProxyType)
_IMMUTABLE = frozenset([FunctionType, MethodType, ModuleType, tuple, functools.partial])
_CACHED = type(functools.lru_cache(len))
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_WRAPPERS = (property, staticmethod, classmethod, functools.cached_property)
_SLOTS = (MethodWrapperType, WrapperDescriptorType)
_GETTERS = (operator.attrgetter, operator.methodcaller)
_READERS: tuple[Any, ...] = (getattr, hasattr, vars, dir)
_DATA = (int, float, complex, str, bytes, bool, list, tuple, dict, set, np.ndarray)
_OF_ALL = frozenset(["__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__"])
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
        self.by_name = False  # some code reads names that it computes
        self.ran: set[CodeType] = set()
        self.places: dict[tuple[int, Any], Place] = {}
        self.sized: set[int] = set()  # namespaces to which nothing may be added
        self.open: list[tuple[Mapping[str, Any], str]] = []  # attributes of objects, classes and modules, of which the code names some
        self.classes: dict[type, Mapping[str, Any]] = {}  # the same namespace whenever it is asked for
        self.functions: set[int] = set()  # those that are known to run
        self.held: dict[int, Held] = {}  # by the function's id
        self.matches = False  # some code matches classes, by attributes that these name
        self.seen: dict[int, Any] = {}  # by id, alive
        self.waiting: dict[CodeType, list[FunctionType]] = {}  # functions that have not run
        self.refused = ""  # why nobody can say whether what was read is the same

    def result(self) -> Freshness:
        """Return what tells whether all of it is the same, and nothing came that the code would read."""
        shapes = [shape(namespace, label, self.names, id(namespace) in self.sized, self.by_name) for namespace, label in self.open
                  if isinstance(namespace, (dict, MappingProxyType))]
        return Freshness(self.places.values(), shapes)

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
            elif isinstance(node, Record):
                self.follow(node.prototype if type(node.prototype) is FunctionType else type(node.prototype), "an argument")
            elif isinstance(node, Static) and not isinstance(node.value, Iterator):  # known by identity; what it has may change
                self.watch(node.value, "an argument")

    def enter(self, code: CodeType, scope: dict[str, Any]) -> None:
        """Note what a code object reads, which is about to run."""
        self.ran.add(code)
        mentioned = names_of(code)
        if reads_by_name(code):
            self.read_by_name()
        if matches_classes(code) and not self.matches:
            self.matches = True
            for namespace in list(self.classes.values()):
                self.mention(namespace.get("__match_args__", ()))
        self.mention(mentioned)
        module = scope.get("__name__", "")
        for name in global_names(code):
            self.place(scope, name, f"{name} of {module}" if module != "__main__" else name)
            if name not in scope:
                self.place(vars(builtins), name, name)
        self.enter_modules(code, scope, mentioned)
        for fn in self.waiting.pop(code, ()):
            self.activate(fn)

    def enter_modules(self, code: CodeType, scope: dict[str, Any], mentioned: frozenset[str]) -> None:
        """Note what code reads of modules: those that it imports, and those that its names lead to."""
        for found in modules_of(scope, mentioned):
            self.explore(found, found.__name__)
            self.note(vars(found), mentioned & vars(found).keys(), found.__name__)
        for name in imported(code, scope):
            self.place(sys.modules, name, f"the module {name}")
        if imports_by_name(code, scope):
            self.refused = self.refused or "it imports modules by names that it computes"
        for owner, name in chains(code):
            held = scope.get(owner)
            if isinstance(held, ModuleType) and (type(vars(held).get(name)) in _DATA and vars(held)[name] is not sys.modules
                                             if is_foreign(held.__name__) else name not in vars(held)):
                self.place(vars(held), name, f"{owner}.{name}")

    def mention(self, names: Iterable[str]) -> None:
        """Take in names by which code reads attributes."""
        new = frozenset(names) - self.names
        self.names |= new
        for namespace, label in self.open if new else ():
            self.note(namespace, new & namespace.keys(), label)

    def read_by_name(self) -> None:
        """Take all attributes for read: some code computes their names."""
        if not self.by_name:
            self.by_name = True
            for namespace, label in [*self.open]:
                self.note(namespace, list(namespace), label)

    def hear(self, module: str, name: str) -> None:
        """Take in that the standard library's code runs."""
        if name in BY_NAME.get(module, ()):
            self.read_by_name()
        if module == "logging" and name in ("isEnabledFor", "getEffectiveLevel"):
            self.place(SETTINGS, "logging", "the levels of loggers")

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

    def watch(self, x: Any, label: str) -> None:
        """Note what is in a thing that is known by identity."""
        if type(check := self.explore(x, label)) is not Plain:
            namespace = {label: x}
            self.places[id(namespace), label] = Place(namespace, label, x, check, label)

    def explore(self, x: Any, label: str) -> Check:
        """Note what a thing leads to, and return what tells whether another is the same."""
        kind = type(x)
        if issubclass(kind, PLAIN):
            if kind is str:
                self.mention(names_in_format(x))
            elif id(x) not in self.seen and hasattr(x, "__dict__") and not is_foreign(kind.__module__):  # a member of an Enum, a kind of float
                self.seen[id(x)] = (x, Plain(x))
                self.object(x, label)
            return Plain(x)
        if kind is decimal.Decimal:
            self.follow(kind, label)
            return Plain(x)
        if issubclass(kind, Traced):
            self.refused = self.refused or f"{label} holds a traced value"
            return Plain(x)
        if kind in (FunctionType, MethodType, ModuleType) or isinstance(x, type):
            self.follow(x, label)
            return Plain(x)
        if id(x) in self.inputs:
            return Plain(x)
        known = self.seen.get(id(x))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]
        if (why := reads_the_world(x)):
            self.refused = self.refused or f"{label} is {why}"
        self.seen[id(x)] = (x, Plain(x))
        check = self.content(x, label)
        self.seen[id(x)] = (x, check)
        return check

    def content(self, x: Any, label: str) -> Check:
        """Note what is in a thing that is seen for the first time."""
        kind = type(x)
        if isinstance(x, np.ndarray):
            return self.array(x, label)
        if is_tensor(x):
            return Plain(x) if self.samples or self.is_too_much(x.nbytes, label) else Tensor(x)
        if kind in _LISTS:
            return Sequence(x, [self.explore(part, f"{label}[{at}]") for at, part in enumerate(x)])
        if kind in _DICTS or (isinstance(x, dict) and not hasattr(x, "__dict__")):
            return self.table(x, label)
        if kind in _SETS:
            return self.members(x, label)
        if x in _READERS if kind is BuiltinFunctionType else kind in _SLOTS and x.__name__ == "__getattribute__":
            self.read_by_name()  # under a name of its own
        if (owner := _owner(x)) is not None:
            self.explore_parts(x, {"__self__": owner}, label)
            return Plain(x)
        if isinstance(x, functools.partial):
            self.explore_parts(x, {"func": x.func, "args": x.args, "keywords": x.keywords}, label)
            self.attributes(x.__dict__, label, sized=True)
            return Plain(x)
        if kind is _CACHED:
            self.follow(x.__wrapped__, label, runs=True)
            for part in gc.get_referents(x):  # what it has answered
                self.explore_parts(x, {"": part}, f"what {label} keeps")
            return Cached(x)
        if isinstance(x, _WRAPPERS):
            parts = {name: getattr(x, name, None) for name in ("fget", "fset", "__func__", "func")}
            self.explore_parts(x, {name: part for name, part in parts.items() if part is not None}, label)
            return Plain(x)
        if isinstance(x, _GETTERS):
            self.read_by_name()
            return Plain(x)
        if kind is Tape:
            return Edits(x)
        if kind is CellType:
            self.place(Contents(x), "contents", label)
            return Plain(x)
        if is_generator(x):
            return Plain(x)  # what it draws is recorded
        if isinstance(x, Iterator):
            return Never()
        if (why := is_opaque(x)):
            self.refused = self.refused or f"{label} is {why}"
            return Plain(x)
        self.object(x, label)  # a user's kind of container has attributes too
        return self.items(x, label) or Plain(x)

    def items(self, x: Any, label: str) -> Check | None:
        """Return what compares what is in a container of a user's kind; None for what is none."""
        if isinstance(x, dict):
            return self.table(x, label)
        if isinstance(x, (set, frozenset)):
            return self.members(x, label)
        if isinstance(x, (list, tuple, deque)):
            return Sequence(x, [self.explore(part, f"{label}[{at}]") for at, part in enumerate(x)])
        return Bytes(x) if isinstance(x, (bytearray, array)) else None

    def table(self, x: Any, label: str) -> Check:
        for key in x:
            if not issubclass(type(key), PLAIN):
                self.explore(key, f"a key of {label}")
        return Table(x, [self.explore(part, f"{label}[{key!r}]") for key, part in x.items()])

    def members(self, x: Any, label: str) -> Check:
        for part in x:
            self.explore(part, label)
        return Members(x)

    def array(self, x: np.ndarray[Any, Any], label: str) -> Check:
        """Return what compares the numbers of an array, or the objects in it."""
        if type(x) is not np.ndarray:
            self.object(x, label)  # a mask, say
        if x.dtype.hasobject and x.dtype.names is None:
            return Objects(x, [self.explore(part, label) for part in x.flat])
        if self.samples and not x.dtype.hasobject:
            return Sample(x)
        return Plain(x) if not is_sealed(x) and self.is_too_much(x.nbytes, label) else Array(x)

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
            self.attributes(self.held_by(x), x.__qualname__, sized=False)
            if code_of(x) in self.ran:
                self.activate(x)
            else:
                self.waiting.setdefault(code_of(x), []).append(x)
            wrapped = x.__dict__.get("__wrapped__")
            if wrapped is not None:
                self.explore(wrapped, label)
        elif isinstance(x, type):
            if x in _GETTERS:
                self.read_by_name()
            if not is_foreign(x.__module__):
                typed = Typed(x)
                self.attributes(typed, x.__qualname__, sized=False)
                order = x.__mro__
                self.places[id(typed), "__mro__"] = Place(typed, "__mro__", order, Plain(order), f"the bases of {x.__qualname__}")
                if isinstance(x, abc.ABCMeta):
                    self.place(SETTINGS, "abc", "which classes are registered with abstract ones")
            for cls in x.__mro__:
                if cls not in self.classes and not is_foreign(cls.__module__):
                    namespace = self.classes[cls] = vars(cls)
                    if self.matches:
                        self.mention(namespace.get("__match_args__", ()))
                    self.attributes(namespace, cls.__qualname__, sized=True)
                    self.note(namespace, [name for name in namespace if name.startswith("__") and name not in _OF_ALL], cls.__qualname__)
            if type(x) is not type:
                self.follow(type(x), label)
        elif type(x) is ModuleType and not is_foreign(x.__name__):
            self.attributes(vars(x), x.__name__, sized=False)
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
        held = self.held_by(fn)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            self.place(held, part, f"{part} of {name}")
        for at, cell in enumerate(fn.__closure__ or () if id(fn) not in self.inputs else ()):
            if not is_empty(cell):
                self.place(held, at, f"{code_of(fn).co_freevars[at]} of {name}")
        self.attributes(fn.__dict__, name, sized=True)

    def held_by(self, fn: FunctionType) -> Held:
        return self.held.setdefault(id(fn), Held(fn))

    def attributes(self, namespace: Mapping[str, Any], label: str, sized: bool) -> None:
        """Note those attributes that code names, those that it will name too; and, if `sized`, that none comes."""
        self.open.append((namespace, label))
        self.note(namespace, list(namespace) if self.by_name else self.names & namespace.keys(), label)
        if sized:
            self.sized.add(id(namespace))

    def object(self, x: Any, label: str) -> None:
        """Note what an object has: the attributes that code names, of its own and of its class."""
        cls = class_of(x)
        module = str(cls.__module__).partition(".")[0]
        if isinstance(x, BaseException):
            self.place(Attributes(x), "args", f"{label}.args")
            self.attributes(vars(x), label, sized=True)
            return
        if module in _INERT:
            if module == "tapegrad" and (fn := getattr(x, "__wrapped__", None)) is not None:  # a compiled function
                self.explore(fn, label)
            return
        self.follow(cls, label)
        self.places[id(x), "__class__"] = Place(Attributes(x), "__class__", cls, Plain(cls), f"the class of {label}")
        own = getattr(x, "__dict__", None)
        if type(own) is dict:
            if is_module(x):  # torch's own code reads it
                self.note(own, list(own), label)
                self.attributes(own, label, sized=True)
            elif is_foreign(module) and cls.__name__ not in ("SimpleNamespace", "Namespace"):
                self.note(own, list(own), label)
            else:
                self.attributes(own, label, sized=True)
        if isinstance(x, Enum):
            self.note(vars(x), ["_value_"], label)
        slots = [name for base in cls.__mro__ for name in slots_of(base) if not is_foreign(base.__module__)]
        self.note(Attributes(x), slots, label)  # those that are not set too


def _owner(x: Any) -> Any:
    """Return what a bound method of C's, `F = d.get`, or a view of a dict belongs to; None for others."""
    if type(x) in _VIEWS:
        return gc.get_referents(x)[0]
    is_bound = type(x) is BuiltinFunctionType or type(x) is MethodWrapperType
    return x.__self__ if is_bound and type(x.__self__) is not ModuleType else None
