"""replaceable_names: finds where a program holds functions that a trace replaces: modules, and containers of functions.

Code is followed from name to name: from a function's globals to functions, classes and the attributes it names of
modules, and on from these, into the Python code of libraries too. The result for each function is cached until a module
is imported or its globals change. A missed C function refuses a traced value; a missed Python function applies
`type(x)` and `x is y` to the proxy itself.
"""

from __future__ import annotations

import functools
import gc
import operator
import sys
import threading
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from itertools import repeat
from operator import itemgetter
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    GenericAlias,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from tapegrad.numbers.object_state import attributes
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import PROXIES, Op, Traced, functions_of
from tapegrad.rules.registry import DISPATCH, GIVEN, TRACED_THROUGH
from tapegrad.trace.bytecode import ASKING, follows, places_of, taken_of
from tapegrad.trace.code_mentions import mentioned, modules_of
from tapegrad.trace.conversions import Conversion, Conversions, check_waiting, conversion, merged
from tapegrad.trace.holders import FEW, forget, replaced, replacement
from tapegrad.trace.interposition import original, stand_ins
from tapegrad.trace.wrapped_functions import given_function, is_compiled
from tapegrad.tree.attributes import HEAP, is_foreign
from tapegrad.tree.copies import code_of, is_empty
from tapegrad.tree.flatten import Walk
from tapegrad.tree.installed import file_of, is_installed

MOST = 4000  # functions, classes and containers followed from one root
KEPT = 4096
# libraries written in Python on top of functions that tapegrad knows
FOLLOWED = ("scipy.", "numpy.testing.", "numpy.polynomial.", "numpy.ma.", "networkx.")
_PLAIN = (ORDINARY - {tuple, slice, np.ndarray}) | {bytes, GenericAlias, CodeType, FrameType}

Standing = list[tuple[dict[str, Any], str, Any]]
"""(namespace, name, value) for each converted function that was found there."""

# by code: (the state it was found in, the holders found, where converted functions stood, is it converted itself)
_found: dict[Any, tuple[list[int], tuple[Any, ...], Standing, bool]] = {}


def holders(fn: Any, args: Sequence[Any], walks: Sequence[Walk] = ()) -> Sequence[Any]:
    """Return the holders of replaceable functions that a function and its callees reach, without its own globals;
    `args` contributes the classes of objects, whose methods may be called. `walks` flattened `fn` and `args`, if given.
    """
    own = getattr(fn, "__globals__", None)
    bare = type(fn) is FunctionType and fn.__closure__ is None and fn.__defaults__ is None and fn.__kwdefaults__ is None
    if bare and not [x for x in args if type(x) not in PROXIES and type(x) not in _PLAIN]:
        return [holder for holder in _of(fn) if holder is not own]
    near: dict[int, Any] = {}
    alone: set[int] = set()
    op = getattr(fn.__func__ if type(fn) is MethodType else fn, "op", None)  # calling an op runs its rules
    stack = [] if op is None else [op]
    for x, walk in zip((fn, *args), walks if len(walks) > len(args) else repeat(None)):
        if walk is None or not walk.data:
            stack.append(x)
            continue
        stack += walk.classes
        if type(code := x.__func__ if type(x) is MethodType else x) is FunctionType:
            stack.append(code)
            alone.add(id(code))
    roots = {id(root): root for root in _roots(stack, near, alone)}  # many objects share a class
    edges: dict[int, tuple[Any, _Edges]] = {}  # roots of one package lead to the same
    near.update((id(holder), holder) for root in roots.values() for holder in _of(root, edges))
    near.pop(id(own), None)
    converted = [near.pop(id(holder)) for holder in [*near.values()]
                 if type(holder) is Conversions and len(holder.all) > 1]
    # first, while its functions still have their own code
    return [*([merged(*converted)] if converted else ()), *near.values()]


def loaded() -> int:
    """Return the number of loaded modules, without those that tapegrad imports on demand."""
    count = len(sys.modules)
    if count != _loaded[0]:
        _loaded[:] = count, sum(name.partition(".")[0] not in _OWN for name in [*sys.modules])
    return _loaded[1]


_OWN = {"tapegrad", "optree", "typing_extensions"}
_loaded = [0, 0]  # the number of modules, and of those outside tapegrad


def _is_closed(module: Any) -> bool:
    """Return whether the code of a module is not followed."""
    return _is_closed_name(str(module))


@functools.lru_cache(maxsize=KEPT)
def _is_closed_name(module: str) -> bool:
    return is_foreign(module) and not f"{module}.".startswith(FOLLOWED)


def _of(root: Any, edges: dict[int, tuple[Any, _Edges]] | None = None) -> tuple[Any, ...]:
    """Return the holders that a function or class leads to, without its captures, which may differ in the next call.
    `edges` holds, by id, the objects that other roots led to.
    """
    key: Any = root
    state = [loaded(), len(GIVEN)]
    if type(root) is FunctionType:
        key, names = (root.__code__, id(root.__globals__)), root.__globals__
        state += [len(names), *map(id, map(names.get, root.__code__.co_names))]
    known, reached, standing, converts = _found.get(key, ([], (), [], False))
    if known != state or any(original(scope.get(name)) is not then for scope, name, then in standing):
        if len(_found) >= KEPT:
            _found.clear()
        if known and type(root) is FunctionType and any(
                id(value := names.get(name)) != then and callable(value)
                for name, then in zip(root.__code__.co_names, known[3:])):
            forget(names)
        found = [*_reached(root, {} if edges is None else edges)]
        converted = [x for x in found if type(x) is Conversion]
        reached = *(x for x in found if type(x) is not Conversion), *([Conversions(converted)] if converted else ())
        converts = type(root) is FunctionType and conversion(root) is not None
        _found[key] = state, reached, _standing(converted), converts
    # functions with the same code share an entry, but each needs its own conversion
    own = conversion(root) if converts else None
    return reached if own is None else (*reached, Conversions([own]))


def _standing(converted: Iterable[Conversion]) -> Standing:
    """Return the places of converted functions, to notice a reloaded or modified module."""
    return [(fn.__globals__, fn.__name__, original(fn.__globals__.get(fn.__name__))) for fn, _, _ in converted
            if fn.__qualname__ == fn.__name__]


def _roots(stack: list[Any], near: dict[int, Any], alone: Collection[int]) -> list[Any]:
    """Return the functions, classes and modules called, captured or among the arguments; add their holders to `near`.
    Functions whose id is in `alone` captured no functions.
    """
    seen, roots = set(), []
    while stack:
        x = original(stack.pop())
        kind = type(x)
        if kind in _PLAIN or issubclass(kind, Traced) or id(x) in seen:
            continue
        seen.add(id(x))
        if kind is FunctionType:
            # a library's function uses only its own names, except for functions it was given
            if _is_closed(x.__globals__.get("__name__")):
                stack += _given(x)
                continue
            roots.append(x)
            stack += x.__dict__.values()
            if id(x) not in alone and x.__closure__ is not None:
                modules = [module for value in captured_by(x).values() for module in _modules(value)]
                seen.update(map(id, modules))  # the code has the names of their attributes
                stack += [part for module in modules for part in _of_module(module, _names(x.__code__))]
                stack += x.__closure__
            if x.__kwdefaults__ is not None:
                stack.append(x.__kwdefaults__)
            if x.__defaults__ is not None:
                stack += x.__defaults__
                if replaced_few(x):
                    near[id(x)] = x
        elif issubclass(kind, type):
            roots += [] if is_foreign(x.__module__) else [x]
        elif issubclass(kind, ModuleType):
            if not _is_closed(x.__name__):
                near.update({id(vars(x)): vars(x)} if replaced(vars(x)) else {})
                roots += [] if is_installed(file_of(x)) else [x]
        elif kind is Op:
            roots.append(x)
        elif kind is GeneratorType and not x.gi_running and x.gi_frame is not None:
            check_waiting(x, x.gi_frame.f_globals)
            stack += _held(x)
        elif kind is dict and _is_namespace(x):  # __loader__ leads to all that imports
            near.update({id(x): x} if replaced(x) else {})
        elif kind is dict and all(type(value) in PROXIES or type(value) in _PLAIN for value in x.values()):
            continue  # an object with numbers as attributes only
        else:
            if not issubclass(kind, tuple) and replaced_few(x):
                near[id(x)] = x
            if not is_foreign(kind.__module__):
                roots.append(kind)
            stack += _held(x)
    return roots


def _held(x: Any) -> Iterator[Any]:
    """Yield the references of an object that is no function, class or module, without running the program's code."""
    kind = type(x)
    if _is_closed(kind.__module__) and kind.__module__ not in _OPENED and not issubclass(kind, np.ndarray):
        yield (attributes(x) or {}).get("__wrapped__")  # the function inside a compiled one
    elif issubclass(kind, np.ndarray):
        yield from _some(np.ndarray.tolist(x)) if x.dtype == object else ()
    elif issubclass(kind, weakref.ref):
        yield weakref.ref.__call__(x)
    elif kind is ContextVar:
        yield from (x.get(None), *gc.get_referents(x))
    elif issubclass(kind, weakref.ProxyTypes):
        yield x.__init__.__self__
    elif kind is threading.local:
        yield vars(x)
    elif not issubclass(kind, (dict, list, tuple, set, frozenset, deque)) or not _is_large_data(x):
        own = attributes(x)
        yield own
        # the code has the names of a captured module's attributes
        yield from _some([part for part in gc.get_referents(x) if part is not own and part is not kind and not (
            kind in _BESIDE_MODULES and issubclass(type(part), ModuleType))])


def _is_large_data(x: Any) -> bool:
    """Return whether a container is large and holds only numbers and texts."""
    base: Any = next(base for base in (dict, list, tuple, set, frozenset, deque) if issubclass(type(x), base))
    return base.__len__(x) > FEW and _PLAIN.issuperset(map(type, base.values(x) if base is dict else base.__iter__(x)))


def _some(values: list[Any]) -> Iterable[Any]:
    """Return values that are or may lead to functions; of many, one per class."""
    values = [part for part in values if type(part) not in _PLAIN]
    return values if len(values) <= FEW else {
        id(part) if type(part) is FunctionType else type(part): part for part in values}.values()


_BESIDE_MODULES = frozenset([CellType, BuiltinFunctionType])
# modules of Python whose objects hold objects of the program
_OPENED = frozenset(["builtins", "types", "functools", "_functools", "collections", "itertools", "weakref", "operator",
                     "queue", "_queue", "_contextvars", "contextvars", "_weakref", "_operator", "_thread", "enum",
                     "_weakrefset", "contextlib", "argparse", "dataclasses"])


def _is_small(x: Any) -> bool:
    for base in (dict, list, tuple, deque):
        if issubclass(type(x), base):
            return base.__len__(x) <= FEW  # not the user's `__len__`
    return True


def replaced_few(x: Any) -> bool:
    """Return whether a holder has anything to replace, unless it is a large table of data."""
    return _is_small(x) and bool(replaced(x))


class _Edges(NamedTuple):
    """Where an object leads: holders that hold something to replace, functions' conversions, objects to follow."""

    holders: list[Any]
    parts: list[Any]


def _reached(root: Any, edges: dict[int, tuple[Any, _Edges]]) -> Iterator[Any]:
    """Yield the holders that code leads to and that hold something to replace, and the functions' conversions."""
    stack: deque[Any] = deque([root])  # nearest first: these are most likely called
    seen, given = set(_interposed()), set[int]()
    classes, below = list[Any](), False  # the classes found, and whether code looks up their subclasses
    while stack and len(seen) < MOST:
        x = stack.popleft()
        if id(x) in seen:
            continue
        x = original(x)
        kind = type(x)  # objects of the user are not accessed
        if id(x) in seen or kind in _PLAIN:
            continue
        seen.add(id(x))
        known = edges.get(id(x))
        if x is root:
            known = x, _edges_of(x, True)
        elif known is None:
            known = edges[id(x)] = x, _edges_of(x, False)
        for holder in known[1].holders:
            if id(holder) not in given:
                given.add(id(holder))
                yield holder
        stack += known[1].parts
        if issubclass(kind, type):
            classes.append(x)
            stack += type.__subclasses__(x) if below else []
        elif kind is FunctionType and not below and "__subclasses__" in mentioned(code_of(x)).attributes:
            below = True
            stack += [each for cls in classes for each in type.__subclasses__(cls)]


def _edges_of(x: Any, is_root: bool) -> _Edges:
    """Return where an object leads; `is_root` leaves out what a function has captured, its defaults and attributes."""
    found, parts = list[Any](), list[Any]()
    kind = type(x)
    if kind is FunctionType:
        closed = _is_closed(x.__globals__.get("__name__"))
        if (not closed or x in TRACED_THROUGH or x.__qualname__.partition(".")[0] in _names_of_classes()) \
                and replaced(x.__globals__):
            found.append(x.__globals__)
        if closed:  # it uses only its own names, except for functions it was given
            parts += [*_given(x), x.__dict__.get("__wrapped__")]
        elif x not in DISPATCH or is_root:  # else it is replaced as a whole
            parts += [*_named(code_of(x), x.__globals__, captured_by(x)),
                      *_by_computed_names(code_of(x), x.__globals__)]
            if not is_root:
                found += filter(None, [conversion(x), x if replaced(x) else None])
                parts += [*(x.__closure__ or ()), *(x.__defaults__ or ()), x.__kwdefaults__, *x.__dict__.values()]
    elif is_compiled(kind):
        parts.append(given_function(x))
    elif issubclass(kind, ModuleType):  # stored in an object, so any code may get it
        parts += [] if is_installed(file_of(x)) else _of_module(x, frozenset(vars(x)))
    elif issubclass(kind, type):
        parts += [] if kind is type else [kind]
        if x in TRACED_THROUGH:
            parts += [part for part in vars(x).values() if type(part) is FunctionType]
        elif not _is_closed(x.__module__):
            parts += vars(x).values()
            parts += [base for base in x.__mro__[1:] if base.__flags__ & HEAP and not _is_closed(base.__module__)]
            found += [x] if x.__flags__ & HEAP and replaced(x) else []
    elif kind is Op:
        parts += functions_of(x)
    elif kind is dict and _is_namespace(x):
        found += [x] if replaced(x) else []
    elif kind is GeneratorType and not x.gi_running and x.gi_frame is not None:
        check_waiting(x, x.gi_frame.f_globals)
        parts += [*_held(x), *_named(x.gi_code, x.gi_frame.f_globals, {})]
    else:
        found += [x] if not issubclass(kind, tuple) and replaced_few(x) else []
        parts += [] if _is_closed(kind.__module__) else [kind]
        parts += _held(x)
    return _Edges(found, [*{id(part): part for part in parts if type(part) not in _PLAIN}.values()])


@functools.cache
def _names_of_classes() -> frozenset[str]:
    return frozenset(x.__name__ for x in TRACED_THROUGH if isinstance(x, type))


@functools.cache
def _interposed() -> frozenset[int]:
    """Return the ids of modules whose functions are replaced by other means, and of their namespaces."""
    return frozenset(place for module, _, _ in stand_ins() for place in (id(module), id(vars(module))))


def _given(fn: FunctionType) -> Iterator[Any]:
    """Yield the functions among a library function's captures."""
    for value in captured_by(fn).values():
        yield from filter(callable, value.values() if type(value) is dict and len(value) <= FEW else (value,))


def captured_by(fn: FunctionType) -> dict[str, Any]:
    """Return a function's captured values by name."""
    return {} if fn.__closure__ is None else {
        name: cell.cell_contents for name, cell in zip(code_of(fn).co_freevars, fn.__closure__) if not is_empty(cell)}


def _named(code: CodeType, scope: dict[str, Any], captured: dict[str, Any]) -> Iterator[Any]:
    """Yield the values of the names in code, including attributes of modules that are named beside them; all attributes
    of the program's modules if the code computes names.
    """
    mention, names = mentioned(code), _names(code)
    # a class that code only tests for makes no object there; its metaclass may answer the test
    asked = mention.kinds if scope.keys().isdisjoint(ASKING) else frozenset()
    names -= asked
    scoped: list[tuple[str, Any]] = [*zip(names, map(scope.get, names))]
    values = [*modules_of(mention.modules, scope), *captured.values()]
    names = names.union(*[_asked(value) for value in (*map(itemgetter(1), scoped), *values) if type(value) in _ASKING])
    computes = not _COMPUTING.isdisjoint(names)
    whole = computes and not is_installed(code.co_filename)
    if whole:
        values += [*scope.values(), *(_of_package(scope) if "modules" in names or "__import__" in names else ())]
    yield from map(_metaclass, map(scope.get, asked))
    for name, value in (*scoped, *zip(repeat(""), values)):
        if type(value) is FunctionType:
            yield value
        elif type(value) not in _PLAIN:
            for module in _modules(value):
                taken = taken_of(code, name) if name and not (computes or module is not value or _is_closed(
                    getattr(module, "__name__", ""))) else None
                yield from _of_module(module, frozenset(vars(module)) if whole and not is_installed(file_of(module))
                                      else names if taken is None else names & taken)
                yield from map(_metaclass, _of_module(module, asked) if asked else ())
                if taken is None and module is value and not is_installed(file_of(module)):
                    yield module  # passed on as a value: other code may read any of its attributes
            if not issubclass(type(value), ModuleType):
                yield value


def _metaclass(x: Any) -> Any:
    return type(x) if issubclass(type(x), type) else None


_COMPUTING = frozenset(["globals", "vars", "__dict__", "eval", "exec", "modules", "__import__"])
_ASKING = (operator.attrgetter, operator.methodcaller)


def _asked(asks: Any) -> list[str]:
    """Return the names that an `attrgetter` or `methodcaller` looks up."""
    return [part for text in asks.__reduce__()[1] if type(text) is str for part in text.split(".")]


def _of_package(scope: dict[str, Any]) -> list[ModuleType]:
    """Return the loaded modules of a namespace's package."""
    package = str(scope.get("__name__")).partition(".")[0]
    return [module for name, module in [*sys.modules.items()] if issubclass(type(module), ModuleType)
            and name.partition(".")[0] == package]


def _is_namespace(x: dict[Any, Any]) -> bool:
    """Return whether a dict is the namespace of a loaded module."""
    return "__builtins__" in x and (attributes(sys.modules.get(str(x.get("__name__")))) is x)


def _modules(x: Any) -> list[ModuleType]:
    """Return [x] for a module; for an object, which may stand for a module, the modules among its attributes."""
    if issubclass(type(x), ModuleType):
        return [x]
    held = attributes(x) if type(x).__flags__ & HEAP and not issubclass(type(x), type) else None
    return [part for part in held.values() if issubclass(type(part), ModuleType)] if held and len(held) <= FEW else []


def _of_module(module: ModuleType, names: frozenset[str]) -> Iterator[Any]:
    """Yield a module's namespace, its attributes with these names, and those of submodules among them."""
    stack, seen = [module], {id(module)}
    while stack:
        module = stack.pop()
        if not _is_closed(getattr(module, "__name__", "")):
            own = vars(module)
            found = [own[name] for name in ((names | _LAZY) & own.keys()) - _IMPORTER]
            inner = [part for part in found if issubclass(type(part), ModuleType) and id(part) not in seen
                     and str(part.__name__).startswith(f"{module.__name__.partition('.')[0]}.")]
            seen.update(map(id, inner))  # modules refer to each other
            stack += inner
            if any(replacement(part) is not part for part in found) and replaced(own):
                yield own
            yield from (part for part in found if not issubclass(type(part), ModuleType))


def _by_computed_names(code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
    """Yield the contents of modules in which code looks up computed names: `getattr(module, name)`."""
    if "getattr" in code.co_names:
        for name, module in zip(code.co_names, map(scope.get, code.co_names)):
            if issubclass(type(module), ModuleType) and not _is_closed(getattr(module, "__name__", "")) and any(
                    follows(code, place, "getattr") for place in places_of(code, name)):
                yield module
                yield from [part for part in vars(module).values()
                            if type(part) not in _PLAIN and not issubclass(type(part), ModuleType)]
    for part in code.co_consts:
        if type(part) is CodeType:
            yield from _by_computed_names(part, scope)


_IMPORTER = frozenset(["__loader__", "__spec__"])  # they lead to whatever imports modules
_LAZY = frozenset(["__getattr__"])  # a module's hook for lazy attributes


def _names(code: CodeType) -> frozenset[str]:
    """Return the names of globals, attributes and captured variables in code, and its strings that may be names."""
    mention = mentioned(code)
    return mention.names | mention.attributes
