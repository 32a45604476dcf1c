"""What a call makes of plain values: where its `out=` stands, calls of constants, the
content of what has no gradient.
"""

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
from tapegrad.rules.activity import is_inert
from tapegrad.rules.op import PROXIES, Traced
from tapegrad.trace import views
from tapegrad.trace.asking import asked, asking_class, reads_part
from tapegrad.trace.handing import gives_up, loses
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.flatten import flatten, is_leaf


@functools.cache
def place_of_out(meaning: Callable[..., Any]) -> int:
    """Return which of a meaning's arguments, which are those of the function it stands for,
    is `out`; 0 where none is.
    """
    code = getattr(inspect.unwrap(meaning), "__code__", None)
    names = () if code is None else code.co_varnames[:code.co_argcount]
    return names.index("out") if "out" in names else 0


def call_plainly(tracer: Any, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that tapegrad does not know on values through which no gradient flows; an array that it returns
    is another.
    """
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [])
    for leaf in leaves:
        if isinstance(leaf, Traced) and not leaf._tracer.independent(views.peek(leaf)):
            _guard_whole(leaf)
    handed = [views.hand_out(leaf) if isinstance(leaf, Traced) else leaf for leaf in leaves]
    args, kwargs = structure.build(handed)
    value = func(*args, **kwargs)
    if type(value) is not np.ndarray or not is_leaf(value):
        return value
    sharing = [x for x, copy in zip(leaves, handed) if copy is not x and isinstance(copy, np.ndarray)
               and np.may_share_memory(value, copy)]
    if sharing:  # it is a view of an argument, or that itself: of its copy, here
        value = duplicate(value)
        value.flags.writeable = all(is_writable(behind(x)) for x in sharing)
    y = tracer.proxy(tracer.constant(id(value), value, value), value, tracer)
    for x in sharing:
        views.place(x).storage.relate(views.place(y).storage)
    return y


def _guard_whole(x: Any) -> None:
    """Guard a traced value of any kind: a number, an array."""
    val = behind(x)
    if isinstance(val, (np.ndarray, np.generic)):
        guard_content(x)
    else:
        (complex if isinstance(val, complex) else float)(x)


def rehearse(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a function gives of plain values, and of copies of the arrays, to which it may write: it raises and
    warns as it does.
    """
    leaves: list[Any] = []
    structure = flatten((args, kwargs), "", leaves, [], shared=False)
    args, kwargs = structure.build([np.copy(x) if isinstance(x, np.ndarray) else x for x in map(behind, leaves)])
    return fn(*args, **kwargs)


def takes(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function takes these arguments, where what it means here does not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rehearse(func, args, kwargs)
    except Exception:
        return False
    return True


def content(x: Any, frame: FrameType) -> Any:
    """Return the content of a traced array, which a frame asks for: a constant, or what no gradient flows
    through, which is guarded.

    Raises ConcretizationError where a gradient would be lost.
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
    return views.hand_out(x)


def _whole(x: Any, frame: FrameType) -> Any:
    """Return the integer or bool that NumPy's class of such makes of a traced number, where that asks for it; guarded,
    as what `int(x)` gives is.
    """
    fn = None if shape_of(behind(x)) else asking_class(frame)
    if fn is None or not issubclass(fn, (np.integer, np.bool_)):
        return None
    value = x._ask(fn, behind(x))
    if fn is not np.bool_ and not np.isfinite(behind(x)):
        return None  # what a cast makes of one is no whole number of it
    (bool if fn is np.bool_ else int)(x)
    return np.asarray(value)


def guard_content(x: Any) -> Any:
    """Return the numbers of a traced array, which steer the program: a tape holds for these alone, and so do those of
    the traces around it. Where they have a gradient that nobody wants, the tape has none by them.
    """
    val = behind(x)
    while isinstance(x, Traced):
        op = views.peek(x)
        content = "content" if is_inert(op) else "data"
        for fact, value in (("shape", val.shape), ("dtype", val.dtype), (content, val.tobytes())):
            x._tracer.guard(op, fact, value)
        x = x._val
    return val.copy()


def _is_index(x: Any, frame: FrameType) -> bool:
    """True for integers or a mask by which a frame reads or writes a part of an array just now."""
    if x.dtype.kind not in ("b", "i", "u"):
        return False
    code, at = frame.f_code, frame.f_lasti
    return dis.opname[code.co_code[at]] in ("STORE_SUBSCR", "DELETE_SUBSCR") or reads_part(code, at)


def answers_ufuncs(kind: type) -> bool:
    """True for a program's class that is no array's and says itself what ufuncs make of its objects."""
    return callable(getattr(kind, "__array_ufunc__", None)) and not issubclass(kind, (Traced, np.ndarray, np.generic))


def comes_first(kind: type) -> bool:
    """True for a class that arrays leave an operator to."""
    return kind not in ARRAYS and (getattr(kind, "__array_ufunc__", kind) is None
                                   or getattr(kind, "__array_priority__", 0.0) > 0.0)


ARRAYS: set[type] = set()  # of other libraries: beside traced values they are NumPy's


def shown_array(x: Any) -> Any:
    """Return the array that an object of a program's class shows itself as, which may be a traced one."""
    cls = type(x)
    if cls in ARRAYS:
        return np.asarray(x)
    if cls in PROXIES or is_tensor(x) or is_foreign(cls.__module__) or hasattr(cls, "__array_function__"):
        return x
    return x.__array__() if type(getattr(cls, "__array__", None)) is FunctionType else x


def shown_arrays(inputs: tuple[Any, ...]) -> Any:
    """Return what a ufunc is given with arrays for objects that show themselves as such; None where one of these says
    itself what ufuncs make of it.
    """
    return None if any(answers_ufuncs(type(x)) for x in inputs) else tuple(map(shown_array, inputs))
