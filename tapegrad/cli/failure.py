"""Errors of the command line, on one line."""

from __future__ import annotations

import os
import sys
import traceback

from tapegrad.errors import INTERNAL, Location, TapeError


class Failure(Exception):
    """A request that cannot be carried out; the message says why, on one line."""


class Disagreement(Failure):
    """A check that fails: status 1, as the request itself is valid."""


def one_line(err: BaseException) -> str:
    """Return an error as one line of text, with the user's line where it occurred."""
    if isinstance(err, Failure):
        return " ".join(str(err).split())
    if isinstance(err, TapeError):
        parts = [err.what, "" if err.where is None else f"at {_place(err.where)}"]
        parts += [f"try: {err.try_}"] if err.try_ and "\n" not in err.try_ else []
        return " ".join("; ".join(filter(None, parts)).split())
    if isinstance(err, SyntaxError) and err.filename:
        return f"{type(err).__name__}: {err.msg} ({os.path.basename(err.filename)}:{err.lineno})"
    where = _user_line(err)
    message = " ".join(str(err).split())
    return type(err).__name__ + (f": {message}" if message else "") + (f"; at {_place(where)}" if where else "")


def _place(where: Location) -> str:
    return where.short + (f": {where.source}" if where.source else "")


def _user_line(err: BaseException) -> Location | None:
    """Return the innermost line of the traceback that is neither tapegrad's nor a library's."""
    where = None
    for frame, line in traceback.walk_tb(err.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if frame.f_code.co_filename not in INTERNAL and package not in _LIBRARIES:
            where = Location(frame.f_code.co_filename, line, frame.f_code.co_name)
    return where


_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "scipy", "torch"}
