"""wrappers: the contents of wrappers: partials, properties, bound C methods, caches, functions compiled by numba."""

from __future__ import annotations

import ctypes
import functools
import gc
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

from tapegrad.compile.watch.code_names import global_names, names_of
from tapegrad.trace.random_state import SOURCES
from tapegrad.trace.wrapped_functions import given_function, is_compiled
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import CACHED, code_of, is_empty
from tapegrad.tree.flatten import Structure
from tapegrad.tree.nodes import Instance, Static
from tapegrad.tree.ways import owner_of

# the class of a bounded cache's links, whose references only the garbage collector shows
_LINK = "_lru_list_elem"
_WRAPPERS = (property, staticmethod, classmethod, functools.cached_property)


# names by which functions for numba draw random numbers, print, and call Python
_LOUD = frozenset(["random", "print", "objmode"])
_BY_ADDRESS: type = type(ctypes.pythonapi.Py_IncRef).__mro__[1]  # the base class of ctypes' functions


def unobserved_function(x: Any) -> Any:
    """Return the Python function that a cache wraps or numba compiles, which the observer may not see run; None for
    others.
    """
    return x.__wrapped__ if type(x) is CACHED else given_function(x) if is_compiled(type(x)) else None


def loud(x: Any) -> str:
    """Return the reason to refuse a function compiled by numba that may draw, print or call other code, "" for others.
    """
    stack, seen = [given_function(x)] if is_compiled(type(x)) else [], set[int]()
    while stack:
        fn = stack.pop()
        code = code_of(fn)
        held = [fn.__globals__.get(name) for name in global_names(code)]
        held += [cell.cell_contents for cell in fn.__closure__ or () if not is_empty(cell)]
        if not _LOUD.isdisjoint(names_of(code)) or any(
                isinstance(part, _BY_ADDRESS) or isinstance(getattr(part, "__self__", None), tuple(SOURCES))
                for part in held):
            return "a function compiled by numba, which may draw random numbers, print or call other code"
        seen.add(id(fn))
        stack += [part for part in held if type(part) is FunctionType and id(part) not in seen]
    return ""


def attributes_held(node: Any) -> dict[str, Any]:
    """Return the static attributes of an object among the arguments, which are compared by identity."""
    return {name: part.value for name, part in zip(node.names, node.children)
            if isinstance(part, Static) and not isinstance(part.value, Iterator)} if type(node) is Instance else {}


def nodes_of(specs: list[Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the nodes of flattened arguments, each once, with its static attributes. These are noted where code names
    them, and not yielded as nodes.
    """
    stack, seen = list(specs), set[int]()
    while stack:
        node = stack.pop()
        if id(node) not in seen:
            seen.add(id(node))
            held = attributes_held(node)
            stack += [part for part in getattr(node, "children", ()) if not held or not isinstance(part, Static)]
            yield node, held


def parts_in(x: Any) -> dict[str, Any]:
    """Return the labelled contents of a wrapper: a bound C method (`F = d.get`), a view of a dict, a partial, a
    property, a cache.
    """
    if isinstance(x, functools.partial):
        return {"func": x.func, "args": x.args, "keywords": x.keywords}
    if type(x) is CACHED:
        kept = [part for found in gc.get_referents(x) for part in (found.values() if type(found) is dict else (found,))]
        return {f"what it stores, {at}": part for at, part in enumerate(kept)}
    if isinstance(x, _WRAPPERS):
        return {name: part for name in ("fget", "fset", "__func__", "func")
                if (part := getattr(x, name, None)) is not None}
    owner = owner_of(x)
    return {} if owner is None else {"owner": owner}


def kept_in(fn: Any) -> dict[int, tuple[Any, Any]] | None:
    """Return {id(key): (key, result)} of the entries in a function's `lru_cache`, None if they cannot be found."""
    held = gc.get_referents(fn)
    at = next((at for at, part in enumerate(held) if type(part) is dict and part is not fn.__dict__), 0)
    cache: Any = held[at]
    if at and all(type(link).__name__ != _LINK for link in cache.values()):
        return {id(key): (key, result) for key, result in cache.items()}
    links = [link for link in range(2, at) if isinstance(held[link], type) and held[link].__name__ == _LINK]
    return {id(held[link - 2]): (held[link - 2], held[link - 1])
            for link in links} if at and len(links) == len(cache) else None


def is_of_program(held: Any) -> bool:
    """Return whether an object that a library function captured may belong to the program rather than to the library.
    """
    return type(held) in (FunctionType, MethodType, functools.partial, Structure) or not is_foreign(
        type(held).__module__)
