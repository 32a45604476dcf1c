"""early_draws: moves random draws of a tape to the first one."""

from __future__ import annotations

from collections.abc import Callable

from tapegrad.ops import default_rng, draw, pack
from tapegrad.replay.raising import may_raise
from tapegrad.replay.random_state import drawn_from, stops_after_drawing
from tapegrad.tape.tape import Call, Constant, Operation, Tape
from tapegrad.transforms.walk import Walk

MOST = 1 << 20  # bytes of draws that may stay alive longer than the program kept them


def early(tape: Tape, raises: Callable[[Operation], bool] = may_raise) -> list[Operation]:
    """Return all draws of a tape, then the tuples of nothing but draws, if all may be made at the first draw; else
    nothing. They may if no guard or error can end a call after the first draw, no computed value decides what a draw
    draws or from which generator, and no loop draws. `raises` decides which calls of a sweep raise.
    """
    found: list[Operation] = [op for op in tape.ops if op.fn is draw]
    if not found or len(found) < len([*drawn_from(tape)]) or stops_after_drawing(tape, raises) or any(
            op.fn is default_rng or (op.fn is draw and type(op.args[0]) is Call) for op in tape.ops):
        return []
    drawn = {*found}
    return found + [op for op in tape.ops if op.fn is pack and op is not tape.result and drawn.issuperset(op.args)]


def early_draws(tape: Tape) -> Tape:
    """Return a tape that makes all its draws at the first one, so that the rest may become loops; the same tape if that
    could change results or take more memory.
    """
    draws = [op for op in early(tape) if op.fn is draw]
    if len(draws) < 2 or sum(op.spec.nbytes for op in draws) > MOST:
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        if op is draws[0]:
            for each in (*[x for other in draws for x in other.args if type(x) is Constant], *draws):
                if walk.at[each.id] is None:
                    walk.keep(each)
        elif walk.at[op.id] is None:
            walk.keep(op)
    return walk.done()
