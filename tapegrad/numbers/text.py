"""text: text of a traced number. It may be shown; converting it back to a number would lose the gradient."""

from __future__ import annotations

import dis
import functools
import re
import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError, user_location


class Text(str):
    """Text of a traced number, or text derived from it; `float` and `int` refuse it while its trace runs.

    Not every conversion can be caught: "%.2f" % x, an f-string of several parts and regular-expression matches make
    plain strings, and compiled code (`complex`, `Fraction`) reads the characters without calling a method.
    `eval`, `json.loads` and the like in the program's code are covered by trace/eval_text.py.
    """

    __slots__ = ("_traced_by",)
    _traced_by: Callable[[], Any]

    def __float__(self) -> float:
        self._check("float")
        return float(plain(self))

    def __int__(self) -> int:
        self._check("int")
        return int(plain(self))

    def _check(self, name: str) -> None:
        tracer = self._traced_by()
        if tracer is not None and not tracer.closed:
            err = ConcretizationError(f"{name}(text) reads the text of a traced value, whose gradient would be lost",
                                      user_location(),
                                      "use the value itself, or tg.value(x) to drop the gradient on purpose")
            tracer.refuse(err)
            raise err

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._check("np.array")
        return np.array(plain(self), *args, **kwargs)

    def __str__(self) -> str:
        # pathlib interns the parts of a path, which requires an exact str
        return plain(self) if sys._getframe(1).f_globals.get("__name__", "").startswith("pathlib") else self

    def __radd__(self, other: str) -> str:
        return text(other + plain(self), self._traced_by) if isinstance(other, str) else NotImplemented

    def __reduce_ex__(self, protocol: Any) -> Any:
        return str, (plain(self),)


def text(found: str, traced_by: Callable[[], Any]) -> Text:
    """Return a string as text of a number that the tracer records."""
    made = Text(found)
    made._traced_by = traced_by
    return made


def text_of(x: Any, found: str) -> str:
    """Return the text of a traced value, bound to the outermost trace; a plain string once that trace has ended."""
    tracer = None
    while hasattr(type(x), "_tracer"):
        tracer, x = x._tracer, x._val
    return found if tracer is None or tracer.closed else text(found, weakref.ref(tracer))


def plain(found: str) -> str:
    """Return the plain str of a text."""
    return str.__str__(found)


def _kept(name: str) -> Callable[..., Any]:
    """Return a str method whose results remain Text."""
    method = getattr(str, name)

    def kept(self: Text, *args: Any, **kwargs: Any) -> Any:
        found = method(self, *args, **kwargs)
        if isinstance(found, (list, tuple)):
            return type(found)(text(part, self._traced_by) for part in found)
        return text(found, self._traced_by) if isinstance(found, str) else found
    kept.__name__ = name
    return kept


for _name in ("__add__", "__format__", "__getitem__", "__mod__", "__mul__", "__rmul__", "capitalize", "casefold",
              "center", "expandtabs", "format",
              "join", "ljust", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rjust",
              "rpartition", "rsplit", "rstrip",
              "split", "splitlines", "strip", "swapcase", "title", "translate", "upper", "zfill"):
    setattr(Text, _name, _kept(_name))


@functools.lru_cache(maxsize=4096)
def _is_modulo(code: CodeType, lasti: int) -> bool:
    """True if the instruction at `lasti` is `%`."""
    # lasti may point into the instruction's inline cache
    at = max((i for i in dis.get_instructions(code) if i.offset <= lasti), key=lambda i: i.offset)
    return at.opname == "BINARY_MODULO" or (at.opname == "BINARY_OP" and at.argrepr == "%")


def formats(frame: FrameType) -> bool:
    """True if a frame formats a number by "%.2f" % x; for any other `%` Python calls the proxy's method."""
    return _is_modulo(frame.f_code, frame.f_lasti)


_CONVERSION = re.compile(r"%(?:\(.*?\))?([#0\- +]*[\d]*(?:\.\d+)?[hlL]?[eEfFgG])")


def _texts(code: CodeType) -> list[str]:
    """Return the texts among the constants of code, of bytes as well."""
    return [x if isinstance(x, str) else x.decode(errors="replace")
            for x in code.co_consts if isinstance(x, (str, bytes))]


@functools.lru_cache(maxsize=4096)
def conversions_of(code: CodeType) -> tuple[str, ...]:
    """Return the conversions to floating-point text (`%.2f`) in the constants of code; many if there are none."""
    found = {f"%{each}" for text in _texts(code) for each in _CONVERSION.findall(text)}
    return tuple(sorted(found)) or tuple(f"%.{n}{kind}" for n in range(1, 18) for kind in "efg")


_SHOW = frozenset(["repr", "str", "format", "ascii", "print", "reprlib", "pprint"])


def words_error(frame: FrameType) -> bool:
    """True if a frame calls `xs.index(x)`, whose error message takes the text, and no function that shows values."""
    code = frame.f_code
    return ("index" in code.co_names and dis.opname[code.co_code[frame.f_lasti]].startswith(("CALL", "PRECALL"))
            and _SHOW.isdisjoint(code.co_names))
