"""source_names: unique names in generated source."""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

RESERVED = {"np", "math", "miss", "fresh", "compiled", "_", "args", "kwargs", "hold", "give_back"}
"""Names that surround a generated body."""

Spelled = Callable[[Any], "str | None"]


class Names:
    """The names in one generated source, each for one object."""

    def __init__(self, spelled: Spelled) -> None:
        self.spelled = spelled
        self.objects: dict[str, Any] = {}
        self.taken: set[str] = set(dir(builtins)) | set(keyword.kwlist) | RESERVED
        self._of: dict[Any, str] = {}
        self._functions: dict[int, tuple[Any, str]] = {}  # by id; held here so that ids are not reused

    def fresh(self, hint: str) -> str:
        """Return an unused name similar to the hint."""
        if not hint.isidentifier() or "_" in hint:
            hint = re.sub(r"\W+", "_", hint).strip("_") or "x"
            hint = f"x{hint}" if hint[0].isdigit() else hint
        name, number = hint, 1
        while name in self.taken:
            number += 1
            name = f"{hint}_{number}"
        self.taken.add(name)
        return name

    def bind(self, value: Any, hint: str = "") -> str:
        """Return the name of an object, always the same one."""
        known = self._functions.get(id(value))
        if known is not None:
            return known[1]
        name = self._bind(value, hint)
        if callable(value):
            self._functions[id(value)] = (value, name)
        return name

    def _bind(self, value: Any, hint: str) -> str:
        label = getattr(value, "__name__", None) or "constant"
        if getattr(builtins, label, None) is value:
            return str(label)
        if (text := self.spelled(value)) is not None:
            return text
        key: Any = id(value)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            key = (value.dtype.char, value.tobytes())
        if key not in self._of:
            name = self.fresh(hint or label)
            self._of[key], self.objects[name] = name, value
        return self._of[key]


class Texts:
    """Writes what stands among a call's arguments."""

    names: Names

    def text(self, x: Any) -> str:
        """Write an argument."""
        kind = type(x)
        if x is None or x is Ellipsis or kind in (bool, int, str):
            return "..." if x is Ellipsis else repr(x)
        if kind is float:
            return repr(x) if math.isfinite(x) else self.names.bind(x, "inf" if math.isinf(x) else "nan")
        if kind is tuple:
            return f"({', '.join(map(self.text, x))}{',' if len(x) == 1 else ''})"
        if kind is list:
            return f"[{', '.join(map(self.text, x))}]"
        if kind is slice:
            return f"slice({self.text(x.start)}, {self.text(x.stop)}, {self.text(x.step)})"
        return self.other(x)

    def other(self, x: Any) -> str:
        """Write the value of an operation, or another thing."""
        raise NotImplementedError

    def operand(self, x: Any) -> str:
        """Write an argument beside an operator."""
        text = self.text(x)
        return f"({text})" if text.startswith("-") else text
