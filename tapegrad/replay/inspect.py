"""inspect: user-defined interpretations of a tape, as a class with one method per kind of operation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.formatting import count_of
from tapegrad.ops import draw, getfield, pack
from tapegrad.ops.checkpoint import Checkpoint
from tapegrad.ops.loop import Loop, Runs
from tapegrad.replay.facts import verify
from tapegrad.replay.interpreter import Interpretation, bind
from tapegrad.rules.op import Op
from tapegrad.tape.subtape import Subtape
from tapegrad.tape.tape import Call, Constant, Guard, Input, Tape, has_value
from tapegrad.tree.flatten import Structure

__all__ = ["Interpreter"]


class Interpreter:
    """An interpretation of tapes; the base class replays. Override the methods for inputs, constants, calls and guards.

    Called with a tape and its arguments (by default those it was recorded with), it returns the interpretation of the
    result; `interpret(tape, values)` takes one value per input, in order. Values are whatever the methods return:
    numbers, intervals, sets, texts. Nests are packed and unpacked automatically, and each run of a loop or another
    subtape is interpreted in turn.

    >>> import tapegrad as tg
    >>> class Depth(Interpreter):
    ...     def input(self, op, value):
    ...         return 0
    ...     def call(self, op, fn, args):
    ...         return 1 + max(arg for x, arg in zip(op.args, args) if isinstance(x, tg.Operation))
    >>> value, tape = tg.trace(lambda a, b: a / (a + b * b), 2.0, 3.0)
    >>> Depth()(tape), Interpreter()(tape, 4.0, 6.0)
    (3, 0.1)
    """

    def __call__(self, tape: Tape, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            values = bind(tape, args, kwargs)
        elif all(map(has_value, tape.inputs)):
            values = [x.val for x in tape.inputs]
        else:
            raise ArgumentError(f"{tape.name or 'the tape'} has inputs without values", try_="pass arguments")
        return self.interpret(tape, list(map(self.input, tape.inputs[1:], values[1:])))

    def interpret(self, tape: Tape, values: Sequence[Any]) -> Any:
        """Return the result's interpretation, given one of each input but the function; ArgumentError for another
        number.
        """
        if tape.result is None:
            tape.check()
        if len(values) != len(tape.inputs) - 1:
            raise ArgumentError(f"{tape.name or 'the tape'} has {count_of(len(tape.inputs) - 1, 'input')}, and got "
                                f"{count_of(len(values), 'value')}")
        run = _Interpreted(tape, values, self)
        deque(run, 0)
        return run.values[tape.result.id]

    def input(self, op: Input, value: Any) -> Any:
        """Return the interpretation of an input with a value."""
        return value

    def constant(self, op: Constant) -> Any:
        """Return the interpretation of a constant. Literals among a call's arguments are passed to `call` unchanged."""
        return op.val

    def call(self, op: Call, fn: Any, args: list[Any]) -> Any:
        """Return the interpretation of a call of `fn` with interpreted arguments `args` and options `op.kwargs`."""
        return op.val if fn is draw else (fn.run if isinstance(fn, Op) else fn)(*args, **op.kwargs)

    def guard(self, op: Guard, value: Any) -> None:
        """Handle a guard: `op.fact` of the value was `op.expected`. A replay raises GuardError if the fact differs."""
        verify(op, value)

    def subtape(self, op: Call, fn: Any, args: list[Any]) -> tuple[Any, ...]:
        """Return the interpretation of a call that carries a subtape, one part per result; each run is interpreted."""
        if not isinstance(fn, Loop):
            body = fn.drawn(op.val) if isinstance(fn, Checkpoint) else fn.body
            return self.interpret(body, args)  # type: ignore[no-any-return]
        runs = Runs(fn, args)
        for k in fn.runs:
            runs.add(k, self.interpret(fn.body, runs.given(k)))
        return runs.result


class _Interpreted(Interpretation):
    """A run of the internal interpreter that delegates calls, constants and guards to an Interpreter."""

    def __init__(self, tape: Tape, values: Sequence[Any], meaning: Interpreter) -> None:
        super().__init__(tape, [tape.ops[0].val, *values])
        self.meaning = meaning

    def run(self, op: Call, fn: Callable[..., Any], given: list[Any], dead: list[int]) -> Any:
        """Interpret a call; packing and unpacking of nests is done here."""
        if fn is pack:
            into = op.kwargs["into"]
            replays = type(self.meaning).call is Interpreter.call or isinstance(into, Structure)
            return into.build(given) if replays else (given[0], into.signature.gradients(given[1:]))
        if fn is getfield:
            return given[0][given[1]]
        return (self.meaning.subtape(op, fn, given) if isinstance(fn, Subtape) and not fn.returns_more
                else self.meaning.call(op, fn, given))

    def constant(self, op: Any) -> Any:
        return self.meaning.constant(op)

    def verify(self, guard: Guard, value: Any) -> None:
        self.meaning.guard(guard, value)
