"""parallel: the worker threads, and elementwise functions of long arrays computed on several of them.

NumPy's ufuncs release the interpreter lock but run in one thread. Computed in parts that begin at multiples of a
vector's length they give the same bits.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.numbers.lazy import Lazy

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor
futures: Any = Lazy("concurrent.futures")

LONG = 1 << 20  # the number of elements from which an array is computed in parts
# elements of a part: each part costs a handover of the interpreter lock, and at the end threads wait for the last part
PART = 1 << 17

_OPERATORS: dict[Any, np.ufunc] = {operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
                                   operator.truediv: np.divide, operator.neg: np.negative, operator.abs: np.absolute}
_empty, _errstate = np.empty, np.errstate  # a trace replaces both in NumPy


def usual() -> int:
    """Return the default number of threads: OMP_NUM_THREADS, or one per processor that this process may use."""
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


COUNT = np.array([usual()], np.int64)
"""The number of threads in use; machine code reads it too."""


def set_num_threads(n: int) -> None:
    """Set the number of threads on which tapegrad computes functions of long arrays, and independent large products in
    compiled functions. The default is `OMP_NUM_THREADS`, or one per processor that the process may use.

    >>> before = get_num_threads()
    >>> set_num_threads(2)
    >>> get_num_threads()
    2
    >>> set_num_threads(before)
    """
    if type(n) is not int or n < 1:
        raise ArgumentError(f"the number of threads is {n!r}", None, "tg.set_num_threads(1), or more")
    COUNT[0] = n
    workers.cache_clear()


def get_num_threads() -> int:
    """Return the number of threads on which tapegrad computes."""
    return int(COUNT[0])


@cache
def workers() -> ThreadPoolExecutor:
    """Return the pool of worker threads, created on first use; the caller computes too and is not counted."""
    return futures.ThreadPoolExecutor(max(get_num_threads() - 1, 1), "tapegrad")  # type: ignore[no-any-return]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # a child process does not inherit threads


def together(work: Callable[[], None], helpers: int) -> None:
    """Run `work`, which takes tasks until none are left, here and in up to `helpers` idle workers; raise their errors.
    """
    others: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # the interpreter is shutting down and starts no threads
            for _ in range(helpers):
                others.append(workers().submit(work))
        work()
    finally:
        others = [other for other in others if not other.cancel()]  # workers that have not started find no task left
        futures.wait(others)
    for other in others:
        other.result()


def in_parts(fn: Callable[..., Any], *args: Any, out: Any = None) -> Any:
    """Return `fn(*args)`, computed by several threads for long arrays; `out` is an array to write into if it fits.

    Shorter arrays are computed in one piece. If NumPy would warn or raise, the call is repeated in one piece, so that
    error settings and warning filters apply as usual.

    >>> in_parts(operator.mul, np.ones(3), 2.0)
    array([2., 2., 2.])
    """
    ufunc = _OPERATORS.get(fn, fn)
    like = _like(args, LONG if out is None else 1)
    if (like is None or not like.ndim or type(ufunc) is not np.ufunc
        or not _keeps_dtype(ufunc, like.dtype.char, len(args))):
        out = None  # free its memory before the new result is allocated
        return fn(*args)
    if out is None or out.shape != like.shape or out.dtype != like.dtype or not (out.flags.c_contiguous
                                                                                 and out.flags.writeable):
        out = None
        if like.size < LONG:
            return fn(*args)
        out = _empty(like.shape, like.dtype)
    if like.size < LONG:
        return ufunc(*args, out=out)
    into, flat = out.reshape(-1), [arg.reshape(-1) if type(arg) is np.ndarray else arg for arg in args]

    def part(k: int) -> None:
        here = slice(k * PART, (k + 1) * PART)
        ufunc(*[arg[here] if type(arg) is np.ndarray else arg for arg in flat], out=into[here])
    return out if quietly(part, -(-out.size // PART)) else fn(*args)


def quietly(do: Callable[[int], None], number: int) -> bool:
    """Call `do(k)` for k in range(number) on several threads; return whether no floating-point warning or error arose.
    """
    jobs, begun, flagged = [do], count(), list[str]()
    settings: dict[str, Any] = {what: "ignore" if how == "ignore" else "call" for what, how in np.geterr().items()}

    def work() -> None:
        do = jobs[0]
        try:
            with _errstate(**settings, call=lambda what, flag: flagged.append(what)):
                while not flagged and (k := next(begun)) < number:
                    do(k)
        except BaseException:
            flagged.append("error")  # tells the other threads to stop
            raise
    together(work, min(get_num_threads(), number) - 1)
    jobs.clear()  # the pool may keep `work` for a while
    return not flagged


def _like(args: tuple[Any, ...], least: int) -> np.ndarray[Any, Any] | None:
    """Return the first array if all arguments are numbers or long arrays of one shape and dtype, else None."""
    like = None
    for arg in args:
        if type(arg) is np.ndarray:
            like = arg if like is None else like
            if (arg.size < least or not arg.flags.c_contiguous or not arg.dtype.isnative or arg.shape != like.shape
                or arg.dtype != like.dtype):
                return None
        elif type(arg) is not float and type(arg) is not int:
            return None
    return like


@cache
def _keeps_dtype(ufunc: np.ufunc, char: str, arity: int) -> bool:
    """True for an elementwise ufunc from floats of a dtype to the same dtype."""
    return char in "fd" and ufunc.signature is None and f"{char * arity}->{char}" in ufunc.types
