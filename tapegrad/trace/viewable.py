"""viewable: the program's classes that a traced array may be viewed as."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from tapegrad.rules.registry import refused

BESIDES: dict[type, dict[str, Any]] = {}  # by NumPy class: members of its proxies that replace the class's methods


def own_classes(cls: type) -> list[type]:
    """Return a class and its bases that are not bases of np.ndarray."""
    return [base for base in cls.__mro__ if not issubclass(np.ndarray, base)]


OF_EVERY_CLASS = frozenset(["__new__", "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__slots__",
                            "__init_subclass__", "__class_getitem__", "__abstractmethods__", "_abc_impl", "__reduce__",
                            "__reduce_ex__", "__setstate__"])


def check_viewable(cls: type) -> None:
    """Refuse a class whose arrays a proxy cannot represent."""
    own = own_classes(cls)
    names = {name for base in own for name in vars(base)}
    why, cure = "", ("use the plain array, or a class of your own that sets its attributes in __new__ and "
                     "__array_finalize__")
    if cls not in BESIDES and any(base.__module__.partition(".")[0] == "numpy" for base in own):
        name = next(base.__name__ for base in own if base.__module__.startswith("numpy"))
        why = f"np.{name} changes the meaning of array operations"
        cure = "np.where(mask, 0.0, x) and x[~mask]" if issubclass(cls, np.ma.MaskedArray) else cure
    elif type(cls) not in (type, abc.ABCMeta):
        why = "its class has a metaclass"
    elif getattr(cls, "__array_ufunc__", None) is None:
        why = "it opts out of ufuncs, __array_ufunc__ = None"
    elif names & {"__init__", "__init_subclass__", "__getattribute__", "__class__"}:
        why = f"its class defines {min(names & {'__init__', '__init_subclass__', '__getattribute__', '__class__'})}"
    elif any(vars(base).get("__slots__") for base in own):
        why = "its class keeps attributes in __slots__"
    if why:
        raise refused(f"x.view({cls.__name__})", why, cure)
