"""inspect: other meanings of a tape: what its values are is said by a class with a method
for each kind of operation.
"""

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
    """A meaning of tapes; as it is, that of a replay. Subclass it, and say what an input, a
    constant, a call and a guard are.

    Called with a tape and arguments as the tape takes them, or with none for those that it was recorded with, it
    returns what the result means; `interpret(tape, values)` takes a value for each input, in order. Values are whatever
    the methods return: numbers, intervals, sets, texts. Nests go in and come out of calls by themselves, and the runs
    of a loop, or another subtape, are interpreted one by one.

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
        """Return what the result means where the inputs, but for the function, mean `values`. Raises
        ArgumentError for another number of them.
        """
        if tape.result is None:
            tape.check()
        if len(values) != len(tape.inputs) - 1:
            raise ArgumentError(f"{tape.name or 'the tape'} has {count_of(len(tape.inputs) - 1, 'input')}, and "
                                f"{count_of(len(values), 'value')} came")
        run = _Interpreted(tape, values, self)
        deque(run, 0)
        return run.values[tape.result.id]

    def input(self, op: Input, value: Any) -> Any:
        """Return what an input means that has a value."""
        return value

    def constant(self, op: Constant) -> Any:
        """Return what a constant means; numbers that stand among a call's arguments are
        handed to `call` as they are.
        """
        return op.val

    def call(self, op: Call, fn: Any, args: list[Any]) -> Any:
        """Return what a call of `fn` means, an op or another function, with the options `op.kwargs`,
        where its arguments mean `args`.
        """
        return op.val if fn is draw else (fn.run if isinstance(fn, Op) else fn)(*args, **op.kwargs)

    def guard(self, op: Guard, value: Any) -> None:
        """Take notice of a fact about a value, `op.fact`, which was `op.expected`; a replay raises
        GuardError where it is another.
        """
        verify(op, value)

    def subtape(self, op: Call, fn: Any, args: list[Any]) -> tuple[Any, ...]:
        """Return what a call means of an op that carries a subtape, a part for each of its results: it is
        interpreted as often as it runs.
        """
        if not isinstance(fn, Loop):
            body = fn.drawn(op.val) if isinstance(fn, Checkpoint) else fn.body
            return self.interpret(body, args)  # type: ignore[no-any-return]
        runs = Runs(fn, args)
        for k in fn.runs:
            runs.add(k, self.interpret(fn.body, runs.given(k)))
        return runs.result


class _Interpreted(Interpretation):
    """A run of the one interpreter that asks another for what calls, constants and guards mean."""

    def __init__(self, tape: Tape, values: Sequence[Any], meaning: Interpreter) -> None:
        super().__init__(tape, [tape.ops[0].val, *values])
        self.meaning = meaning

    def run(self, op: Call, fn: Callable[..., Any], given: list[Any], dead: list[int]) -> Any:
        """Ask for the meaning of a call; what puts nests together and takes them apart has its own."""
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
