"""unread: what the world answers, a clock or a uuid, and code puts into an attribute that nothing reads.

`self.started = time()` steers nothing where no code that ran loads an attribute of that name, by no name that it
computes either, and where the object is gone when the program ends: no result, and nothing that is kept, leads to it.
"""

from __future__ import annotations

import dis
import os
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from tapegrad.compile.watch.code_names import asked, matches_classes
from tapegrad.errors import Location, user_frame
from tapegrad.trace.bytecode import named
from tapegrad.trace.conversions import ORIGINAL, is_heard

_NUMPY = os.path.dirname(np.__file__)
_PASSED = frozenset(["CACHE", "EXTENDED_ARG", "PRECALL"])
# by one of these an attribute is read that no instruction names
_WHOLE = frozenset(["__dict__", "vars", "attrgetter", "methodcaller", "__getattribute__", "__reduce_ex__", "__reduce__",
                    "__getstate__", "__slots__", "dir", "eval", "exec", "format", "format_map"])
_LOADING = frozenset(dis.opname[opcode] for opcode in dis.hasname) - {"STORE_ATTR"}


ANSWERS = frozenset([
    "uuid.uuid1", "uuid.uuid4", "datetime.now", "datetime.utcnow",
    *(f"time.{clock}{unit}" for unit in ("", "_ns") for clock in ("time", "monotonic", "perf_counter"))])


class Unread(NamedTuple):
    """An attribute, a weak reference to the object that has it, and what was asked where, if it is read after all."""

    name: str
    owner: Any
    asked: str
    where: Location

    def is_read(self, ran: Iterable[CodeType], computed: set[str]) -> bool:
        """Return whether code that ran may read it, or something leads to the object still."""
        return self.owner() is not None or self.name in computed or any(_may_load(self.name, code) for code in ran)


def _may_load(name: str, code: CodeType) -> bool:
    own = ORIGINAL.get(code, code)
    return (not _WHOLE.isdisjoint(own.co_names) or name in asked(own).names or matches_classes(own)
            # of others `computed` tells; NumPy computes names of its own methods alone
            or (asked(own).computes and not is_heard(code) and not code.co_filename.startswith(_NUMPY))
            or any(loaded == name for _, loaded in named(own, _LOADING)))


def stored(asked: str, frame: FrameType | None) -> Unread | None:
    """Return the attribute that the result of the call in progress in a frame goes to, and to nothing else; None where
    it goes elsewhere, or code of the program's handles it.
    """
    if asked not in ANSWERS or frame is None:
        return None
    steps = [step for step in dis.get_instructions(frame.f_code) if step.opname not in _PASSED]
    after = [step for step in steps if step.offset > frame.f_lasti][:2]
    if [step.opname for step in after] != ["LOAD_FAST", "STORE_ATTR"]:
        return None
    owner, name = frame.f_locals.get(after[0].argval), after[1].argval
    kind: Any = type(owner)
    if kind.__setattr__ is not object.__setattr__ or not getattr(kind, "__weakrefoffset__", 0) or any(
            hasattr(type(vars(base).get(name)), "__set__") for base in kind.__mro__):
        return None
    shown = user_frame(frame)
    return Unread(name, ref(owner), asked, Location(shown.f_code.co_filename, shown.f_lineno, shown.f_code.co_name))
