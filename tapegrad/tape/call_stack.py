"""Paths: the calls of the traced program that an operation was recorded in."""

from __future__ import annotations

import inspect
from types import CodeType, FrameType

from tapegrad.errors import Activation, Listing, Location, locate, user_frame

# A frame's callers stay where they are while it lives, unless it can be left and entered again from elsewhere.
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Paths:
    """The program's calls that are running: one Activation for each, shared by all that it records.

    An operation thus costs one look-up, and a call as many steps as it is away from one that is known: recording the
    stack with each operation would cost its depth. Off by default: even the look-up costs as much as the operation.
    """

    def __init__(self) -> None:
        self.base = user_frame()  # what called trace: no part of the program
        self.known: dict[FrameType, Activation] = {}  # outermost first; holding a frame keeps its identity its own

    def of(self, frame: FrameType | None) -> Activation | CodeType:
        """Return the activation of a user's frame; of the one that called trace, its code alone."""
        innermost, new = frame, []
        while frame is not None and frame is not self.base and (frame not in self.known
                                                                or frame.f_code.co_flags & _SUSPENDS):
            new.append(frame)
            frame = None if frame.f_back is None else user_frame(frame.f_back)
        while self.known and next(reversed(self.known)) is not frame:
            self.known.popitem()
        caller = self.known.get(frame) if frame is not None else None
        for callee in reversed(new):
            caller = Activation(callee.f_code, caller, 0 if frame is None else frame.f_lasti)
            self.known[callee] = caller
            frame = callee
        assert innermost is not None
        return caller or innermost.f_code


def path(code: CodeType | Activation | Listing, lasti: int) -> tuple[Location, ...]:
    """Return the places of an operation's calls, outermost first, its own line last."""
    places = [locate(code, lasti)]
    while isinstance(code, Activation) and code.caller is not None:
        code, lasti = code.caller, code.lasti
        places.append(locate(code, lasti))
    return tuple(reversed(places))
