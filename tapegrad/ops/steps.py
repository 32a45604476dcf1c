"""steps: a loop whose reverse sweep keeps few of its states, and recomputes the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.binomial import kept
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.loop import Loop
from tapegrad.rules.facts import LENDS, Joint
from tapegrad.rules.op import Op
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Constant, Input, Tape


class Steps(Subtape, Op):
    """A loop that carries values and collects nothing, as a function to its last state, followed by the kept states.

    With `slots` states, the first among them, the reverse sweep recomputes as few steps as possible: see binomial. A
    higher layer defines how a cotangent is pulled back: `puller(steps, y, values, dy)`.
    """

    noun = "loop"
    returns_more = True
    puller: ClassVar[Any]
    sweeper: ClassVar[Any]
    differ: ClassVar[Any]
    faster: ClassVar[Any]

    def __init__(self, loop: Loop, slots: int) -> None:
        self.loop, self.slots, self.one = loop, slots, Checkpoint(loop.body)
        self.body, self.count = loop.body, loop.count
        self.places = kept(loop.count, slots)
        self._fast: Any = None
        super().__init__(f"{loop.count} x {loop.body.name} with {slots} kept", self._run, rule=Joint(self._vjp),
                         torch=self._run, batch=False, effects=LENDS)
        self.back = Op(f"sweep of {loop.count} x {loop.body.name}", self._sweep, rule=Joint(self._differ),
                       torch=self._sweep,
                       batch=False)
        self.back.of = self  # type: ignore[attr-defined]
        # the same where nothing reads the kept states afterwards: others take their place in memory
        self.last = Op(self.__name__, self._run, rule=Joint(self._vjp_last), batch=False, effects=LENDS)
        self.back.last = Op(self.back.__name__, self._sweep_last, rule=Joint(self._differ), batch=False)  # type: ignore[attr-defined]

    def with_body(self, body: Tape) -> Steps:
        """Return the loop itself: the op that sweeps it has this body, too."""
        return self

    def misfits(self, op: Call) -> Iterator[str]:
        """Yield what does not fit in a call."""
        return self.loop.misfits(op)

    def roles(self, args: Iterable[str]) -> dict[Input, str]:
        """Return the roles of the body's inputs, as of the loop."""
        return self.loop.roles(args)

    def returned(self, write: Callable[[Any], str]) -> str:
        """Write what a step passes to the next."""
        return self.loop.returned(write)

    def advance(self, values: Sequence[Any], state: Sequence[Any], start: int, stop: int) -> tuple[Any, ...]:
        """Return the state before step `stop` from that before step `start`."""
        if start == stop:
            return tuple(state)
        if (fast := self.fast(values)) is not None:
            for k in range(start, stop):
                made = fast.step(self.step(values, state, k))
                if made is None:
                    return self._interpreted(values, state, k, stop)
                state = made
            return tuple(state)
        return self._interpreted(values, state, start, stop)

    def fast(self, values: Sequence[Any]) -> Any:
        """Return compiled functions that take and sweep steps, None where steps are interpreted."""
        if self._fast is None:
            self._fast = (type(self).faster(self, values),)
        return self._fast[0]

    def _interpreted(self, values: Sequence[Any], state: Sequence[Any], start: int, stop: int) -> tuple[Any, ...]:
        loop, (_, given, _, carried) = self.loop, self.loop.sizes
        part = Loop(loop.body, stop - start, [numbers[start:stop] for numbers in loop.steps], given, 0, carried)
        return part(*values[:given], *state)

    def step(self, values: Sequence[Any], state: Sequence[Any], k: int) -> list[Any]:
        """Return the arguments of the body in step `k`."""
        return [*(numbers[k] for numbers in self.loop.steps), *values[:self.loop.sizes[1]], *state]

    def states(self, values: Sequence[Any], rest: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
        """Return the kept states, keyed by their places, from the arguments and the results behind the last state."""
        given, carried = self.loop.sizes[1], self.loop.sizes[3]
        every = [*values[given:given + carried], *rest]
        return {place: tuple(every[k * carried: (k + 1) * carried]) for k, place in enumerate(self.places)}

    def _run(self, *values: Any) -> tuple[Any, ...]:
        state, rest = tuple(values[self.loop.sizes[1]:]), list[Any]()
        for start, stop in pairwise([*self.places, self.loop.count]):
            rest += state if start else ()
            state = self.advance(values, state, start, stop)
        kept = set(map(id, rest))
        apart = [x.copy() if type(x) is np.ndarray and (x.base is not None or id(x) in kept) else x for x in state]
        return (*apart, *rest)

    def behind(self, args: Sequence[Any]) -> Sequence[Any]:
        """Return the kept states among the arguments of a sweep."""
        _, given, _, carried = self.loop.sizes
        return args[given + carried:len(args) - carried]

    def own(self, rest: Sequence[Any], others: Sequence[Any]) -> set[int]:
        """Return the ids of the kept arrays that nothing else holds: not `others`, not a second state, not the body."""
        known = Counter(map(id, (*rest, *others, *[op.val for op in self.body.ops if type(op) is Constant])))
        return {id(x) for x in rest if type(x) is np.ndarray and x.base is None and x.flags.writeable
                and known[id(x)] == 1}

    def _vjp(self, y: Array, *values: Any) -> Callable[[Any], tuple[Any, ...]]:
        def steps_pullback(dy: Cotangent) -> tuple[Any, ...]:
            return type(self).puller(self, y, values, dy)  # type: ignore[no-any-return]
        return steps_pullback

    def _vjp_last(self, y: Array, *values: Any) -> Callable[[Any], tuple[Any, ...]]:
        def steps_pullback(dy: Cotangent) -> tuple[Any, ...]:
            return type(self).puller(self, y, values, dy, last=True)  # type: ignore[no-any-return]
        return steps_pullback

    def _sweep(self, *values: Any) -> tuple[Any, ...]:
        return type(self).sweeper(self, values)  # type: ignore[no-any-return]

    def _sweep_last(self, *values: Any) -> tuple[Any, ...]:
        return type(self).sweeper(self, values, last=True)  # type: ignore[no-any-return]

    def _differ(self, y: Array, *values: Any) -> Callable[[Any], tuple[Any, ...]]:
        def sweep_pullback(dy: Cotangent) -> tuple[Any, ...]:
            return type(self).differ(self, values, dy)  # type: ignore[no-any-return]
        return sweep_pullback
