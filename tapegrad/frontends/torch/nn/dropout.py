"""Dropout: the mask is drawn and recorded with the generator's state, then multiplied; a pullback draws nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from tapegrad import ops
from tapegrad.frontends.torch import random
from tapegrad.frontends.torch.nn.common import functional, number, real
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.rules.facts import CONSTANT, DRAWS
from tapegrad.rules.op import Op, Traced
from tapegrad.rules.registry import of_frontend


@functools.cache
def mask_op(func: Callable[..., Any]) -> Op:
    """Return the op that draws the factor of a dropout function, 0 or 1 / (1 - p); only the shape of its input is used.
    """
    def run(begin: Any, x: Array, p: float = 0.5) -> Any:
        return random.seeded(func)(begin, torch.ones_like(x), p)
    op = of_frontend(Op(f"{func.__name__}_mask", run, rule=CONSTANT, effects=DRAWS, torch=run))
    op.hosted = 1
    return op


def _dropout(func: Callable[..., Any], default: bool) -> Any:
    def meaning(input: Array, p: float = 0.5, training: bool = default) -> Any:
        p, training = number(p), bool(training)
        if not isinstance(input, Traced) or not real(input) or not 0 <= p <= 1:
            return NotImplemented
        if not training or p == 0:
            return input
        drawn, tracer = random.Drawn([plain(input)]), input._tracer
        factor = drawn.ended(tracer, mask_op(func)(drawn.begin(tracer)[0], input, **({"p": p} if p != 0.5 else {})))
        return ops.multiply(input, factor)
    return meaning


for _fn in (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d):
    mask_op(_fn)  # so that a saved tape that names it can be loaded
functional("nn.functional.dropout")(_dropout(F.dropout, True))
functional("nn.functional.dropout1d")(_dropout(F.dropout1d, True))
functional("nn.functional.dropout2d")(_dropout(F.dropout2d, True))
functional("nn.functional.dropout3d")(_dropout(F.dropout3d, True))
