"""effects: whether a call of a function does nothing but compute its result.

Decided from its code before it runs: the names in it must lead to numbers, nests of numbers, modules, and functions
known to be pure. Copies of the containers that it can write to are kept, so that writes can be undone.
"""

from __future__ import annotations

import builtins
import dis
import functools
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.object_state import attributes
from tapegrad.rules.op import Traced
from tapegrad.trace.interposition import original
from tapegrad.trace.random_state import is_known_pure, silent_names
from tapegrad.tree.attributes import is_foreign
from tapegrad.tree.copies import code_of, is_empty

MOST = 4096  # objects and array elements: a larger search takes longer than the function
_IMMUTABLE = PYTHON | {str, bytes, type(None), type(Ellipsis), slice, range, frozenset}
_TYPES = frozenset([np.dtype, np.ndarray])  # their names are also names of attributes
_STORES = frozenset(["STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME", "DELETE_NAME", "STORE_ATTR", "DELETE_ATTR",
                     "IMPORT_NAME", "IMPORT_STAR", "LOAD_BUILD_CLASS", "LOAD_LOCALS"])
_OF_CELLS = frozenset(["STORE_DEREF", "DELETE_DEREF"])
# attributes that expose an array's memory, functions that write files or settings
_LOUD = frozenset(["base", "data", "ctypes", "setflags", "resize", "tofile", "dump", "save", "savetxt", "savez",
                   "savez_compressed", "seterr", "seterrcall", "setbufsize", "set_printoptions"])
_MADE = frozenset(["__init__", "__new__"])  # these run when an object is constructed, which no accepted code does


class Reach:
    """The objects a function can reach. `pure`: whether a call can only compute its result and write to the lists,
    dicts and arrays in `held`, which has their contents before the call.
    """

    def __init__(self, *roots: Any) -> None:
        self.held: list[tuple[Any, Any]] = []
        self.names: set[str] = set()
        self.spaces: list[dict[str, Any]] = []  # namespaces in which a name may be an attribute
        self.known: dict[int, Any] = {}
        self.left = MOST
        self.pure = self._walk([*roots])

    def is_as_before(self) -> bool:
        """Return whether the containers are unchanged."""
        return all(map(_is_same, *zip(*self.held))) if self.held else True

    def put_back(self) -> None:
        """Restore the containers' contents."""
        for x, kept in self.held:
            if isinstance(x, dict):
                x.clear()
                x.update(kept)
            elif not _is_same(x, kept):
                x[...if isinstance(x, np.ndarray) else slice(None)] = kept

    def _walk(self, stack: list[Any]) -> bool:
        while stack:
            while stack:
                thing = original(stack.pop())
                if _is_number(thing) or id(thing) in self.known:
                    continue
                self.known[id(thing)] = thing
                self.left -= thing.size if type(thing) is np.ndarray else 1
                parts = self._parts(thing) if self.left >= 0 else None
                if parts is None:
                    return False
                stack += parts
            found = [original(space[name]) for space in self.spaces for name in self.names & space.keys()]
            stack = [x for x in found if id(x) not in self.known and not _is_number(x)]
        known = (silent_names()[0] - _LOUD).union(*self.spaces)
        return all(name in known or _is_error(name) for name in self.names)

    def _parts(self, thing: Any) -> list[Any] | None:
        """Return the objects that `thing` refers to, None if a call of it or of its methods may have side effects."""
        kind = type(thing)
        if kind is FunctionType and not is_foreign(thing.__module__):
            return self._of_function(thing)
        if kind in (tuple, list, dict):
            if kind is not tuple:
                self.held.append((thing, thing.copy()))
            return [*(thing.values() if kind is dict else thing)]
        if kind is np.ndarray:
            self.held.append((thing, thing.copy()))
            return [] if thing.dtype.kind in "biufc" else None
        if isinstance(thing, ModuleType):  # some have classes of their own while a trace runs
            self.spaces.append(vars(thing))
            return []
        if kind is MethodType:
            return [thing.__func__, thing.__self__]
        if kind is functools.partial and not vars(thing):
            return [thing.func, thing.args, thing.keywords]
        if isinstance(thing, type):
            return [] if thing in _TYPES or issubclass(thing, np.generic) else None
        if is_known_pure(thing) and isinstance(getattr(thing, "__self__", None), (ModuleType, type(None))):
            return [] if thing.__name__ not in _LOUD else None
        return self._of_object(thing)

    def _of_function(self, fn: FunctionType) -> list[Any] | None:
        names, cells = _names(code_of(fn)), fn.__closure__ or ()
        if names is None or vars(fn).keys() - {"__wrapped__"} or any(map(is_empty, cells)):
            return None
        self.names |= names
        self.spaces.append({name: fn.__globals__[name] for name in names if name in fn.__globals__})
        return [*[cell.cell_contents for cell in cells], *(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]

    def _of_object(self, x: Any) -> list[Any] | None:
        """Return the attributes and special methods of an object of a program's class; None if its class is not plain.
        """
        cls = type(x)
        if type(cls) is not type or not isinstance(attributes(x), dict):
            return None
        classes = [each for each in cls.__mro__ if each is not object]
        if any(is_foreign(each.__module__) for each in classes):
            return None
        self.spaces += [vars(x), *[dict(vars(each)) for each in classes]]
        hidden = [value for each in classes for name, value in vars(each).items()
                  if name.startswith("__") and name not in _MADE and isinstance(value, FunctionType)]
        return [*vars(x).values(), *hidden]


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str] | None:
    """Return the names in code and in nested code; None if it writes to globals, attributes or captured variables."""
    for step in dis.get_instructions(code):
        if step.opname in _STORES or (step.opname in _OF_CELLS and step.argval in code.co_freevars):
            return None
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return None if None in inner else frozenset(code.co_names).union(*inner)  # type: ignore[arg-type]


def _is_number(x: Any) -> bool:
    return type(x) in _IMMUTABLE or isinstance(x, (Traced, np.generic))


def _is_error(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _is_same(x: Any, kept: Any) -> bool:
    if isinstance(x, np.ndarray):
        return bool(x.shape == kept.shape) and x.tobytes() == kept.tobytes()
    if isinstance(x, dict):
        return x.keys() == kept.keys() and all(x[key] is kept[key] for key in kept)
    return len(x) == len(kept) and all(a is b for a, b in zip(x, kept))
