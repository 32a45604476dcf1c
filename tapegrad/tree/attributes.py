"""attributes: the attributes of user objects, which are flattened with the arguments."""

from __future__ import annotations

import enum
import numbers
import sys
from abc import ABC, get_cache_token
from collections import ChainMap, UserDict, UserList
from collections.abc import Iterable
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, Generic, Protocol

from tapegrad.numbers.systems import OPERATORS, OWNERS, system_of
from tapegrad.tree.copies import StaticNumber, dict_of, own_attributes

WRAPPERS = frozenset([SimpleNamespace, ChainMap, UserDict, UserList])
HEAP = 1 << 9  # CPython's flag of a heap type: defined in Python, with attributes that can be set
FOREIGN_PACKAGES = frozenset(sys.stdlib_module_names) | {
    "numpy", "scipy", "torch", "networkx", "rich", "optree", "tapegrad",
    "numba", "llvmlite", "matplotlib", "PIL", "IPython", "jax", "jaxlib",
    "joblib"}  # packages that compile, draw or run their arguments


def is_foreign(module: Any) -> bool:
    """True for the name of a module whose code is not the user's."""
    return str(module).partition(".")[0] in FOREIGN_PACKAGES


def code_of_parts(parts: Iterable[Any]) -> list[Any]:
    """Return the functions among some values, and the user classes of the others."""
    return [x if type(x) is FunctionType else type(x) for x in parts
            if type(x) is FunctionType or (type(x).__flags__ & HEAP and not is_foreign(type(x).__module__))]


# classes of Python in whose subclasses an object is still nothing but its attributes
_EMPTY_BASES = frozenset([object, ABC, Generic, Protocol])
_OTHER = OPERATORS | {"__class__"}  # in classes of numbers, and in those that pretend to be others
# attributes of classes whose objects are more than their attributes
_SPECIAL = ("__array__", "__array_interface__", "_redirects_for", "_sparse_parts", "_tapegrad_op", "_tracer")


def is_plain_class(cls: Any) -> bool:
    """True for a class of the user whose objects are nothing but their attributes: no numbers, containers, tables."""
    return _is_plain_class(cls, cls.__mro__, get_cache_token()) and cls not in OWNERS and system_of(cls) is None


@lru_cache(maxsize=1024)
def _is_plain_class(cls: Any, bases: tuple[type, ...], token: int) -> bool:
    # `bases` and `token` tell whether bases were assigned, or abstract classes registered others
    return cls.__flags__ & HEAP != 0 and not (
        any(base not in _EMPTY_BASES and (is_foreign(base.__module__) or base.__module__ == "builtins"
                                          or not _OTHER.isdisjoint(vars(base)))
            for base in bases)
        or issubclass(cls, numbers.Number) or any(hasattr(cls, name) for name in _SPECIAL)
        or (isinstance(cls.__new__, BuiltinFunctionType) and cls.__new__ is not object.__new__))


def attributes_of(x: Any) -> dict[str, Any]:
    """Return the attributes of an object of a user's class, or of a SciPy result built from traced values; else {}."""
    cls = type(x)
    # argparse's options, and containers written in Python
    if cls in WRAPPERS or (cls.__module__, cls.__name__) == ("argparse", "Namespace"):
        return dict(vars(x))
    if isinstance(x, (type, ModuleType, BaseException, enum.Enum)) or cls in OWNERS or hasattr(cls, "_tapegrad_op"):
        return {}
    if is_foreign(cls.__module__):
        return own_attributes(x) if str(cls.__module__).startswith("scipy.") and holds_proxies(x) else {}
    if any(base.__module__ == "builtins" and base is not object for base in cls.__mro__):
        return {}  # a subclass of int, dict ...: its content is not in its attributes
    if isinstance(cls.__new__, BuiltinFunctionType) and cls.__new__ not in (object.__new__, SimpleNamespace.__new__):
        return {}  # created in C, so it cannot be copied without its content
    found = own_attributes(x)
    return {name: StaticNumber(part) for name, part in found.items()} if is_table(x) else found


def is_table(x: Any) -> bool:
    """True for an array-like object that keeps numbers in compiled objects (a pandas table); these are no inputs."""
    return hasattr(type(x), "__array__") and not is_foreign(type(x).__module__) and _leads_to_compiled(x)


def _leads_to_compiled(x: Any, depth: int = 3) -> bool:
    cls = type(x)
    if issubclass(cls, tuple):
        return any(_leads_to_compiled(part, depth) for part in x[:1])
    if is_foreign(cls.__module__):
        return False
    if isinstance(cls.__new__, BuiltinFunctionType) and cls.__new__ is not object.__new__:
        return True
    return depth > 0 and any(_leads_to_compiled(part, depth - 1) for part in own_attributes(x).values())


def holds_proxies(x: Any) -> bool:
    """True for a library's result that holds traced values."""
    parts = [*(x if isinstance(x, tuple) else ()), *dict_of(x).values()]
    return any(hasattr(type(part), "_tracer") for part in parts)
