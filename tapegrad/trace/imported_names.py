"""imported_names: where a program has names of functions that are replaced while a trace runs: modules, and dicts that stand in them.

Code is followed from name to name: from a function's globals to functions, classes, what it names of modules, and what these name. What is found
of a function is kept until there are new modules, or new names in its own. What is missed is no wrong number: such a function is C code, which
refuses a traced value.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from tapegrad.numbers.tensors import ORDINARY
from tapegrad.rules.op import PROXIES, Traced
from tapegrad.trace.interposition import imported, original
from tapegrad.tree.flatten import is_empty, is_foreign

MOST, FEW = 3000, 256  # functions and classes that are followed from one; parts of a dict or list that is looked into
KEPT = 4096
_CACHED = type(functools.lru_cache(len))

_found: dict[Any, tuple[int, tuple[dict[Any, Any], ...]]] = {}


def namespaces(fn: Any, args: Iterable[Any]) -> Sequence[dict[Any, Any]]:
    """Return the namespaces in which a function, and what it may call, has such names, its own apart; objects among the arguments are of classes
    that it calls.
    """
    own = getattr(fn, "__globals__", None)
    if type(fn) is FunctionType and fn.__closure__ is None and fn.__defaults__ is None and PROXIES.issuperset(map(type, args)):
        return [namespace for namespace in _of(fn) if namespace is not own]
    return [namespace for root in _roots(fn, args) for namespace in _of(root) if namespace is not own]


def _of(root: Any) -> tuple[dict[Any, Any], ...]:
    """Return the namespaces that a function or a class leads to."""
    key = root if type(root) is not FunctionType else (root.__code__, id(root.__globals__))
    size = len(sys.modules) + len(getattr(root, "__globals__", ()))
    known, reached = _found.get(key, (0, ()))
    if known != size:
        if len(_found) >= KEPT:
            _found.clear()
        reached = tuple(_reached(root))
        _found[key] = size, reached
    return reached


def _roots(fn: Any, args: Iterable[Any]) -> Iterator[Any]:
    """Yield functions and classes to begin with: those that are called, captured or among the arguments."""
    stack, seen = [fn, *args], set()
    while stack:
        x = stack.pop()
        kind = type(x)
        if kind in ORDINARY or issubclass(kind, Traced) or id(x) in seen:
            continue
        seen.add(id(x))
        if kind is FunctionType:
            yield x
            for value in _captured(x).values():
                stack += _of_module(value, _names(x.__code__)) if issubclass(type(value), ModuleType) else (value,)
            stack += x.__defaults__ or ()
        elif kind is MethodType:
            stack += [x.__func__, x.__self__]
        elif kind is functools.partial:
            stack += [x.func, *x.args, *x.keywords.values()]
        elif kind is dict:
            stack += [value for value in x.values() if callable(value)] if len(x) <= FEW else ()
        elif issubclass(kind, type):
            yield from () if is_foreign(x.__module__) else (x,)
        elif not issubclass(kind, ModuleType) and not is_foreign(kind.__module__):
            yield kind


def _reached(root: Any) -> Iterator[dict[Any, Any]]:
    """Yield the namespaces that code leads to, of those that have names of what is replaced."""
    stack: list[Any] = [root]
    seen: set[int] = set()
    while stack and len(seen) < MOST:
        x = original(stack.pop())
        kind = type(x)  # the user's objects are asked for nothing
        if id(x) in seen:
            continue
        seen.add(id(x))
        if kind is FunctionType:
            if id(x.__globals__) not in seen:
                seen.add(id(x.__globals__))
                if imported(x.__globals__):
                    yield x.__globals__
            if not is_foreign(x.__module__):
                captured = _captured(x)
                stack += _named(_names(x.__code__), {**x.__globals__, **captured} if captured else x.__globals__)
                stack += captured.values()
        elif issubclass(kind, type):
            if not is_foreign(x.__module__):
                stack += [part for base in x.__mro__ if not is_foreign(base.__module__) for part in vars(base).values()]
        elif kind in (staticmethod, classmethod, MethodType):
            stack.append(x.__func__)
        elif kind is property:
            stack += [x.fget, x.fset]
        elif kind is functools.partial:
            stack.append(x.func)
        elif kind is dict:
            if len(x) <= FEW:
                stack += [value for value in x.values() if callable(value)]
                if imported(x):
                    yield x
        elif kind is list or kind is tuple:
            stack += [part for part in x[:FEW] if callable(part)]
        elif kind is _CACHED:
            stack.append(x.__wrapped__)
        elif not issubclass(kind, ModuleType) and kind not in ORDINARY and not is_foreign(kind.__module__):
            stack.append(kind)


def _captured(fn: FunctionType) -> dict[str, Any]:
    return {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()) if not is_empty(cell)}


def _named(names: frozenset[str], scope: dict[str, Any]) -> Iterator[Any]:
    """Yield what names lead to from where a function looks for them, attributes of modules that are named beside them included."""
    for name in names:
        value: Any = scope.get(name, sys.modules.get(name))
        if issubclass(type(value), ModuleType):
            yield from _of_module(value, names)
        elif value is not None:
            yield value


def _of_module(module: ModuleType, names: frozenset[str]) -> Iterator[Any]:
    """Yield what is named of a module, and of those in it that are named on the way."""
    stack = [module]
    while stack:
        module = stack.pop()
        if not is_foreign(getattr(module, "__name__", "")):
            parts = [vars(module)[name] for name in names if name in vars(module)]
            stack += [part for part in parts if issubclass(type(part), ModuleType) and part.__name__.startswith(f"{module.__name__}.")]
            yield from (part for part in parts if not issubclass(type(part), ModuleType))


@functools.lru_cache(maxsize=KEPT)
def _names(code: CodeType) -> frozenset[str]:
    return frozenset((*code.co_names, *code.co_freevars)).union(*[_names(part) for part in code.co_consts if type(part) is CodeType])
