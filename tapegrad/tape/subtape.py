"""subtape: calls that carry their own tape (loops, fused groups, checkpoints), as passes, prints and files use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeGuard

from tapegrad.numbers.cotangents import ZERO
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Input, Operation, Tape


class Subtape:
    """A function that is a tape, its `body`, run `count` times in a call. Passes rewrite the body, listings print it
    below the call, and files store it beside the tape.

    A subclass defines how to rebuild itself with a changed body (`with_body`) and which further constructor arguments
    to save (`fields`); `kind` is its name in files.
    """

    body: Tape
    count: int = 1
    noun: str = "subtape"
    returns_more: ClassVar[bool] = False  # it has results beyond the body's; reinterpreting the body misses them
    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, Callable[..., Subtape]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("kind"):
            Subtape.kinds[cls.kind] = cls

    @property
    def results(self) -> tuple[Any, ...]:
        """The operations whose values the body returns."""
        return self.body.result.args

    @property
    def fields(self) -> tuple[Any, ...]:
        """The constructor arguments after the body, for saving: numbers, text and tuples of those."""
        return ()

    def with_body(self, body: Tape) -> Any:
        """Return this subtape with another body for the same inputs and results."""
        return type(self)(body, *self.fields)  # type: ignore[call-arg]

    def misfits(self, op: Call) -> Iterator[str]:
        """Yield a description of each mismatch between a call and the body."""
        count = len(self.body.inputs) - 1
        if len(op.args) != count or op.kwargs:
            yield f"of {count} arguments, and is given {len(op.args) + len(op.kwargs)}"

    def roles(self, args: Iterable[str]) -> dict[Input, str]:
        """Return a description of each input of the body, given the text of the call's arguments."""
        return {x: labelled("given", x, arg) for x, arg in zip(self.body.inputs[1:], args)}

    def returned(self, write: Callable[[Any], str]) -> str:
        """Return the text of the body's return statement."""
        return f"return {', '.join(map(write, self.results))}"


def carries(op: Operation) -> TypeGuard[Call]:
    """True for a call whose function carries a tape."""
    return isinstance(op.fn, Subtape)


def exchanges(op: Operation) -> bool:
    """Return whether other processes take part in a call (a collective operation)."""
    return getattr(op.fn, "exchanges", False) or (carries(op) and any(map(exchanges, op.fn.body.ops)))


def unused_cotangent(fn: Any, y: Any) -> Any:
    """Return the zero cotangent for an unused result of a collective call. The transposed call must still be made,
    because the other processes make it.
    """
    return (ZERO,) * len(y) if isinstance(fn, Subtape) else fn.absent(y)


def needed(tape: Tape) -> bytearray:
    """Return, by position, the operations that a derivative visits: those the result depends on, and all collective
    calls. The other processes make these calls too, whether or not this one uses the results.
    """
    return leading(tape.ops, [tape.result, *filter(exchanges, tape.ops)])


def labelled(role: str, x: Input, what: str) -> str:
    """Describe an input of a body by its role, with its label if it has one of its own."""
    return f"{role} {what}" + (f" ({x.label})" if x.label and not x.label.startswith("d%") else "")
