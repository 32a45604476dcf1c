"""random_state: rewinds random generators when a replay fails, so that the next attempt draws the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tapegrad.ops import draw
from tapegrad.ops.checkpoint import is_checkpoint
from tapegrad.ops.loop import is_loop
from tapegrad.replay.raising import may_end_replay, may_raise
from tapegrad.replay.warning_errors import strict
from tapegrad.tape.subtape import carries
from tapegrad.tape.tape import Constant, Guard, Input, Operation, Tape, value_of
from tapegrad.trace.guards import FIXED
from tapegrad.trace.lazy_frontends import register_imported
from tapegrad.trace.random_state import SOURCES, state_of


def hold(sources: Iterable[Any], stops: bool = True) -> Callable[[], None]:
    """Return a function that restores generators to their present states, which are saved only if errors can occur."""
    states = [state_of(x) for x in sources] if stops or strict() else []

    def give_back() -> None:
        for restore, state in states:
            restore(state)
    return give_back


def sources_of(tape: Tape) -> list[Any]:
    """Return the random generators that a tape draws from (inputs, constants, objects), except those it creates."""
    found = {id(x): x for x in drawn_from(tape)}
    if not found:
        return []
    register_imported()  # an unpickled tape may be replayed before anything is traced
    held = [op for op in tape.ops if isinstance(op, (Input, Constant)) and op.id > 1 and type(op.val) in SOURCES]
    return [*held, *(x for x in found.values() if type(x) in SOURCES and all(op.val is not x for op in held))]


def values_of(sources: Iterable[Any], tape: Tape, leaves: Iterable[Any]) -> list[Any]:
    """Return the generator objects for a call with these leaves."""
    given = dict(zip(tape.inputs, leaves))
    return [given[x] if isinstance(x, Input) else value_of(x) for x in sources]


def drawn_from(tape: Tape) -> Iterator[Any]:
    """Yield the source of each draw of a tape; for a constant, its value."""
    for op in tape.ops:
        if op.fn is draw:
            yield op.args[0].val if type(op.args[0]) is Constant else op.args[0]
        elif is_loop(op):
            yield from drawn_from(op.fn.body)
        elif is_checkpoint(op):
            given = dict(zip(op.fn.body.inputs[1:], op.args))
            for source in drawn_from(op.fn.body):
                outer = given.get(source, source)
                yield outer.val if type(outer) is Constant else outer


def stops_after_drawing(tape: Tape, raises: Callable[[Operation], bool] = may_raise) -> bool:
    """True for a tape that may end by a guard or an error after a draw; `raises` tells which calls may raise."""
    drawn = False
    for op in tape.ops:
        draws = _draws(op)
        drawn = drawn or (draws and carries(op))
        if drawn and (_stops(op) or raises(op) or (draws and any(
                isinstance(arg, Operation) and type(arg) is not Constant for arg in op.args[1:]))):
            return True
        drawn = drawn or draws
    return False


def _stops(op: Operation) -> bool:
    if isinstance(op, Guard):
        return not (op.fact in FIXED and isinstance(op.args[0], Input))
    return may_end_replay(op)


def _draws(op: Operation) -> bool:
    return op.fn is draw or (carries(op) and any(map(_draws, op.fn.body.ops)))
