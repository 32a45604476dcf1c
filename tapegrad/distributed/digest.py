"""digest: checksums by which processes compare programs and arguments, the same in each process for equal ones."""

from __future__ import annotations

import copyreg
import sys
import zlib
from collections.abc import Iterable
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError, user_location
from tapegrad.numbers.equality import kind_of
from tapegrad.numbers.tensors import is_tensor, to_host
from tapegrad.trace.code_mentions import names_in
from tapegrad.tree.copies import dict_of, is_empty

SAMPLE = 32  # the number of rows of a long array that are compared


def digest(parts: Iterable[Any]) -> int:
    """Return the 32-bit checksum of contiguous arrays, and of other values as text."""
    found = 0
    for part in parts:
        found = zlib.crc32(part.data if isinstance(part, np.ndarray) else repr(part).encode(), found)
    return found


def program(f: Any) -> list[Any]:
    """Return the parts that identify a program: the code of a function and of the functions of its package that it
    names, its defaults, and the numbers and texts that it captured. Other globals are left out: they may differ between
    ranks, as a rank's number does.
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
            named = [x.__globals__.get(name) for name in sorted(names_in(x.__code__))]
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
    """Return the bytecode and the constants of a function, and of its nested functions."""
    parts: list[Any] = [code.co_code, code.co_names, code.co_varnames]
    for x in code.co_consts:
        parts += _code(x) if isinstance(x, CodeType) else [sorted(map(repr, x)) if isinstance(x, frozenset) else x]
    return parts


def arguments(x: Any) -> tuple[list[Any], list[Any]]:
    """Return the parts that identify nested arguments: nesting, dtypes, shapes and texts; and the numbers. Raises
    ArgumentError for an object that cannot be distinguished from others of its type.

    >>> arguments({"n": 3, "name": "x"})
    (['dict', 2, 'n', <class 'int'>, 'name', 'x'], [3])
    """
    kinds: list[Any] = []
    numbers: list[Any] = []
    seen: dict[int, tuple[int, Any]] = {}  # keeps the objects alive, so that their ids stay unique
    waits = [x]
    while waits:
        x = waits.pop()
        if type(x) in _NUMBERS:
            kinds.append(type(x))
            numbers.append(x)
        elif x is None or type(x) in _TEXTS:
            kinds.append(x)
        elif (name := _named(x)) is not None:
            kinds.append(name)
        elif id(x) in seen:
            kinds.append(f"thing {seen[id(x)][0]} again")
        else:
            seen[id(x)] = len(seen), x
            kinds.append(type(x).__qualname__)
            if isinstance(x, (set, frozenset)):  # sorted by digest: the iteration order differs between ranks
                parts = sorted([*map(digest, arguments(part))] for part in kind_of(x).__iter__(x))  # type: ignore[union-attr]
                kinds += [kind for kind, _ in parts]
                numbers += [number for _, number in parts]
                waits.append(dict(dict_of(x)))
            else:
                waits += reversed(_parts(x, kinds, numbers))
    return kinds, numbers


_NUMBERS = frozenset([bool, int, float, complex])
_TEXTS = frozenset([str, bytes, range])
_STREAM: Any = np.random.mtrand._rand  # scipy.stats' distributions hold it


def _named(x: Any) -> str | None:
    """Return the name of an object that its name identifies (a class, a module, a C function), and of the process's own
    stream of random numbers, which may differ between ranks as globals may.
    """
    if x is _STREAM:
        return "numpy.random"
    if isinstance(x, (type, ModuleType)) or (isinstance(x, BuiltinFunctionType)
                                             and isinstance(x.__self__, (ModuleType, type(None)))):
        return f"{getattr(x, '__module__', '')}.{getattr(x, '__qualname__', x.__name__)}"
    return None


def _parts(x: Any, kinds: list[Any], numbers: list[Any]) -> list[Any]:
    """Return the parts of an object; append what identifies the object itself to `kinds` and `numbers`."""
    if is_tensor(x):
        kinds.append(x.dtype)
        x = np.asarray(to_host(x))
    if isinstance(x, (np.ndarray, np.generic)):
        kinds += [x.dtype, x.shape]
        own, beside = np.asarray(x), dict(dict_of(x))
        if own.dtype.kind not in "biufcmMSU":  # objects, texts, records
            return [own.tolist(), beside]
        # a long double has padding bytes
        numbers.append([*map(repr, own.flat)] if own.dtype.char in "gG"
                       else np.ascontiguousarray(own).reshape(-1).view(np.uint8))
        return [beside]
    if type(x) in (tuple, list):
        kinds.append(len(x))
        return [*x]
    if type(x) in (dict, MappingProxyType):
        kinds.append(len(x))
        return [part for item in x.items() for part in item]
    if isinstance(x, slice):
        return [x.start, x.stop, x.step]
    if isinstance(x, MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, FunctionType):
        kinds += program(x)
        return [[cell.cell_contents for cell in x.__closure__ or () if not is_empty(cell)], x.__defaults__,
                x.__kwdefaults__, dict(vars(x))]
    try:
        copy = copyreg.dispatch_table.get(type(x))
        made = x.__reduce_ex__(4) if copy is None else copy(x)  # the recipe by which copy and pickle rebuild it
    except Exception as err:  # a class of the user's may raise anything
        raise ArgumentError(f"an argument holds a {type(x).__qualname__}, which ranks cannot compare: {err}",
                            user_location(), "pass its parts; or capture it if it may differ between ranks") from err
    if isinstance(made, str):  # the name of a global in its module
        return [made]
    call, *rest = made
    if isinstance(call, FunctionType):  # the function that rebuilds it: its arguments identify the object
        call = call.__qualname__
    return [call, *rest[:2], *[[*(part or ())] for part in rest[2:4]]]


def sample(x: np.ndarray) -> list[Any]:
    """Return the parts that identify a long array: dtype, shape, and some of its rows."""
    rows = x[::max(1, len(x) // SAMPLE)]
    return [x.dtype, x.shape, [*map(digest, arguments(rows))] if x.dtype.hasobject else rows.tobytes()]
