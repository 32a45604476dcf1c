"""precision: that of Decimal's context and of mpmath's belongs to a trace. What a program computes of constants has that of then."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import GuardError
from tapegrad.numbers.systems import PRECISION, System
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Guard, Operation


def follow(tracer: Any, known: System | None) -> None:
    """Look after numbers of a system, if there is one: guard the precision at which it computes, and refuse that the program changes that, since
    the reverse sweep would not know, nor a replay.
    """
    if known is None:
        return
    tracer.custom = True  # beside an array they make one of objects, for which the operators do not look
    fact = known.precision
    if not fact or fact in tracer.followed:
        return
    tracer.followed = (*tracer.followed, fact)
    read, push = PRECISION[fact], tracer.push
    begun = read()
    tracer.guard(tracer.tape.ops[0], fact, begun)

    def checked(op: Operation) -> None:
        if read() != begun:
            raise refused(f"arithmetic at another {fact} than at the beginning of the trace", "neither the sweep nor a replay would know of it",
                          "that precision around the call which traces or differentiates")
        push(op)
    tracer.push = checked


def check_precision(guard: Guard) -> None:
    """Raise GuardError where a tape is at work at another precision than it was recorded with: what it computed of constants has that."""
    if guard.fact in PRECISION and PRECISION[guard.fact]() != guard.expected:
        raise GuardError(f"this tape was recorded with the {guard.fact} {guard.expected}, and now it is {PRECISION[guard.fact]()}", guard.where,
                         "that precision around the call, or trace again")
