"""execution: iterates over the operations of a tape in order, with their values and arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tapegrad.errors import ArgumentError
from tapegrad.numbers.cotangents import Accumulator
from tapegrad.ops import setitem, whole_of
from tapegrad.replay.interpreter import Run, bind
from tapegrad.rules.op import memory_of
from tapegrad.rules.user import is_triple, rrule
from tapegrad.tape.tape import Call, Guard, Operation, Tape, append_copy, has_value, value_of


class Executed(NamedTuple):
    """An operation as it runs: the function applied, the arguments `given`, and the value, None if that has no numbers
    to test.

    For a triple these are those of the call that it holds. For a write the value is the one written: the array may have
    been written to again since, in place.
    """

    op: Operation
    fn: Any
    given: list[Any]
    value: Any

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.fn, "__name__", self.fn))


def leaves_of(tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the inputs' values for a call; without arguments, the recorded ones."""
    if args or kwargs:
        return bind(tape, args, kwargs)
    if not all(map(has_value, tape.inputs)):
        raise ArgumentError(f"{tape.name or 'the tape'} has inputs without values", try_="pass arguments")
    return [x.val for x in tape.inputs]


def replayed(tape: Tape, leaves: list[Any]) -> Iterator[Executed]:
    """Yield a visit for each operation of a replay, with the recorded random numbers."""
    run = Run(tape, leaves, redraw=False)
    values = run.values
    for op in run:
        fn = values[op.fn.id] if isinstance(op.fn, Operation) else op.fn
        yield visit(op, fn, [values[arg.id] if isinstance(arg, Operation) else arg for arg in op.args], values[op.id])


def recorded(tape: Tape, begin: int = 1) -> Iterator[Executed]:
    """Yield a visit for each operation from position `begin` on, with the values on the tape; None for values that
    later operations may have written to.
    """
    for op in tape.ops[begin - 1:]:
        fn = value_of(op.fn)
        value = op.val
        if type(value) is Accumulator or not has_value(op):
            value = None
        elif memory_of(fn).blank:
            value = fn.impl(*map(value_of, op.args), **op.kwargs)
        yield visit(op, fn, list(map(value_of, op.args)), value)


def valued(tape: Tape, leaves: list[Any]) -> Tape:
    """Return a copy of a tape with the values of a replay."""
    new = tape.blank()
    at: dict[Operation, Operation] = {}
    run = Run(tape, leaves, redraw=False)
    for op in run:
        copy = append_copy(new, op, at)
        copy.val = run.values[op.id] if not isinstance(op, Guard) else None
        if isinstance(copy, Call):
            copy.pb = None  # it belongs to the recorded values
    new.result = None if tape.result is None else at[tape.result]
    return new


def visit(op: Operation, fn: Any, given: list[Any], value: Any) -> Executed:
    """Return the `Executed` of an operation; a triple becomes the call that it holds, a write the value written."""
    if fn is rrule:
        fn, given, value = given[0], given[1:], value[0] if isinstance(value, tuple) else None
    if fn is setitem:
        value, given = given[1], [given[1]]
    return Executed(op, fn, given, value)


def triple_of(op: Operation) -> Call | None:
    """Return the triple whose pullback `op` calls, or from whose pullback `op` takes a cotangent."""
    rr = whole_of((whole_of(op) or op).fn)
    return rr if is_triple(rr) else None


def is_field(op: Operation) -> bool:
    """Return whether an operation extracts a field of a triple, or a cotangent that a pullback returned."""
    of = whole_of(op)
    return of is not None and (is_triple(of) or isinstance(of.fn, Operation))


def name_of(op: Operation) -> str:
    """Return the name of the function that a call applies; for a triple, its pullback and its fields, that of the
    function it holds.

    >>> from tapegrad.tape.tape import call
    >>> name_of(call(divmod, 7, 2))
    'divmod'
    """
    if not isinstance(op, Call):
        return op.kind
    triple = whole_of(op) or op
    triple = triple if is_triple(triple) else triple_of(op)
    fn = op.fn if triple is None else triple.args[0]
    return "accumulate" if op.purpose == "accumulation" else str(getattr(fn, "__name__", fn))
