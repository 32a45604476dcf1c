"""concretize: refusals of conversions from traced to plain values. Each names the function that asked and suggests
a fix.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import itertools
import keyword
import linecache
import operator
import os
import re
import sys
import warnings
from collections.abc import Callable
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import INTERNAL, ConcretizationError, TapeError, frames_of, is_users, user_location, where_raised
from tapegrad.numbers.formatting import count_of
from tapegrad.rules.activity import sources
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import COMPILED, CONSTRUCTORS, DISPATCH
from tapegrad.tape.tape import Input
from tapegrad.trace.constructor_calls import callee, spelled
from tapegrad.trace.global_arrays import write_refused
from tapegrad.trace.numpy_warnings import registry_of
from tapegrad.trace.plain_arguments import loses, taken
from tapegrad.trace.views import peek
from tapegrad.tree.installed import is_installed

_OPERATORS = [symbol for _, symbol in getattr(dis, "_nb_ops", [])]
_CALLS = ("CALL", "PRECALL")  # in Python 3.11 a specialised builtin is called at PRECALL
_WRITES = frozenset(["STORE_SUBSCR", "STORE_SLICE"])
_WRITING = frozenset(["fill", "put", "__setitem__"])  # methods of plain arrays
_ON_PURPOSE = "tg.value(x) drops the gradient on purpose"


class Callee(NamedTuple):
    """The function that a frame is calling: its description for messages, and the object, None where it is unknown."""

    who: str
    fn: Any


def program_frame() -> FrameType:
    """Return the innermost frame that is not tapegrad's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    return frame


def rounded_to(x: Any, ndigits: Any) -> int:
    """Return `ndigits` as an int; warn, once per line, that no gradient flows through what is rounded to digits."""
    digits: int = operator.index(ndigits)
    if digits > 0 and isinstance(x, Traced) and x._tracer.grad and loses(x):
        where = user_location()
        if where is not None:
            warnings.warn_explicit(
                f"the derivative of a number rounded to {count_of(digits, 'digit')} is 0, so no gradient flows through "
                "it\n"
                "  try: leave round() out where a gradient is wanted, and round the results; "
                "round(tg.value(x), n) if none is wanted",
                UserWarning, where.file, where.line, *registry_of(where.file))
    return digits


def reads_part(code: CodeType, at: int) -> bool:
    """Return whether an instruction is a subscript read, `x[i]`, which is a BINARY_OP in Python 3.14."""
    name = dis.opname[code.co_code[at]]
    return name == "BINARY_SUBSCR" or (name == "BINARY_OP" and _OPERATORS[code.co_code[at + 1]:][:1] == ["[]"])


def looks_up() -> bool:
    """Return whether the program is at a lookup that stores no key: `table[x]`, `x in table`, `table.get(x)`."""
    frame = program_frame()
    code, at = frame.f_code, frame.f_lasti
    name = dis.opname[code.co_code[at]]
    gets = name.startswith(("CALL", "PRECALL")) and callee(code, at)[-1:] == ("get",)
    return gets or name == "CONTAINS_OP" or reads_part(code, at)


def _or_left_out(x: Any) -> str:
    """Return the suggestion to leave an argument out of argnums=, if the traced value depends on that argument alone
    and gradients by others are wanted; "" otherwise.
    """
    tape = x._tracer.tape
    reached = {source.id - 1 for source in sources(peek(x)) if isinstance(source, Input)}
    parts = [part for part in tape.structure.asked if part is not None
             and part.size] if x._tracer.grad and reached else []
    part = next((part for part in parts if reached <= {*range(part.start + 1, part.start + part.size + 1)}), None)
    if part is None or part is tape.structure.function or len(parts) < 2:
        return ""
    name = re.split(r"[.\[]", tape.ops[part.start + 1].label)[0]
    return f"; or leave {name} out of argnums= if its gradient is not needed"


def asked(proxy: Any, wanted: str) -> TapeError:
    """Return the error for a C call that needs a plain value of a proxy (`wanted` says which kind); if the frame is
    writing into a plain array, the error for that write.
    """
    frame = program_frame()
    if _writes(frame):
        err: TapeError = write_refused("an array of records" if _into_records(frame) else "an array")
    else:
        asker = _asker(frame)
        step = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        operator = asker.fn is None and step.startswith(("BINARY_", "INPLACE_"))
        method = step.startswith(_CALLS) and hasattr(np.ndarray, callee(frame.f_code, frame.f_lasti)[-1])
        who = "an operator of a plain array" if operator else f"{asker.who}{_within(frame)}"
        err = ConcretizationError(
            f"{who} asked for {wanted}, and the gradient through {proxy._op.name} would be lost",
            user_location(),
            "make an array of the list first: TABLE * np.array([a, b])" if operator else
            _cure(asker, frame) + _or_left_out(proxy),
        )
        err.outside = (operator or method) and str(frame.f_globals.get("__name__")).partition(".")[0]
    proxy._tracer.refuse(err)
    return err


def lost(proxy: Any, what: str, try_: str) -> ConcretizationError:
    """Record and return the error for an operation that would lose the gradient through a traced value."""
    err = ConcretizationError(f"{what}, and the gradient through {proxy._op.name} would be lost", user_location(),
                              try_ + _or_left_out(proxy))
    proxy._tracer.refuse(err)
    return err


def pickled(x: Any, protocol: Any) -> Any:
    """Return the `__reduce_ex__` result of the plain number; refuse where pickling would lose a gradient."""
    number = taken(x)
    if number is x:
        raise lost(x, "multiprocessing sent a traced value to another process" if _is_sent() else
                   "a traced value was pickled or copied", "x.copy() for arrays, tg.value(x) for the plain value")
    return number.__reduce_ex__(protocol)


def _is_sent() -> bool:
    """Return whether `multiprocessing` is pickling, possibly in a thread of its own."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "multiprocessing.reduction":
        frame = frame.f_back
    return frame is not None


def _cure(asker: Callee, frame: FrameType) -> str:
    """Return the suggestion for the C function that a frame is calling."""
    fn = asker.fn
    numbers = isinstance(fn, type) and issubclass(fn, (float, complex, np.generic))
    known = isinstance(fn, (BuiltinFunctionType, np.ufunc)) and (fn in DISPATCH or fn in CONSTRUCTORS)
    if getattr(fn, "__name__", "") == "__new__" or ((numbers or known) and is_installed(frame.f_code.co_filename)):
        return f"use finite differences of a function that calls it, g = tg.differences(g); {_ON_PURPOSE}"
    if numbers:
        also = " (a + 1j * b, for complex(a, b))" if fn is complex else ""
        return f"leave the {fn.__name__}() out{also}; {_ON_PURPOSE}"
    if known:
        return f"call it through its module, {_spelled(fn)}(...): a stored reference to it is not traced"
    if isinstance(fn, (WrapperDescriptorType, MethodDescriptorType)):
        name = fn.__name__
        if name in ("dot", "searchsorted"):
            return f"{'X @ w or ' if name == 'dot' else ''}np.{name}(X, w) in place of X.{name}(w); {_ON_PURPOSE}"
        spelled = f"operator.{name.strip('_')}(x, y)" if hasattr(operator, name) else f"x.{name}(...)"
        return f"use the operator or method of the value, {spelled}; {_ON_PURPOSE}"
    if not isinstance(fn, (BuiltinFunctionType, np.ufunc)) and type(fn).__name__ not in COMPILED:
        return (
            "use NumPy functions that take arrays; or put the call of C code in a function with a rule of its own, "
            f"@tg.primitive and @tg.rrule; {_ON_PURPOSE}"
        )
    name, called, module = fn.__name__, asker.who.partition(",")[0], str(getattr(fn, "__module__", None) or "")
    whence = f"from {module} import {name}; " if module not in ("", "None", "builtins") else ""
    return (
        f"use finite differences, declared once beforehand: {whence}tg.differences({name if whence else called}); or a "
        "rule; paste and complete\n"
        f"      @tg.primitive\n      def my_{name}(x):\n          return {called}(x)\n"
        f"      @tg.rrule(my_{name})\n      def _(x):\n"
        f"          return my_{name}(x), lambda dy: (...,)   # one cotangent per argument\n"
        f"    {_ON_PURPOSE}"
    )


def _spelled(fn: Callable[..., Any]) -> str:
    if fn.__name__ == "__new__":
        return f"{getattr(fn, '__self__', fn).__name__}.__new__"
    module = getattr(fn, "__module__", None)
    return str(fn.__name__) if module in (None, "builtins") else f"{module}.{fn.__name__}"


def _writes(frame: FrameType) -> bool:
    """Return whether a frame is writing into an object that is not traced."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return name in _WRITES or (
        name.startswith(_CALLS) and not _WRITING.isdisjoint(callee(frame.f_code, frame.f_lasti)[-1:])
    )


def _into_records(frame: FrameType) -> bool:
    """Return whether the target of the frame's write, `records[name]`, is an array of records."""
    try:
        target = ast.parse(_text(frame.f_code, frame.f_lasti), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    while isinstance(target, ast.Subscript):
        target = target.value
    return getattr(getattr(_resolve(target, frame), "dtype", None), "names", None) is not None


def _within(frame: FrameType) -> str:
    """Return the words that name the library function that calls C; "" if the program itself calls it."""
    name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return "" if is_users(frame) else f", called in {frame.f_globals.get('__name__', '')}.{name},"


def _users_call(err: Exception) -> Callee | None:
    """Return the call in the program that led to an error in a library."""
    found, step = None, err.__traceback__
    while step is not None:
        found = _asker(step.tb_frame, step.tb_lasti) if is_users(step.tb_frame) else found
        step = step.tb_next
    return found


def _asker(frame: FrameType, at: int | None = None) -> Callee:
    """Return the C function that a frame calls at instruction `at` (the current one by default), and its spelling."""
    unknown = Callee("a C function", None)
    code, at = frame.f_code, frame.f_lasti if at is None else at
    while at > 0 and dis.opname[code.co_code[at]] == "CACHE":  # cache entries of a call of a Python function
        at -= 2
    if not dis.opname[code.co_code[at]].startswith(_CALLS):
        return unknown
    try:
        call = ast.parse(_text(code, at), mode="eval").body
    except (SyntaxError, ValueError):
        return unknown
    if not isinstance(call, ast.Call):
        return unknown
    held, fn = ast.unparse(call.func), _resolve(call.func, frame)
    file = os.path.basename(code.co_filename)
    if isinstance(fn, (WrapperDescriptorType, MethodDescriptorType)):
        return Callee(held, fn)
    if not isinstance(fn, (BuiltinFunctionType, np.ufunc, type)) and type(fn).__name__ not in COMPILED:
        return Callee(f"{held} of {file}", None)
    of_module = isinstance(call.func, ast.Attribute) and isinstance(_resolve(call.func.value, frame), ModuleType)
    name = held if of_module and held.endswith(f".{fn.__name__}") else _spelled(fn)
    return Callee(name if held in (name, "np." + fn.__name__) else f"{name}, stored in {held} of {file},", fn)


def asking_class(frame: FrameType) -> Any:
    """Return the class that a frame is calling, None if it calls none."""
    fn = _asker(frame).fn
    return fn if isinstance(fn, type) else None


def torch_asks() -> bool:
    """Return whether the program is calling a C function of torch, which accepts complex numbers but wants a real one.
    """
    fn = _asker(program_frame()).fn
    return isinstance(fn, BuiltinFunctionType) and str(fn.__module__).startswith("torch")


def _text(code: CodeType, at: int) -> str:
    """Return the source text of a call; in Python 3.10, which has no column positions, the called name and `()`."""
    if not hasattr(code, "co_positions"):
        return f"{spelled(code, at)}()"
    first, last, begin, end = next(itertools.islice(code.co_positions(), at // 2, None))
    return linecache.getline(code.co_filename, first).encode()[begin:end].decode() if first == last else ""


def _resolve(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression, None if evaluating it would run the program's code."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, vars(builtins).get(node.id)))
    if isinstance(node, ast.Attribute):
        owner = _resolve(node.value, frame)
        found = (
            vars(owner).get(node.attr)
            if isinstance(owner, ModuleType)
            else inspect.getattr_static(owner, node.attr, None)
        )
        return found.__func__ if isinstance(found, staticmethod) else found
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner, key = _resolve(node.value, frame), node.slice.value
        if type(owner) is dict:
            return owner.get(key)
        return (
            owner[key]
            if type(owner) in (list, tuple) and isinstance(key, int) and -len(owner) <= key < len(owner)
            else None
        )
    return None


# -- errors raised by compiled code that received a traced value

_NAMES = (
    r"(?:\b(?:type|from|not|got|component:|convert|input) '?|\b'|apply to a '|received a ')"
    r"(?:Proxy|Scalar|Items|Tracked)\b"
    r"|^descriptor '\w+' (?:for|requires a) 'numpy\.ndarray'"
    r"|^No matching signature found|^Function call with ambiguous argument types"
    r"|^Expected a \d-dim C contiguous array|^Invalid call to pythranized function"
    r"|^Object of type (?:float|int|complex|bool|float64) is not JSON serializable"
    r"|^\w+\(\): incompatible function arguments\.|\b(?:got|not) tapegrad\.[\w.]+$"
)
"""Messages that name the type of an argument (mypyc's with its module), and messages that do not name it: Cython's
fused functions, SciPy's splines, Pythran, json (which knows these types) and pybind11.
"""

_WHOLE = r"integer is required$|must be an? integer|^Could not convert object to NumPy "
"""Messages that ask for a whole number; they count if the line that raised holds a traced one."""

_PROXIES = r"(?:an? )?'(?:Proxy|Scalar|Items|Tracked)'(?: object)?|\b(?:Items|Tracked)\b|\btapegrad\.[\w.]+$"


def translated_error(err: Exception) -> ConcretizationError | None:
    """Return the error to raise in place of an error of compiled code that received a traced value, None for other
    errors: untraced, the program would not have seen this one.
    """
    if isinstance(err, TapeError) or not isinstance(err, (TypeError, ValueError)) or not re.search(
            f"{_NAMES}|{_WHOLE}", str(err)):
        return None
    files = [(frame.f_code.co_filename, frame) for frame, _ in frames_of(err)]
    frame = next(
        (frame for file, frame in reversed(files) if file not in INTERNAL and file.endswith(".py")), files[-1][1]
    )  # Cython's frames have other file names
    whole = _whole_in(where_raised(err), frame)
    if not whole and not re.search(_NAMES, str(err)):
        return None
    asker, module = _asker(frame), str(frame.f_globals.get("__name__"))
    if asker.fn is None and not is_users(frame):
        asker = _users_call(err) or asker
    cure = ("np.where(mask, 0.0, x) and x[~mask] in place of a masked array" if module == "numpy.ma.core" else
            "pass tg.value(x) for each traced number in it, which drops the gradient: text has none"
            if module.startswith("json.") else f"pass int({whole}) instead; a tape guards its value" if whole else
            _cure(asker, frame))
    said = str(err).partition(" The following argument types")[0]
    return ConcretizationError(
        f"{asker.who}{_within(frame)} does not accept a traced value, and raised: "
        f"{re.sub(_PROXIES, 'a traced value', said)}",
        where_raised(err),
        cure,
    )


def _whole_in(where: Any, frame: FrameType) -> str:
    """Return the name of a traced whole number in the source line of a frame where an error was raised, "" if none."""
    line = linecache.getline(where.file, where.line) if where is not None else ""
    for name in map(str, re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", line)):
        if keyword.iskeyword(name):
            continue
        x = _resolve(ast.parse(name, mode="eval").body, frame)
        if isinstance(x, Traced) and isinstance(x._val, (int, np.integer)):
            return name
    return ""
