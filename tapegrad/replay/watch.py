"""watch: what a function read besides its arguments, and whether that is still the same.

A compiled tape holds the values of globals, defaults and class attributes as constants. They are looked at again at every call: a number or
a string by identity, an array by its content, a list, dict or object by what is in it.
"""

from __future__ import annotations

import dis
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.alike import alike
from tapegrad.interpose import original
from tapegrad.lazy import torch
from tapegrad.parts import Static
from tapegrad.tensors import is_tensor
from tapegrad.tree import FOREIGN_PACKAGES, Signature, flatten, is_empty


class _Missing:
    """What there is under a name that is not bound."""


_BY_NAME = frozenset(["getattr", "vars", "globals", "__dict__", "modules", "import_module", "__import__", "attrgetter", "eval", "exec"])
_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.generic, np.dtype)
_NAMED = (FunctionType, BuiltinFunctionType, np.ufunc, type, ModuleType)
_FIXED = (*_PLAIN, *_NAMED)  # another one is another object


def watch(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], structure: Signature) -> Callable[[], bool] | None:
    """Return a function that says whether what `f` and the functions it can reach read is unchanged; None if they read nothing.

    What `f` captured itself is among the inputs, and so may change. Followed are the names that a function's code mentions:
    globals, attributes of the user's modules and classes, defaults, captured variables of the functions it calls; and what it reads by a
    name that is written down as a string. Foreign packages are left out.
    """
    seen: set[int] = set()
    checks: list[Callable[[], bool]] = []
    places: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]] = {}
    inputs = {key for part in (structure.function, *structure.args, *structure.kwargs.values()) for key in part.seen}
    classes: list[Mapping[str, Any]] = []
    for fn in _reached([f, *args, *kwargs.values()], places, classes):
        if id(fn.__code__) in seen:
            continue
        seen.add(id(fn.__code__))
        checks.append(_same_function(fn, captured=id(fn) not in inputs))
    quick = [(scope, name, value) for scope, name, value in places.values() if isinstance(value, _FIXED)]
    slow = [_unchanged(scope, name, value) for scope, name, value in places.values() if not isinstance(value, _FIXED)]
    code = [check for check in checks if check is not _always]
    sizes = [(scope, len(scope)) for scope in classes]  # a new attribute may be found by a name that nothing was found by
    if not quick and not slow and not code and not sizes:
        return None

    def fresh() -> bool:
        for scope, name, value in quick:
            found = scope.get(name, _Missing)
            if found is not value and not _equal(found, value) and original(found) is not value:
                return False
        for scope, size in sizes:
            if len(scope) != size:
                return False
        for check in code:
            if not check():
                return False
        return all(check() for check in slow)
    return fresh


def _reached(roots: list[Any], places: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]],
             classes: list[Mapping[str, Any]]) -> Iterator[FunctionType]:
    """Yield the user's functions that can be reached from a function and the classes of its arguments; note the names they read, and the classes."""
    stack = roots
    known: set[int] = set()
    keep: list[Any] = []  # what is known by its id must live
    while stack:
        thing = stack.pop()
        if id(thing) in known:
            continue
        known.add(id(thing))
        keep.append(thing)
        if isinstance(thing, functools.partial):
            stack += [thing.func, *thing.args, *thing.keywords.values()]
        elif isinstance(thing, MethodType):
            stack += [thing.__func__, thing.__self__]
        elif isinstance(thing, FunctionType):
            if _is_foreign(thing.__module__):
                continue
            yield thing
            names = _names(thing.__code__)
            for scope in (thing.__globals__, *map(vars, _modules(thing, names))):
                stack += _note(scope, names, names, places)
            for name in _global_names(thing.__code__) - thing.__globals__.keys():
                places[id(thing.__globals__), name] = (thing.__globals__, name, _Missing)  # a builtin, which may be hidden later
            stack += [cell.cell_contents for cell in thing.__closure__ or () if not is_empty(cell)]
            stack += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
            own = frozenset(thing.__dict__)
            stack += _note(thing.__dict__, own, own, places)
            if hasattr(thing, "__wrapped__"):
                stack.append(thing.__wrapped__)
        elif isinstance(thing, type):
            if not _is_foreign(thing.__module__):
                classes.append(vars(thing))
                data = frozenset(name for name, part in vars(thing).items() if not (name.startswith("__") or hasattr(type(part), "__get__")))
                stack += [type(thing), *thing.__mro__[1:], *map(_function, vars(thing).values()), *_note(vars(thing), data, data, places)]
        elif isinstance(thing, (list, tuple, set, frozenset, dict)):
            stack += thing.values() if isinstance(thing, dict) else thing
        elif not isinstance(thing, (*_PLAIN, np.ndarray, ModuleType)):
            stack.append(type(thing))
            stack += getattr(thing, "__dict__", {}).values() if not _is_foreign(type(thing).__module__) else ()


def _note(scope: Mapping[str, Any], names: frozenset[str], all_names: frozenset[str],
          places: dict[tuple[int, str], tuple[Mapping[str, Any], str, Any]]) -> list[Any]:
    """Note the names that a scope holds, and return what may lead on."""
    leads = []
    for name in names:
        if name not in scope or (id(scope), name) in places:
            continue
        value = original(scope[name])
        places[id(scope), name] = (scope, name, value)
        if isinstance(value, _NAMED) and _is_foreign(getattr(value, "__name__" if isinstance(value, ModuleType) else "__module__", None) or ""):
            continue
        if isinstance(value, (type, ModuleType)):
            leads += _note(vars(value), all_names, all_names, places)
        leads.append(value)
    return leads


def _modules(fn: FunctionType, names: frozenset[str]) -> list[ModuleType]:
    """Return the user's modules that a function imports itself, or names in a string: those of its names that are modules'."""
    package = fn.__globals__.get("__package__")
    found = [sys.modules.get(full) for name in names for full in (name, f"{package}.{name}")]
    return [module for module in found if isinstance(module, ModuleType) and not _is_foreign(module.__name__)]


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str]:
    """Return the names that a code object, and those inside it, mention: where it reads by name, `getattr(module, "rate")`, its strings too."""
    return frozenset([*code.co_names, *_strings(code)]).union(*map(_names, _inner(code)))


@functools.lru_cache(maxsize=1024)
def _global_names(code: CodeType) -> frozenset[str]:
    """Return those of the names that are no attributes'."""
    read = [step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return frozenset([*read, *_strings(code)]).union(*map(_global_names, _inner(code)))


def _inner(code: CodeType) -> list[CodeType]:
    return [part for part in code.co_consts if isinstance(part, CodeType)]


def _strings(code: CodeType) -> list[str]:
    """Return the names in the strings of a code object that reads by name."""
    strings = [part for part in code.co_consts if type(part) is str] if _BY_NAME.intersection(code.co_names) else []
    return [name for part in strings for name in re.findall(r"\w+", part)]


def _function(part: Any) -> Any:
    """Return the function behind a class's property, static or class method."""
    return getattr(part, "fget", None) or getattr(part, "__func__", part)


def _is_foreign(module: Any) -> bool:
    return str(module).partition(".")[0] in FOREIGN_PACKAGES and not str(module).startswith("__main__")


# -- is it the same?


def _always() -> bool:
    return True


def _equal(a: Any, b: Any) -> bool:
    return isinstance(a, _PLAIN) and alike(a, b)


def _same_function(fn: FunctionType, captured: bool) -> Callable[[], bool]:
    """Return a check of what a function holds itself: its code, its defaults, and, if `captured`, its variables."""
    parts = [_content(part) for part in (*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values())]
    cells = [cell for cell in fn.__closure__ or () if captured and not is_empty(cell)]
    held = [(cell, cell.cell_contents, _content(cell.cell_contents)) for cell in cells]
    if not parts and not held:
        return _always
    defaults, keywords = fn.__defaults__, fn.__kwdefaults__

    def same() -> bool:
        return fn.__defaults__ is defaults and fn.__kwdefaults__ is keywords and all(part() for part in parts) \
            and all((cell.cell_contents is value or _equal(cell.cell_contents, value)) and content() for cell, value, content in held)
    return same


def _unchanged(scope: Mapping[str, Any], name: str, value: Any) -> Callable[[], bool]:
    content = _content(value)
    return lambda: original(scope.get(name, _Missing)) is value and content()


def _content(value: Any) -> Callable[[], bool]:
    """Return a check that what is in a mutable thing has not changed."""
    if isinstance(value, _FIXED):
        return _always
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        if not value.flags.writeable and value.base is None:
            return _always
        shape, dtype, then = value.shape, value.dtype, value.tobytes()
        return lambda: value.shape == shape and value.dtype == dtype and value.tobytes() == then
    if is_tensor(value):
        held = value.detach().clone()
        return lambda: value.shape == held.shape and value.dtype == held.dtype and value.device == held.device and torch.equal(value, held)
    leaves: list[Any] = []
    structure = flatten(value, "", leaves, [])
    if structure.is_leaf or type(structure.spec) is Static:  # which the place that holds it is asked for
        return _always
    contents = [(leaf, _content(leaf)) for leaf in leaves]

    def same() -> bool:
        now: list[Any] = []
        if flatten(value, "", now, []) != structure:
            return False
        return all((a is b or _equal(a, b)) and check() for a, (b, check) in zip(now, contents))
    return same

