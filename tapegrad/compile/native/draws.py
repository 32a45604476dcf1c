"""draws: random numbers in native code, drawn once in a call even if native code bails out afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tapegrad.compile.groups import ungrouped
from tapegrad.compile.numpy.call_source import is_calm
from tapegrad.compile.numpy.function import compile_tape
from tapegrad.replay.interpreter import bind
from tapegrad.replay.raising import may_raise
from tapegrad.replay.random_state import hold
from tapegrad.replay.warning_errors import strict
from tapegrad.tape.spec import absent
from tapegrad.tape.tape import Constant, Input, Operation, Tape
from tapegrad.transforms.walk import Walk

MOST = 1 << 24  # bytes drawn in a call, at most: all are kept until it returns


def raises(op: Operation) -> bool:
    """Return whether a call raises even in `calm` code, which `Rest` runs: there NumPy computes nan or inf instead."""
    return may_raise(op) and not is_calm(op)


class DrawFunction:
    """Draws all random numbers of a call: a function of the tape's inputs, ordered as `given`. The last item of its
    result restores the generators; it is None unless NumPy warnings are errors.
    """

    def __init__(self, tape: Tape, given: Sequence[Operation], sources: Sequence[Any]) -> None:
        self.tape = tape
        self.at = [given.index(x) if isinstance(x, Input) else -1 for x in sources]
        self.sources = [x.val if isinstance(x, Constant) else x for x in sources]

    def compiled(self) -> Callable[..., Any]:
        draw_all, places = compile_tape(self.tape, checks=False), [*zip(self.at, self.sources)]

        def drawn(*args: Any) -> tuple[Any, ...]:
            give_back = hold([x if at < 0 else args[at] for at, x in places]) if strict() else None
            return *draw_all(*args), give_back
        return drawn


class Rest:
    """The rest of a call after its random numbers are drawn, as straight-line Python: if native code bails out, this
    code continues with the same numbers.
    """

    def __init__(self, tape: Tape, draws: Sequence[Operation], made: Sequence[Operation]) -> None:
        self.tape, self.draws, self.made, self._function = tape, draws, made, None

    def __call__(self, drawn: tuple[Any, ...], straight: Any) -> Callable[..., Any]:
        """Return the function that finishes the call; `straight` is the fallback for a call that has drawn nothing."""
        return partial(self._finish, drawn, straight)

    def _finish(self, drawn: tuple[Any, ...], straight: Any, /, *args: Any, **kwargs: Any) -> Any:
        *numbers, give_back = drawn
        if self._function is None:
            self._function = compile_tape(self._after(), checks=False, calm=True)  # type: ignore[assignment]
        try:
            return self._function(*bind(self.tape, args, kwargs)[1:], *numbers)  # type: ignore[misc]
        except Exception:
            if give_back is None:
                raise
            give_back()
            return straight(*args, **kwargs) if callable(straight) else straight

    def _after(self) -> Tape:
        """Return the tape with the drawn numbers as its last inputs."""
        walk = Walk(self.tape)
        for x in self.tape.inputs:
            walk.keep(x)
        for op in self.made:
            walk.stand_in(op, walk.new.push(Input(absent(op.spec))))
        for op in self.tape.ops:
            if not isinstance(op, Input) and op not in self.draws:
                walk.keep(op)
        new = ungrouped(walk.done())
        new.structure = None
        return new


def set_back(give_back: Callable[[], None], straight: Any) -> Any:
    """Restore the generators and return the fallback for a call that has drawn nothing."""
    give_back()
    return straight


def held(*sources: Any) -> Callable[[], None]:
    """Return a function that restores the current states of random generators."""
    return hold(sources)
