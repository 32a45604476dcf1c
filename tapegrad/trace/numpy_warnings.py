"""numpy_warnings: gives NumPy's floating-point warnings the program's line while it is traced, swept or replayed.

NumPy attributes them to its caller, tapegrad, where Python shows the first one of all programs and suppresses the rest.
NumPy is therefore set to write them to a log, which warns at the line of the current operation. This costs nothing as
long as there is no warning.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tapegrad.errors import INTERNAL, Location, UnknownFunction, user_location
from tapegrad.interrupts import whole
from tapegrad.tree.copies import running
from tapegrad.tree.installed import file_of

# the context variable of np.errstate, a new object with each setting; absent in NumPy 1, perhaps in later versions
SETTINGS: Any = getattr(getattr(getattr(np, "_core", None), "umath", None), "_extobj_contextvar", None)
# (the last settings seen, the settings that replace them; None if they stay)
_known: list[tuple[Any, Any]] = [(object(), None)]
_errstate, _geterr, _seterr, _seterrcall = np.errstate, np.geterr, np.seterr, np.seterrcall  # a trace replaces them

PLACES: dict[CodeType, Callable[[FrameType], Any]] = {}
"""By code of a frame of tapegrad's (of a sweep, of a replay): returns the operation that it executes."""
KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
"""The beginnings of NumPy's warnings, and their names in `np.errstate`."""
# by file: the module's name and its warning registry
_registries: dict[str, tuple[str, dict[Any, Any]]] = {}


class Log:
    """The log that NumPy writes its warnings to."""

    def write(self, text: str) -> None:
        """Give a warning at the program's line of the current operation."""
        for observer in running.observers:
            if hasattr(observer, "warned"):
                observer.warned()
        frame: FrameType | None = sys._getframe(1)
        what = text.removeprefix("Warning: ").rstrip()
        while frame is not None and frame.f_code.co_filename in INTERNAL:
            found = PLACES.get(frame.f_code)
            op = found(frame) if found is not None else None
            if op is not None and (where := op.where) is not None:
                if is_silenced(op, what):
                    return
                module, registry = registry_of(where.file)
                break
            frame = frame.f_back
        else:
            frame = frame or sys._getframe(1)
            where = Location(frame.f_code.co_filename, frame.f_lineno, "")
            module = frame.f_globals.get("__name__", "")
            registry = frame.f_globals.setdefault("__warningregistry__", {})
        warnings.warn_explicit(what, RuntimeWarning, where.file, where.line, module, registry)


def silenced(op: Any) -> frozenset[str]:
    """Return the kinds of NumPy's warnings that the program silences where it computes an operation."""
    return getattr(op.lasti, "kinds", frozenset())


def is_silenced(op: Any, what: str) -> bool:
    """Return whether the program silences this kind of warning where it computes the operation."""
    kinds = silenced(op)
    return any(what.startswith(text) for text, kind in KINDS.items() if kind in kinds)


_log = Log()


def registry_of(file: str) -> tuple[str, dict[Any, Any]]:
    """Return the name of a file's module and its warning registry."""
    if file not in _registries:
        module = next((x for x in list(sys.modules.values()) if file_of(x) == file), None)
        _registries[file] = ("", {}) if module is None else (
            module.__name__, vars(module).setdefault("__warningregistry__", {}))
    return _registries[file]


def action() -> str:
    """Return "error" if a filter turns NumPy's warnings into errors, else the action of the first filter that covers
    all of them, "" if there is none.
    """
    for action, message, category, module, line in warnings.filters:
        if issubclass(RuntimeWarning, category) and (
                action == "error" or (message is None and module is None and line == 0)):
            return action
    return ""


@whole
def begin() -> Any:
    """Begin to give warnings at the program's line; return `end`'s argument: None if they are off or already logged."""
    if SETTINGS is None:
        return None
    now = SETTINGS.get()
    before, instead = _known[0]
    if before is not now:
        modes = _geterr()
        said = {what: "log" for what, how in modes.items() if how == "warn"}
        instead = None
        if said and not {"call", "log"} & set(modes.values()):
            with _errstate(call=_log, **said):  # type: ignore[arg-type]
                instead = SETTINGS.get()
        _known[0] = now, instead
    return None if instead is None else (SETTINGS.set(instead), instead)


@whole
def end(begun: Any) -> None:
    """Undo `begin`, but keep what the program has set by np.seterr."""
    if begun is not None:
        token, instead = begun
        if SETTINGS.get() is instead:
            SETTINGS.reset(token)
        else:
            _seterr(**told(_geterr()))  # type: ignore[arg-type]
            _seterrcall(None)


def check_modes(tracer: Any) -> None:
    """Refuse a program that returns while its np.seterr makes NumPy raise: a replay would not."""
    if tracer.modes and "raise" in (now := told(_geterr())).values() and now != tracer.modes:
        _seterr(**meant(tracer.modes))
        raise UnknownFunction("np.seterr(...='raise') still set when the function returns cannot be recorded",
                              user_location(),
                              "put `with np.errstate(...):` around those lines, or np.seterr(**old) after them")


def may_pass_unseen() -> bool:
    """Return whether NumPy may now find a division by zero, an overflow or an invalid value without `Log` or an error.
    """
    return any(how not in ("raise", "log") for what, how in _geterr().items() if what != "under")


def told(modes: Any) -> dict[str, str]:
    """Return the modes of floating-point errors as the program sees them."""
    return {what: "warn" if how == "log" else how for what, how in modes.items()}


def meant(modes: dict[str, Any]) -> dict[str, Any]:
    """Return the modes to set in place of the program's, while its warnings are logged."""
    if np.geterrcall() is not _log:
        return modes
    return {what: "log" if how == "warn" else how for what, how in modes.items()}
