"""residuals: which values of the primal pass a rule reads.

A rule says so by its parameters. A partial is a function of (dy, y, *args): a parameter whose name begins with an
underscore is not read, but for its type, shape and dtype. All else counts as read: other parameters, and the values of
a rule of another form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from tapegrad.rules.op import Op
from tapegrad.tape.tape import Call, Operation, operands


def needed(call: Call, active: Sequence[int]) -> Iterator[Operation]:
    """Yield the operations whose values the reverse sweep reads to pass the call, where `active` says by
    position which ones get cotangents.
    """
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
    """Return the places in (y, *args) that a partial reads, and the place from which on it reads all.

    >>> from tapegrad import ops
    >>> reads(ops.exp.partials[0]), reads(ops.multiply.partials[0]), reads(ops.sum.partials[0])
    (([0], inf), ([2], inf), ([], inf))
    """
    try:
        # of what it wraps: a derivative has no dy among them
        parameters = list(inspect.signature(partial).parameters.values())
    except ValueError:  # of C code
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
