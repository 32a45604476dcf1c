"""reads: collects the places that code reads besides its arguments, with their values when the code first runs."""

from __future__ import annotations

import abc
import builtins
import decimal
import functools
import sys
import threading
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.compile.watch.checks import (
    DATA,
    PLAIN,
    Array,
    Bytes,
    Cached,
    Check,
    Counted,
    Never,
    Objects,
    Plain,
    Sample,
    TapeUnedited,
    container_check,
    is_counter,
    is_read_only_owner,
    tensor_check,
)
from tapegrad.compile.watch.code_names import (
    ASKED,
    asked,
    chains,
    global_names,
    imported,
    imports,
    imports_by_name,
    library_parts,
    matches_classes,
    modules_asked,
    modules_of,
    names_in_format,
    names_of,
    reads_by_name,
    reads_modules_by_name,
    whose_modules,
)
from tapegrad.compile.watch.external_state import (
    BY_NAME,
    GETTERS,
    INERT,
    NAMES,
    SILENT,
    external_state_of,
    is_opaque,
    is_output,
    is_reader,
    leads_to,
)
from tapegrad.compile.watch.freshness import Freshness, Missing, Place, shape
from tapegrad.compile.watch.modules_as_values import asks_for_modules, handed_modules, handed_names
from tapegrad.compile.watch.namespaces import (
    NAMED,
    OF_ALL,
    SETTINGS,
    Attributes,
    Held,
    Local,
    Namespace,
    Typed,
    holder,
    own_names,
)
from tapegrad.compile.watch.wrappers import is_of_program, loud, nodes_of, parts_in, unobserved_function
from tapegrad.numbers.equality import kind_of
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.object_state import attributes, slots_of
from tapegrad.numbers.sparse_tensors import stored_bytes
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Traced
from tapegrad.tape.tape import Tape
from tapegrad.trace.interposition import original
from tapegrad.trace.replaceable_names import captured_by
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import CACHED, class_of, code_of, is_empty
from tapegrad.tree.flatten import Structure
from tapegrad.tree.installed import library_of
from tapegrad.tree.modules import is_module
from tapegrad.tree.nodes import Record, Static
from tapegrad.tree.signature import Signature

MOST = 50_000  # places; a function that reads more is not compiled
_CONTAINERS = (list, tuple, deque, set, frozenset, dict, defaultdict, MappingProxyType)
_IMMUTABLE = frozenset([FunctionType, MethodType, ModuleType, tuple, functools.partial])
NOBODY, _MAY_LACK = "nobody", ASKED | {"AttributeError", "Exception"}  # no owner: only mentioned names are noted


class Reads:
    """The places that code reads, with their values when it first runs. Arguments and captured values are inputs."""

    def __init__(self, budget: float = float("inf"), samples: bool = False, most: int = MOST) -> None:
        self.budget, self.most, self.samples = budget, most, samples  # bytes and places compared; samples of arrays
        self.names: set[str] = set()
        self.by_name: set[str] = set()  # owners of code that reads computed names: libraries, "" for the user
        self.asks = self.matches = False  # whether code looks up attributes that may be missing; has class patterns
        self.library, self.ran = "", set[CodeType]()  # owner of the running code; all code that ran
        self.handed, self.modules = set[str](), list[ModuleType]()  # names passed on as values; modules in objects
        self.places: dict[tuple[int, Any], Place] = {}
        self.inputs, self.sized = set[int](), set[int]()  # ids of inputs; of namespaces that must not gain names
        # namespaces of objects, classes and modules that code reads by name, each with its label and owner
        self.open: list[tuple[Mapping[str, Any], str, str]] = []
        self.classes: dict[type, Mapping[str, Any]] = {}  # keeps vars(cls), a new object each time, for its id
        self.functions, self.idle = set[int](), set[int]()  # ids of functions that run; of `__dict__`s of idle ones
        self.named: dict[int, tuple[Held | Typed, str]] = {}  # functions and classes, by their ids
        self.seen: dict[int, Any] = {}  # by id; keeps the object alive
        self.waiting: dict[CodeType, list[FunctionType]] = {}  # functions that have not run
        self.meet: Callable[[Any], None] = lambda source: None  # called with random generators
        self.refused = ""  # why no check can show whether the places are unchanged

    def result(self) -> Freshness:
        """Return the freshness check of all places, and of names whose appearance would matter."""
        self.note_handed()
        names = set(self.names)
        shapes = [shape(namespace, label, names, id(namespace) in self.sized, self.is_read_whole(owner))
                  for namespace, label, owner in self.open
                  if namespace or self.asks or self.by_name or id(namespace) not in self.idle]
        return Freshness(self.places.values(), shapes, names)

    def note_handed(self) -> None:
        """Note all names of modules passed on as values, if code of their library reads computed names."""
        for module in (*handed_modules(self.places.values(), self.handed), *self.modules):
            if library_of(module.__name__) in self.by_name:
                self.note(vars(module), vars(module).keys() - OF_ALL, module.__name__)

    def settle(self) -> None:
        """Note the entries of caches after the run; refuse if one was cleared."""
        for place in self.places.values():
            if isinstance(place.same, Cached) and not place.same.settle():
                self.refused = f"it clears the cache of {place.label}"

    def reach(self, structure: Signature) -> None:
        """Note the classes, functions and static objects that the arguments and the function's captures lead to."""
        parts = (structure.function, *structure.args, *structure.kwargs.values())
        self.inputs.update(key for part in parts for key, node in part.seen.items() if not isinstance(node, Static))
        self.within([part.spec for part in parts])

    def within(self, specs: list[Any]) -> None:
        """Note the classes, functions and static objects in flattened arguments."""
        for node, held in nodes_of(specs):
            if isinstance(node, Static) and (isinstance(node.value, type) or type(node.value) in _IMMUTABLE):
                self.explore(node.value, "an argument")
            elif isinstance(node, Record):
                made = node.prototype
                self.follow(made if type(made) is FunctionType else type(made), "an argument")
                self.attributes(held, "an argument", library_of(type(made).__module__), sized=False)
            elif isinstance(node, Static) and not isinstance(node.value, Iterator):  # its attributes may change
                self.watch(node.value, "an argument")

    def enter(self, code: CodeType, scope: dict[str, Any], heard: bool = False) -> None:
        """Note the places that a code object reads, before it runs. If `heard`, it reports the names it computes."""
        self.ran.add(code)
        self.handed |= handed_names(code)
        if asks_for_modules(code):
            self.refused = self.refused or "it looks modules up by computed names"
        mentioned, module = names_of(code), scope.get("__name__", "")
        self.library = library_of(module)
        self.asks = self.asks or not _MAY_LACK.isdisjoint(code.co_names)
        if reads_by_name(code, heard):
            self.note_computed_names(self.library, reads_modules_by_name(code, heard))
        if matches_classes(code) and not self.matches:
            self.matches = True
            for namespace in list(self.classes.values()):
                self.mention(namespace.get("__match_args__", ()))
        self.mention(mentioned)
        for name in global_names(code):
            self.place(scope, name, f"{name} of {module}" if module != "__main__" else name)
            if name not in scope:
                self.place_builtin(name)
        self.enter_modules(code, scope, mentioned)
        for fn in self.waiting.pop(code, ()):
            self.activate(fn)

    def place_builtin(self, name: str) -> None:
        """Note a builtin. For `getattr` and `hasattr`, the calling code shows which names they read."""
        names = vars(builtins)
        if name not in ASKED or not is_reader(names.get(name)):
            return self.place(names, name, name)
        self.places.setdefault((id(names), name), Place(names, name, names[name], Plain(names[name]), name))

    def enter_modules(self, code: CodeType, scope: dict[str, Any], mentioned: frozenset[str]) -> None:
        """Note the names that code reads from modules that it imports or that its names lead to."""
        for found in modules_of(scope, mentioned):
            self.explore(found, found.__name__)
            self.note(vars(found), mentioned & vars(found).keys(), found.__name__)
        for name in (*imported(code, scope), *(modules_asked(code) or ())):
            self.place(sys.modules, name, f"the module {name}")
        if imports_by_name(code, scope) and (not self.library or imports(code)):
            self.refused = self.refused or "it imports modules by computed names"
        for owner, name in chains(code):
            held = original(scope.get(owner))
            if not isinstance(held, ModuleType):
                continue
            if not is_foreign(held.__name__) or (owner, name) in asked(code).chains:
                self.place(vars(held), name, f"{owner}.{name}")
        for there, name in library_parts(code, scope, mentioned):
            part, label = there[name], f"{there.get('__name__')}.{name}"
            if isinstance(part, DATA):
                self.place(there, name, label)
            elif not self.library and id(part) not in self.seen and (own := own_names(part)):
                self.seen[id(part)] = (part, Plain(part))
                self.attributes(own, label, NOBODY, sized=False)

    def mention(self, names: Iterable[str]) -> None:
        """Add names by which code reads attributes, and note them in all open namespaces."""
        new = frozenset(names) - self.names
        self.names |= new
        for namespace, label, _ in self.open if new else ():
            self.note(namespace, new & namespace.keys(), label)
        for held, label in [] if new.isdisjoint(NAMED) else [*self.named.values()]:
            self.note(held, new & held.named, label)

    def hear(self, module: str, name: str) -> None:
        """Note the reads of a function of the standard library that runs."""
        if name in BY_NAME.get(module, ()):
            self.note_computed_names(self.library, False)
        names = NAMES.get(name, ()) if module in ("inspect", "typing") else ()
        self.asks |= bool(names)
        self.mention(names)
        if module == "logging" and name in ("isEnabledFor", "getEffectiveLevel"):
            self.place(SETTINGS, "logging", "the levels of loggers")

    def note_computed_names(self, library: str, modules: bool) -> None:
        """Note all names that code of a library ("" for the user's) may read by computed names."""
        whose = {library, whose_modules(library)} if modules else {library}
        if not whose <= self.by_name:
            self.by_name |= whose
            for namespace, label, owner in [*self.open]:
                if self.is_read_whole(owner):
                    self.note(namespace, namespace.keys() - OF_ALL, label)

    def note(self, namespace: Mapping[Any, Any], names: Iterable[Any], label: str) -> None:
        for name in names:
            self.place(namespace, name, f"{label}.{name}" if label else str(name))

    def place(self, namespace: Mapping[Any, Any], name: Any, label: str) -> None:
        """Note a place with its current value, unless it is known."""
        key = (id(namespace), name)
        if key in self.places or self.refused:
            return
        if len(self.places) >= self.most:
            self.refused = f"it reads more than {self.most} values besides its arguments"
            return
        value = original(namespace.get(name, Missing))
        self.places[key] = Place(namespace, name, value, Plain(value), label)  # first: its content may lead back here
        if isinstance(value, ModuleType):
            self.follow(value, label)
        elif type(check := self.explore(value, label)) is not Plain:
            self.places[key] = Place(namespace, name, value, check, label)

    def watch(self, x: Any, label: str) -> None:
        """Note the content of an object that is compared by identity."""
        if type(check := self.explore(x, label)) is not Plain:
            namespace = {label: x}
            self.places[id(namespace), label] = Place(namespace, label, x, check, label)

    def explore(self, x: Any, label: str) -> Check:
        """Note the places that an object leads to, and return its check."""
        kind = type(x)
        if issubclass(kind, PLAIN):
            if kind is str:
                self.mention(names_in_format(x))
            elif id(x) not in self.seen and not is_foreign(kind.__module__):
                self.seen[id(x)] = (x, Plain(x))
                self.object(x, label)  # a member of an Enum, a subclass of float
            return Plain(x)
        if issubclass(kind, Traced):
            self.refused = self.refused or f"{label} holds a traced value"
            return Plain(x)
        if kind in (FunctionType, MethodType, decimal.Decimal) or isinstance(x, (type, ModuleType)):
            self.modules += [x] if isinstance(x, ModuleType) else ()
            self.follow(kind if kind is decimal.Decimal else x, label)
            return Plain(x)
        if id(x) in self.inputs:
            return Plain(x)
        known = self.seen.get(id(x))
        if known is not None:
            return known[1]  # type: ignore[no-any-return]
        if (why := external_state_of(x, SILENT) or loud(x)) and not leads_to(x, self.inputs):
            self.refused = self.refused or f"{label} is {why}"
        self.seen[id(x)] = (x, Plain(x))
        self.seen[id(x)] = (x, check := self.content(x, label))
        return check

    def content(self, x: Any, label: str) -> Check:
        """Note the content of an object that is met for the first time, and return its check."""
        kind = type(x)
        if isinstance(x, np.ndarray):
            return self.array(x, label)
        if is_tensor(x):
            self.attributes(x.__dict__, label, "", sized=True)
            refuses = not self.samples and self.is_too_much(stored_bytes(x), label)
            return Plain(x) if refuses else tensor_check(x, not self.samples)
        if kind in _CONTAINERS:
            return container_check(self, x, label)
        if isinstance(x, (bytearray, array)):
            if kind is not bytearray and kind is not array:
                self.object(x, label)
            return Bytes(x)
        if is_reader(x):
            self.note_computed_names(self.library, False)  # `getattr` under another name
        if kind is Tape:
            return TapeUnedited(x)
        if (held := holder(x)) is not None:
            self.place(held, "contents", label)
            return Plain(x)
        if (runs := unobserved_function(x)) is not None:
            self.follow(runs, label, runs=True)
        if (parts := parts_in(x)) or runs is not None:
            self.note(parts, parts, label)
            if isinstance(x, functools.partial):
                self.note(Attributes(x), ["func", "args", "keywords"], label)
                self.own_attributes(Attributes(x), x.__dict__, label, self.library)
            return Cached(x) if kind is CACHED else Plain(x)
        if is_generator(x):  # its draws are recorded, or refused elsewhere
            self.meet(x)
            return Plain(x)
        if isinstance(x, Iterator):
            return Plain(x) if is_output(x) else Counted(x) if is_counter(x) else Never()
        if kind_of(x) is not None:  # a user-defined subclass of a container, with attributes
            self.object(x, label)
            return container_check(self, x, label)
        if not (why := is_opaque(x)):
            self.object(x, label)
        self.refused = self.refused or (f"{label} is {why}" if why else "")
        return Plain(x)

    def array(self, x: np.ndarray[Any, Any], label: str) -> Check:
        """Return the check of an array's numbers, or of the objects in it."""
        if type(x) is not np.ndarray:
            self.object(x, label)  # for example the mask of a masked array
        if x.dtype.hasobject and x.dtype.names is None:
            return Objects(x, [self.explore(part, label) for part in x.flat])
        if self.samples and not x.dtype.hasobject:
            return Sample(x)
        return Plain(x) if not is_read_only_owner(x) and self.is_too_much(x.nbytes, label) else Array(x)

    def is_too_much(self, size: int, label: str) -> bool:
        """Take `size` bytes from the budget; refuse and return True if it is exceeded."""
        self.budget -= size
        if self.budget < 0:
            self.refused = self.refused or (
                f"{label} has {size:,} bytes, and comparing them at each call takes as long as tracing (a read-only "
                "array, .flags.writeable = False, is not compared)")
        return self.budget < 0

    def follow(self, x: Any, label: str, runs: bool = False) -> None:
        """Note the places that a function, class or module leads to; it is itself compared by identity."""
        if id(x) in self.seen and not runs:
            return
        self.seen[id(x)] = (x, Plain(x))
        if type(x) is MethodType:
            self.explore(x.__func__, label)
            self.explore(x.__self__, label)
        elif type(x) is FunctionType:
            if (wrapped := x.__dict__.get("__wrapped__")) is not None:
                self.explore(wrapped, label)
            if is_foreign(x.__module__):  # it may have captured functions of the program
                for held in filter(is_of_program, map(original, captured_by(x).values())):
                    self.explore(held, label)
                return
            if runs:  # a cached result was computed by it earlier, unobserved
                self.note_unobserved(x)
            self.namespace_of(x)
            if code_of(x) in self.ran:
                self.activate(x)
            else:
                self.waiting.setdefault(code_of(x), []).append(x)
        elif isinstance(x, type):
            if x in GETTERS:
                self.note_computed_names(self.library, False)
            if not is_foreign(x.__module__):
                self.derive(x)
            for cls in x.__mro__:
                if cls not in self.classes and not is_foreign(cls.__module__):
                    namespace = self.classes[cls] = vars(cls)
                    if self.matches:
                        self.mention(namespace.get("__match_args__", ()))
                    self.attributes(namespace, cls.__qualname__, library_of(cls.__module__), sized=True)
                    self.note(namespace, [name for name in namespace if name.startswith("__") and name not in OF_ALL],
                              cls.__qualname__)
            if type(x) is not type:
                self.follow(type(x), label)
            for member in x.__members__.values() if issubclass(x, Enum) and not is_foreign(x.__module__) else ():
                self.explore(member, str(member))
        elif isinstance(x, ModuleType) and not is_foreign(x.__name__):
            if type(x) is not ModuleType:  # a lazy one, or one that computes attributes
                self.follow(type(x), label)
            self.attributes(vars(x), x.__name__, whose_modules(library_of(x.__name__)), sized=False)
            self.place(vars(x), "__getattr__", f"__getattr__ of {x.__name__}")
        if (x.__name__ if isinstance(x, ModuleType) else x.__module__) == "decimal":
            self.place(SETTINGS, "decimal", "decimal's context")

    def derive(self, cls: type) -> None:
        """Note a class's bases, and the registrations with abstract classes."""
        typed, order, label = Typed(cls), cls.__mro__, cls.__qualname__
        self.named[id(cls)] = typed, label
        self.note(typed, self.names & typed.named, label)
        self.places[id(typed), "__mro__"] = Place(typed, "__mro__", order, Plain(order), f"the bases of {label}")
        if isinstance(cls, abc.ABCMeta):
            self.place(SETTINGS, "abc", "the classes registered with abstract base classes")

    def namespace_of(self, fn: FunctionType) -> Held:
        """Return a function's own namespace, with the names that code mentions noted."""
        if id(fn) not in self.named:
            held = Held(fn)
            self.named[id(fn)] = held, fn.__qualname__
            self.idle.add(id(fn.__dict__))
            self.own_attributes(held, fn.__dict__, fn.__qualname__, library_of(fn.__module__), sized=False)
            self.note(held, self.names & held.named, fn.__qualname__)
        return self.named[id(fn)][0]  # type: ignore[return-value]

    def note_unobserved(self, fn: FunctionType) -> None:
        """Note the reads of a function that runs unobserved, and of those it names; computed names of the user only."""
        stack = [fn]
        while stack:
            fn = stack.pop()
            if type(fn) is FunctionType and id(fn) not in self.functions and not is_foreign(fn.__module__):
                self.enter(code_of(fn), fn.__globals__, heard=bool(library_of(fn.__module__)))
                self.activate(fn)
                found = [*map(fn.__globals__.get, global_names(code_of(fn))), *captured_by(fn).values()]
                stack += [held for held in found if type(held) is FunctionType]

    def activate(self, fn: FunctionType) -> None:
        """Note the code, defaults and captured variables of a function that runs."""
        if id(fn) in self.functions:
            return
        self.functions.add(id(fn))
        name, held = fn.__qualname__, self.namespace_of(fn)
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            self.place(held, part, f"{part} of {name}")
        for at, cell in enumerate(fn.__closure__ or () if id(fn) not in self.inputs else ()):
            if not is_empty(cell):
                self.place(held, at, f"{code_of(fn).co_freevars[at]} of {name}")
        self.sized.add(id(fn.__dict__))
        self.idle.discard(id(fn.__dict__))

    def is_read_whole(self, owner: str) -> bool:
        """Return whether code may read any name of this owner's: the user's code ("") of all, a library's of both."""
        return owner != NOBODY and ("" in self.by_name or owner in self.by_name or (bool(self.by_name) and not owner))

    def attributes(self, namespace: Mapping[str, Any], label: str, owner: str, sized: bool) -> None:
        """Note the attributes that code names, now or later; if `sized`, check too that none is added."""
        self.open.append((namespace, label, owner))
        self.sized |= {id(namespace)} if sized else set()
        read = namespace.keys() - OF_ALL if self.is_read_whole(owner) else self.names & namespace.keys()
        self.note(namespace, read, label)

    def own_attributes(self, x: Namespace, own: dict[str, Any], label: str, owner: str, sized: bool = True) -> None:
        """Note the attributes of an object or function and the dict that holds them, which may be replaced."""
        self.attributes(own, label, owner, sized)
        if not is_module(x.owner):
            self.places[id(x.owner), "__dict__"] = Place(x, "__dict__", own, Plain(own), f"all of {label}")

    def object(self, x: Any, label: str) -> None:
        """Note an object's class and the attributes that code names, its own and the class's."""
        cls = class_of(x)
        module = str(cls.__module__).partition(".")[0]
        held = Attributes(x)
        if isinstance(x, BaseException):
            self.place(held, "args", f"{label}.args")
            return self.own_attributes(held, vars(x), label, self.library)
        if module == "tapegrad":
            if (fn := getattr(x, "__wrapped__", None)) is not None:  # a compiled function
                self.explore(fn, label)
            if type(x) is Structure:  # the callback of a solver is rebuilt from it, with numbers that are inputs
                self.inputs.update(id(node.prototype) for node in x.seen.values() if isinstance(node, Record))
                self.within([x.spec])
            return
        if module in INERT:
            return self.attributes(getattr(x, "__dict__", {}), label, module, sized=False)
        self.follow(cls, label)
        self.places[id(x), "__class__"] = Place(held, "__class__", cls, Plain(cls), f"the class of {label}")
        own = attributes(x)
        if isinstance(x, threading.local):
            self.attributes(Local(x), label, library_of(cls.__module__), sized=True)
        elif type(own) is dict:
            # their own C code reads all attributes: `==` of a SimpleNamespace, for example
            self.note(own, list(own) if is_module(x) or is_foreign(module) else (), label)
            self.own_attributes(held, own, label, library_of(cls.__module__))
        if isinstance(x, Enum):
            self.note(vars(x), ["_value_"], label)
        self.note(held, [*slots_of(cls)], label)  # unset ones too
