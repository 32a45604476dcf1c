"""digest: numbers by which processes compare what they run and what they were given, the same in each of them."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterable
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from tapegrad.tree.copies import is_empty

SAMPLE = 32  # rows of a long array that are looked at


def digest(parts: Iterable[Any]) -> int:
    """Return the 32-bit checksum of contiguous arrays, and of other values as text."""
    found = 0
    for part in parts:
        found = zlib.crc32(part.data if isinstance(part, np.ndarray) else repr(part).encode(), found)
    return found


def program(f: Any) -> list[Any]:
    """Return what stands for a program: the code of a function, of the functions of its package that it names, its
    defaults, and the numbers and texts that it captured.

    Globals that are no functions are not in it: they may tell the ranks apart, as a rank's number does.
    """
    found: list[Any] = [sys.version_info[:2]]
    waits, seen = [f], set[int]()
    while waits:
        x = waits.pop()
        call = vars(type(x)).get("__call__")
        if isinstance(x, (int, float, complex, str, bytes, type(None), np.number)):
            found.append(x)
        elif isinstance(x, FunctionType) and id(x) not in seen:
            seen.add(id(x))
            found += [x.__qualname__, *_code(x.__code__)]
            package = _package(x)
            named = [x.__globals__.get(name) for name in sorted(_names(x.__code__))]
            waits += [fn for fn in named if isinstance(fn, FunctionType) and _package(fn) == package]
            waits += [cell.cell_contents for cell in x.__closure__ or () if not is_empty(cell)]
            waits += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values(), getattr(x, "__wrapped__", None)]
        elif isinstance(x, MethodType):
            waits.append(x.__func__)
        elif isinstance(x, partial):
            waits += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(call, FunctionType):
            waits.append(call)
        else:
            found.append(type(x).__qualname__)
    return found


def _package(fn: FunctionType) -> str:
    return str(fn.__module__).partition(".")[0]


def _code(code: CodeType) -> list[Any]:
    """Return the bytecode and the constants of a function, and of those inside it."""
    parts: list[Any] = [code.co_code, code.co_names, code.co_varnames]
    for x in code.co_consts:
        parts += _code(x) if isinstance(x, CodeType) else [sorted(map(repr, x)) if isinstance(x, frozenset) else x]
    return parts


def _names(code: CodeType) -> set[str]:
    return {*code.co_names}.union(*[_names(x) for x in code.co_consts if isinstance(x, CodeType)])


def arguments(x: Any) -> tuple[list[Any], list[Any]]:
    """Return what stands for nested arguments: their nesting, dtypes, shapes and texts; and their numbers.

    >>> arguments({"n": 3, "name": "x"})
    (['dict', ['n', 'name'], <class 'int'>, 'x'], [3])
    """
    kinds: list[Any] = []
    numbers: list[Any] = []
    seen: set[int] = set()
    waits = [x]
    while waits:
        x = waits.pop()
        if isinstance(x, (np.ndarray, np.generic)):
            kinds += [x.dtype, x.shape]
            numbers.append(np.ascontiguousarray(x).reshape(-1).view(np.uint8) if x.dtype.kind in "biufc" else [])
        elif isinstance(x, (int, float, complex)):
            kinds.append(type(x))
            numbers.append(x)
        elif isinstance(x, (str, bytes, type(None), slice, range)):
            kinds.append(x)
        elif id(x) in seen:
            kinds.append("again")
        elif isinstance(x, (tuple, list, dict)):
            seen.add(id(x))
            kinds += [type(x).__qualname__, [*x] if isinstance(x, dict) else len(x)]
            waits += reversed([*x.values()] if isinstance(x, dict) else x)
        else:
            seen.add(id(x))
            kinds.append(type(x).__qualname__)
            waits += reversed([*getattr(x, "__dict__", {}).values()])
    return kinds, numbers


def sample(x: np.ndarray) -> list[Any]:
    """Return what stands for a long array: dtype, shape, and some of its rows."""
    return [x.dtype, x.shape, b"" if x.dtype.hasobject else x[::max(1, len(x) // SAMPLE)].tobytes()]
