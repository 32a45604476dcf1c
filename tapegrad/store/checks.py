"""checks: validates the content of a file, and raises the errors that refuse it."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from tapegrad.errors import TapeFormatError
from tapegrad.ops import default_rng, draw, pack
from tapegrad.store.format import DRAWS, GLOBAL
from tapegrad.tape.tape import Operation
from tapegrad.tree.flatten import Structure
from tapegrad.tree.signature import ValueAndGradients


def fail(what: str, try_: str = "") -> NoReturn:
    """Raise TapeFormatError for a file that cannot be read."""
    raise TapeFormatError(what, None, try_)


def no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        fail("a key occurs twice in one object")
    return found


def no_constant(name: str) -> NoReturn:
    fail(f"{name} is not a JSON number")


def count(x: Any, below: float = math.inf) -> int:
    """Return an integer from 0 to less than `below`, a count or an index; refuse others."""
    if type(x) is not int or not 0 <= x < below:
        fail(f"{x!r} in place of a number from 0 to {below}")
    return x


def text(x: Any) -> str:
    """Return printable text, which cannot control a terminal; refuse other values."""
    if type(x) is not str or not x.isprintable():
        fail(f"{x!r} in place of plain text")
    return x


def check_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a call that no tape records: one that writes to an argument, draws from no random generator, makes an
    unknown kind of generator, or packs another number of parts than its structure has.
    """
    if getattr(fn, "made", None) and not {"out", "inplace"}.isdisjoint((*kwargs, *kwargs.get("names", ()))):
        fail("a function of torch that writes to one of its arguments")
    if fn is draw:
        source = args[0] if args else None
        if hasattr(type(source), "rewind") and kwargs == {"method": "state"} and len(args) == 1:  # torch's
            return
        if (kwargs.get("method") not in DRAWS
            or not (source is GLOBAL or isinstance(source, (Operation, np.random.Generator, np.random.RandomState)))):
            fail("a draw from an object that is not a random generator")
    if fn is default_rng and kwargs.get("make") not in (np.random.default_rng, np.random.RandomState):
        fail("a random generator of an unknown kind")
    if fn is pack:
        into = kwargs.get("into")
        if (not isinstance(into, (Structure, ValueAndGradients))
            or len(args) != into.size + isinstance(into, ValueAndGradients)):
            fail("a pack whose number of parts differs from its structure")
