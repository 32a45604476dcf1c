"""residuals: the primal values that a rule reads.

A rule declares them by its parameters. A partial is a function of (dy, y, *args); it reads only the type, shape and
dtype of a parameter whose name begins with an underscore. All other parameters, and all values for a rule of another
form, are residuals.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Operation, operands


def needed(call: Call, active: Sequence[int]) -> Iterator[Operation]:
    """Yield the operations whose values the reverse sweep of `call` reads; `active` marks those with cotangents."""
    fn, known = call.fn, (call, *call.args)
    partials = fn.partials if type(fn) is Op else None
    if type(partials) is not tuple:
        yield call
        yield from operands(call)
        return
    for partial, x in zip(partials, call.args):
        if partial is not None and isinstance(x, Operation) and active[x.id]:
            places, rest = reads(partial)
            yield from (op for place, op in enumerate(known) if isinstance(op, Operation)
                        and (place in places or place >= rest))


@functools.cache
def reads(partial: Callable[..., Any]) -> tuple[Collection[int], float]:
    """Return the positions in (y, *args) that a partial reads, and the position from which on it reads all.

    >>> from tapegrad import ops
    >>> reads(ops.exp.partials[0]), reads(ops.multiply.partials[0]), reads(ops.sum.partials[0])
    (([0], inf), ([2], inf), ([], inf))
    """
    try:
        # of the wrapped function: a wrapped derivative has no dy parameter
        parameters = list(inspect.signature(partial).parameters.values())
    except ValueError:  # C code without a signature
        return [], 0
    if not hasattr(partial, "__wrapped__") or parameters[0].name == "dy":
        del parameters[0]
    read: list[int] = []
    for place, parameter in enumerate(parameters):
        is_read = not parameter.name.startswith("_")
        if parameter.kind is parameter.VAR_POSITIONAL:
            return read, place if is_read else float("inf")
        if is_read and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            read.append(place)
    return read, float("inf")
