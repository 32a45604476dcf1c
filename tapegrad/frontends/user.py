"""The public functions that a program calls on a traced value: stop_gradient, hook, nestlevel, value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.errors import ArgumentError, user_location
from tapegrad.numbers.formatting import brief, plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Traced
from tapegrad.trace import views
from tapegrad.trace.observers import unrepeatable
from tapegrad.tree.copies import running
from tapegrad.tree.flatten import flatten, is_leaf


def stop_gradient(x: Array) -> Any:
    """Return `x`, constant to every gradient.

    >>> import tapegrad as tg
    >>> tg.gradient(lambda x: x * tg.stop_gradient(x), 3.0)
    (3.0,)
    """
    return ops.stop_gradient(x)


def hook(fn: Callable[[Any], Any], x: Any) -> Any:
    """Return `x`, on whose cotangent the reverse sweep calls `fn`: to clip it, to scale it, to print it.

    `fn` returns the cotangent to continue with, of the same shape, or None to leave it as it is. In a batch it is
    called for each member, in a gradient of a gradient by the innermost sweep. An array is returned as a copy. Outside
    of traces `fn` is not called. Forward mode has no cotangents and refuses a hook. If `fn` may print or draw random
    numbers, the path is not compiled. A trace sees a copy of a list that the program captured, and a hook that appends
    to it raises MutationError: append to a global or to an attribute of a function instead. Raises ArgumentError if `x`
    is neither a number nor an array.

    >>> import tapegrad as tg
    >>> tg.gradient(lambda x: tg.hook(lambda dx: -dx, x) * x, 3.0)
    (0.0,)
    """
    if not callable(fn) or not is_leaf(x):
        raise ArgumentError(f"hook of {brief(fn)} and {brief(x)}", user_location(),
                            "tg.hook(fn, x) takes one number or array: use one hook for each")
    leaves: list[Any] = []
    structure = flatten(fn, "", leaves, [])
    captures = any(isinstance(leaf, Traced) for leaf in leaves)  # these proxies have expired when the sweep runs
    copied = captures or any(id(new) in structure.seen for tracer in running.tracers if tracer.rerouting is not None
                             for new, _ in tracer.rerouting.pairs)
    return ops.hook(x, *leaves if captures else (), fn=structure if captures else fn,
                    **{"tensors": True} if is_tensor(plain(x)) else {}, **{"copied": True} if copied else {})


def nestlevel() -> int:
    """Return the order of differentiation at this point: 0 outside of derivatives, 1 inside `grad`, `jvp` or another
    derivative, 2 inside one nested in it.

    The level is guarded: a tape is replayed only at the level that it was recorded at.

    >>> import tapegrad as tg
    >>> levels = []
    >>> def f(x):
    ...     levels.append(tg.nestlevel())
    ...     return x * x
    >>> tg.gradient(lambda x: tg.gradient(f, x)[0] + f(x), 3.0)
    (8.0,)
    >>> levels, tg.nestlevel()
    ([2, 1], 0)
    """
    level = 0
    for tracer in running.tracers:
        tracer.guard(tracer.tape.ops[0], "nestlevel", level)
        level += tracer.grad
    return level


def value(x: Any) -> Any:
    """Return the plain number or array behind a traced value; its gradient is dropped on purpose.

    The number is not on the tape: a replay would use the one read while tracing, so `value_and_grad` does not compile
    such a path. An array is a copy.

    >>> import tapegrad as tg
    >>> tg.gradient(lambda x: x * tg.value(x), 3.0)
    (3.0,)
    """
    if isinstance(x, Traced) and not x._tracer.independent(views.peek(x)):
        unrepeatable("it uses the plain number of a traced value, by tg.value")
    while isinstance(x, Traced):
        x = x._val
    return x.copy() if isinstance(x, np.ndarray) else x
