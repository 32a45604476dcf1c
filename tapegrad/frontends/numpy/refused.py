"""NumPy's functions of arrays that no tape can hold, each with the reason and what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import UnknownFunction, user_location
from tapegrad.rules import register


def refused(name: str, why: str, try_: str) -> UnknownFunction:
    """Return the error that a call of `name` with a traced value raises."""
    return UnknownFunction(f"{name} cannot be recorded: {why}", user_location(), try_)


def _refuse(name: str, why: str, try_: str) -> Callable[..., Any]:
    def raises(*args: Any, **kwargs: Any) -> Any:
        raise refused(name, why, try_)
    return raises


PLAIN = "tg.value(x), which drops the gradient on purpose"
BYTES = "it reads the bytes of numbers as other numbers"
MEMORY = "which memory arrays share is not a question of values, and differs from run to run"
LEAVES = "the numbers leave the program, and their gradient with them"
DATES = "dates have no derivative"

REFUSED: list[tuple[str, str, list[Any]]] = [
    (BYTES, "x.astype(dtype)", [np.packbits, np.unpackbits, np.ndarray.byteswap, np.ndarray.getfield, np.ndarray.setfield]),
    (LEAVES, PLAIN, [np.save, np.savetxt, np.savez, np.savez_compressed, np.ndarray.dump, np.ndarray.dumps, np.ndarray.tobytes, np.ndarray.tofile,
                     np.ndarray.data, np.ndarray.ctypes]),
    (MEMORY, "np.may_share_memory(tg.value(x), tg.value(y))", [np.may_share_memory, np.shares_memory, np.ndarray.base]),
    (DATES, PLAIN, [np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string]),
    ("it changes the array itself, and not its numbers", "a new array: np.resize(x, shape), x.copy()", [np.ndarray.resize, np.ndarray.setflags]),
    ("whether it returns the real part depends on how small the imaginary part is", "x.real", [np.real_if_close]),
    ("the smallest dtype depends on the value", "x.dtype", [np.min_scalar_type]),
]
for _reason, _try, _functions in REFUSED:
    for _fn in _functions:
        _name = f"{'x' if hasattr(_fn, '__objclass__') else 'np'}.{_fn.__name__}"
        register(_fn, _refuse(_name, _reason, _try))
