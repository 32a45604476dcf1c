"""eval_text: refuses `eval`, `json.loads` and the like of text with a traced number, whose gradient would be lost."""

from __future__ import annotations
import __future__

import ast
import decimal
import re
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.text import conversions_of, text_of
from tapegrad.trace.observers import written
from tapegrad.trace.plain_arguments import CALLED, loses
from tapegrad.tree.copies import running

# by tracer: texts, and numbers with the code that formatted them by `%`
_texts: WeakKeyDictionary[Any, set[str | tuple[float, CodeType]]] = WeakKeyDictionary()
_READERS: dict[str, Callable[..., Any]] = {
    "ast.literal_eval": ast.literal_eval, "ast.parse": ast.parse, "np.fromstring": np.fromstring}
_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_OPTIMIZED = 1  # CO_OPTIMIZED, the flag of functions' code


def shown_text(x: Any, found: str) -> str:
    """Return the text of a traced value; remember it if the value may have a gradient."""
    written()
    if x._view is not None or loses(x):  # of a view this cannot be tested without recording it
        _texts.setdefault(x._tracer, set()).add(found)
    return text_of(x, found)


def shown_number(x: Any, frame: FrameType) -> float:
    """Return the plain float that `%` of a frame formats; remember it."""
    written()
    number = float(plain(x))
    _texts.setdefault(x._tracer, set()).add((number, frame.f_code))
    return number


def _shown(tracer: Any) -> Iterator[str]:
    """Yield the texts of a tracer's numbers, of those formatted by `%` each that its code may have made."""
    for found in _texts.get(tracer, ()):
        if isinstance(found, str):
            yield found
        else:
            number, code = found
            yield from ((each % number).strip() for each in conversions_of(code))


def _check(source: Any, name: str) -> None:
    """Raise if a text, or its bytes, contains the digits of a traced number."""
    if not isinstance(source, str):
        source = source.decode(errors="replace") if isinstance(source, (bytes, bytearray)) else ""
    for tracer in running.tracers:
        for found in _shown(tracer):
            if found in source and re.search(rf"(?<![\w.]){re.escape(found)}(?![\w.])", source):
                err = ConcretizationError(
                    f"{name} reads {found}, the text of a traced value, whose gradient would be lost", user_location(),
                    f'use a name in the text, {name}("2 * x", {{"x": x}}); tg.value(x) drops the gradient on purpose'
                    if name in ("eval", "exec") else
                    "use the value itself, or tg.value(x) to drop the gradient on purpose")
                tracer.refuse(err)
                raise err


def _checked(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in of `eval` or `exec`, which evaluates the text with the caller's names."""
    def read(source: Any, /, *scope: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        _check(source, fn.__name__)
        if isinstance(source, str):
            text = source.lstrip(" \t") if fn is eval else source
            source = compile(text, "<string>", fn.__name__, frame.f_code.co_flags & _FUTURE, True)
        if (scope[0] if scope else named.get("globals")) is None:
            given = [*scope[1:], named.pop("locals", None)]
            own = next((names for names in given if names is not None), frame.f_locals)
            if own is frame.f_locals and sys.version_info >= (3, 13) and frame.f_code.co_flags & _OPTIMIZED:
                own = dict(own)  # its assignments do not change the function's variables
            scope = frame.f_globals, own
            named.pop("globals", None)
        return fn(source, *scope, **named)
    return read


def reading(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in of a function that reads numbers from a text."""
    def read(*args: Any, **kwargs: Any) -> Any:
        _check(args[0] if args else None, name)
        return fn(*args, **kwargs)
    return read


def _compiled(source: Any, *args: Any, **kwargs: Any) -> Any:
    """Compile a text with the future statements of the caller's file, as `compile` does."""
    _check(source, "compile")
    given = {**dict(zip(("filename", "mode", "flags", "dont_inherit", "optimize"), args)), **kwargs}
    if not given.pop("dont_inherit", False):
        given["flags"] = given.get("flags", 0) | sys._getframe(1).f_code.co_flags & _FUTURE
    return compile(source, dont_inherit=True, **given)


CALLED.update({eval: _checked(eval), exec: _checked(exec), compile: _compiled,
               decimal.Decimal: reading("Decimal", CALLED[decimal.Decimal])})
CALLED.update((fn, reading(name, fn)) for name, fn in _READERS.items())
