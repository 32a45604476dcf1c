"""eval_text: refuses `eval` and `exec` of text that contains a traced number, whose gradient would be lost."""

from __future__ import annotations
import __future__

import re
import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.text import text_of
from tapegrad.trace.observers import written
from tapegrad.trace.plain_arguments import CALLED, loses
from tapegrad.tree.copies import running

_texts: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()  # by tracer
_FUTURE = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
_OPTIMIZED = 1  # CO_OPTIMIZED, the flag of functions' code


def shown_text(x: Any, found: str) -> str:
    """Return the text of a traced value; remember it if the value may have a gradient."""
    written()
    if x._view is not None or loses(x):  # of a view this cannot be tested without recording it
        _texts.setdefault(x._tracer, set()).add(found)
    return text_of(x, found)


def _check(source: str, name: str) -> None:
    """Raise if the source text contains the digits of a traced number."""
    for tracer in running.tracers:
        for found in _texts.get(tracer, ()):
            if re.search(rf"(?<![\w.]){re.escape(found)}(?![\w.])", source):
                err = ConcretizationError(
                    f"{name} reads {found}, the text of a traced value, whose gradient would be lost", user_location(),
                    f'use a name in the text, {name}("2 * x", {{"x": x}}); tg.value(x) drops the gradient on purpose')
                tracer.refuse(err)
                raise err


def _checked(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the stand-in of `eval` or `exec`, which evaluates the text with the caller's names."""
    def read(source: Any, /, *scope: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        if isinstance(source, str):
            _check(source, fn.__name__)
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


CALLED.update({eval: _checked(eval), exec: _checked(exec)})
