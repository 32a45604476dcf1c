"""constructor_calls: which calls of np.zeros, np.array and the like make traced arrays: those of Python code
that is at work on traced values.
"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from tapegrad.rules.op import Traced, holds_traced
from tapegrad.rules.registry import FOREIGN
from tapegrad.trace.conversions import to_class
from tapegrad.tree.copies import running

# Python code of these is at work on traced values where some stand in its own variables, or in those of what called it
# there; other code always is.
LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch", "optree", "rich"}

# Called by these, which are C, a constructor is called by the code that named it: `map(np.array, rows)`.
HANDING = frozenset([
    "map", "list", "tuple", "set", "dict", "filter", "sorted", "sum", "max", "min", "any", "all", "zip", "next",
    "enumerate", "extend", "starmap", "call",
    "accumulate", "reduce", "fromiter", "fromfunction", "apply_along_axis", "apply_over_axes", "vectorize",
    "piecewise"])


def maker(fn: Callable[..., Any], make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a stand-in for a constructor: called by Python code that is at work on traced
    values, it makes a traced array.
    """
    def shim(*args: Any, **kwargs: Any) -> Any:
        tracers = running.tracers
        if not tracers or not _is_called_by_program(_caller(), (*args, *kwargs.values()), fn.__name__, shim):
            return fn(*args, **kwargs)
        viewed = FOREIGN.get("viewed")
        if viewed is not None and (y := viewed(functools.partial(make, tracers[-1], fn), fn, args,
                                               kwargs)) is not NotImplemented:
            return y
        return make(tracers[-1], fn, *args, **kwargs)
    return shim


def _caller() -> FrameType:
    """Return the frame that called a stand-in, past what calls a variable for it."""
    frame = sys._getframe(2)
    return frame.f_back if frame.f_code is to_class.__code__ and frame.f_back is not None else frame


def _is_called_by_program(frame: FrameType, args: Iterable[Any], name: str, shim: Any) -> bool:
    """True if a frame's own code calls the constructor, and is at work on traced values."""
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    if package == "tapegrad" or (package in LIBRARIES and not _among(args) and not _is_at_work(frame)):
        return False
    return _calls(frame, name, shim, args)


def _is_at_work(frame: FrameType | None) -> bool:
    """True if a library's Python code has traced values among its variables, or what called
    it has, up to the program.
    """
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in LIBRARIES:
        if any(_keeps(value) for value in frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False


def _among(values: Iterable[Any]) -> bool:
    """True if there is a traced value among these, or in a list or tuple of them."""
    return any(isinstance(value, Traced) or (issubclass(type(value), (list, tuple)) and holds_traced(value))
               for value in values)


def _keeps(x: Any, depth: int = 3) -> bool:
    """True if a library's variable is, or keeps in its attributes, lists and dicts, a traced value."""
    if isinstance(x, Traced):
        return True
    kind = type(x)
    if kind in _ATOMS or not depth:
        return False
    if issubclass(kind, (list, tuple)):
        return any(_keeps(part, depth - 1) for part in islice(x, MOST))
    if issubclass(kind, dict):
        return any(_keeps(part, depth - 1) for part in islice(dict.values(x), MOST))
    if not isinstance(x, (type, ModuleType)) and any(str(base.__module__).partition(".")[0] in LIBRARIES
                                                     for base in kind.__mro__[:-1]):
        found = getattr(x, "__dict__", None)
        return type(found) is dict and any(_keeps(part, depth - 1) for part in found.values())
    return False


MOST = 256  # parts of a list: an array that is plain for want of the others refuses what is traced
_ATOMS = frozenset([int, float, complex, bool, str, bytes, type(None), FunctionType, type, ModuleType, CodeType])


def _calls(frame: FrameType, name: str, shim: Any, args: Iterable[Any]) -> bool:
    """True if the call in progress in a frame is that of the constructor.

    Compiled code (numpy.random, say) has no frame of its own: when it makes an array, which must be a plain one, the
    call in progress is another.
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
    # it gets its arguments: `f(*map(np.array, rows))`
    return _is_or_holds(found, shim) or (type(found) is FunctionType and _among(args))


def _found(path: tuple[str, ...], frame: FrameType) -> Any:
    """Return what a dotted name leads to in a frame; the program's objects are asked for nothing."""
    x = frame.f_locals.get(path[0], frame.f_globals.get(path[0]))
    for name in path[1:]:
        owner = x
        x = vars(x).get(name) if isinstance(x, ModuleType) else inspect.getattr_static(x, name, None)
        x = x.__get__(owner) if type(x) is MemberDescriptorType and not isinstance(owner, type) else x  # of __slots__
    return x


def _is_or_holds(x: Any, shim: Any, depth: int = 3) -> bool:
    """True if that is the constructor, or holds it, as a staticmethod, a partial or a table of functions does."""
    kind = type(x)
    if kind in (list, tuple, dict):
        return depth > 0 and any(_is_or_holds(part, shim, depth - 1) for part in (x.values() if kind is dict else x))
    if kind is staticmethod or kind is functools.partial:
        return _is_or_holds(x.__func__ if kind is staticmethod else x.func, shim, depth)
    # (what stands in for the constructor is of a class that has it)
    return getattr(kind, "__call__", None) is shim  # noqa: B004


_CALLS = frozenset(["CALL", "CALL_KW", "CALL_FUNCTION_EX"])  # that with keywords from Python 3.13 on
# Instructions that go through an iterator: `a, b = map(np.array, rows)`
_STEPS = frozenset(["UNPACK_SEQUENCE", "UNPACK_EX", "FOR_ITER", "LIST_EXTEND", "SET_UPDATE", "CONTAINS_OP"])


@functools.lru_cache(maxsize=4096)
def callee(code: CodeType, lasti: int) -> tuple[str, ...]:
    """Return the dotted name that is called at an instruction, "()" at its end where that is what another call has
    returned, "?" where it is no name.
    """
    instructions = list(dis.get_instructions(code))
    # lasti may point into the call's cache
    at = max(i for i, instruction in enumerate(instructions) if instruction.offset <= lasti)
    if instructions[at].opname in _STEPS:
        return ("map",)
    if not hasattr(code, "co_positions"):
        *names, last = [part for part in spelled(code, lasti).split(".") if part != "[]"] or ["?"]
        return (*[name for name in names if name != "?"], last if last != "?" or not names else "()")
    place = instructions[at].positions  # type: ignore[attr-defined]
    # what is called was loaded from where the call begins: `np.zeros(3)` and the attribute `np.zeros` have one start
    parts = [instruction for instruction in instructions[:at] if (there := instruction.positions)  # type: ignore[attr-defined]
             and (there.lineno, there.col_offset) == (place.lineno, place.col_offset)
             and (there.end_lineno, there.end_col_offset) != (place.end_lineno, place.end_col_offset)]
    names = [part.argval if _loads_name(part) else "()" for part in parts if _loads_name(part) or part.opname in _CALLS]
    return tuple(names) or ("?",)


def _loads_name(instruction: dis.Instruction) -> bool:
    return (instruction.opname.startswith("LOAD_") and instruction.opname != "LOAD_CONST"
            and isinstance(instruction.argval, str))


def spelled(code: CodeType, lasti: int) -> str:
    """Return what stands on the stack below the arguments of a call, as a dotted name in which "[]" is an element and
    "?" all else: what Python 3.10, which keeps no columns, tells of the function called.
    """
    instructions = list(dis.get_instructions(code))
    at, depths = lasti // 2, _depths(instructions)
    call = instructions[at]
    if not call.opname.startswith("CALL_") or call.offset not in depths:
        return "?"
    # a call puts its result where its function stood
    place = depths[call.offset] + dis.stack_effect(call.opcode, call.arg) - 1
    first = max((i for i in range(at) if depths.get(instructions[i].offset, place + 1) <= place), default=at)
    # and so do an attribute, an element and a result, where their owner stood
    parts = [i for i in range(first, at) if instructions[i].opcode not in _JUMPING and place + 1 == depths.get(
        instructions[i if instructions[i].opname == "LOAD_METHOD" else i + 1].offset)]
    return ".".join(instructions[i].argval if _loads_name(instructions[i]) else
                    "[]" if instructions[i].opname == "BINARY_SUBSCR" else "?" for i in parts) or "?"


def _depths(instructions: list[dis.Instruction]) -> dict[int, int]:
    """Return how much stands on the stack before each instruction that is reached."""
    following = {step.offset: after for step, after in itertools.pairwise(instructions)}
    depths, found = {}, [(instructions[0], 0)]
    at = {step.offset: step for step in instructions}
    while found:
        step, depth = found.pop()
        if step.offset in depths:
            continue
        depths[step.offset] = depth
        arg = step.arg if step.opcode >= dis.HAVE_ARGUMENT else None
        if step.opcode in _JUMPING:
            found.append((at[step.argval], depth + dis.stack_effect(step.opcode, arg, jump=True)))
        if step.opname not in _LEAVING and step.offset in following:
            found.append((following[step.offset], depth + dis.stack_effect(step.opcode, arg, jump=False)))
    return depths


_JUMPING = frozenset([*dis.hasjrel, *dis.hasjabs])
_LEAVING = frozenset(["RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP_ABSOLUTE", "JUMP_FORWARD"])
