"""reference_search: finds the names, besides its arguments, by which a traced program reaches originals of copies.

Objects redirect to their copies themselves (`redirection`). A plain list or dict, a captured variable, or a function
with captures cannot. The functions that may run are therefore followed from name to name (globals, defaults, captured
variables, attributes of modules and classes, and their contents), and while the trace runs those that lead to such an
original read the copy instead.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from copy import copy
from itertools import islice
from mmap import mmap
from types import BuiltinMethodType, CellType, FunctionType, GeneratorType, MethodType, ModuleType, SimpleNamespace
from typing import Any
from weakref import ProxyTypes, ReferenceType, WeakKeyDictionary, WeakSet

import numpy as np

from tapegrad.numbers.object_state import attributes as own_dict
from tapegrad.numbers.tensors import is_memory, is_tensor
from tapegrad.rules.registry import DISPATCH, REGISTERED
from tapegrad.trace.code_mentions import SEARCHES, is_foreign, mentioned, modules_of, package_of
from tapegrad.trace.global_arrays import is_table
from tapegrad.trace.interposition import original
from tapegrad.trace.reference_cache import ENDS, ReferenceCache, closed_world
from tapegrad.tree.attributes import FOREIGN_PACKAGES, HEAP
from tapegrad.tree.copies import Attribute, Refused, another, class_of, code_of, is_empty
from tapegrad.tree.modules import is_module, is_optimizer
from tapegrad.tree.ways import WAYS, owner_of, rebound_to

_OWN = "an attribute"  # of a function
_REPLACEABLE = HEAP | 1 << 8  # flags of classes in CPython: heap type, immutable type
MOST = 20_000  # objects searched
LARGE = 1024  # size of a list or dict up to which it is searched; of a larger one only the items themselves are checked

_ATOMS = frozenset([int, float, complex, str, bytes, bool, type(None), np.ndarray, np.float64, np.float32, np.int64,
                    np.bool_, np.dtype,
                    slice, range])
_UNTRACKED = frozenset([dict, bytearray, array, mmap, ContextVar])  # searched even if the collector does not track them
_ATOMS_BUT_ARRAYS = _ATOMS - {np.ndarray}
_WITH_ARRAYS, _WITH_TUPLES = _UNTRACKED | {np.ndarray}, _UNTRACKED | {tuple}
# modules of Python whose objects are searched
_OPENED = frozenset(["builtins", "types", "functools", "_functools", "collections", "itertools", "weakref", "operator",
"queue", "_contextvars", "contextvars"])


def is_a(x: Any, kind: Any) -> bool:
    """Return whether an object's own class is a subclass of these; unlike isinstance it does not read `__class__`,
    which a user's proxy may override.
    """
    return issubclass(type(x), kind)


def is_open(x: Any) -> bool:
    """Return whether an object must be followed in each search: it is outside installed packages, or its contents
    cannot be cached.
    """
    if is_a(x, (list, tuple, dict, set, frozenset, deque)) and len(x) > LARGE:
        return True
    weak = is_a(x, (WeakKeyDictionary, WeakSet, ReferenceType, ContextVar, np.ufunc)) or type(x) is threading.local
    return weak or not is_foreign((x if is_a(x, (FunctionType, type)) else class_of(x)).__module__)


class ReferenceSearch:
    """The objects that lead to originals: `readers` are functions to run with other globals, defaults and variables,
    `holders` objects that hand out copies, `attributes` (class, name) pairs; `others` must be copied.
    """

    def __init__(self, known: dict[int, Any], labels: dict[int, str], roots: list[Any],
                 stand_for: Callable[[Any], Any] | None = None, package: str = "") -> None:
        self.known, self.labels = known, labels  # id of an original -> its copy, and -> the argument's label
        self.stand_for = stand_for  # makes a proxy for an array that the search finds; None if such arrays stay plain
        self.arrays: dict[int, Any] = {}  # the arrays that got one
        self.read: dict[int, tuple[Any, str]] = {}  # the arrays found, and their names
        # an array that the program reads by name may be an argument in another call
        held = any(hasattr(type(x), "_tracer") and not is_tensor(x) for x in known.values())
        self.atoms, self.untracked = (_ATOMS_BUT_ARRAYS if stand_for is not None or held else _ATOMS,
                                      _WITH_TUPLES if stand_for is not None else _WITH_ARRAYS if held else _UNTRACKED)
        self.roots, self.root_ids = roots, set(map(id, roots))
        self.own = {package_of(root.__module__) for root in roots if isinstance(root, (FunctionType, type))} | {package}
        self.own -= FOREIGN_PACKAGES
        self.parents: dict[int, list[tuple[Any, str]]] = {}
        self.met: dict[int, Any] = {}
        self.world: ReferenceCache | None = None
        # by id: a module's namespace, and the functions that read it
        self.spaces: dict[int, tuple[dict[str, Any], list[Any]]] = {}
        self.hits: dict[int, Any] = {}
        self.readers: dict[int, FunctionType] = {}
        self.holders: list[Any] = []
        self.attributes: list[tuple[type, str]] = []
        self.others: dict[int, Any] = {}

    def search(self) -> bool:
        """Follow names from the functions that may run; return whether any leads to an original."""
        roots = {id(root): root for root in self.roots}
        closed = {key: root for key, root in roots.items() if self.is_closed(root)} if self.stand_for is None else {}
        self.met, todo = roots, [*roots.values()]
        if closed and (found := self.in_world(closed)) is not None:
            self.world, self.hits, again = found
            self.readers.update(self.world.readers)
            self.met = {**self.world.met, **roots}
            todo = [*(root for key, root in roots.items() if key not in closed), *again]
        self.follow(todo)
        return self._lead()

    def in_world(self, roots: dict[int, Any]) -> tuple[ReferenceCache, dict[int, Any], list[Any]] | None:
        """Return the closed world of roots in installed packages, the originals in it, and its objects that must be
        followed; None if it cannot be cached.
        """
        place = frozenset(roots), frozenset(self.own)
        for _ in range(2):
            ends = {key: x for key, x in ENDS.get(place, {}).items() if key in self.known}
            world, again = closed_world((*place, frozenset(ends)), functools.partial(self.closed_world, roots, ends))
            seen = self.known.keys() & world.seen
            known = {key: world.met.get(key, ends.get(key)) for key in seen & world.parents.keys()}
            # originals with references of their own: the search must end at them, which makes another world
            more = {key: x for key, x in known.items() if key not in ends and any(True for _ in self.children(x))}
            if not more:
                return (world, known, again) if all(map(self.is_named, seen - known.keys())) else None
            ENDS[place] = {**ends, **more}
        return None

    def is_named(self, key: int) -> bool:
        """Return whether the path to an original does not depend on which objects are originals: it is a root that is a
        function of a followed package. An array in a namespace is found only where it is an original.
        """
        return any(id(root) == key and is_a(root, FunctionType) and not self.is_foreign(root.__module__)
                   for root in self.roots)

    def closed_world(self, roots: dict[int, Any], ends: dict[int, Any]) -> ReferenceCache:
        """Return the closed world of roots in installed packages, independent of the originals except its `ends`."""
        alone = ReferenceSearch(ends, {}, list(roots.values()))
        alone.own, alone.met = self.own, dict(roots)
        alone.follow(roots.values(), past=is_open)
        return ReferenceCache(alone.met, alone.parents, alone.spaces, alone.readers, alone.can_be_given, is_open)

    def is_closed(self, root: Any) -> bool:
        """Return whether a root is a function or class of an installed package and no original."""
        return (is_a(root, (FunctionType, type)) and is_foreign(root.__module__)
                and id(root) not in self.known)

    def follow(self, todo: Iterable[Any], past: Callable[[Any], bool] = lambda x: False) -> None:
        """Follow references breadth first, but not from objects already met, nor from those for which `past` holds."""
        known, parents, met = self.known, self.parents, self.met
        todo, most = deque(todo), MOST + len(met)
        while todo and len(met) < most:
            node = todo.popleft()
            for child, how in () if past(node) else self.children(node):
                key = id(child)
                if self.stand_for is not None and key not in known and is_table(child):
                    known[key] = self.stand_for(child)
                    self.arrays[key] = child
                if key in known:
                    self.hits[key] = child
                parents.setdefault(key, []).append((node, how))
                if key not in known and key not in met:
                    met[key] = child
                    todo.append(child)

    def _lead(self) -> bool:
        """Classify the objects that lead to originals: functions, objects and classes can hand out copies, other
        containers must be copied. Return whether there are any.
        """
        todo, marked = list(self.hits), set(self.hits)
        for key in todo:
            for parent, how in self.parents_of(key):
                if is_a(parent, FunctionType) and how != _OWN:
                    self.readers[id(parent)] = parent
                elif is_a(parent, type):
                    self.attributes.append((parent, how))
                elif id(parent) not in marked:
                    marked.add(id(parent))
                    if self.can_hold(parent, marked):
                        self.holders.append(parent)
                    else:
                        self.others[id(parent)] = parent
                        todo.append(id(parent))
        return bool(self.readers or self.holders or self.attributes or self.hits)

    def parents_of(self, key: int) -> list[tuple[Any, str]]:
        """Return (parent, name) for the objects that refer to an object."""
        found = self.parents.get(key, [])
        return found if self.world is None else [*found, *self.world.parents.get(key, ())]

    def given(self) -> dict[int, Any]:
        """Return the objects found that a trace would copy if they were arguments."""
        known, old = ({}, 0) if self.world is None else (self.world.given, len(self.world.met))
        return {**known, **{key: x for key, x in islice(self.met.items(), old, None) if self.can_be_given(x)}}

    def told(self, x: Any) -> str:
        """Describe an object: the name by which a function reaches it, and the argument it leads to."""
        below, above, names = [x], [x], ("", "")
        for node in below:
            label = next((self.labels[id(child)] for child, _ in self.children(node) if id(child) in self.known), None)
            if label is not None:
                break
            below += [child for child, _ in self.children(node) if id(child) in self.others
                      and not any(child is other for other in below)]
        for node in above:
            fn, name = next(((parent, how) for parent, how in self.parents_of(id(node))
                            if is_a(parent, (FunctionType, type))), (None, ""))
            if fn is not None:
                names = (name, f" of {fn.__module__}" if name in getattr(fn, "__globals__", ())
                         else f" of {fn.__qualname__}")
                break
            above += [parent for parent, _ in self.parents_of(id(node)) if not any(parent is other for other in above)]
        where = "".join(names) if names[0] else f"a default or a captured variable{names[1]}"
        return f"{where}, a {type(x).__name__}, refers to {label or 'an object that the function captured'}"

    def leads(self, fn: Callable[..., Any], original: Any) -> bool:
        """Return whether a function leads to an original."""
        return fn is not original and id(fn) in self.above(original)

    def above(self, original: Any) -> set[int]:
        """Return the ids of the objects that lead to an original, with its own."""
        todo, seen = [original], {id(original)}
        for node in todo:
            for parent, _ in self.parents_of(id(node)):
                if id(parent) not in seen:
                    seen.add(id(parent))
                    todo.append(parent)
        return seen

    def is_users(self, x: Any) -> bool:
        """Return whether an object is of a user's class, a module or an optimizer."""
        return not self.is_foreign(class_of(x).__module__) or is_module(x) or is_optimizer(x)

    def can_hold(self, x: Any, marked: set[int]) -> bool:
        """Return whether an object can hand out copies after a replacement of its class: it reaches them by attributes.
        """
        if (is_a(x, (tuple, list, dict, set, frozenset, deque, FunctionType))
            or type(x).__flags__ & _REPLACEABLE != HEAP):
            return False
        return self.is_users(x) or any(id(part) in marked for part in (own_dict(x) or {}).values())

    def can_be_given(self, x: Any) -> bool:
        """Return whether a trace would copy an object that is an argument."""
        if is_a(x, FunctionType):
            return x.__closure__ is not None
        return (is_a(x, (dict, list, set, bytearray, deque, SimpleNamespace, CellType)) or is_memory(x)
                or (self.is_users(x) and not is_a(x, type)))

    def is_foreign(self, module: Any) -> bool:
        """Return whether a module belongs neither to the user nor to a package of the traced functions."""
        return is_foreign(module) and package_of(module) not in self.own

    def is_outer(self, fn: FunctionType) -> bool:
        """Return whether a function belongs to a library and is neither an argument nor a root."""
        return self.is_foreign(fn.__module__) and id(fn) not in self.known and id(fn) not in self.root_ids

    def children(self, node: Any) -> Iterator[tuple[Any, str]]:
        """Yield (child, name) for the objects that an object refers to, without those that have no references."""
        if is_a(node, FunctionType):
            found = self.of_foreign(_captured(node)) if self.is_outer(node) else self.of_function(node)
        elif is_a(node, type):
            found = _of_class(node)
        elif is_a(node, GeneratorType):
            found = _of_generator(node)
        elif is_a(node, ProxyTypes):
            found = iter([(node.__init__.__self__, "")])
        elif is_a(node, np.ndarray):
            found = ((part, "") for part in (node.flat if node.dtype == object else ()))
        elif is_a(node, (WeakKeyDictionary, WeakSet)):
            found = ((part, "") for part in [*node, *(node.values() if is_a(node, WeakKeyDictionary) else ())])
        elif is_a(node, ReferenceType):
            found = iter([(node(), "")])
        elif is_a(node, ContextVar):
            found = iter([(node.get(None), "")])
        elif is_a(node, np.ufunc):  # made by np.frompyfunc: its Python function
            found = self.of_foreign(gc.get_referents(node))
        elif type(node) is threading.local:
            found = ((part, "") for part in vars(node).values())
        elif is_a(node, (list, tuple, dict, set, frozenset, deque)) and len(node) > LARGE:
            parts, known = gc.get_referents(node), self.known
            if all(type(part) in _ATOMS for part in parts[:LARGE]):
                return
            found = iter([(part, "") for part in parts if id(part) in known])
        elif self.is_users(node) or type(node).__module__ in _OPENED:
            found = _of_object(node)
        else:  # named tuples in ops hold rules
            found = self.of_foreign(tuple.__iter__(node) if is_a(node, tuple) else
                                    list((own_dict(node) or {}).values()))
        for child, how in found:
            if self.stand_for is not None and is_table(child):
                yield child, how
                continue
            if type(child) is np.ndarray:
                self.read[id(child)] = child, how
                if child.dtype == object:
                    yield child, how
                    continue
            if (type(child) in self.atoms
                or not (gc.is_tracked(child) or id(child) in self.known or type(child) in self.untracked)):
                continue  # objects that the garbage collector does not track have no references
            if is_a(child, FunctionType):
                if self.is_outer(child) and not child.__closure__:
                    continue
            elif is_a(child, type):
                if self.is_foreign(child.__module__) and id(child) not in self.known:
                    continue
            elif (is_a(child, ModuleType)
                  or (is_a(child, BuiltinMethodType) and isinstance(child.__self__, (ModuleType, type)))):
                continue
            yield child, how

    def of_foreign(self, parts: Iterable[Any]) -> Iterator[tuple[Any, str]]:
        """Yield the parts of a library's object or function that it may call: a compiled function, an op's rules."""
        return ((part, "") for part in parts if id(part) in self.known or callable(part) or is_a(part, tuple))

    def of_function(self, fn: FunctionType) -> Iterator[tuple[Any, str]]:
        if fn in REGISTERED:  # a rule defined by the program
            yield DISPATCH.get(fn), ""
        namespace = fn.__globals__
        names, attributes, modules, _, _ = mentioned(code_of(fn))
        for name in names:
            if name in namespace:
                value = namespace[name]
                kind = type(value)
                if kind in self.atoms:
                    continue
                if kind is not ModuleType:
                    yield original(value), name
                elif value is gc and not SEARCHES.isdisjoint(attributes):
                    self.readers[id(fn)] = fn
                elif not self.is_foreign(value.__name__):
                    yield from self.of_module(value, attributes, fn)
            elif name in ("id", "hash"):
                self.readers[id(fn)] = fn
        if modules:
            self.reads(sys.modules, fn)
            for module in modules_of(modules, namespace):
                yield from self.of_module(module, attributes, fn)
        for cell in fn.__closure__ or ():
            if id(cell) in self.known:
                if id(fn) not in self.known:
                    yield cell, ""
            elif not is_empty(cell):
                held = cell.cell_contents
                yield from self.of_module(held, attributes, fn) if is_a(held, ModuleType) else [(held, "")]
        for value in fn.__defaults__ or ():
            yield value, ""
        for value in (fn.__kwdefaults__ or {}).values():
            yield value, ""
        for value in fn.__dict__.values():
            yield value, _OWN

    def reads(self, space: dict[str, Any], fn: FunctionType) -> None:
        """Note that a function reads a namespace other than its globals."""
        self.spaces.setdefault(id(space), (space, []))[1].append(fn)

    def of_module(self, module: ModuleType, attributes: frozenset[str], fn: FunctionType) -> Iterator[tuple[Any, str]]:
        """Yield the attributes of a user's module that a function mentions, also of modules inside it."""
        stack, seen = [module], {id(module)}
        while stack:
            top = stack.pop()
            if self.is_foreign(top.__name__):
                continue
            own = vars(top)
            self.reads(own, fn)
            for name in attributes & own.keys():
                value = original(own[name])
                if not isinstance(value, ModuleType):
                    yield value, f"{top.__name__}.{name}"
                elif id(value) not in seen:
                    seen.add(id(value))
                    stack.append(value)


def _of_class(cls: type) -> Iterator[tuple[Any, str]]:
    for base in (*cls.__mro__[1:], type(cls)):
        if base is not object and base is not type:
            yield base, ""
    for name, value in list(cls.__dict__.items()):
        if not isinstance(value, FunctionType) and name.startswith("__") and name.endswith("__"):
            continue  # annotations, slots, dataclass fields
        yield (value.value if type(value) is Attribute else value), name


def _of_generator(x: GeneratorType[Any, Any, Any]) -> Iterator[tuple[Any, str]]:
    """Yield the variables and globals of a suspended generator."""
    if (frame := x.gi_frame) is not None:
        yield from ((part, "") for part in frame.f_locals.values())
        yield from ((frame.f_globals[name], name) for name in mentioned(x.gi_code).names if name in frame.f_globals)


def _captured(fn: FunctionType) -> Iterator[Any]:
    return (cell.cell_contents for cell in fn.__closure__ or () if not is_empty(cell))


def _of_object(x: Any) -> Iterator[tuple[Any, str]]:
    """Yield the class, attributes and other references of an object."""
    yield class_of(x), ""
    own = own_dict(x)
    if own is not None:
        yield from ((value, name) for name, value in list(own.items()))
    for part in gc.get_referents(x):
        if part is not own and part is not type(x):
            yield part, ""


# -- replacements of what leads to originals


def substituted(x: Any, routes: ReferenceSearch, made: dict[int, Any]) -> Any:
    """Return a copy of an object that leads to originals, with their copies in it; `made` maps it before its parts,
    which may refer to it.
    """
    key = id(x)
    if key in made:
        return made[key]
    if key not in routes.others:
        return x
    cls = type(x)
    new: Any

    def part(value: Any) -> Any:
        return substituted(value, routes, made)
    if is_a(x, (list, deque, dict, set)):
        made[key] = new = copy(x)
        refill(x, new, part)
        if (own := own_dict(x)) is not None:
            vars(new).update({name: part(value) for name, value in own.items()})
    elif is_a(x, (tuple, frozenset)):
        base: Any = tuple if is_a(x, tuple) else frozenset
        made[key] = new = base.__new__(cls, map(part, x))
        if (own := own_dict(x)) is not None:
            vars(new).update({name: part(value) for name, value in own.items()})
    elif cls is FunctionType:
        made[key] = new = another(x)
        new.__qualname__ = x.__qualname__
        vars(new).update({name: part(value) for name, value in vars(x).items()})
    elif cls is SimpleNamespace:
        made[key] = new = SimpleNamespace()
        vars(new).update({name: part(value) for name, value in vars(x).items()})
    elif cls is functools.partial:
        made[key] = functools.partial(part(x.func), *map(part, x.args),
                                      **{name: part(value) for name, value in x.keywords.items()})
    elif is_a(x, MethodType):
        made[key] = MethodType(part(x.__func__), part(x.__self__))
    elif cls in WAYS:
        owner = part(owner_of(x))
        made[key] = owner if isinstance(owner, Refused) else rebound_to(x, owner)
    elif is_a(x, ReferenceType):
        made[key] = ReferenceType(part(x()))
    elif is_safe(x, routes, set()):
        made[key] = x
    else:
        made[key] = Refused(f"{routes.told(x)}; the traced program has a copy of that object, but would see the "
                            "original there",
                            "read it through the argument")
    return made[key]


def refill(x: Any, new: Any, part: Callable[[Any], Any]) -> None:
    """Fill container `new` with the items of `x`, each replaced by `part(item)`."""
    if is_a(x, dict):
        items = [(part(key), part(value)) for key, value in dict.items(x)]
        dict.clear(new)
        dict.update(new, items)
    else:
        parts = list(map(part, list.__iter__(x) if is_a(x, list) else x))
        new.clear()
        (new.extend if is_a(x, (list, deque)) else new.update)(parts)


def is_safe(x: Any, routes: ReferenceSearch, seen: set[int]) -> bool:
    """Return whether an object that cannot be copied leads only to objects that redirect by themselves."""
    if id(x) in routes.arrays:
        return True  # the same constant, read directly or by its proxy
    if id(x) in routes.known:
        return "_redirects_for" in type(x).__dict__ and not is_a(x, (dict, list))  # C code reads these directly
    if id(x) not in routes.others or id(x) in seen:
        return True
    seen.add(id(x))
    keyed = is_a(x, (dict, set, frozenset, WeakKeyDictionary, WeakSet)) and any(id(part) in routes.known for part in x)
    return not keyed and all(is_safe(child, routes, seen) for child, _ in routes.children(x))
