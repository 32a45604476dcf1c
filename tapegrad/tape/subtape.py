"""subtape: what a call has that carries a tape of its own, and what passes, prints and files ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeGuard

from tapegrad.numbers.cotangents import ZERO
from tapegrad.tape.liveness import leading
from tapegrad.tape.tape import Call, Input, Operation, Tape


class Subtape:
    """A function that is a tape, its `body`, run `count` times in a call. A pass that meets one changes its body, a
    listing prints it below the call, and a file has it beside the tape.

    A class of a new kind says how it is made again of a changed body (`with_body`), and what besides the body there is
    to save (`fields`), of which its constructor makes it again; `kind` is its name in files.
    """

    body: Tape
    count: int = 1
    noun: str = "subtape"
    returns_more: ClassVar[bool] = False  # than its body does: another interpretation of the body does not tell what
    kind: ClassVar[str] = ""
    kinds: ClassVar[dict[str, Callable[..., Subtape]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("kind"):
            Subtape.kinds[cls.kind] = cls

    @property
    def results(self) -> tuple[Any, ...]:
        """What the body returns."""
        return self.body.result.args

    @property
    def fields(self) -> tuple[Any, ...]:
        """Numbers, text and tuples of those: what the constructor takes behind the body."""
        return ()

    def with_body(self, body: Tape) -> Any:
        """Return the same with another body for the same inputs and results."""
        return type(self)(body, *self.fields)  # type: ignore[call-arg]

    def misfits(self, op: Call) -> Iterator[str]:
        """Yield what does not fit in a call."""
        count = len(self.body.inputs) - 1
        if len(op.args) != count or op.kwargs:
            yield f"of {count} arguments, and is given {len(op.args) + len(op.kwargs)}"

    def roles(self, args: Iterable[str]) -> dict[Input, str]:
        """Return what each input of the body is, from how the arguments of a call are written."""
        return {x: labelled("given", x, arg) for x, arg in zip(self.body.inputs[1:], args)}

    def returned(self, write: Callable[[Any], str]) -> str:
        """Write what the body returns."""
        return f"return {', '.join(map(write, self.results))}"


def carries(op: Operation) -> TypeGuard[Call]:
    """True for the call of a function that carries a tape."""
    return isinstance(op.fn, Subtape)


def exchanges(op: Operation) -> bool:
    """Return whether other processes wait for a call."""
    return getattr(op.fn, "exchanges", False) or (carries(op) and any(map(exchanges, op.fn.body.ops)))


def unused_cotangent(fn: Any, y: Any) -> Any:
    """Return the cotangent of a value that nothing here depends on, of a call for which other processes wait: they
    make the transposed call.
    """
    return (ZERO,) * len(y) if isinstance(fn, Subtape) else fn.absent(y)


def needed(tape: Tape) -> bytearray:
    """Return, by position, which operations a derivative passes: those that the result depends on, or a call for which
    other processes wait. These make the same call, whatever one of them does with what it returns.
    """
    return leading(tape.ops, [tape.result, *filter(exchanges, tape.ops)])


def labelled(role: str, x: Input, what: str) -> str:
    """Write what an input of a body is, with its name, where it has one of its own."""
    return f"{role} {what}" + (f" ({x.label})" if x.label and not x.label.startswith("d%") else "")
