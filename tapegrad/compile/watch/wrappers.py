"""wrappers: what is in a wrapper of something, which nobody else can be asked for."""

from __future__ import annotations

import functools
import gc
from typing import Any

from tapegrad.tree.copies import CACHED
from tapegrad.tree.ways import owner_of

# the class of what a bounded cache's dict leads to: links, of which only the collector is told
_LINK = "_lru_list_elem"
_WRAPPERS = (property, staticmethod, classmethod, functools.cached_property)


def parts_in(x: Any) -> dict[str, Any]:
    """Return what is in a wrapper of something: a bound method of C's, `F = d.get`, a view of a dict, a partial, a
    property, what a cache keeps.
    """
    if isinstance(x, functools.partial):
        return {"func": x.func, "args": x.args, "keywords": x.keywords}
    if type(x) is CACHED:
        kept = [part for found in gc.get_referents(x) for part in (found.values() if type(found) is dict else (found,))]
        return {f"what it keeps, {at}": part for at, part in enumerate(kept)}
    if isinstance(x, _WRAPPERS):
        return {name: part for name in ("fget", "fset", "__func__", "func")
                if (part := getattr(x, name, None)) is not None}
    owner = owner_of(x)
    return {} if owner is None else {"owner": owner}


def kept_in(fn: Any) -> dict[int, tuple[Any, Any]] | None:
    """Return the keys that a function's cache made of calls' arguments, by their ids, each with the result that is
    kept; None where nobody can tell.
    """
    held = gc.get_referents(fn)
    at = next((at for at, part in enumerate(held) if type(part) is dict and part is not fn.__dict__), 0)
    cache: Any = held[at]
    if at and all(type(link).__name__ != _LINK for link in cache.values()):
        return {id(key): (key, result) for key, result in cache.items()}
    links = [link for link in range(2, at) if isinstance(held[link], type) and held[link].__name__ == _LINK]
    return {id(held[link - 2]): (held[link - 2], held[link - 1])
            for link in links} if at and len(links) == len(cache) else None
