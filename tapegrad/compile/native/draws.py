"""draws: random numbers in native code: drawn once in a call, also where machine code leaves it afterwards."""

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

MOST = 1 << 24  # bytes that a call draws: all are kept until it returns


def raises(op: Operation) -> bool:
    """True for a call of a sweep that raises also where it is written for NumPy's numbers, as `Rest` does."""
    return may_raise(op) and not is_calm(op)


class Drawing:
    """Draws numbers: a function of what a tape is given, `given` there, to a tuple of what it returns. The last item of
    that gives them back, if NumPy's warnings are errors now.
    """

    def __init__(self, tape: Tape, given: Sequence[Operation], sources: Sequence[Any]) -> None:
        self.tape = tape
        self.at = [given.index(x) if isinstance(x, Input) else -1 for x in sources]
        self.sources = [x.val if isinstance(x, Constant) else x for x in sources]

    def compiled(self) -> Callable[..., Any]:
        """Return it as a function."""
        draw_all, places = compile_tape(self.tape, checks=False), [*zip(self.at, self.sources)]

        def drawn(*args: Any) -> tuple[Any, ...]:
            give_back = hold([x if at < 0 else args[at] for at, x in places]) if strict() else None
            return *draw_all(*args), give_back
        return drawn


class Rest:
    """What a call computes once its numbers are drawn, as straight-line Python: where machine code leaves then, it goes
    on with these.
    """

    def __init__(self, tape: Tape, draws: Sequence[Operation], made: Sequence[Operation]) -> None:
        self.tape, self.draws, self.made, self._function = tape, draws, made, None

    def __call__(self, drawn: tuple[Any, ...], straight: Any) -> Callable[..., Any]:
        """Return what makes the call; `straight` is what makes it where nothing is drawn."""
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
        """Return the tape with what was drawn as its last inputs."""
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
    """Give back what was drawn; return what makes the call where nothing is drawn."""
    give_back()
    return straight


def held(*sources: Any) -> Callable[[], None]:
    """Return what sets random generators back to the states that they have now."""
    return hold(sources)
