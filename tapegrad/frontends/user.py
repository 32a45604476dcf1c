"""What a user says of a traced value."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.rules.op import Traced
from tapegrad.trace import views
from tapegrad.trace.context import unrepeatable


def stop_gradient(x: Any) -> Any:
    """Return `x`, constant to every gradient.

    >>> import tapegrad as tg
    >>> tg.gradient(lambda x: x * tg.stop_gradient(x), 3.0)
    (3.0,)
    """
    return ops.stop_gradient(x)


def value(x: Any) -> Any:
    """Return the plain number or array behind a traced value; the gradient through it is dropped on purpose.

    The tape does not know of the number: a replay uses the one that was read while tracing, and `value_and_grad` compiles no such path.
    An array is a copy.

    >>> import tapegrad as tg
    >>> tg.gradient(lambda x: x * tg.value(x), 3.0)
    (3.0,)
    """
    if isinstance(x, Traced) and not x._tracer.independent(views.peek(x)):
        unrepeatable("it takes the plain number of a traced value by tg.value")
    while isinstance(x, Traced):
        x = x._val
    return x.copy() if isinstance(x, np.ndarray) else x
