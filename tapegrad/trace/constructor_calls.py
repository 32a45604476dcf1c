"""constructor_calls: decides which calls of np.zeros, np.array and the like make traced arrays: those of Python code
that handles traced values.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy as np

from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import DISPATCH
from tapegrad.trace.bytecode import positions
from tapegrad.trace.conversions import ORIGINAL, to_class
from tapegrad.tree.copies import running

# Python code of these handles traced values if its own variables, or those of its callers in such packages, hold any;
# other code always does.
LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch", "optree", "rich", "jax"}

# When one of these calls a constructor from C, the caller is the code that named it: `map(np.array, rows)`.
HANDING = frozenset([
    "map", "list", "tuple", "set", "dict", "filter", "sorted", "sum", "max", "min", "any", "all", "zip", "next",
    "enumerate", "extend", "starmap", "call",
    "accumulate", "reduce", "fromiter", "fromfunction", "apply_along_axis", "apply_over_axes", "vectorize",
    "piecewise"])


def maker(fn: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for a constructor that makes a traced array if Python code that handles traced values calls it.
    """
    def shim(*args: Any, **kwargs: Any) -> Any:
        tracers = running.tracers
        if not tracers or not _is_called_by_program(_caller(), (*args, *kwargs.values()), fn.__name__, shim):
            return fn(*args, **kwargs)
        viewed = DISPATCH.get("viewed")
        if viewed is not None and (y := viewed(functools.partial(make, tracers[-1], fn), fn, args,
                                               kwargs)) is not NotImplemented:
            return y
        return make(tracers[-1], fn, *args, **kwargs)
    return shim


def _caller() -> FrameType:
    """Return the frame that called a stand-in, skipping that of `to_class`."""
    frame = sys._getframe(2)
    return frame.f_back if frame.f_code is to_class.__code__ and frame.f_back is not None else frame


def _is_called_by_program(frame: FrameType, args: Iterable[Any], name: str, shim: Any) -> bool:
    """Return whether a frame's own code calls the constructor and handles traced values."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    if package == "tapegrad" or (package in LIBRARIES and not _among(args) and not _is_at_work(frame)):
        return False
    return _calls(frame, name, shim, args)


def _is_at_work(frame: FrameType | None) -> bool:
    """Return whether a library's frame, or one of its callers up to the program, has a traced value in its variables.
    """
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES:
        if _any_keeps(frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False


def _among(values: Iterable[Any]) -> bool:
    """Return whether any of these is a traced value or a list or tuple that holds one."""
    return any(isinstance(value, Traced) or (issubclass(type(value), (list, tuple)) and holds_traced(value))
               for value in values)


def _keeps(x: Any, depth: int = 3) -> bool:
    """Return whether a library's variable is a traced value or holds one in its attributes, lists or dicts."""
    if isinstance(x, Traced):
        return True
    kind = type(x)
    if kind in _ATOMS or not depth:
        return False
    if issubclass(kind, (list, tuple)):
        return _any_keeps(islice(x, MOST), depth - 1)
    if issubclass(kind, dict):
        return _any_keeps(islice(dict.values(x), MOST), depth - 1)
    if not isinstance(x, (type, ModuleType)) and any(str(base.__module__).partition(".")[0] in LIBRARIES
                                                     for base in kind.__mro__[:-1]):
        found = getattr(x, "__dict__", None)
        return type(found) is dict and _any_keeps(found.values(), depth - 1)
    return False


def _any_keeps(values: Iterable[Any], depth: int = 3) -> bool:
    return any(type(value) not in _ATOMS and _keeps(value, depth) for value in values)


MOST = 256  # items searched in a list; if this misses one, the plain array refuses the traced value
_ATOMS = frozenset([int, float, complex, bool, str, bytes, type(None), FunctionType, type, ModuleType, CodeType,
                    np.ndarray, *np.sctypeDict.values()])


def _calls(frame: FrameType, name: str, shim: Any, args: Iterable[Any]) -> bool:
    """Return whether the call in progress in a frame is one of the constructor.

    Compiled code (numpy.random, say) has no frame: when it makes an array, which must be plain, the call in progress in
    the frame is another.
    """
    path = callee(frame.f_code, frame.f_lasti)
    if path[-1] == name:
        return True
    if path[-1] in HANDING:
        return _among(args)
    if path[-1] == "()":  # `partial(np.array, dtype=float)(rows)`
        return _among(args) or name in frame.f_code.co_names or name in frame.f_code.co_consts
    if path[-1] == "getattr":
        return name in frame.f_code.co_consts
    found = None if path[-1] == "?" else _found(path, frame)
    # the constructor is called for its arguments: `f(*map(np.array, rows))`
    return _is_or_holds(found, shim) or (type(found) is FunctionType and _among(args))


def _found(path: tuple[str, ...], frame: FrameType) -> Any:
    """Return the object of a dotted name in a frame, without running the program's code."""
    x = frame.f_locals.get(path[0], frame.f_globals.get(path[0]))
    for name in path[1:]:
        owner = x
        x = vars(x).get(name) if isinstance(x, ModuleType) else inspect.getattr_static(x, name, None)
        x = x.__get__(owner) if type(x) is MemberDescriptorType and not isinstance(owner, type) else x  # a slot
    return x


def _is_or_holds(x: Any, shim: Any, depth: int = 3) -> bool:
    """Return whether an object is the constructor's stand-in or holds it, as a staticmethod, partial or table does."""
    kind = type(x)
    if kind in (list, tuple, dict):
        return depth > 0 and any(_is_or_holds(part, shim, depth - 1) for part in (x.values() if kind is dict else x))
    if kind is staticmethod or kind is functools.partial:
        return _is_or_holds(x.__func__ if kind is staticmethod else x.func, shim, depth)
    # the stand-in is an instance of a class whose `__call__` is the shim
    return getattr(kind, "__call__", None) is shim  # noqa: B004


# with keywords: CALL_KW from Python 3.13 on; CALL_FUNCTION_KW and the following in Python 3.10
_CALLS = frozenset(["CALL", "CALL_FUNCTION_EX", "CALL_KW", "CALL_FUNCTION_KW", "CALL_FUNCTION", "CALL_METHOD"])
# Instructions that advance an iterator: `a, b = map(np.array, rows)`
_STEPS = frozenset(["UNPACK_SEQUENCE", "UNPACK_EX", "FOR_ITER", "LIST_EXTEND", "SET_UPDATE", "CONTAINS_OP"])


@functools.lru_cache(maxsize=4096)
def callee(code: CodeType, lasti: int) -> tuple[str, ...]:
    """Return the parts of the dotted name that is called at an instruction: ending in "()" if another call returned the
    callable, "?" if it has no name.
    """
    instructions = list(dis.get_instructions(code))
    # lasti may point into the inline cache of the call
    at = max(i for i, instruction in enumerate(instructions) if instruction.offset <= lasti)
    if instructions[at].opname in _STEPS:
        return ("map",)
    parts = [part for part in _called(code, instructions, at) if _loads_name(part) or part.opname in _CALLS]
    return tuple([part.argval if _loads_name(part) else "()" for part in parts]) or ("?",)


def _called(code: CodeType, instructions: list[dis.Instruction], at: int) -> list[dis.Instruction]:
    """Return the instructions that load the callable: their source range starts where that of the call does and ends
    before it, as `np.zeros` in `np.zeros(3)`.
    """
    places = positions(code)
    here = places[instructions[at].offset // 2]
    return [part for part in instructions[:at] if (there := places[part.offset // 2])[0] is not None
            and there[::2] == here[::2] and there[1::2] != here[1::2]]


def _loads_name(instruction: dis.Instruction) -> bool:
    return (instruction.opname.startswith("LOAD_") and instruction.opname != "LOAD_CONST"
            and isinstance(instruction.argval, str))


def spelled(code: CodeType, lasti: int) -> str:
    """Return the callable at an instruction of Python 3.10, which has no columns, as a dotted name: "[]" stands for a
    subscript, "?" for anything else.
    """
    own = ORIGINAL.get(code, code)
    if len(own.co_code) == len(code.co_code):  # the program's own names
        code = own
    instructions = list(dis.get_instructions(code))
    if not instructions[lasti // 2].opname.startswith("CALL_"):
        return "?"
    return ".".join(part.argval if _loads_name(part) else "[]" if part.opname == "BINARY_SUBSCR" else "?"
                    for part in _called(code, instructions, lasti // 2)) or "?"
