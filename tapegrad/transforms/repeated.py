"""repeated: a function of numbers that a solver calls many times, traced once and played from then on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.replay.interpreter import Memory, Run
from tapegrad.tape.liveness import last_uses
from tapegrad.tape.tape import Tape
from tapegrad.trace.tracer import trace
from tapegrad.transforms.vmap import Listener
from tapegrad.tree.copies import running


class Repeated:
    """A function of numbers and arrays. It is called as it is where a guard of its tape does not hold, and always where
    its second call does not agree with the tape of the first: it then changes from call to call.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.tape: Tape | None = None
        self.dead: list[Any] = []
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls == 1:
            return self._trace(args)
        if self.tape is None:
            return self.f(*args)
        try:
            found = self._play(self.tape, args)
        except TapeError:
            return self.f(*args)
        if self.calls == 2 and not np.array_equal(found, expected := self.f(*args), equal_nan=True):
            self.tape = None
            return expected
        return found

    def _trace(self, args: tuple[Any, ...]) -> Any:
        listener = Listener()
        running.observers = [*running.observers, listener]
        try:
            found, tape = trace(_Bare(self.f), *args)
        finally:
            running.observers = [other for other in running.observers if other is not listener]
        if not listener.heard:
            self.tape, self.dead = tape, last_uses(tape)
        return found

    def _play(self, tape: Tape, args: tuple[Any, ...]) -> Any:
        run = Run(tape, [None, *args], redraw=False)
        deque(run.replay(tape.ops, self.dead, Memory(tape)), 0)
        return run.result


class _Bare:
    """A function of which nothing that it captured is an input of a tape."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f

    def __call__(self, *args: Any) -> Any:
        return self.f(*args)
