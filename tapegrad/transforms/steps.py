"""steps: the reverse sweep over a loop that keeps few of its states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.numbers.cotangents import ZERO, Absorbing, accumulate, conform, dense
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.tensor_array import unwrap, wrap
from tapegrad.numbers.tensors import holds_tensor
from tapegrad.ops.binomial import schedule
from tapegrad.ops.loop import Loop, is_loop
from tapegrad.ops.steps import Steps
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import tracer_of
from tapegrad.tape.tape import Tape, value_of
from tapegrad.trace.context import DEFAULT
from tapegrad.trace.guards import are_apart
from tapegrad.trace.tracer import record
from tapegrad.transforms.checkpoint import again, of_kind, pulled
from tapegrad.transforms.grad import gradients_of
from tapegrad.transforms.walk import Walk


def steps_pulled(steps: Steps, y: Any, values: Sequence[Any], dy: Any, last: bool = False) -> tuple[Any, ...]:
    """Return the cotangents of a loop's arguments from those of its last state; `last` may overwrite kept states."""
    y, values, dy = unwrap(y), unwrap(tuple(values)), unwrap(dy)
    carried = steps.loop.sizes[3]
    dys = [ZERO if dx is None else dense(dx) for dx in dy[:carried]]
    if tracer_of((*values, *dys)) is None:
        found = _swept(steps, values, y[carried:], dys, last)
    else:  # one call on the recording tape, which sweeps when it runs
        wanted = _wanted(steps, values)
        made = steps.back(*values, *y[carried:],
                          *[conform(dx, last) if isinstance(dx, Absorbing) else dx for dx, last in zip(dys, y)])
        known = dict(zip(wanted, made))
        found = [known.get(i, ZERO) for i in range(len(values))]
    return of_kind(values, found)


def steps_swept(steps: Steps, values: Sequence[Any], last: bool = False) -> tuple[Any, ...]:
    """Return the cotangents of `steps_pulled` for the differentiable arguments alone; `values` is one flat list."""
    given, rest, dys = _parted(steps, values)
    found = _swept(steps, given, rest, list(dys), last)
    return tuple([conform(found[i], plain(given[i])) for i in _wanted(steps, given)])


def steps_differed(steps: Steps, values: tuple[Any, ...], dz: Any) -> tuple[Any, ...]:
    """Return the cotangents of a sweep's arguments from those of its results, through a sweep that keeps all states."""
    values = unwrap(values)
    tape = record(_UncheckpointedSweep(steps), values, {}, DEFAULT, grad=True, replays=False)
    found = gradients_of(tape, tuple([None if isinstance(dx, Absorbing) else dx for dx in map(dense, unwrap(dz))]))[1:]
    return tuple(wrap(found)) if holds_tensor(values) else tuple(found)


class _UncheckpointedSweep:
    """A sweep over a loop that keeps all states, as a function to be traced."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        steps = self.steps
        given, _, dys = _parted(steps, values)
        state, states = tuple(given[steps.loop.sizes[1]:]), []
        for k in range(steps.loop.count):
            states.append(state)
            tape = again(steps.one, (), steps.step(given, state, k))
            state = tuple(map(value_of, tape.result.args))
        back = ((state, k) for k, state in reversed(list(enumerate(states))))
        found = _back(steps, given, [ZERO] * steps.loop.sizes[1], list(dys), back)
        return tuple([conform(found[i], plain(given[i])) if isinstance(found[i], Absorbing) else found[i]
                      for i in _wanted(steps, given)])


def _parted(steps: Steps, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
    _, given, _, carried = steps.loop.sizes
    return values[:given + carried], steps.behind(values), values[len(values) - carried:]


def _wanted(steps: Steps, values: Sequence[Any]) -> list[int]:
    return [i for i, x in enumerate(values) if has_gradient(plain(x))]


def _swept(steps: Steps, values: Sequence[Any], rest: Sequence[Any], dys: list[Any], last: bool) -> list[Any]:
    """Return the cotangents of a loop's arguments; states are recomputed from the kept ones by the binomial schedule.

    In the `last` sweep a state kept on the way reuses the memory of one that has been swept.
    """
    states, spare = steps.states(values, rest), list[tuple[Any, ...]]()
    totals: list[Any] = [ZERO] * steps.loop.sizes[1]
    own = steps.own(rest, (*values, *dys)) if last else set()

    def kept(state: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([_written(x, to) if id(to) in own else x for x, to in zip(state, spare.pop())]) if spare else state

    def swept() -> Any:
        for start, stop, keeps in schedule(steps.loop.count, steps.slots):
            state = steps.advance(values, states[start], start, stop)
            if keeps:
                states[stop] = kept(state)
                continue
            yield state, stop
            if stop == start:
                done = states.pop(start)
                if not own.isdisjoint(map(id, done)) and are_apart((*totals, *dys, *done)):
                    spare.append(done)
    return _back(steps, values, totals, dys, swept())


def _written(x: Any, to: Any) -> Any:
    to[...] = x
    return to


def _back(steps: Steps, values: Sequence[Any], totals: list[Any], dys: list[Any], states: Any) -> list[Any]:
    """Sweep over the steps, whose first states are given, the last step's first; `totals` and `dys` are the cotangents
    of the arguments that all steps share, and of the state.
    """
    numbers, given, _, _ = steps.loop.sizes
    fast = None if tracer_of((*values, *dys)) is not None else steps.fast(values)
    for state, k in states:
        at = steps.step(values, state, k)
        found = None if fast is None else fast.sweep(at, dys)
        found = (unwrap(list(pulled(steps.one, (), at, tuple(dys)))) if found is None else found)[numbers:]
        for i, dx in enumerate(found[:given]):
            totals[i] = accumulate(totals[i], dx)
        dys[:] = found[given:]
    return [*totals, *dys]


def keeping(tape: Tape, slots: int) -> Tape:
    """Return a tape whose loops, if they carry values and collect nothing, keep at most `slots` states."""
    if not any(map(is_loop, tape.ops)):
        return tape
    walk = Walk(tape)
    for op in tape.ops:
        made: Any = walk.keep(op)
        if is_loop(made):
            loop: Loop = made.fn
            if not loop.reverse and not loop.sizes[2] and len(loop.results) == loop.sizes[3] and loop.count > 1:
                made.fn = Steps(loop, slots)
                made.val = (*made.val, *[x for _ in made.fn.places[1:] for x in made.val])
    return walk.done()
