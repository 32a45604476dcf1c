"""call_arguments: calls on plain values, the position of `out=`, and the plain contents of values without gradient."""

from __future__ import annotations

import dis
import functools
import inspect
import warnings
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.dtypes import NUMERIC, letter
from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.formatting import plain as behind
from tapegrad.numbers.tensors import duplicate, is_tensor, is_writable
from tapegrad.rules.activity import carries_no_gradient
from tapegrad.rules.op import PROXIES, Traced
from tapegrad.trace import views
from tapegrad.trace.concretize import asked, asking_class, reads_part
from tapegrad.trace.plain_arguments import gives_up, loses
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.flatten import flatten, is_leaf


@functools.cache
def place_of_out(meaning: Callable[..., Any]) -> int:
    """Return the position of `out` among an implementation's arguments, which are those of its function; 0 if none."""
    code = getattr(inspect.unwrap(meaning), "__code__", None)
    names = () if code is None else code.co_varnames[:code.co_argcount]
    return names.index("out") if "out" in names else 0


def call_plainly(tracer: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an unknown function on values through which no gradient flows; a returned array becomes a traced constant.
    """
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [])
    for leaf in leaves:
        if isinstance(leaf, Traced) and not leaf._tracer.independent(views.peek(leaf)):
            _guard_whole(leaf)
    handed = [views.read_only_copy(leaf) if isinstance(leaf, Traced) else leaf for leaf in leaves]
    args, kwargs = structure.build(handed)
    value = func(*args, **kwargs)
    if type(value) is not np.ndarray or not is_leaf(value):
        return value
    sharing = [x for x, copy in zip(leaves, handed) if copy is not x and isinstance(copy, np.ndarray)
               and np.may_share_memory(value, copy)]
    if sharing:  # the result is an argument or a view of one, here of the copy that was handed out
        value = duplicate(value)
        value.flags.writeable = all(is_writable(behind(x)) for x in sharing)
    y = tracer.proxy(tracer.constant(id(value), value, value), value, tracer)
    for x in sharing:
        views.place(x).storage.relate(views.place(y).storage)
    return y


def _guard_whole(x: Any) -> None:
    """Guard a traced number or array."""
    val = behind(x)
    if isinstance(val, (np.ndarray, np.generic)):
        guard_content(x)
    else:
        (complex if isinstance(val, complex) else float)(x)


def rehearse(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function on plain values and copies of the arrays, which it may write to; it may raise and warn."""
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [], shared=False)
    args, kwargs = structure.build([np.copy(x) if isinstance(x, np.ndarray) else x for x in map(behind, leaves)])
    return fn(*args, **kwargs)


def takes(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether the function accepts these arguments, where its implementation here does not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rehearse(func, args, kwargs)
    except Exception:
        return False
    return True


def content(x: Any, frame: FrameType) -> Any:
    """Return the content of a traced array for a frame that converts it: of a constant, or guarded if no gradient
    flows.

    Raises ConcretizationError if a gradient would be lost.
    """
    op, val = views.peek(x), behind(x)
    if not x._tracer.independent(op) or isinstance(x._val, Traced):
        number = type(val) in PYTHON
        if ((not number and (getattr(val, "dtype", None) is None or letter(val.dtype) not in NUMERIC))
            or (loses(x) and (number or not _is_index(val, frame)) and not gives_up(x))):
            if (whole := _whole(x, frame)) is not None:
                return whole
            raise asked(x, "a plain array")
        (_guard_whole if number else guard_content)(x)
    return views.read_only_copy(x)


def _whole(x: Any, frame: FrameType) -> Any:
    """Return, guarded as by `int(x)`, a traced number as the NumPy integer or bool class that the frame is calling
    makes it; None if it calls no such class.
    """
    fn = None if shape_of(behind(x)) else asking_class(frame)
    if fn is None or not issubclass(fn, (np.integer, np.bool_)):
        return None
    value = x._ask(fn, behind(x))
    if fn is not np.bool_ and not np.isfinite(behind(x)):
        return None  # casting inf or nan gives an arbitrary integer
    (bool if fn is np.bool_ else int)(x)
    return np.asarray(value)


def guard_content(x: Any) -> Any:
    """Return the values of a traced array and guard them in this trace and in outer ones: control depends on them. An
    unwanted gradient through them is given up.
    """
    val = behind(x)
    while isinstance(x, Traced):
        op = views.peek(x)
        content = "content" if carries_no_gradient(op) else "data"
        for fact, value in (("shape", val.shape), ("dtype", val.dtype), (content, val.tobytes())):
            x._tracer.guard(op, fact, value)
        x = x._val
    return val.copy()


def _is_index(x: Any, frame: FrameType) -> bool:
    """Return whether integers or a mask are the index of the read or write that a frame is executing."""
    if x.dtype.kind not in ("b", "i", "u"):
        return False
    code, at = frame.f_code, frame.f_lasti
    return dis.opname[code.co_code[at]] in ("STORE_SUBSCR", "DELETE_SUBSCR") or reads_part(code, at)


def answers_ufuncs(kind: type) -> bool:
    """Return whether a class outside NumPy and tapegrad defines `__array_ufunc__`."""
    return callable(getattr(kind, "__array_ufunc__", None)) and not issubclass(kind, (Traced, np.ndarray, np.generic))


def comes_first(kind: type) -> bool:
    """Return whether arrays leave an operator to objects of this class."""
    return kind not in ARRAYS and (getattr(kind, "__array_ufunc__", kind) is None
                                   or getattr(kind, "__array_priority__", 0.0) > 0.0)


ARRAYS: set[type] = set()  # array classes of other libraries, treated as NumPy's beside traced values


def shown_array(x: Any) -> Any:
    """Return the array, possibly traced, that an object's own `__array__` returns; other objects unchanged."""
    cls = type(x)
    if cls in ARRAYS:
        return np.asarray(x)
    if cls in PROXIES or is_tensor(x) or is_foreign(cls.__module__) or hasattr(cls, "__array_function__"):
        return x
    return x.__array__() if type(getattr(cls, "__array__", None)) is FunctionType else x


def shown_arrays(inputs: tuple[Any, ...]) -> Any:
    """Return ufunc operands with objects replaced by their arrays; None if one of them defines `__array_ufunc__`."""
    return None if any(answers_ufuncs(type(x)) for x in inputs) else tuple(map(shown_array, inputs))
