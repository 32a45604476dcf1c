"""imported_names: where a program has functions that are replaced while a trace runs: modules, and what holds
functions and stands in them.

Code is followed from name to name: from a function's globals to functions, classes, what it names of modules, and what
these name; into the Python code of libraries too. What is found of a function is kept until there are new modules, or
new names in its own. A C function that is missed refuses a traced value; a Python function that is missed asks
`type(x)` and `x is y` of the proxy.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import (
    CellType,
    CodeType,
    FunctionType,
    GenericAlias,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

from tapegrad.numbers.object_state import attributes, slots_of
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import PROXIES, Op, Traced, functions_of
from tapegrad.rules.registry import FOREIGN, GIVEN, THROUGH
from tapegrad.trace.bytecode import follows, places_of
from tapegrad.trace.conversions import Conversion, Conversions, conversion, merged
from tapegrad.trace.holders import FEW, forget, parts, replaced, replacement
from tapegrad.trace.interposition import original, stand_ins
from tapegrad.trace.wrapped_functions import given_function, is_compiled
from tapegrad.tree.attributes import HEAP, is_foreign
from tapegrad.tree.copies import CACHED, code_of, is_empty

MOST = 4000  # functions, classes and what holds them that are followed from one
KEPT = 4096
# libraries' Python code that is made of functions that tapegrad knows
FOLLOWED = ("scipy.", "numpy.testing.", "numpy.polynomial.", "numpy.ma.", "networkx.")
_PLAIN = (ORDINARY - {tuple}) | {str, bytes, type(None), GenericAlias}

Standing = list[tuple[dict[str, Any], str, Any]]
"""Namespaces of functions that were found, their names, and what stood there by that name."""

# by code: where its names led, what was found from there, where that stood, whether the function itself is converted
_found: dict[Any, tuple[list[int], tuple[Any, ...], Standing, bool]] = {}


def holders(fn: Callable[..., Any], args: Iterable[Any]) -> Sequence[Any]:
    """Return what holds such functions where a function, and what it may call, finds them, its own globals apart;
    objects among the arguments are of classes that it calls.
    """
    own = getattr(fn, "__globals__", None)
    bare = type(fn) is FunctionType and fn.__closure__ is None and fn.__defaults__ is None and fn.__kwdefaults__ is None
    if bare and not [x for x in args if type(x) not in PROXIES and type(x) not in _PLAIN]:
        return [holder for holder in _of(fn) if holder is not own]
    near: dict[int, Any] = {}
    roots = {id(root): root for root in _roots(fn, args, near)}  # many objects are of one class
    near.update((id(holder), holder) for root in roots.values() for holder in _of(root))
    near.pop(id(own), None)
    converted = [near.pop(id(holder)) for holder in [*near.values()]
                 if type(holder) is Conversions and len(holder.all) > 1]
    # first, while its functions have their own code
    return [*([merged(*converted)] if converted else ()), *near.values()]


def loaded() -> int:
    """Return how many modules there are that a program may have imported: not what tapegrad itself needs, which is
    imported when it is first needed.
    """
    count = len(sys.modules)
    if count != _loaded[0]:
        _loaded[:] = count, sum(name.partition(".")[0] not in _OWN for name in [*sys.modules])
    return _loaded[1]


_OWN = {"tapegrad", "optree", "typing_extensions"}
_loaded = [0, 0]  # modules, and those of programs


def _is_closed(module: Any) -> bool:
    """True for the name of a module whose code is not followed."""
    return _is_closed_name(str(module))


@functools.lru_cache(maxsize=KEPT)
def _is_closed_name(module: str) -> bool:
    return is_foreign(module) and not f"{module}.".startswith(FOLLOWED)


def _of(root: Any) -> tuple[Any, ...]:
    """Return the holders that a function or a class leads to; not what it has captured itself, which may be
    another's at the next call.
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
        found = [*_reached(root)]
        converted = [x for x in found if type(x) is Conversion]
        reached = *(x for x in found if type(x) is not Conversion), *([Conversions(converted)] if converted else ())
        converts = type(root) is FunctionType and conversion(root) is not None
        _found[key] = state, reached, _standing(converted), converts
    # functions of the same code are made anew, and each is given other code itself
    own = conversion(root) if converts else None
    return reached if own is None else (*reached, Conversions([own]))


def _standing(converted: Iterable[Conversion]) -> Standing:
    """Return where functions stand of which the code is another while a trace runs: a module that is loaded again, or
    changed, has others there.
    """
    return [(fn.__globals__, fn.__name__, original(fn.__globals__.get(fn.__name__))) for fn, _, _ in converted
            if fn.__qualname__ == fn.__name__]


def _roots(fn: Callable[..., Any], args: Iterable[Any], near: dict[int, Any]) -> list[Any]:
    """Return functions and classes to begin with: those that are called, captured or among the arguments; add
    holders among these to `near`.
    """
    # what computes with an op calls the rules of that
    stack, seen, roots = [fn, getattr(fn, "op", None), *args], set(), []
    while stack:
        x = original(stack.pop())
        kind = type(x)
        if kind in _PLAIN or issubclass(kind, Traced) or id(x) in seen:
            continue
        seen.add(id(x))
        if kind is FunctionType:
            # what it holds is its own, but for functions that it was given
            if _is_closed(x.__globals__.get("__name__")):
                stack += _given(x)
                continue
            roots.append(x)
            stack += x.__dict__.values()
            for value in captured_by(x).values():
                stack += [part for module in _modules(value) for part in _of_module(module, _names(x.__code__))]
            stack += [*(x.__closure__ or ()), *(x.__defaults__ or ()), x.__kwdefaults__]
        elif issubclass(kind, type):
            roots += [] if is_foreign(x.__module__) else [x]
            continue
        elif kind in _WITHIN:
            stack += _WITHIN[kind](x)
            continue
        elif kind is Op:
            roots.append(x)
            continue
        elif not issubclass(kind, (*_HOLDING, dict, list, tuple, deque)):
            if issubclass(kind, ModuleType):
                if not _is_closed(x.__name__) and replaced(vars(x)):
                    near[id(vars(x))] = vars(x)
            elif not is_foreign(kind.__module__):
                roots.append(kind)
                stack.append(attributes(x))
            else:
                stack.append((attributes(x) or {}).get("__wrapped__"))  # a compiled function's
            if issubclass(kind, ModuleType) or not slots_of(kind):
                continue
        if kind is dict and all(type(value) in PROXIES or type(value) in _PLAIN for value in x.values()):
            continue  # an object whose attributes are numbers
        if not issubclass(kind, tuple):
            if replaced_few(x):
                near[id(x)] = x
            stack += [x.keywords] if issubclass(kind, functools.partial) else ()
            stack += [value for _, value in parts(x)
                      if type(value) not in _PLAIN] if kind is not FunctionType and _is_small(x) else ()
        else:
            stack += tuple.__iter__(x) if _is_small(x) else ()
    return roots


_HOLDING = (FunctionType, CellType, functools.partial)
# what kinds of objects of Python's hold
_WITHIN: dict[type, Callable[[Any], Iterable[Any]]] = {
    MethodType: lambda x: [x.__func__, x.__self__], property: lambda x: [x.fget, x.fset],
    **dict.fromkeys((staticmethod, classmethod), lambda x: [x.__func__]), functools.cached_property: lambda x: [x.func],
    CACHED: lambda x: [x.__wrapped__], weakref.ref: lambda x: [x()], MappingProxyType: lambda x: [*x.values()][:FEW],
    **dict.fromkeys((set, frozenset), lambda x: x if len(x) <= FEW else ()),
    **dict.fromkeys((ChainMap, UserDict, UserList, SimpleNamespace, threading.local), lambda x: [vars(x)]),
}


def _is_small(x: Any) -> bool:
    for base in (dict, list, tuple, deque):
        if issubclass(type(x), base):
            return base.__len__(x) <= FEW  # what a class of the user's says of its length is not asked
    return True


def replaced_few(x: Any) -> bool:
    """True if something is to be replaced in a holder, if that is no large table of data."""
    return _is_small(x) and bool(replaced(x))


def _reached(root: Any) -> Iterator[Any]:
    """Yield the holders that code leads to, of those that hold something that is replaced."""
    stack: deque[Any] = deque([root])  # the nearest first, which are most likely called
    seen: set[int] = set(_interposed())
    while stack and len(seen) < MOST:
        x = stack.popleft()
        if type(x) in _PLAIN or id(x) in seen:
            continue
        x = original(x)
        kind = type(x)  # the user's objects are asked for nothing
        if id(x) in seen or kind in _PLAIN:
            continue
        seen.add(id(x))
        if kind is FunctionType:
            closed = _is_closed(x.__globals__.get("__name__"))
            if id(x.__globals__) not in seen and (not closed or x in THROUGH
                                                  or x.__qualname__.partition(".")[0] in _names_of_classes()):
                seen.add(id(x.__globals__))
                if replaced(x.__globals__):
                    yield x.__globals__
            if closed:  # what it holds is its own, but for functions that it was given
                stack += [*_given(x), x.__dict__.get("__wrapped__")]
            if closed or (x in FOREIGN and x is not root):  # what it means is tapegrad's
                continue
            if x is not root and (converts := conversion(x)) is not None:
                yield converts
            captured = captured_by(x)
            stack += _named(_names(code_of(x)), {**x.__globals__, **captured} if captured else x.__globals__)
            stack += captured.values()
            stack += _by_computed_names(code_of(x), x.__globals__)
            if x is not root:
                stack += [*(x.__closure__ or ()), *(x.__defaults__ or ()), x.__kwdefaults__, *x.__dict__.values()]
                if replaced(x):
                    yield x
        elif is_compiled(kind):
            stack.append(given_function(x))
        elif issubclass(kind, ModuleType):
            if id(vars(x)) not in seen and replaced(vars(x)):
                seen.add(id(vars(x)))
                yield vars(x)
        elif issubclass(kind, type):
            stack += [] if kind is type else [kind]
            if x in THROUGH:
                stack += [part for part in vars(x).values() if type(part) is FunctionType]
            elif not _is_closed(x.__module__):
                for base in x.__mro__:
                    if base is x or (base.__flags__ & HEAP and not _is_closed(base.__module__)
                                     and id(base) not in seen):
                        seen.add(id(base))
                        stack += vars(base).values()
                        if base.__flags__ & HEAP and replaced(base):
                            yield base
        elif issubclass(kind, (dict, list, deque, CellType, functools.partial)):
            if replaced_few(x):
                yield x
            stack += [value for _, value in parts(x) if _may_lead(value)] if _is_small(x) else ()
            if issubclass(kind, functools.partial):
                stack.append(x.keywords)
            stack.append(getattr(x, "default_factory", None) if issubclass(kind, dict) and is_foreign(kind.__module__)
                         else None)
        elif issubclass(kind, tuple):
            stack += [part for part in tuple.__iter__(x) if _may_lead(part)] if _is_small(x) else ()
        elif kind in _WITHIN:
            stack += _WITHIN[kind](x)
        elif kind is Op:
            stack += functions_of(x)
        elif kind.__flags__ & HEAP and not _is_closed(kind.__module__):
            stack.append(kind)
            stack.append(attributes(x))  # networkx keeps functions in objects, and in graphs
            if slots_of(kind) and replaced(x):
                yield x
        elif kind.__flags__ & HEAP:
            stack.append((attributes(x) or {}).get("__wrapped__"))  # a compiled function's


@functools.cache
def _names_of_classes() -> frozenset[str]:
    return frozenset(x.__name__ for x in THROUGH if isinstance(x, type))


@functools.cache
def _interposed() -> frozenset[int]:
    """Return the ids of modules, and of their namespaces, of which functions are replaced by other means."""
    return frozenset(place for module, _, _ in stand_ins() for place in (id(module), id(vars(module))))


_CONTAINERS = (dict, list, tuple, deque, staticmethod, classmethod)


def _may_lead(x: Any) -> bool:
    kind = type(x)
    return (callable(x) or issubclass(kind, _CONTAINERS)
            or bool(kind.__flags__ & HEAP and not _is_closed(kind.__module__)))


def _given(fn: FunctionType) -> Iterator[Any]:
    """Yield the functions that a library's function was given, by what it captured."""
    for value in captured_by(fn).values():
        yield from filter(callable, value.values() if type(value) is dict and len(value) <= FEW else (value,))


def captured_by(fn: FunctionType) -> dict[str, Any]:
    """Return what a function has captured, by its names for it."""
    return {} if fn.__closure__ is None else {
        name: cell.cell_contents for name, cell in zip(code_of(fn).co_freevars, fn.__closure__) if not is_empty(cell)}


def _named(names: frozenset[str], scope: dict[str, Any]) -> Iterator[Any]:
    """Yield what names lead to from where a function looks for them, attributes of modules that are
    named beside them included.
    """
    value: Any
    for value in map(scope.get, names, map(sys.modules.get, names)):
        if type(value) is FunctionType:
            yield value
        elif type(value) not in _PLAIN:
            for module in _modules(value):
                yield from _of_module(module, names)
            if not issubclass(type(value), ModuleType):
                yield value


def _modules(x: Any) -> list[ModuleType]:
    """Return a module, or those that an object holds, which may stand for one."""
    if issubclass(type(x), ModuleType):
        return [x]
    held = attributes(x) if type(x).__flags__ & HEAP and not issubclass(type(x), type) else None
    return [part for part in held.values() if issubclass(type(part), ModuleType)] if held and len(held) <= FEW else []


def _of_module(module: ModuleType, names: frozenset[str]) -> Iterator[Any]:
    """Yield a module, what is named of it, and of those in it that are named on the way."""
    stack, seen = [module], {id(module)}
    while stack:
        module = stack.pop()
        if not _is_closed(getattr(module, "__name__", "")):
            own = vars(module)
            found = [own[name] for name in names & own.keys()]
            inner = [part for part in found if issubclass(type(part), ModuleType) and id(part) not in seen
                     and str(part.__name__).startswith(f"{module.__name__.partition('.')[0]}.")]
            seen.update(map(id, inner))  # modules name each other
            stack += inner
            if any(replacement(part) is not part for part in found) and replaced(own):
                yield module
            yield from (part for part in found if not issubclass(type(part), ModuleType))


def _by_computed_names(code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
    """Yield what stands in modules that code asks for names that it computes: `getattr(module, name)`."""
    if "getattr" in code.co_names:
        for name, module in zip(code.co_names, map(scope.get, code.co_names)):
            if issubclass(type(module), ModuleType) and not _is_closed(getattr(module, "__name__", "")) and any(
                    follows(code, place, "getattr") for place in places_of(code, name)):
                yield from (module, *filter(_may_lead, vars(module).values()))
    for part in code.co_consts:
        if type(part) is CodeType:
            yield from _by_computed_names(part, scope)


def _names(code: CodeType) -> frozenset[str]:
    found = frozenset((*code.co_names, *code.co_freevars)).union(*[_names(part) for part in code.co_consts
                                                                   if type(part) is CodeType])
    return found if _BY_NAME.isdisjoint(found) else found.union(part for part in code.co_consts if type(part) is str)


_BY_NAME = frozenset(["__import__", "getattr", "globals", "vars", "attrgetter", "import_module", "methodcaller",
                      "modules"])
