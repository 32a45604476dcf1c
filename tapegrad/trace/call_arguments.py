"""What a call makes of plain values: where its `out=` stands, calls of constants, and the refusal where a gradient would be lost."""

from __future__ import annotations

import ast
import builtins
import dis
import functools
import inspect
import itertools
import linecache
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import BuiltinFunctionType, FrameType, ModuleType
from typing import Any

import numpy as np

from tapegrad.errors import INTERNAL, ConcretizationError, TapeError, user_location
from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.tensors import duplicate, is_writable
from tapegrad.rules.activity import is_inert
from tapegrad.rules.op import Traced
from tapegrad.trace import views
from tapegrad.trace.constructor_calls import callee
from tapegrad.trace.guards import NUMERIC
from tapegrad.trace.outside_arrays import write_refused
from tapegrad.tree.flatten import flatten, is_leaf


@functools.cache
def place_of_out(meaning: Callable[..., Any]) -> int:
    """Return which of a meaning's arguments, which are those of the function it stands for, is `out`; 0 where none is."""
    code = getattr(inspect.unwrap(meaning), "__code__", None)
    names = () if code is None else code.co_varnames[:code.co_argcount]
    return names.index("out") if "out" in names else 0


def call_plainly(tracer: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that tapegrad does not know on constants alone; an array that it returns is another."""
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [])
    handed = [views.hand_out(leaf) if isinstance(leaf, Traced) else leaf for leaf in leaves]
    args, kwargs = structure.build(handed)
    value = func(*args, **kwargs)
    if type(value) is not np.ndarray or not is_leaf(value):
        return value
    sharing = [x for x, copy in zip(leaves, handed) if copy is not x and isinstance(copy, np.ndarray) and np.may_share_memory(value, copy)]
    if sharing:  # it is a view of an argument, or that itself: of its copy, here
        value = duplicate(value)
        value.flags.writeable = all(is_writable(behind(x)) for x in sharing)
    y = tracer.proxy(tracer.constant(id(value), value, value), value, tracer)
    for x in sharing:
        views.place(x).storage.relate(views.place(y).storage)
    return y


def takes(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function takes these arguments, where what it means here does not: it is called on copies of them, in silence."""
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [])
    args, kwargs = structure.build([duplicate(behind(x)) if isinstance(behind(x), np.ndarray) else behind(x) for x in leaves])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            func(*args, **kwargs)
    except Exception:
        return False
    return True


def asker(frame: FrameType) -> str:
    """Return which C function a frame calls just now, and by what expression it is held: "" where the interpreter, or the file, does not tell."""
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    code, at = frame.f_code, frame.f_lasti
    if not hasattr(code, "co_positions") or not dis.opname[code.co_code[at]].startswith("CALL"):
        return ""
    first, last, begin, end = next(itertools.islice(code.co_positions(), at // 2, None))
    try:
        call = ast.parse(linecache.getline(code.co_filename, first).encode()[begin:end] if first == last else b"", mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if not isinstance(call, ast.Call):
        return ""
    held, fn = ast.unparse(call.func), _resolve(call.func, frame)
    if not isinstance(fn, (BuiltinFunctionType, np.ufunc, type)):
        return f"{held} of {Path(code.co_filename).name}: "
    name = fn.__name__ if (module := getattr(fn, "__module__", None)) in (None, "builtins") else f"{module}.{fn.__name__}"
    return f"{name}: " if held in (name, "np." + fn.__name__) else f"{name}, held in {held} of {Path(code.co_filename).name}: "


def _resolve(node: ast.expr, frame: FrameType) -> Any:
    """Return what an expression leads to, None where one would have to run the program's code for that."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, vars(builtins).get(node.id)))
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, frame)
        found = vars(owner).get(node.attr) if isinstance(owner, ModuleType) else inspect.getattr_static(owner, node.attr, None)
        return found.__func__ if isinstance(found, staticmethod) else found
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, key = _resolve(node.value, frame), node.slice.value
        if type(owner) is dict:
            return owner.get(key)
        return owner[key] if type(owner) in (list, tuple) and isinstance(key, int) and -len(owner) <= key < len(owner) else None
    return None


def content(x: Any, frame: FrameType) -> Any:
    """Return the content of a traced array, which a frame asks for: a constant, or what no gradient flows through, which is guarded.

    Raises ConcretizationError where a gradient would be lost.
    """
    op, val = views.peek(x), behind(x)
    if not x._tracer.independent(op):
        if getattr(val, "dtype", None) is None or val.dtype.kind not in NUMERIC or not (is_inert(op) or _is_index(val, frame)):
            raise lost(x, asker(frame) + "np.asarray or another C function asked for a plain array",
                       "stay with functions of NumPy that take arrays; a rule, @tg.rrule(fn), makes a function one operation; "
                       "tg.value(x) drops the gradient on purpose")
        for fact, value in (("shape", val.shape), ("dtype", val.dtype), ("content", val.tobytes())):
            x._tracer.guard(op, fact, value)
    return views.hand_out(x)


_SUBSCRIPTS = frozenset(["BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR"])
_OPERATORS = [symbol for _, symbol in getattr(dis, "_nb_ops", [])]  # Python 3.14 reads a part by an operator, which has no instruction of its own


def _is_index(x: Any, frame: FrameType) -> bool:
    """True for integers or a mask by which a frame reads or writes a part of an array just now."""
    if x.dtype.kind not in ("b", "i", "u"):
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    name = dis.opname[code[at]]
    return name in _SUBSCRIPTS or (name == "BINARY_OP" and _OPERATORS[code[at + 1]:][:1] == ["[]"])


_WRITES = frozenset(["STORE_SUBSCR", "STORE_SLICE"])
_WRITING = frozenset(["fill", "put", "__setitem__"])  # methods of plain arrays


def _writes(frame: FrameType) -> bool:
    """True if a frame writes into something that is not traced just now."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return name in _WRITES or (name.startswith("CALL") and not _WRITING.isdisjoint(callee(frame.f_code, frame.f_lasti)[-1:]))


def lost(proxy: Any, what: str, try_: str) -> TapeError:
    """Return the refusal of a plain value of a traced one: of a write, where a plain array asks for it that is written into."""
    err = write_refused() if _writes(program_frame()) else \
        ConcretizationError(f"{what}, and the gradient through {proxy._op.name} would be lost", user_location(), try_)
    proxy._tracer.refuse(err)
    return err


def program_frame() -> FrameType:
    """Return the innermost frame that is not tapegrad's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    return frame
