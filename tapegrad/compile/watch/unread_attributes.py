"""unread_attributes: values of a clock or uuid that code stores in an attribute which nothing reads.

`self.started = time()` has no effect if no code that ran loads an attribute of that name or of computed names, and the
object was made in the run and is freed when it ends: nothing that outlives the run refers to it.
"""

from __future__ import annotations

import dis
import os
from collections.abc import Iterable
from types import CodeType, FrameType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from tapegrad.compile.watch.code_names import PASSED, asked, matches_classes
from tapegrad.errors import Location, user_frame
from tapegrad.trace.bytecode import named
from tapegrad.trace.conversions import ORIGINAL, reports_computed_names
from tapegrad.tree.copies import running

ANSWERS = frozenset([
    "uuid.uuid1", "uuid.uuid4", "datetime.now", "datetime.utcnow",
    *(f"time.{clock}{unit}" for unit in ("", "_ns") for clock in ("time", "monotonic", "perf_counter"))])
# names by which code reads attributes that no instruction names
_WHOLE = frozenset(["__dict__", "vars", "attrgetter", "methodcaller", "__getattribute__", "__reduce_ex__", "__reduce__",
                    "__getstate__", "__slots__", "dir", "eval", "exec", "format", "format_map"])
_LOADING = frozenset(dis.opname[opcode] for opcode in dis.hasname) - {"STORE_ATTR"}
_IN_C = (WrapperDescriptorType, MethodDescriptorType)
_METHODS = os.path.join(os.path.dirname(np.__file__), "_core", "fromnumeric.py")  # computes names of NumPy's methods


class Unread(NamedTuple):
    """An attribute's name, a weak reference to its object, and, for the refusal if it is read after all, the function
    called and the user's line.
    """

    name: str
    owner: Any
    asked: str
    where: Location

    def is_read(self, ran: Iterable[CodeType], told: set[str]) -> bool:
        """Return whether code that ran may have read the attribute, directly or by the computed names it `told`, or the
        object still exists.
        """
        return self.owner() is not None or self.name in told or any(_may_load(self.name, code) for code in ran)


def _may_load(name: str, code: CodeType) -> bool:
    own = ORIGINAL.get(code, code)
    return (not _WHOLE.isdisjoint(own.co_names) or name in asked(own).names or matches_classes(own)
            or (asked(own).computes and not reports_computed_names(code) and code.co_filename != _METHODS)
            or any(loaded == name for _, loaded in named(own, _LOADING)))


def stored(asked: str, code: CodeType | None, frame: FrameType | None) -> Unread | None:
    """Return the attribute that is the only destination of the result of a frame's current call, None if the result
    goes elsewhere. The call is that of a C function if `code` is None, else of this code.
    """
    if asked not in ANSWERS or frame is None:
        return None
    steps = [step for step in dis.get_instructions(frame.f_code) if step.opname not in PASSED]
    at = sum(step.offset <= frame.f_lasti for step in steps) - 1  # f_lasti may point to a cache of the call
    if [step.opname for step in steps[at + 1:at + 3]] != ["LOAD_FAST", "STORE_ATTR"] or not (
            steps[at].opname.startswith("CALL") if code is None else _called(steps[:at + 1], frame) is code):
        return None
    variable, name = steps[at + 1].argval, steps[at + 2].argval
    if any(step.opname == "DELETE_FAST" or (step.opname == "STORE_FAST" and step.argval == variable)
           for step in steps[at + 3:]):
        return None  # reading f_locals below would keep the object alive until the frame ends
    owner = frame.f_locals.get(variable)
    shown = user_frame(frame)
    where = Location(shown.f_code.co_filename, shown.f_lineno, shown.f_code.co_name)
    return Unread(name, ref(owner), asked, where) if _is_plain(owner, name) and not _is_copy(owner) else None


def _called(steps: list[dis.Instruction], frame: FrameType) -> CodeType | None:
    """Return the code of the function that the last instruction calls by name without arguments, None if unknown."""
    *before, call = steps
    names: list[str] = []
    while before and before[-1].opname in ("LOAD_ATTR", "LOAD_METHOD"):
        names.append(before.pop().argval)
    if not before or before[-1].opname != "LOAD_GLOBAL" or not call.opname.startswith("CALL") or call.arg:
        return None
    x = frame.f_globals.get(before[-1].argval)
    while names:
        x = vars(x).get(names.pop()) if isinstance(x, ModuleType) else None
    return getattr(x, "__code__", None)


def _is_plain(x: Any, name: str) -> bool:
    """Return whether only code that loads the attribute by name can read it from the object: no C method of its class,
    no descriptor, no NumPy attribute of that name.
    """
    kind: Any = type(x)
    found = [part for base in kind.__mro__[:-1] for part in vars(base).values()]
    return (kind.__setattr__ is object.__setattr__ and bool(getattr(kind, "__weakrefoffset__", 0))
            and not any(isinstance(part, _IN_C) for part in found)
            and not any(hasattr(type(vars(base).get(name)), "__set__") for base in kind.__mro__)
            and name[:2] != "__" and not hasattr(np.ndarray, name))


def _is_copy(x: Any) -> bool:
    """Return whether an object is a trace's copy of one of the caller's, to which its attributes are written back."""
    return any(x is new for tracer in running.open if tracer.rerouting is not None
               for new, _ in tracer.rerouting.pairs)
