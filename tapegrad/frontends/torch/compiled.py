"""Functions compiled by torch.compile run uncompiled while a trace runs: compiled code would see proxies and lose their
gradient.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from tapegrad.trace.recorder import TRACE_HOOKS, Tracer


class Eager:
    """Counts the running traces; turns torch's compiler off when the first begins, and on when the last ends."""

    def __init__(self) -> None:
        self.lock, self.depth, self.stance = threading.Lock(), 0, None

    def begin(self, tracer: Tracer) -> Callable[[], None]:
        """Begin a trace, if torch's compiler has been imported; return a function that ends it."""
        compiler = sys.modules.get("torch._dynamo.eval_frame")
        if compiler is None or not hasattr(compiler, "_set_stance"):
            return _nothing
        with self.lock:
            if self.depth == 0:
                self.stance = compiler._set_stance(compiler.DynamoStance("force_eager"))
            self.depth += 1
        return functools.partial(self.end, compiler)

    def end(self, compiler: Any) -> None:
        """End a trace."""
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                compiler._set_stance(self.stance)


def _nothing() -> None:
    """Do nothing."""


TRACE_HOOKS.append(Eager().begin)
