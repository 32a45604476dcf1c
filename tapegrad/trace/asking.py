"""asking: who asks for the plain number or array behind a traced value, and is refused, with the one cure that fits."""

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
from tapegrad.rules.registry import COMPILED, CONSTRUCTORS, FOREIGN
from tapegrad.tape.tape import Input
from tapegrad.trace.constructor_calls import callee, spelled
from tapegrad.trace.handing import loses, taken
from tapegrad.trace.numpy_warnings import registry_of
from tapegrad.trace.outside_arrays import write_refused
from tapegrad.trace.views import peek
from tapegrad.tree.installed import is_installed

_OPERATORS = [symbol for _, symbol in getattr(dis, "_nb_ops", [])]
_CALLS = ("CALL", "PRECALL")  # Python 3.11 calls a builtin at the second, once it has seen which
_WRITES = frozenset(["STORE_SUBSCR", "STORE_SLICE"])
_WRITING = frozenset(["fill", "put", "__setitem__"])  # methods of plain arrays
_ON_PURPOSE = "tg.value(x) drops the gradient on purpose"


class Asker(NamedTuple):
    """What a frame calls just now: in words, and what that is, None where nobody can tell."""

    who: str
    fn: Any


def program_frame() -> FrameType:
    """Return the innermost frame that is not tapegrad's."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    return frame


def rounded_to(x: Any, ndigits: Any) -> int:
    """Return to how many digits a value is rounded; say once at the line that a wanted gradient stops there."""
    digits: int = operator.index(ndigits)
    if digits > 0 and isinstance(x, Traced) and x._tracer.grad and loses(x):
        where = user_location()
        if where is not None:
            warnings.warn_explicit(
                f"the derivative of what is rounded to {count_of(digits, 'digit')} is 0, and no gradient flows through "
                "it\n"
                "  try: the number itself where a gradient is wanted, and round() of the results; "
                "round(tg.value(x), n), if none is",
                UserWarning, where.file, where.line, *registry_of(where.file))
    return digits


def reads_part(code: CodeType, at: int) -> bool:
    """True for an instruction that reads a part, `x[i]`; Python 3.14 has an operator for that, and no instruction."""
    name = dis.opname[code.co_code[at]]
    return name == "BINARY_SUBSCR" or (name == "BINARY_OP" and _OPERATORS[code.co_code[at + 1]:][:1] == ["[]"])


def looks_up() -> bool:
    """True if the program looks something up just now, and keeps no key: `table[x]`, `x in table`, `table.get(x)`."""
    frame = program_frame()
    code, at = frame.f_code, frame.f_lasti
    name = dis.opname[code.co_code[at]]
    gets = name.startswith(("CALL", "PRECALL")) and callee(code, at)[-1:] == ("get",)
    return gets or name == "CONTAINS_OP" or reads_part(code, at)


def _or_left_out(x: Any) -> str:
    """Return the cure of leaving out the argument that a traced value follows from alone, where there are others; ""
    where it is no cure.
    """
    tape = x._tracer.tape
    reached = {source.id - 1 for source in sources(peek(x)) if isinstance(source, Input)}
    parts = [part for part in tape.structure.asked if part is not None
             and part.size] if x._tracer.grad and reached else []
    part = next((part for part in parts if reached <= {*range(part.start + 1, part.start + part.size + 1)}), None)
    if part is None or part is tape.structure.function or len(parts) < 2:
        return ""
    name = re.split(r"[.\[]", tape.ops[part.start + 1].label)[0]
    return f"; or leave {name} out of argnums=, if nobody differentiates by it"


def asked(proxy: Any, wanted: str) -> TapeError:
    """Return the refusal of a plain value of a traced one, `wanted` by who calls C just now; of a write, by a plain
    array that is written into.
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
            "an array of the list first: TABLE * np.array([a, b])" if operator else
            _cure(asker, frame) + _or_left_out(proxy),
        )
        err.outside = (operator or method) and str(frame.f_globals.get("__name__")).partition(".")[0]
    proxy._tracer.refuse(err)
    return err


def lost(proxy: Any, what: str, try_: str) -> ConcretizationError:
    """Return the refusal of what would lose the gradient through a traced value."""
    err = ConcretizationError(f"{what}, and the gradient through {proxy._op.name} would be lost", user_location(),
                              try_ + _or_left_out(proxy))
    proxy._tracer.refuse(err)
    return err


def pickled(x: Any, protocol: Any) -> Any:
    """Return how a traced value is pickled: as the plain number, if no gradient is lost by that."""
    number = taken(x)
    if number is x:
        raise lost(x, "multiprocessing sent a traced value to another process" if _is_sent() else
                   "a traced value was pickled or copied", "x.copy() for arrays, tg.value(x) for the plain value")
    return number.__reduce_ex__(protocol)


def _is_sent() -> bool:
    """Return whether `multiprocessing` pickles something: in a thread of its own, perhaps."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "multiprocessing.reduction":
        frame = frame.f_back
    return frame is not None


def _cure(asker: Asker, frame: FrameType) -> str:
    """Say what to do instead of a call of a C function by a frame."""
    fn = asker.fn
    numbers = isinstance(fn, type) and issubclass(fn, (float, complex, np.generic))
    if getattr(fn, "__name__", "") == "__new__" or (numbers and is_installed(frame.f_code.co_filename)):
        return f"finite differences of a function of yours that calls it, g = tg.differences(g); {_ON_PURPOSE}"
    if numbers:
        also = " (a + 1j * b, for complex(a, b))" if fn is complex else ""
        return f"leave the {fn.__name__}() out{also}; {_ON_PURPOSE}"
    if isinstance(fn, (BuiltinFunctionType, np.ufunc)) and (fn in FOREIGN or fn in CONSTRUCTORS):
        return f"call it by its module, {_spelled(fn)}(...): where it is held, nobody looks"
    if isinstance(fn, (WrapperDescriptorType, MethodDescriptorType)):
        name = fn.__name__
        if name in ("dot", "searchsorted"):
            return f"{'X @ w or ' if name == 'dot' else ''}np.{name}(X, w) in place of X.{name}(w); {_ON_PURPOSE}"
        spelled = f"operator.{name.strip('_')}(x, y)" if hasattr(operator, name) else f"x.{name}(...)"
        return f"the operator or the method of the value, {spelled}; {_ON_PURPOSE}"
    if not isinstance(fn, (BuiltinFunctionType, np.ufunc)) and type(fn).__name__ not in COMPILED:
        return (
            "functions of NumPy that take arrays; what calls C in a function of your own with a rule, "
            f"@tg.primitive and @tg.rrule; {_ON_PURPOSE}"
        )
    name, called, module = fn.__name__, asker.who.partition(",")[0], str(getattr(fn, "__module__", None) or "")
    whence = f"from {module} import {name}; " if module not in ("", "None", "builtins") else ""
    return (
        f"finite differences of it, said once before: {whence}tg.differences({name if whence else called}); or a rule; "
        "paste and complete\n"
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
    """True if a frame writes into something that is not traced just now."""
    name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return name in _WRITES or (
        name.startswith(_CALLS) and not _WRITING.isdisjoint(callee(frame.f_code, frame.f_lasti)[-1:])
    )


def _into_records(frame: FrameType) -> bool:
    """True if what a frame writes into just now, `records[name]`, is an array of records."""
    try:
        target = ast.parse(_text(frame.f_code, frame.f_lasti), mode="eval").body
    except (SyntaxError, ValueError):
        return False
    while isinstance(target, ast.Subscript):
        target = target.value
    return getattr(getattr(_resolve(target, frame), "dtype", None), "names", None) is not None


def _within(frame: FrameType) -> str:
    """Say which function of a library calls C, where the program does not itself."""
    name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
    return "" if is_users(frame) else f", called in {frame.f_globals.get('__name__', '')}.{name},"


def _users_call(err: Exception) -> Asker | None:
    """Return the program's own call that led to an error in a library."""
    found, step = None, err.__traceback__
    while step is not None:
        found = _asker(step.tb_frame, step.tb_lasti) if is_users(step.tb_frame) else found
        step = step.tb_next
    return found


def _asker(frame: FrameType, at: int | None = None) -> Asker:
    """Return which C function a frame calls just now, or at an instruction, and by what expression it is held."""
    unknown = Asker("a C function", None)
    code, at = frame.f_code, frame.f_lasti if at is None else at
    while at > 0 and dis.opname[code.co_code[at]] == "CACHE":  # of a call of a Python function
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
        return Asker(held, fn)
    if not isinstance(fn, (BuiltinFunctionType, np.ufunc, type)) and type(fn).__name__ not in COMPILED:
        return Asker(f"{held} of {file}", None)
    of_module = isinstance(call.func, ast.Attribute) and isinstance(_resolve(call.func.value, frame), ModuleType)
    name = held if of_module and held.endswith(f".{fn.__name__}") else _spelled(fn)
    return Asker(name if held in (name, "np." + fn.__name__) else f"{name}, held in {held} of {file},", fn)


def asking_class(frame: FrameType) -> Any:
    """Return the class that a frame calls just now, None where it calls none."""
    fn = _asker(frame).fn
    return fn if isinstance(fn, type) else None


def torch_asks() -> bool:
    """True if the program calls a C function of torch just now: it takes complex numbers, and asks for a real one."""
    fn = _asker(program_frame()).fn
    return isinstance(fn, BuiltinFunctionType) and str(fn.__module__).startswith("torch")


def _text(code: CodeType, at: int) -> str:
    """Return a call as the program spells it; of Python 3.10, which knows no columns, the name that it calls."""
    if not hasattr(code, "co_positions"):
        return f"{spelled(code, at)}()"
    first, last, begin, end = next(itertools.islice(code.co_positions(), at // 2, None))
    return linecache.getline(code.co_filename, first).encode()[begin:end].decode() if first == last else ""


def _resolve(node: ast.expr, frame: FrameType) -> Any:
    """Return what an expression leads to, None where one would have to run the program's code for that."""
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


# -- errors of compiled code that was given a traced value

_NAMES = (
    r"(?:\b(?:type|from|not|got|component:|convert|input) '?|\b'|apply to a '|received a ')"
    r"(?:Proxy|Scalar|Items|Tracked)\b"
    r"|^descriptor '\w+' (?:for|requires a) 'numpy\.ndarray'"
    r"|^No matching signature found|^Function call with ambiguous argument types"
    r"|^Expected a \d-dim C contiguous array|^Invalid call to pythranized function"
    r"|^Object of type (?:float|int|complex|bool|float64) is not JSON serializable"
    r"|^\w+\(\): incompatible function arguments\.|\b(?:got|not) tapegrad\.[\w.]+$"
)
"""What names the type of an argument, mypyc with its module; and what does not: Cython's functions for several types,
SciPy's for splines, Pythran's, json, which knows these types, and pybind11.
"""

_WHOLE = r"integer is required$|must be an? integer|^Could not convert object to NumPy "
"""What else is said where a whole number is asked for, in a line that names a traced one."""

_PROXIES = r"(?:an? )?'(?:Proxy|Scalar|Items|Tracked)'(?: object)?|\b(?:Items|Tracked)\b|\btapegrad\.[\w.]+$"


def in_our_words(err: Exception) -> ConcretizationError | None:
    """Return the refusal that an error of compiled code's is which was given a traced value: the program would not
    have got it untraced.
    """
    if isinstance(err, TapeError) or not isinstance(err, (TypeError, ValueError)) or not re.search(
            f"{_NAMES}|{_WHOLE}", str(err)):
        return None
    files = [(frame.f_code.co_filename, frame) for frame, _ in frames_of(err)]
    frame = next(
        (frame for file, frame in reversed(files) if file not in INTERNAL and file.endswith(".py")), files[-1][1]
    )  # Cython's have others
    whole = _whole_in(where_raised(err), frame)
    if not whole and not re.search(_NAMES, str(err)):
        return None
    asker, module = _asker(frame), str(frame.f_globals.get("__name__"))
    if asker.fn is None and not is_users(frame):
        asker = _users_call(err) or asker
    cure = ("np.where(mask, 0.0, x) and x[~mask] in place of a masked array" if module == "numpy.ma.core" else
            "tg.value(x) of each traced number in it, which drops its gradient: text has none"
            if module.startswith("json.") else f"int({whole}) in its place, which a tape guards" if whole else
            _cure(asker, frame))
    said = str(err).partition(" The following argument types")[0]
    return ConcretizationError(
        f"{asker.who}{_within(frame)} takes no traced value, and said: {re.sub(_PROXIES, 'a traced value', said)}",
        where_raised(err),
        cure,
    )


def _whole_in(where: Any, frame: FrameType) -> str:
    """Return the name of a traced whole number in the line of a frame that an error is of, "" if there is none."""
    line = linecache.getline(where.file, where.line) if where is not None else ""
    for name in map(str, re.findall(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", line)):
        if keyword.iskeyword(name):
            continue
        x = _resolve(ast.parse(name, mode="eval").body, frame)
        if isinstance(x, Traced) and isinstance(x._val, (int, np.integer)):
            return name
    return ""
