"""pickled: a tape for `pickle`, as the bytes of its file and references to the program's functions, and for `copy`,
with arrays and random generators of its own.
"""

from __future__ import annotations

import copy
import importlib
import pickle
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import TapeFormatError
from tapegrad.numbers.kinds import is_generator
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Op
from tapegrad.rules.user import op_of
from tapegrad.store.read import from_bytes
from tapegrad.store.write import to_bytes
from tapegrad.tape.tape import Constant, Input, Tape, has_value
from tapegrad.transforms.walk import copy_tape

Reduced = tuple[Any, tuple[bytes, dict[str, Any]]]


def reduced(tape: Tape) -> Reduced:
    """Return how to rebuild a tape; raise TapeFormatError if pickle cannot find a function of the program."""
    handed: dict[str, Any] = {}
    try:
        content = b"".join(to_bytes(tape, handed=handed))
    except TapeFormatError as err:
        raise TapeFormatError(f"the tape cannot be pickled, because tape.save cannot save it: {err.what}", err.where,
                              err.try_) from None
    for name, x in handed.items():
        handed[name] = x = _in_its_module(x) if isinstance(x, Op) else x
        if not _is_found(x):
            raise TapeFormatError(f"the tape of {tape.name} cannot be pickled: it uses {name}, which cannot be "
                                  "imported by a name", None,
                                  f"tape.save(path), and tg.load(path, primitives={{{name!r}: ...}})")
    fn = tape.ops[0].val
    if callable(fn) and _is_found(fn):  # a tape can be played without it
        handed.setdefault(getattr(fn, "__qualname__", ""), fn)
    return unpickled, (content, handed)


def unpickled(content: bytes, handed: dict[str, Any]) -> Tape:
    """Return the tape from a file's bytes and the functions it uses."""
    given = {name: x.found() if type(x) is Named else x for name, x in handed.items()}
    return from_bytes(content, given, "the pickled tape")


def copied(tape: Tape, memo: dict[int, Any]) -> Tape:
    """Return a copy of a tape with inputs and constants of its own; computed values are shared."""
    new = copy_tape(tape)
    for op in new.ops:
        if isinstance(op, (Input, Constant)) and has_value(op):
            op.val = _own(op.val, memo)
    return new


def _own(x: Any, memo: dict[int, Any]) -> Any:
    if isinstance(x, np.ndarray) or is_generator(x):
        return copy.deepcopy(x, memo)
    if is_tensor(x):  # torch deep-copies only leaves of its own tape
        return memo.setdefault(id(x), x.detach().clone())
    return x


class Named(NamedTuple):
    """A decorated function, by its name in its module."""

    module: str
    name: str

    def found(self) -> Any:
        """Return the object with that name."""
        return attrgetter(self.name)(importlib.import_module(self.module))


def _in_its_module(op: Op) -> Any:
    """Return the function of a user's op, by name if the module holds the decorated one."""
    named = Named(str(op.impl.__module__), str(getattr(op.impl, "__qualname__", "")))
    try:
        found = named.found()
    except (ImportError, AttributeError):
        return op.impl
    return named if found is not op.impl and callable(found) and op_of(found) is op else op.impl


def _is_found(x: Any) -> bool:
    try:
        pickle.dumps(x)
    except Exception:  # __reduce__ may raise anything
        return False
    return True
