"""call_stack: the stack of the program's calls in which each operation was recorded."""

from __future__ import annotations

import inspect
import sys
from types import CodeType, FrameType
from typing import Any

from tapegrad.errors import Activation, Listing, Location, locate, user_frame

# While a frame lives its callers do not change, unless it is a generator or coroutine, which can be resumed from
# elsewhere.
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Paths:
    """The running calls of the traced program: one Activation per call, shared by all operations recorded in it.

    An operation then costs one look-up, and a new call as many steps as there are frames up to a known one; recording
    the whole stack with each operation would cost its depth. Off by default: even the look-up costs as much as the
    operation.
    """

    def __init__(self) -> None:
        self.base = user_frame()  # the caller of trace, which is no part of the program
        self.known: dict[FrameType, Activation] = {}  # outermost first; a frame held here keeps its id unique

    def of(self, user: FrameType) -> Activation | CodeType:
        """Return the activation of a user's frame or of its library module; for trace's caller, its code object."""
        call = _call_of_modules()
        frame: FrameType | None = _outwards(sys._getframe(1), call)
        new = []
        while frame is not None and frame is not self.base and (frame not in self.known
                                                                or frame.f_code.co_flags & _SUSPENDS):
            new.append(frame)
            frame = None if frame.f_back is None else _outwards(frame.f_back, call)
        while self.known and next(reversed(self.known)) is not frame:
            self.known.popitem()
        caller = self.known.get(frame) if frame is not None else None
        lasti = caller.lasti if caller is not None and caller.within else 0 if frame is None else frame.f_lasti
        for callee, inner in zip(reversed(new), [*reversed(new[:-1]), None]):
            if callee.f_code is not call:
                name = self.module(callee.f_back) if callee.f_back is not None and callee.f_back.f_code is call else ""
                caller, lasti = Activation(callee.f_code, caller, lasti, name), callee.f_lasti
                self.known[callee] = caller
            elif caller is not None and (inner is None or inner.f_back is not callee):  # forward is library code
                caller = Activation(caller.code, caller, lasti, self.module(callee), within=True)
                self.known[callee] = caller
        return caller or user.f_code

    def module(self, frame: FrameType) -> str:
        """Return the class of the module called in `frame`, after its name in the calling module: `0: Linear`."""
        module = frame.f_locals["self"]
        outer = frame.f_back
        while outer is not None and outer is not self.base and outer.f_code is not frame.f_code:
            outer = outer.f_back
        parts: Any = () if outer is None or outer is self.base else outer.f_locals["self"].named_modules()
        name = next((name for name, part in parts if part is module), "")
        return f"{name}: {type(module).__name__}" if name else type(module).__name__


def _outwards(frame: FrameType, call: CodeType | None) -> FrameType:
    """Return the first frame, from `frame` outwards, that is user code or a call of a torch module."""
    user = user_frame(frame)
    inner: FrameType | None = frame
    while inner is not None and inner is not user:
        if inner.f_code is call:
            return inner
        inner = inner.f_back
    return user


def _call_of_modules() -> CodeType | None:
    """Return the code object of `torch.nn.Module._call_impl`, or None if torch is not imported."""
    nn = getattr(sys.modules.get("torch"), "nn", None)
    return None if nn is None else nn.Module._call_impl.__code__  # type: ignore[no-any-return]


def path(code: CodeType | Activation | Listing, lasti: int) -> tuple[Location, ...]:
    """Return the source locations of the calls that led to an operation, outermost first, its own line last."""
    places = [locate(code, lasti)]
    while isinstance(code, Activation) and code.caller is not None:
        within, lasti, code = code.within, code.lasti, code.caller
        if not within:
            places.append(locate(code, lasti))
    return tuple(reversed(places))
