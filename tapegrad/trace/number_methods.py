"""number_methods: operators of plain numbers called by name (`(2.0).__lt__(x)`, `float.__mul__(2.0, x)`,
`super().__mul__(x)` in a class of numbers), `np.ndarray.__new__`, and special methods that must return plain integers.

The operators are C code that returns NotImplemented for a traced number. Where traced code loads such a name from a
number, a class of numbers or `super()`, it gets a function that records the operator. A `__hash__` may return an
integer attribute of the object, which is traced: it returns the plain integer instead.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
from types import CodeType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import numpy as np

from tapegrad.errors import ConcretizationError, user_location
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import DISPATCH
from tapegrad.trace.bytecode import Step, expanded, name_in, steps_of
from tapegrad.trace.identity import MATMUL, PAIR

_CLASSES = (int, float, complex)
_FORWARD: dict[str, Any] = {**{f"__{name}__": getattr(operator, f"__{name}__") for name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "gt", "ge")},
    "__divmod__": builtins.divmod}
_REFLECTED = {f"__r{name[2:]}": fn for name, fn in _FORWARD.items() if f"__r{name[2:]}" in vars(float)}
_NAMES = frozenset([*_FORWARD, *_REFLECTED])
_POWERS = ("__pow__", "__rpow__")
_LOADS = frozenset(["LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"])


def _itself(x: Any) -> Any:
    """Return an instance of a program's number class as a plain Python number, which has Python's own operators."""
    base: Any = next((kind for kind in _CLASSES if isinstance(x, kind)), None)
    return x if base is None or isinstance(x, Traced) else base.__pos__(x)


def _called(found: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operator method written in C; record it if an argument is traced."""
    if name in _POWERS and args[1:] and args[-1] is None:  # pow without a modulus
        args = args[:-1]
    operands = (found.__self__, *args) if type(found) is MethodWrapperType else args
    if len(operands) != 2 or kwargs or not any(issubclass(type(x), Traced) for x in args):
        return found(*args, **kwargs)
    known = found(*map(plain, args))
    if known is NotImplemented:
        return known
    a, b = map(_itself, operands)
    y = _FORWARD[name](a, b) if name in _FORWARD else _REFLECTED[name](b, a)
    return tuple(map(_of_python, y, known)) if isinstance(known, tuple) else _of_python(y, known)


def _of_python(y: Any, known: Any) -> Any:
    """Return a result as a Python number if the plain result `known` is one."""
    if type(known) is bool:
        return bool(y)  # records a guard
    return DISPATCH[np.ndarray.item](y) if type(known) is float and type(plain(y)) is np.float64 else y


class _Methods:
    """Stands for a number, its class or `super()` where code loads an operator method from it."""

    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getattribute__(self, name: str) -> Any:
        found = getattr(object.__getattribute__(self, "of"), name)
        is_own = type(found) in (MethodWrapperType, WrapperDescriptorType) and found.__objclass__ in _CLASSES
        return functools.partial(_called, found, name) if is_own else found


class _Owner:
    """`(x,) @ self` returns x with recording operators: an operator needs no name in the bytecode, as a call would."""

    __slots__ = ()

    def __rmatmul__(self, one: tuple[Any]) -> Any:
        x, = one
        if x is np.ndarray:
            return _ARRAY
        kind = type(x)
        plain_number = issubclass(kind, _CLASSES) and not issubclass(kind, Traced)
        return _Methods(x) if plain_number or kind is super or (kind is type and x in _CLASSES) else x


class _Super:
    """`(super, cls, x) @ self` returns the replacement of `super()`; from Python 3.12 on a single instruction calls
    super and loads the attribute.
    """

    __slots__ = ()

    def __rmatmul__(self, given: tuple[Any, Any, Any]) -> Any:
        made, cls, x = given
        return _Methods(made(cls, x))


def new_array(cls: Any, shape: Any, dtype: Any = float, buffer: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Return `np.ndarray.__new__(...)`, a traced view if the buffer is traced."""
    if not isinstance(buffer, Traced):
        return np.ndarray.__new__(cls, shape, dtype, buffer, *args, **kwargs)
    if args or kwargs or dtype_of(buffer) != np.dtype(dtype) or np.prod(shape, dtype=int) != np.prod(shape_of(buffer)):
        raise ConcretizationError(f"{cls.__name__}.__new__ reads a part of a traced array's memory, or reads it as "
                                  "another dtype",
                                  user_location(), "x.reshape(shape).view(cls), with the same dtype")
    made = DISPATCH[np.ndarray.reshape](buffer, shape)[...]
    return made if cls is np.ndarray else DISPATCH["of_class"](made, cls, None)


class _Array:
    """Stands for `np.ndarray` where code loads `__new__` from it."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        return new_array if name == "__new__" else getattr(np.ndarray, name)


class _Whole:
    """`(x,) @ self` returns x, as a plain, guarded integer if it is a traced one."""

    __slots__ = ()

    def __rmatmul__(self, one: tuple[Any]) -> Any:
        x, = one
        return operator.index(x) if isinstance(x, Traced) and isinstance(plain(x), int) else x  # type: ignore[arg-type]


_WHOLE = frozenset(["__hash__", "__index__", "__int__"])
_ARRAY = _Array()
_OWNERS = (_Owner(), _Super(), _Whole())
_LOAD_ATTR = next(step for step in steps_of((lambda x: x.a).__code__) if step.opcode == dis.opmap["LOAD_ATTR"])


def with_operators(code: CodeType) -> CodeType:
    """Return code in which operators loaded by name accept traced numbers and integer methods return plain integers;
    the same object if there are none.
    """
    is_whole = code.co_name in _WHOLE
    names = _NAMES | {"__new__"} if "ndarray" in code.co_names else _NAMES
    if not is_whole and names.isdisjoint(code.co_names):
        return code
    instead, at = dict[int, tuple[Step, ...]](), len(code.co_consts)
    owner, of_super, whole = (Step(0, 0, dis.opmap["LOAD_CONST"], at + more, 0) for more in range(len(_OWNERS)))
    for step in steps_of(code):
        if is_whole and step.name == "RETURN_VALUE":
            instead[step.start] = PAIR._replace(arg=1), whole, MATMUL, step
        if step.name not in _LOADS or name_in(code, (step.end - 2) // 2 - step.caches) not in names:
            continue
        if step.name == "LOAD_SUPER_ATTR":  # its argument has one more flag, for how `super` is called
            load = _LOAD_ATTR._replace(arg=step.arg >> 2 << 1 | step.arg & 1)
            instead[step.start] = PAIR._replace(arg=3), of_super, MATMUL, load
        else:
            instead[step.start] = PAIR._replace(arg=1), owner, MATMUL, step
    if not instead:
        return code
    return expanded(code, instead, (*code.co_consts, *_OWNERS)).replace(co_stacksize=code.co_stacksize + 1)
