"""jumps: where a program jumps by what it is integrated over, and the jump moves with a parameter, a term is missing.

The gradient of the integral has one that the integral of the gradient has not, and nothing on a tape tells how large.
"""

from __future__ import annotations

from collections.abc import Collection

from tapegrad.rules.activity import activity
from tapegrad.rules.registry import refused
from tapegrad.tape.tape import Tape
from tapegrad.trace.steering import steering


def check_jumps(name: str, tape: Tape, *groups: Collection[int], try_: str) -> None:
    """Refuse a tape that compares or rounds what depends on inputs in each group of places; abs
    and max only have kinks.
    """
    depends = [activity(tape, places) for places in groups]
    for op, arguments in steering(tape.ops):
        if all(any(found[arg.id] for arg in arguments) for found in depends):
            raise refused(
                name,
                f"what it integrates may jump: {op!r} depends on a number that the gradient is asked for, and where it "
                "jumps, the integral of the gradient is not the gradient of the integral",
                try_,
            )
