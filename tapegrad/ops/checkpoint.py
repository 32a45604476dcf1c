"""checkpoint: a subtape as one call; the reverse sweep keeps its arguments only and recomputes the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.ops.random import draw
from tapegrad.ops.structure import getfield, pack, whole_of
from tapegrad.rules.facts import Effects, Joint
from tapegrad.rules.op import UNSIZED, Op, draws
from tapegrad.rules.types import Family, Unknown
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Operation, Tape, append_copy


class Checkpoint(Subtape, Op):
    """A function from a subtape's inputs to the tuple of its results, followed by the numbers that it drew, so that it
    draws the same when it runs again.

    Higher layers define how it runs, `player(checkpoint, values)`, and how a cotangent is pulled back,
    `puller(checkpoint, y, values, dy)`. `noun` is its printed name.
    """

    kind = "checkpoint"
    player: ClassVar[Any]
    puller: ClassVar[Any]

    def __init__(self, body: Tape, noun: str = "checkpoint", lends: int = True) -> None:
        self.body, self.noun = body, noun
        inner = [op.fn for op in body.ops if type(op) is Call]
        super().__init__(f"{noun}({body.name})", self._play, rule=Joint(self._vjp), torch=self._play, batch=False,
                         spec=self._types(any(getattr(fn, "dynamic", True) for fn in inner)),
                         effects=Effects(draws=any(map(draws, inner)), lends=lends))
        self.drawing = drawing_of(body)

    def _types(self, dynamic: bool) -> Family:
        """Return the family of a call: for arguments of the body's input types, the type that the body returned."""
        if dynamic:
            return UNSIZED

        def family(*xs: Any) -> Spec:
            result = self.body.result
            if result is None or list(map(spec_of, xs)) != [x.spec for x in self.body.inputs[1:]]:
                raise Unknown("the body was recorded for other types")
            return result.spec
        return family

    @property
    def fields(self) -> tuple[Any, ...]:
        """The arguments besides the body for a copy with another body."""
        return (self.noun,)

    def drawn(self, y: Any) -> Tape:
        """Return a copy of the body whose draws have their values from the call that returned `y`."""
        numbers: dict[Operation, Any] = dict(zip(self.drawing, y[len(y) - len(self.drawing):] if self.drawing else ()))
        inside: dict[Operation, dict[int, Any]] = {}
        for op, number in numbers.items():
            if (inner := whole_of(op)) is not None:
                inside.setdefault(inner, {})[op.args[1]] = number
        for op, found in inside.items():  # an inner checkpoint's draws; its other results are recomputed
            numbers[op] = tuple([found.get(i) for i in range(max(found) + 1)])
        new, at = self.body.blank(), dict[Operation, Operation]()
        for op in self.body.ops:
            append_copy(new, op, at).val = numbers.get(op, op.val)
        new.result = at[self.body.result]
        return new

    def misfits(self, op: Call) -> Iterator[str]:
        """Yield what does not fit in a call."""
        result = self.body.result
        yield from super().misfits(op)
        if not isinstance(result, Call) or result.fn is not pack:
            yield "whose body returns no tuple"

    def _play(self, *values: Any) -> Any:
        return type(self).player(self, values)

    def _vjp(self, y: Array, *values: Any) -> Callable[[Any], tuple[Any, ...]]:
        def checkpoint_pullback(dy: Cotangent) -> tuple[Any, ...]:
            return type(self).puller(self, y, values, dy)  # type: ignore[no-any-return]
        return checkpoint_pullback


def is_checkpoint(op: Any) -> bool:
    """True for the call of a checkpoint."""
    return type(op) is Call and type(op.fn) is Checkpoint


def drawing_of(body: Tape) -> list[Call]:
    """Return the operations of a body whose values it draws; for an inner checkpoint, the parts of its result that it
    drew, which are added to the body.
    """
    found: list[Call] = []
    for op in body.ops:
        if is_checkpoint(op) and op.fn.drawing:
            size = len(op.fn.body.result.args)
            parts: Any = {part.args[1]: part for part in reversed(body.ops) if whole_of(part) is op}
            for i in range(size - len(op.fn.drawing), size):
                found.append(parts.get(i) or body.push(Call(getfield, (op, i), {}, op.val[i])))  # type: ignore[arg-type]
        elif type(op) is Call and op.fn is draw:
            found.append(op)
    return found
