"""parallel: the threads that help the one that computes, and a function of long arrays that they compute together.

NumPy's ufuncs release the interpreter lock, but run in one thread. In parts that begin at multiples of a vector's
length they give the same bits.
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

LONG = 1 << 20  # elements of an array, from which on a function of it is computed in parts
# elements of a part: each costs a handover of the interpreter lock, and at the end a thread
# waits for the last of another
PART = 1 << 17

_OPERATORS: dict[Any, np.ufunc] = {operator.add: np.add, operator.sub: np.subtract, operator.mul: np.multiply,
                                   operator.truediv: np.divide, operator.neg: np.negative, operator.abs: np.absolute}
_empty, _errstate = np.empty, np.errstate  # a trace replaces both in NumPy


def usual() -> int:
    """Return how many threads there are unless a program says so: what OMP_NUM_THREADS says, or one for each processor
    that this process may use.
    """
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


COUNT = np.array([usual()], np.int64)
"""How many threads compute together: machine code reads it, too."""


def set_num_threads(n: int) -> None:
    """Say on how many threads tapegrad computes: functions of long arrays, and independent large products of compiled
    functions. The default is `OMP_NUM_THREADS`, or one for each processor that the process may use.

    >>> before = get_num_threads()
    >>> set_num_threads(2)
    >>> get_num_threads()
    2
    >>> set_num_threads(before)
    """
    if type(n) is not int or n < 1:
        raise ArgumentError(f"tapegrad cannot compute on {n!r} threads", None, "tg.set_num_threads(1), or more")
    COUNT[0] = n
    workers.cache_clear()


def get_num_threads() -> int:
    """Return on how many threads tapegrad computes."""
    return int(COUNT[0])


@cache
def workers() -> ThreadPoolExecutor:
    """Return the threads that help those that call: made when first needed, one less than compute together."""
    return futures.ThreadPoolExecutor(max(get_num_threads() - 1, 1), "tapegrad")  # type: ignore[no-any-return]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=workers.cache_clear)  # a child has not its parent's threads


def together(work: Callable[[], None], helpers: int) -> None:
    """Run `work`, which does what there is left to do, here and in as many other threads where those are idle;
    an error of one is raised here.
    """
    others: list[Future[None]] = []
    try:
        with suppress(RuntimeError):  # Python is about to end, and begins nothing new
            for _ in range(helpers):
                others.append(workers().submit(work))
        work()
    finally:
        others = [other for other in others if not other.cancel()]  # those that have not begun find nothing left to do
        futures.wait(others)
    for other in others:
        other.result()


def in_parts(fn: Callable[..., Any], *args: Any, out: Any = None) -> Any:
    """Return `fn(*args)`, of a long array computed by several threads; `out` is an array to write the
    value into, where it fits.

    A shorter one is computed in one piece. Where NumPy has anything to warn of, or to raise, the call is made again as
    it is: so settings and filters mean what they mean.

    >>> in_parts(operator.mul, np.ones(3), 2.0)
    array([2., 2., 2.])
    """
    ufunc = _OPERATORS.get(fn, fn)
    like = _like(args, LONG if out is None else 1)
    if (like is None or not like.ndim or type(ufunc) is not np.ufunc
        or not _keeps_dtype(ufunc, like.dtype.char, len(args))):
        out = None  # there is room for another
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
    """Call `do` with numbers from 0 on, so many of them, on several threads; return whether NumPy had nothing to warn
    of, or to raise. An error of another kind is raised.
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
            flagged.append("error")  # no other thread needs to go on
            raise
    together(work, min(get_num_threads(), number) - 1)
    jobs.clear()  # the threads may hold `work` for a while
    return not flagged


def _like(args: tuple[Any, ...], least: int) -> np.ndarray[Any, Any] | None:
    """Return an array that an elementwise function's value will be like; None where the arguments are not all long
    arrays of a kind, and numbers.
    """
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
    """True for a ufunc that is element by element, from floats of a dtype to one of the same."""
    return char in "fd" and ufunc.signature is None and f"{char * arity}->{char}" in ufunc.types
