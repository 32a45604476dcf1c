"""unroll: replaces loops by the calls of their iterations, and checkpoints by those of their bodies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from tapegrad.errors import TapeError
from tapegrad.ops import pack, whole_of, with_jacobian
from tapegrad.ops.checkpoint import is_checkpoint
from tapegrad.ops.loop import Loop, Runs, is_loop
from tapegrad.replay.interpreter import Run, lacks
from tapegrad.tape.check import check_is_tape
from tapegrad.tape.origin import Origin
from tapegrad.tape.tape import Call, Guard, Input, Operation, Tape, append_copy, drop
from tapegrad.transforms.walk import Walk


def unroll(tape: Tape) -> Tape:
    """Return a tape without loops; each call of a body appears once per iteration.

    Values are computed from those of the inputs, if they have some; otherwise the calls of a body have the values of
    one iteration.

    >>> import tapegrad as tg
    >>> value, tape = tg.trace(lambda x: sum(x ** k for k in range(20)), 1.5)
    >>> rolled = tg.roll(tape, saved=0)
    >>> len(tape), len(rolled), len(unroll(rolled)), unroll(rolled).play(2.0)
    (42, 6, 42, 1048575.0)
    """
    check_is_tape(tape, "unroll")
    if not any(map(is_loop, tape.ops)):
        return tape
    while any(map(is_loop, tape.ops)):
        tape = _expanded(tape, is_loop)
    _value(tape)
    return tape


def inline(tape: Tape, valued: bool = False) -> Tape:
    """Return a tape on which checkpoints are replaced by their calls, with the values for the inputs there if `valued`.
    Results with accompanying derivatives have those of the calls instead.
    """
    if not any(map(_is_inlined, tape.ops)):
        return tape
    while any(map(_is_inlined, tape.ops)):
        tape = _expanded(tape, _is_inlined)
    if valued:
        _value(tape)
    return tape


def _is_inlined(op: Operation) -> bool:
    return is_checkpoint(op) or (op.fn is with_jacobian)


def _value(tape: Tape) -> None:
    """Give each call the value that it has for the inputs on the tape; random draws stay.

    It stops where the inputs would take another path: they are the caller's arrays and may have been written to since.
    """
    if not any(lacks(x.val) for x in tape.inputs):
        run = Run(tape, [x.val for x in tape.inputs], redraw=False)
        with np.errstate(all="ignore"), suppress(TapeError):
            for op in run:
                if type(op) is Call:
                    op.val, op.pb = run.values[op.id], None


def _expanded(tape: Tape, expands: Callable[[Operation], bool]) -> Tape:
    """Return a tape on which the calls that `expands` selects are replaced by those of their bodies."""
    walk = Walk(tape)
    # the stand-ins of such a call's results, one for each element of a sequence that a loop collects or is listed
    parts: dict[Operation, tuple[Any, ...]] = {}
    listed = {arg for op in tape.ops if is_loop(op) and expands(op)
              for arg in op.fn.parted((*op.fn.steps, *op.args))[2]}
    for op in tape.ops:
        if type(op) is not Call:
            walk.keep(op)
        elif op.fn is with_jacobian and expands(op):
            walk.stand_in(op, walk.bind(op.args[0]))
        elif expands(op):
            parts[op] = _runs(walk, op, parts) if is_loop(op) else _body(walk, op)
        elif (whole := whole_of(op)) in parts:
            made = parts[whole][op.args[1]]
            if type(made) is tuple:
                parts[op] = made
            else:
                walk.stand_in(op, made)
        elif op.fn is pack and op in listed:
            parts[op] = tuple(map(walk.bind, op.args))
        else:
            walk.keep(op)
    return walk.done()


def _body(walk: Walk, op: Call) -> tuple[Any, ...]:
    """Put the calls of a checkpoint's body on the new tape; return the stand-ins of its results."""
    body = op.fn.drawn(op.val)
    at: dict[Operation, Any] = dict(zip(body.inputs, [walk.at[1], *map(walk.bind, op.args)]))
    _run(walk, body, at, op.origin)
    return tuple([at[part] if isinstance(part, Operation) else part for part in body.result.args])


def _runs(walk: Walk, op: Call, known: dict[Operation, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Put the calls of a loop's iterations on the new tape; return the stand-ins of its results."""
    loop: Loop = op.fn
    runs = Runs(loop, [known.get(arg) or walk.bind(arg) if isinstance(arg, Operation) else arg for arg in op.args])
    for k in loop.runs:
        at: dict[Operation, Any] = dict(zip(loop.body.inputs[1:], runs.given(k)))
        _run(walk, loop.body, at, Origin("pullback", name="a loop") if op.purpose == "pullback" else None)
        runs.add(k, [at[part] if isinstance(part, Operation) else part for part in loop.results])
    return runs.result


def _run(walk: Walk, body: Tape, at: dict[Operation, Any], origin: Origin | None) -> None:
    for op in body.ops:
        if isinstance(op, Input) or op is body.result or (isinstance(op, Guard)  # a guard of a constant
                                                          and not isinstance(at[op.args[0]], Operation)):
            continue
        made = append_copy(walk.new, op, at)
        made.origin = made.origin or origin
        if type(made) is Call and made.spec.is_array and made.spec.kind != "O":
            drop(made)  # the recorded value is one array, shared by all iterations
