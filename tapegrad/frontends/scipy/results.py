"""The results of SciPy's solvers. A trace holds some parts of a result; each way to the others is refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from tapegrad.rules.registry import refused


def converged(name: str, found: Any, message: Any = None) -> Any:
    """Return a solver's result; raise if it has not converged."""
    if not np.all(found.success if message is None else found):
        raise refused(
            name,
            f"it did not converge: {found.message if message is None else message}",
            "more iterations, a better start, or a looser tolerance",
        )
    return found


def _unrecorded(what: str) -> Exception:
    return refused(f"the result's {what}", "a solver's internal steps are not recorded",
                   "use the solution itself; or call the solver outside the trace")


class _Part(dict[str, Any]):
    """Some items of a dict. Other keys, and what depends on which keys there are, are refused."""

    def __missing__(self, name: Any) -> Any:
        raise _unrecorded(str(name))

    def __contains__(self, name: Any) -> bool:
        self[name]
        return True

    def get(self, name: Any, default: Any = None) -> Any:
        return self[name]

    def pop(self, name: Any, *default: Any) -> Any:
        self[name]
        return super().pop(name)

    def setdefault(self, name: Any, default: Any = None) -> Any:
        return self[name]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={part!r}" for name, part in dict.items(self))
        return f"{type(self).__name__}({parts}, not recorded: ...)"

    def __dir__(self) -> list[str]:
        return [*dict.keys(self)]


def _whole(name: str) -> Any:
    def refuse(self: Any, *args: Any) -> Any:
        raise _unrecorded("other parts")
    refuse.__name__ = name
    return refuse


for _name in ("__len__", "__iter__", "__reversed__", "keys", "values", "items", "copy", "popitem", "__eq__", "__ne__",
              "__or__", "__ror__", "__reduce_ex__"):
    setattr(_Part, _name, _whole(_name))


def _attribute(self: Any, name: str) -> Any:
    if name.startswith("_") or hasattr(np.ndarray, name):  # looked up to learn what kind of value it is
        raise AttributeError(name)
    return self[name]


@cache
def _class_of(cls: type) -> Any:
    return type(cls.__name__, (_Part, cls), {} if cls is dict else {"__getattr__": _attribute})


def part_of(cls: type, **items: Any) -> Any:
    """Return a result of a subclass of `cls`, of which a trace holds these items only."""
    new = _class_of(cls).__new__(_class_of(cls))
    dict.update(new, items)
    return new
