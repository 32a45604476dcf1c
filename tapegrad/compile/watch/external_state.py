"""external_state: functions and objects that depend on clocks, files, the environment, unrecorded generators.

Their results are no inputs, and no check shows whether they would be the same again. A path that uses one is not
compiled.
"""

from __future__ import annotations

import _io
import contextvars
import ctypes
import decimal
import io
import mmap
import operator
import os
import queue
import random
import socket
import sys
import weakref
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import plain

INERT = ("logging", "re", "warnings", "tapegrad")  # modules whose objects hold many references, but no numbers
GETTERS = (operator.attrgetter, operator.methodcaller)
READERS: tuple[Any, ...] = (getattr, hasattr, vars, dir)
SILENT: dict[type, str] = {
    contextvars.Context: "a context", weakref.ref: "a weak reference", weakref.finalize: "a weak reference",
    weakref.ProxyType: "a weak reference", weakref.CallableProxyType: "a weak reference",
    mmap.mmap: "a memory-mapped file", decimal.Context: "a decimal context",
    ctypes._SimpleCData: "a ctypes object", ctypes.Array: "a ctypes object", ctypes.Structure: "a ctypes object",
    ctypes._Pointer: "a ctypes object",
    memoryview: "a memoryview", np.random.BitGenerator: "a bit generator of random numbers",
    GeneratorType: "a running generator",
}
"""Descriptions of objects whose content may change unnoticed and can be read without an observable call, by class
(subclasses included).
"""

OBJECTS: dict[type, str] = {
    **SILENT, weakref.WeakValueDictionary: "a table of weak references",
    weakref.WeakKeyDictionary: "a table of weak references",
    queue.Queue: "a queue", queue.SimpleQueue: "a queue", io.IOBase: "a file", _io._IOBase: "a file",
    socket.socket: "a socket",
    random.Random: "a random generator of the standard library", type(os.environ): "the environment",
}
"""Also those read by calls of their methods only, which the observer sees."""

QUIET = frozenset(["linecache", "tokenize", "importlib", "_frozen_importlib", "_frozen_importlib_external", "warnings",
                   "logging", "traceback", "inspect", "threading", "codecs", "zipimport", "pkgutil", "abc",
                   "contextlib", "networkx", "optree", "rich", "tapegrad", "jax"])
"""Modules whose own calls of C functions do not affect the program's results."""

CODE: dict[str, frozenset[str] | None] = {
    "random": None, "uuid": None, "tempfile": None,
    "numpy._core._ufunc_config": frozenset(["geterr", "geterrcall", "getbufsize"]),
    "threading": frozenset(["current_thread", "active_count", "enumerate"]),
    "inspect": frozenset(["currentframe", "stack", "trace"]), "multiprocessing.process": None,
    "calendar": frozenset(["getfirstweekday"]), "locale": None,
    "_weakrefset": frozenset(["__iter__", "__len__", "__contains__", "pop"]),
    "os": frozenset(["__iter__", "__len__"]),
    "weakref": frozenset(["get", "items", "keys", "values", "pop", "popitem", "setdefault", "valuerefs",
                          "itervaluerefs", "keyrefs",
                          "__getitem__", "__contains__", "__iter__", "__len__", "__call__"]),
}
"""Python functions of the standard library that read external state, by module; None stands for all."""

OWN = frozenset(["threading", "calendar", "locale", "inspect", "_weakrefset"])
"""Those modules that the standard library also calls internally, without effect on the program's results."""

BY_NAME: dict[str, frozenset[str]] = {
    "dataclasses": frozenset(["astuple", "asdict", "replace"]),
    "inspect": frozenset(["getmembers", "getattr_static", "getmembers_static"]),
}
"""Functions that read attributes by computed names."""

_SIGNATURE = ("__signature__", "__wrapped__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__")

NAMES: dict[str, tuple[str, ...]] = {
    "signature": _SIGNATURE, "getfullargspec": _SIGNATURE, "getcallargs": _SIGNATURE,
    "get_annotations": ("__annotations__",), "get_type_hints": ("__annotations__",), "unwrap": ("__wrapped__",),
    "getdoc": ("__doc__",),
}
"""Attributes read by functions of `inspect` and `typing`."""

_SEEN = frozenset(["builtins", "thread", "array", "re", "sre", "datetime", "decimal", "fractions", "struct", "operator",
                   "functools", "itertools",
                   "types", "typing", "collections", "abc", "zoneinfo", "uuid", "enum", "string", "ctypes", "weakref",
                   "warnings", "io", "socket",
                   "queue", "mmap", "contextvars", "random", "ast", "opcode", "codecs", "frozen_importlib",
                   "frozen_importlib_external", "importlib"])
"""C modules of the standard library whose objects are immutable, compared by content, or read by observed calls."""


def is_opaque(x: Any) -> str:
    """Return the description of a standard-library object with hidden mutable state, "" for others."""
    cls = type(x)
    module = str(cls.__module__).partition(".")[0]
    if module.lstrip("_") in _SEEN or module not in sys.stdlib_module_names or hasattr(x, "__dict__"):
        return ""
    if any(type(part) is FunctionType for base in cls.__mro__ for part in vars(base).values()):
        return ""
    return f"a {module}.{cls.__name__}, whose content cannot be read"


def is_output(x: Any) -> bool:
    """Return whether a file such as `sys.stderr` can only be written to, by calls that are observed."""
    return isinstance(x, io.TextIOWrapper) and not x.closed and not x.readable()


def is_reader(x: Any) -> bool:
    """Return whether a C function or method reads attributes by computed names, or all attributes."""
    if type(x) is BuiltinFunctionType and (x in READERS or (x.__name__ in _FORMATS and isinstance(x.__self__, str))):
        return True
    return isinstance(x, GETTERS) or (isinstance(x, _IN_C) and x.__name__ in _READING)


_FORMATS = frozenset(["format", "format_map"])
_READING = frozenset(["__getattribute__", "__reduce_ex__", "__reduce__", "__getstate__", "__dir__"])
_IN_C = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)


def leads_to(x: Any, known: set[int]) -> bool:
    """Return whether a weak reference leads to nothing, or to an object whose id is known."""
    return type(x) in (weakref.ref, weakref.KeyedRef) and (x() is None or id(x()) in known)


def external_state_of(x: Any, table: dict[type, str] = OBJECTS) -> str:
    """Return the description of an object that depends on external state, "" for others."""
    return next((table[cls] for cls in type(x).__mro__ if cls in table), "")


def external_function(module: str, name: str) -> str:
    """Return the full name of a standard-library function that reads external state, "" for others."""
    return f"{module}.{name}" if _is_listed(CODE, module, name) else ""


def environment_read(code: CodeType, frame: FrameType) -> tuple[dict[Any, Any], Any, str] | None:
    """Return (dict, key, label) of the variable that a call of `os.environ.__getitem__` reads, None for other calls."""
    if code is not _ENVIRONMENT:
        return None
    asked, key = frame.f_locals["self"], frame.f_locals["key"]
    return (asked._data, asked.encodekey(key), f"os.environ[{key!r}]") if isinstance(key, (str, bytes)) else None


_ENVIRONMENT = type(os.environ).__getitem__.__code__


def asked_entry(code: CodeType, frame: FrameType) -> tuple[Any, Any] | None:
    """Return (table, key) of the entry of a WeakValueDictionary that a call of its methods reads, None for other calls
    and for keys that are no plain values.
    """
    if code not in _WEAK_READS:
        return None
    table, key = frame.f_locals["self"], frame.f_locals["key"]
    parts = [*map(plain, key if type(key) is tuple else (key,))]  # the trace guards numbers that it hashes
    return (table, tuple(parts) if type(key) is tuple else parts[0]) if _KEYS.issuperset(map(type, parts)) else None


_WEAK_READS = frozenset([getattr(weakref.WeakValueDictionary, name).__code__
                         for name in ("get", "__getitem__", "__contains__")])
_KEYS = frozenset([int, str, bytes, bool, float, type(None)])
def _is_listed(table: dict[str, frozenset[str] | None], module: str, name: str) -> bool:
    names = table.get(module, frozenset())
    return names is None or name in names
