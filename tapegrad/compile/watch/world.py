"""world: calls and objects that answer by what is outside the program: clocks, files, the environment,
generators that nobody recorded.

What they answer is no input, and nothing tells whether it will be the same. A path on which one of them
was asked is not compiled.
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

INERT = ("logging", "re", "warnings", "tapegrad")  # whose objects lead to much, and to no number
GETTERS = (operator.attrgetter, operator.methodcaller)
READERS: tuple[Any, ...] = (getattr, hasattr, vars, dir)
SILENT: dict[type, str] = {
    contextvars.Context: "a context", weakref.ref: "a weak reference", weakref.finalize: "a weak reference",
    weakref.ProxyType: "a weak reference", weakref.CallableProxyType: "a weak reference",
    mmap.mmap: "a mapped file", decimal.Context: "a decimal context",
    ctypes._SimpleCData: "memory of C's", ctypes.Array: "memory of C's", ctypes.Structure: "memory of C's",
    ctypes._Pointer: "memory of C's",
    memoryview: "memory of another object's", np.random.BitGenerator: "what random generators draw from",
    GeneratorType: "a generator that goes on",
}
"""What an object is whose answers may change without a trace, and that may be asked unheard;
those of its subclasses too.
"""

OBJECTS: dict[type, str] = {
    **SILENT, weakref.WeakValueDictionary: "a table of weak references",
    weakref.WeakKeyDictionary: "a table of weak references",
    queue.Queue: "a queue", queue.SimpleQueue: "a queue", io.IOBase: "a file", _io._IOBase: "a file",
    socket.socket: "a socket",
    random.Random: "a random generator of the standard library", type(os.environ): "the environment",
}
"""Those too that answer where a function of theirs is called, and that is heard."""

QUIET = frozenset(["linecache", "tokenize", "importlib", "_frozen_importlib", "_frozen_importlib_external", "warnings",
                   "logging", "traceback", "inspect", "threading", "codecs", "zipimport", "pkgutil", "abc",
                   "contextlib", "networkx", "optree", "rich", "tapegrad", "jax"])
"""Modules whose code calls in C for their own sake."""

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
"""Functions of the standard library's Python code that read the world, by their module; None for all of them."""

OWN = frozenset(["threading", "calendar", "locale", "inspect", "_weakrefset"])
"""Modules of these that other modules of the standard library ask for their own sake."""

BY_NAME: dict[str, frozenset[str]] = {
    "dataclasses": frozenset(["astuple", "asdict", "replace"]),
    "inspect": frozenset(["getmembers", "getattr_static", "getmembers_static"]),
}
"""Functions that read attributes which nobody names."""

_SIGNATURE = ("__signature__", "__wrapped__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__")

NAMES: dict[str, tuple[str, ...]] = {
    "signature": _SIGNATURE, "getfullargspec": _SIGNATURE, "getcallargs": _SIGNATURE,
    "get_annotations": ("__annotations__",), "get_type_hints": ("__annotations__",), "unwrap": ("__wrapped__",),
    "getdoc": ("__doc__",),
}
"""Attributes that functions of `inspect` and `typing` read."""

_SEEN = frozenset(["builtins", "thread", "array", "re", "sre", "datetime", "decimal", "fractions", "struct", "operator",
                   "functools", "itertools",
                   "types", "typing", "collections", "abc", "zoneinfo", "uuid", "enum", "string", "ctypes", "weakref",
                   "warnings", "io", "socket",
                   "queue", "mmap", "contextvars", "random", "ast", "opcode", "codecs", "frozen_importlib",
                   "frozen_importlib_external", "importlib"])
"""Modules of the standard library, written in C, whose objects never change, are looked into, or are
heard when they are asked.
"""


def is_opaque(x: Any) -> str:
    """Return what an object of the standard library's is that keeps to itself what may change, "" for others."""
    cls = type(x)
    module = str(cls.__module__).partition(".")[0]
    if module.lstrip("_") in _SEEN or module not in sys.stdlib_module_names or hasattr(x, "__dict__"):
        return ""
    if any(type(part) is FunctionType for base in cls.__mro__ for part in vars(base).values()):
        return ""
    return f"a {module}.{cls.__name__}, into which nobody can look"


def is_reader(x: Any) -> bool:
    """Return whether what is written in C reads attributes by names that it is given, or all of them."""
    if type(x) is BuiltinFunctionType and (x in READERS or (x.__name__ in _FORMATS and isinstance(x.__self__, str))):
        return True
    return isinstance(x, GETTERS) or (isinstance(x, _IN_C) and x.__name__ in _READING)


_FORMATS = frozenset(["format", "format_map"])
_READING = frozenset(["__getattribute__", "__reduce_ex__", "__reduce__", "__getstate__", "__dir__"])
_IN_C = (BuiltinFunctionType, MethodDescriptorType, MethodWrapperType, WrapperDescriptorType)


def reads_the_world(x: Any, table: dict[type, str] = OBJECTS) -> str:
    """Return what an object is that answers by the world, "" for others."""
    return next((table[cls] for cls in type(x).__mro__ if cls in table), "")


def heard_in_python(module: str, name: str) -> str:
    """Return the name of a function of the standard library that reads the world, "" for others."""
    return f"{module}.{name}" if _is_listed(CODE, module, name) else ""


def asked_environment(code: CodeType, frame: FrameType) -> tuple[dict[Any, Any], Any, str] | None:
    """Return where the environment keeps a variable that is asked for, under which name, and what that is to the
    program; None for other calls.
    """
    if code is not _ENVIRONMENT:
        return None
    asked, key = frame.f_locals["self"], frame.f_locals["key"]
    return (asked._data, asked.encodekey(key), f"os.environ[{key!r}]") if isinstance(key, (str, bytes)) else None


_ENVIRONMENT = type(os.environ).__getitem__.__code__


def _is_listed(table: dict[str, frozenset[str] | None], module: str, name: str) -> bool:
    names = table.get(module, frozenset())
    return names is None or name in names
