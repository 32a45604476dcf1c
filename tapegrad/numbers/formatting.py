"""formatting: short texts of values and of their types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.kinds import Array


def plain(value: Any) -> Any:
    """Return the number or array behind any number of proxies, without recording anything."""
    while hasattr(type(value), "_tracer"):
        value = value._val
    return value


PYTHON = frozenset([float, int, complex, bool])


def is_python(x: Array) -> bool:
    """True for a value that is neither a NumPy array or scalar nor a proxy of one."""
    return not isinstance(plain(x), (np.ndarray, np.generic))


def type_name(value: Any) -> str:
    """Return the short name of a value's type, with shape and device if it has them."""
    value = plain(value)
    if hasattr(type(value), "_type_name"):
        return value._type_name  # type: ignore[no-any-return]
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if dtype is None or shape is None or isinstance(value, type):
        return type(value).__name__
    return type_text(type(value), dtype, shape, getattr(value, "device", "cpu"))


def type_text(kind: type, dtype: Any = None, shape: Any = (), device: Any = "cpu") -> str:
    """Return the text of a class, or of a dtype with shape and device."""
    if dtype is None:
        return kind.__name__
    dims = f"[{','.join(map(str, shape))}]" if shape or not issubclass(kind, np.generic) else ""
    return f"{_name(dtype)}{dims}" + (f"@{device}" if str(device) != "cpu" else "")


_name = functools.lru_cache(maxsize=256)(str)  # the text of a dtype, which NumPy formats anew each time, in Python


def count_of(n: int, noun: str) -> str:
    """Return a count with its noun.

    >>> count_of(1, "input"), count_of(2, "input")
    ('1 input', '2 inputs')
    """
    return f"{n:,} {noun}" + ("" if n == 1 else "s")


def brief(value: Any, limit: int = 48) -> str:
    """Return an argument or a constant as short text."""
    value = plain(value)
    if hasattr(type(value), "_brief"):
        return value._brief  # type: ignore[no-any-return]
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop, value.step)]
        return ":".join(parts if value.step is not None else parts[:2])
    if value is Ellipsis:
        return "..."
    if isinstance(value, np.ndarray):
        if value.size > 4 or value.dtype == object:
            return f"<{type_name(value)}>"
        text = np.array2string(value, separator=", ", precision=4, floatmode="maxprec").replace("\n", " ")
    elif hasattr(type(value), "numel"):  # a tensor
        if value.numel() > 4:
            return f"<{type_name(value)}>"
        text = repr(value).replace("\n", " ")
    elif isinstance(value, np.generic):
        text = repr(value.item())
    elif isinstance(value, np.dtype):
        text = str(value)
    elif type(value) is int and value.bit_length() > 4096:
        text = f"<int of {value.bit_length()} bits>"  # Python refuses to format longer ones
    elif type(value) is bytes and len(value) > 16:
        text = f"<{len(value)} bytes>"
    elif callable(value):
        text = getattr(value, "__name__", None) or repr(value)
    else:
        text = repr(value)
        if " at 0x" in text:
            text = type(value).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


def quoted(value: Any) -> str:
    """Return the expected value as text for an error message; bytes by their length."""
    return brief(value) if type(value) is bytes else repr(value)


def name_of(fn: Any) -> str:
    """Return the name of a function, or of a callable object's class."""
    return getattr(fn, "__name__", type(fn).__name__)


def spelled(fn: Callable[..., Any]) -> str:
    """Return the name of a foreign function as programs write it.

    >>> spelled(np.linalg.inv), spelled(np.ndarray.sum)
    ('np.linalg.inv', 'x.sum')
    """
    if hasattr(fn, "__objclass__"):
        return f"x.{fn.__name__}"
    # scipy.optimize._minimize becomes scipy.optimize; a ufunc has no module
    module = (getattr(fn, "__module__", None) or "numpy").partition("._")[0]
    return f"{module.replace('numpy', 'np', 1)}.{fn.__name__}"
