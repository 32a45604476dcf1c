"""imported_names: where a program has functions that are replaced while a trace runs: modules, and what holds
functions and stands in them.

Code is followed from name to name: from a function's globals to functions, classes, what it names of modules, and what
these name; into the Python code of libraries too. What is found of a function is kept until there are new modules, or
new names in its own. A C function that is missed refuses a traced value; a Python function that is missed asks
`type(x)` and `x is y` of the proxy.
"""

from __future__ import annotations

import functools
import gc
import operator
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    GenericAlias,
    ModuleType,
)
from typing import Any

import numpy as np

from tapegrad.numbers.object_state import attributes
from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import PROXIES, Op, Traced, functions_of
from tapegrad.rules.registry import FOREIGN, GIVEN, THROUGH
from tapegrad.trace.bytecode import follows, places_of
from tapegrad.trace.conversions import Conversion, Conversions, check_waiting, conversion, merged
from tapegrad.trace.holders import FEW, forget, replaced, replacement
from tapegrad.trace.interposition import original, stand_ins
from tapegrad.trace.mentions import mentioned, modules_of
from tapegrad.trace.wrapped_functions import given_function, is_compiled
from tapegrad.tree.attributes import HEAP, is_foreign
from tapegrad.tree.copies import code_of, is_empty
from tapegrad.tree.installed import file_of, is_installed

MOST = 4000  # functions, classes and what holds them that are followed from one
KEPT = 4096
# libraries' Python code that is made of functions that tapegrad knows
FOLLOWED = ("scipy.", "numpy.testing.", "numpy.polynomial.", "numpy.ma.", "networkx.")
_PLAIN = (ORDINARY - {tuple, slice, np.ndarray}) | {bytes, GenericAlias, CodeType, FrameType}

Standing = list[tuple[dict[str, Any], str, Any]]
"""Namespaces of functions that were found, their names, and what stood there by that name."""

# by code: where its names led, what was found from there, where that stood, whether the function itself is converted
_found: dict[Any, tuple[list[int], tuple[Any, ...], Standing, bool]] = {}


def holders(fn: Any, args: Iterable[Any]) -> Sequence[Any]:
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


def _roots(fn: Any, args: Iterable[Any], near: dict[int, Any]) -> list[Any]:
    """Return functions, classes and modules to begin with: those that are called, captured or among the arguments; add
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
            modules = [module for value in captured_by(x).values() for module in _modules(value)]
            seen.update(map(id, modules))  # of which its code has the names
            stack += [part for module in modules for part in _of_module(module, _names(x.__code__))]
            stack += [*(x.__closure__ or ()), *(x.__defaults__ or ()), x.__kwdefaults__]
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
        elif kind is dict and _is_namespace(x):  # __loader__ leads to all that imports
            near.update({id(x): x} if replaced(x) else {})
        elif kind is dict and all(type(value) in PROXIES or type(value) in _PLAIN for value in x.values()):
            continue  # an object whose attributes are numbers
        else:
            if not issubclass(kind, tuple) and replaced_few(x):
                near[id(x)] = x
            if not is_foreign(kind.__module__):
                roots.append(kind)
            stack += _held(x)
    return roots


def _held(x: Any) -> Iterator[Any]:
    """Yield what a thing holds that is neither a function nor a class nor a module. Nothing of the program's is asked.
    """
    kind = type(x)
    if _is_closed(kind.__module__) and kind.__module__ not in _OPENED and not issubclass(kind, np.ndarray):
        yield (attributes(x) or {}).get("__wrapped__")  # a compiled function's
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
        # of the modules that a function captured its code has the names
        yield from _some([part for part in gc.get_referents(x) if part is not own and part is not kind and not (
            kind in _BESIDE_MODULES and issubclass(type(part), ModuleType))])


def _is_large_data(x: Any) -> bool:
    """True for a large container of nothing but numbers and texts."""
    base: Any = next(base for base in (dict, list, tuple, set, frozenset, deque) if issubclass(type(x), base))
    return base.__len__(x) > FEW and _PLAIN.issuperset(map(type, base.values(x) if base is dict else base.__iter__(x)))


def _some(values: list[Any]) -> Iterable[Any]:
    """Return functions and what may lead to some; of many things one of each class."""
    values = [part for part in values if type(part) not in _PLAIN]
    return values if len(values) <= FEW else {
        id(part) if type(part) is FunctionType else type(part): part for part in values}.values()


_BESIDE_MODULES = frozenset([CellType, BuiltinFunctionType])
# modules of Python's whose objects hold those of the program
_OPENED = frozenset(["builtins", "types", "functools", "_functools", "collections", "itertools", "weakref", "operator",
                     "queue", "_queue", "_contextvars", "contextvars", "_weakref", "_operator", "_thread", "enum",
                     "_weakrefset", "contextlib", "argparse", "dataclasses"])


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
    classes, below = list[Any](), False  # those found, and whether their subclasses are asked for
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
            stack += _named(code_of(x), x.__globals__, captured)
            if not below and "__subclasses__" in mentioned(code_of(x)).attributes:
                below = True
                stack += [each for cls in classes for each in type.__subclasses__(cls)]
            stack += [value for value in captured.values() if not issubclass(type(value), ModuleType)]
            stack += _by_computed_names(code_of(x), x.__globals__)
            if x is not root:
                stack += [*(x.__closure__ or ()), *(x.__defaults__ or ()), x.__kwdefaults__, *x.__dict__.values()]
                if replaced(x):
                    yield x
        elif is_compiled(kind):
            stack.append(given_function(x))
        elif issubclass(kind, ModuleType):  # which something holds, and may hand to any code
            stack += [] if is_installed(file_of(x)) else _of_module(x, frozenset(vars(x)))
        elif issubclass(kind, type):
            stack += [] if kind is type else [kind]
            classes.append(x)
            stack += type.__subclasses__(x) if below else []
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
        elif kind is Op:
            stack += functions_of(x)
        elif kind is dict and _is_namespace(x):
            if replaced(x):
                yield x
        elif kind is GeneratorType and not x.gi_running and x.gi_frame is not None:
            check_waiting(x, x.gi_frame.f_globals)
            stack += [*_held(x), *_named(x.gi_code, x.gi_frame.f_globals, {})]
        else:
            if not issubclass(kind, tuple) and replaced_few(x):
                yield x
            stack += [] if _is_closed(kind.__module__) else [kind]
            stack += _held(x)


@functools.cache
def _names_of_classes() -> frozenset[str]:
    return frozenset(x.__name__ for x in THROUGH if isinstance(x, type))


@functools.cache
def _interposed() -> frozenset[int]:
    """Return the ids of modules, and of their namespaces, of which functions are replaced by other means."""
    return frozenset(place for module, _, _ in stand_ins() for place in (id(module), id(vars(module))))


def _given(fn: FunctionType) -> Iterator[Any]:
    """Yield the functions that a library's function was given, by what it captured."""
    for value in captured_by(fn).values():
        yield from filter(callable, value.values() if type(value) is dict and len(value) <= FEW else (value,))


def captured_by(fn: FunctionType) -> dict[str, Any]:
    """Return what a function has captured, by its names for it."""
    return {} if fn.__closure__ is None else {
        name: cell.cell_contents for name, cell in zip(code_of(fn).co_freevars, fn.__closure__) if not is_empty(cell)}


def _named(code: CodeType, scope: dict[str, Any], captured: dict[str, Any]) -> Iterator[Any]:
    """Yield what the names in code lead to, attributes of modules that are named beside them included: of modules of
    the program's all, where it computes names.
    """
    mention, names = mentioned(code), _names(code)
    values: list[Any] = [*map(scope.get, names), *modules_of(mention.modules, scope), *captured.values()]
    names = names.union(*[_asked(value) for value in values if type(value) in _ASKING])
    whole = not _COMPUTING.isdisjoint(names) and not is_installed(code.co_filename)
    if whole:
        values += [*scope.values(), *(_of_package(scope) if "modules" in names or "__import__" in names else ())]
    for value in values:
        if type(value) is FunctionType:
            yield value
        elif type(value) not in _PLAIN:
            for module in _modules(value):
                yield from _of_module(module, frozenset(vars(module)) if whole and not is_installed(file_of(module))
                                      else names)
            if not issubclass(type(value), ModuleType):
                yield value


_COMPUTING = frozenset(["globals", "vars", "__dict__", "eval", "exec", "modules", "__import__"])
_ASKING = (operator.attrgetter, operator.methodcaller)


def _asked(asks: Any) -> list[str]:
    """Return the names that an object of `attrgetter` or `methodcaller` asks for."""
    return [part for text in asks.__reduce__()[1] if type(text) is str for part in text.split(".")]


def _of_package(scope: dict[str, Any]) -> list[ModuleType]:
    """Return the modules that are loaded of a namespace's package; those of no package, for one that is in none."""
    package = str(scope.get("__name__")).partition(".")[0]
    return [module for name, module in [*sys.modules.items()] if issubclass(type(module), ModuleType)
            and name.partition(".")[0] == package]


def _is_namespace(x: dict[Any, Any]) -> bool:
    """True for a dict that a module has its names in."""
    return "__builtins__" in x and (attributes(sys.modules.get(str(x.get("__name__")))) is x)


def _modules(x: Any) -> list[ModuleType]:
    """Return a module, or those that an object holds, which may stand for one."""
    if issubclass(type(x), ModuleType):
        return [x]
    held = attributes(x) if type(x).__flags__ & HEAP and not issubclass(type(x), type) else None
    return [part for part in held.values() if issubclass(type(part), ModuleType)] if held and len(held) <= FEW else []


def _of_module(module: ModuleType, names: frozenset[str]) -> Iterator[Any]:
    """Yield a module's namespace, what is named of it, and of those in it that are named on the way."""
    stack, seen = [module], {id(module)}
    while stack:
        module = stack.pop()
        if not _is_closed(getattr(module, "__name__", "")):
            own = vars(module)
            found = [own[name] for name in (names | _LAZY) & own.keys()]
            inner = [part for part in found if issubclass(type(part), ModuleType) and id(part) not in seen
                     and str(part.__name__).startswith(f"{module.__name__.partition('.')[0]}.")]
            seen.update(map(id, inner))  # modules name each other
            stack += inner
            if any(replacement(part) is not part for part in found) and replaced(own):
                yield own
            yield from (part for part in found if not issubclass(type(part), ModuleType))


def _by_computed_names(code: CodeType, scope: dict[str, Any]) -> Iterator[Any]:
    """Yield what stands in modules that code asks for names that it computes: `getattr(module, name)`."""
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


_LAZY = frozenset(["__getattr__"])  # by which a module loads what it lacks


def _names(code: CodeType) -> frozenset[str]:
    """Return the names of globals, attributes and captured variables in code, and the texts that may be some."""
    names, attributes, _, _ = mentioned(code)
    return names | attributes
