"""redirection: while a trace runs, a copied object stands for its copy, by whatever name the program reaches it.

Its class is replaced by a subclass whose attributes and operators go through `current`, which returns the copy in the
tracing thread and the object itself in others.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from tapegrad.numbers.memory import C_DATA
from tapegrad.tree.copies import class_of, current

# bypasses frozen dataclasses and classes that override `__class__`
set_class = object.__dict__["__class__"].__set__
_lock = threading.RLock()
# by id of a redirecting object: (object, its class, number of traces that use it)
_swapped: dict[int, tuple[Any, type, int]] = {}

_KEPT = frozenset(["__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__delattr__", "__dict__",
                   "__weakref__", "__slots__",
                   "__del__", "__init_subclass__", "__subclasshook__", "__class_getitem__", "__set_name__", "__doc__",
                   "__module__", "__reduce_ex__",
                   "__reduce__", "__hash__"])
_ALWAYS = ("__eq__", "__ne__")
_FORWARD = {f"__r{name}__": f"__{name}__" for name in (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "xor",
    "or")}


class _Silent:
    """First in the subclass's MRO, so that creating it does not call the user's `__init_subclass__`."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass


@functools.lru_cache(maxsize=1024)
def redirecting(cls: Any) -> type:
    """Return the subclass of `cls` whose instances redirect."""
    plain = cls.__getattribute__

    def get(self: Any, name: str) -> Any:
        target = current(self)
        if target is not self:
            return getattr(target, name)
        if name == "__class__" and cls.__dict__.get("__class__") is None:
            return cls
        return current(plain(self, name))

    def set_(self: Any, name: str, value: Any) -> None:
        target = current(self)
        if target is not self:
            setattr(target, name, value)
        else:
            cls.__setattr__(self, name, value)

    def delete(self: Any, name: str) -> None:
        target = current(self)
        if target is not self:
            delattr(target, name)
        else:
            cls.__delattr__(self, name)

    namespace: dict[str, Any] = {"__getattribute__": get, "__setattr__": set_, "__delattr__": delete}
    for name in dir(cls):
        if name.startswith("__") and name.endswith("__") and name not in _KEPT:
            found = getattr(cls, name, None)
            if callable(found) and (name in _ALWAYS
                                    or found is not getattr(object, name, None)) and not isinstance(found, type):
                namespace[name] = _reflected(cls, name) if name in _FORWARD else _special(cls, name)
    hashes = cls.__hash__ is not None and cls.__hash__ is not object.__hash__
    namespace["__hash__"] = _special(cls, "__hash__") if hashes else cls.__hash__
    return subclass(cls, namespace)


def subclass(cls: Any, namespace: dict[str, Any]) -> type:
    """Return a subclass that imitates a class; creating it runs no code of the program, and calling it makes an object
    of the class.
    """
    def reduce(self: Any, protocol: Any) -> Any:
        found = cls.__reduce_ex__(self, protocol)  # in another thread; this one uses the copy
        if isinstance(found, tuple) and len(found) > 1 and isinstance(found[1], tuple):
            return (found[0], tuple(cls if part is new else part for part in found[1]), *found[2:])
        return found

    order = {"mro": lambda made: [made, _Silent, *cls.__mro__],
             "__call__": lambda made, *args, **kwargs: cls(*args, **kwargs)}
    meta = type.__new__(type, type(cls).__name__, (type(cls),), order)
    shown = {"__slots__": (), "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__,
             # pickling and copying make ordinary objects
             "__new__": lambda made, *args, **kwargs: cls.__new__(cls, *args, **kwargs), "__reduce_ex__": reduce,
             "_redirects_for": cls}
    new: type = type.__new__(meta, cls.__name__, (cls,), {**shown, **namespace})
    return new


def _special(cls: type, name: str) -> Callable[..., Any]:
    """Return a special method that forwards to the copy: Python looks it up in the class, past `__getattribute__`."""
    def special(self: Any, *args: Any, **kwargs: Any) -> Any:
        target = current(self)
        owner = cls if target is self else class_of(target)
        return current(getattr(owner, name)(target, *args, **kwargs))
    special.__name__ = name
    return special


def _reflected(cls: type, name: str) -> Callable[..., Any]:
    """Return the special method of a right operand. Python tries a subclass's reflected method before the left operand,
    but here the class may be the left operand's own, or inherit the method from it: then the left operand comes first.
    """
    def special(self: Any, other: Any, *args: Any) -> Any:
        target, left = current(self), type(other)
        owner = cls if target is self else class_of(target)
        if issubclass(type(self), left) and getattr(owner, name) is getattr(left, name, None):
            forward = getattr(left, _FORWARD[name], None)
            found = NotImplemented if forward is None else forward(other, target, *args)
            if found is not NotImplemented or owner is left:
                return current(found)
        return current(getattr(owner, name)(target, other, *args))
    special.__name__ = name
    return special


def begin(objects: Iterable[Any]) -> list[Any]:
    """Make objects redirect; return those that do, for `end`. Left out are objects whose class cannot be assigned
    (SimpleNamespace) and ctypes data: the subclass would have no layout, and reading it would crash the interpreter.
    """
    done = []
    with _lock:
        for x in objects:
            _, cls, count = _swapped.get(id(x), (x, class_of(x), 0))
            if issubclass(cls, C_DATA):
                continue
            if not count:
                try:
                    set_class(x, redirecting(cls))
                except TypeError:
                    continue
            _swapped[id(x)] = x, cls, count + 1
            done.append(x)
    return done


def end(objects: Iterable[Any]) -> None:
    """End the redirection of objects that `begin` returned."""
    with _lock:
        for x in objects:
            _, cls, count = _swapped.pop(id(x))
            if count > 1:
                _swapped[id(x)] = x, cls, count - 1
            else:
                set_class(x, cls)
