"""registry: tables filled at import: ops by name, and the op or composite that each foreign function dispatches to."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from tapegrad.errors import DuplicateRule, Location, UnknownFunction, user_location
from tapegrad.numbers.formatting import spelled
from tapegrad.numbers.tensor_array import TensorArray
from tapegrad.rules.facts import FRESH, Partial, Rule
from tapegrad.rules.op import OPS, Op
from tapegrad.rules.types.elementwise import by_ufunc
from tapegrad.tree.flatten import OPAQUE

# np.multiply, operator.mul, math.sin …: the op or composite that each is dispatched to
DISPATCH: dict[Any, Callable[..., Any]] = {}
FRONTEND_OPS: dict[str, Op] = {}  # ops defined by a frontend, by name; not in OPS
# np.zeros, np.array …: the replacement that user code calls during a trace
CONSTRUCTORS: dict[Any, Callable[..., Any]] = {}
PYTHON: list[FunctionType] = []  # the Python functions of DISPATCH, whose calls must be interposed
# foreign functions with a result that is constant almost everywhere, an integer, a bool or a plain fact
CONSTANT: set[Any] = set()
TRACED_THROUGH: set[Any] = set()  # foreign Python code that runs on traced values unchanged
RUN_AS_PYTHON: set[Any] = set()  # foreign code made of dispatched functions: names in its modules are not replaced
PLAIN: dict[Any, str] = {}  # foreign functions that take no traced value, and why
_HERE = os.path.dirname(__file__)
COMPILED = frozenset(["builtin_function_or_method", "cython_function_or_method", "fused_cython_function", "fortran",
                      "instancemethod", "nb_func", "pybind11_builtins"])  # the classes of compiled functions
GIVEN: dict[Any, Any] = {}  # compiled functions of other packages, with the op or function that each is dispatched to
STAND_IN: dict[Any, Any] = {}  # the replacement of each function during a trace, filled by the interposition
REGISTERED: dict[Any, Location] = {}
TensorArray.meanings = DISPATCH


def register(key: Any, meaning: Callable[..., Any], *, constant: bool = False) -> None:
    """Dispatch a foreign function to an op or composite, `constant` if no gradient flows; once only (DuplicateRule)."""
    _claim(key, f"{getattr(key, '__name__', key)!r}")
    set_dispatch(key, meaning)
    if constant:
        CONSTANT.add(key)


def set_dispatch(key: Any, meaning: Callable[..., Any]) -> None:
    DISPATCH[key] = meaning
    kind = type(key).__name__
    if kind in COMPILED and (isinstance(meaning, Op) or kind.startswith("cython")):
        GIVEN[key] = meaning
    if isinstance(key, FunctionType):
        PYTHON.append(key)
        OPAQUE.add(key)


def define(name: str, impl: Callable[..., Any],
           rule: Rule | tuple[Partial | None, ...] | Partial | None = None, *, means: Sequence[Any] = (),
           **facts: Any) -> Op:
    """Define an op of tapegrad: one entry holds all facts about it."""
    _claim(name, f"the op {name!r}")
    ufunc = next((fn for fn in (impl, *means) if isinstance(fn, np.ufunc) and fn.signature is None), None)
    if any(isinstance(fn, np.ufunc) for fn in (impl, *means)):
        facts.setdefault("memory", FRESH)
    if "memory" not in facts:
        raise TypeError(f"the op {name!r} does not declare the memory of its result: memory=FRESH for new memory, "
                        "VIEW, view_of(argument), SHARED ...")
    if facts.get("spec") is None:
        if ufunc is None:
            raise TypeError(f"the op {name!r} does not declare the type of its result: a family of rules.types, or "
                            "opaque(why) if it is not known before the op runs")
        facts["spec"] = by_ufunc(ufunc, impl)
    op = Op(name, impl, rule, **facts)
    for fn in means:
        register(fn, op)
    OPS[name] = op  # last, so that an error leaves no entry
    return op


def of_frontend(op: Op) -> Op:
    """Register an op of a frontend under the name that files use; raise DuplicateRule if the name is taken."""
    _claim(f"frontend {op.__name__}", f"the op {op.__name__!r} of a frontend's own")
    FRONTEND_OPS[op.__name__] = op
    return op


def lowering(backend: str, *ops: Op) -> Callable[[Any], Any]:
    """Register the decorated function or text as the ops' lowering `op.lower[backend]`; a second raises DuplicateRule.
    """
    def decorate(own: Any) -> Any:
        for op in ops:
            if backend in op.lower and (backend, op) not in REGISTERED:
                raise DuplicateRule(f"{op.__name__} already declares its {backend} implementation",
                                    user_location_of_definition(), "keep one of the two")
            _claim((backend, op), f"the {backend} implementation of {op.__name__}")
            op.lower[backend] = own
        return own
    return decorate


def means(*functions: Any, constant: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Dispatch foreign functions to the decorated composite; `constant` if no gradient flows through it."""
    def decorate(composite: Callable[..., Any]) -> Callable[..., Any]:
        for fn in functions:
            register(fn, composite, constant=constant)
        return composite
    return decorate


class Refusal:
    """The dispatch target of a function that cannot be recorded: it raises, with the reason and an alternative."""

    __slots__ = ("derivative", "name", "try_", "why")

    def __init__(self, name: str, why: str, try_: str, derivative: bool) -> None:
        self.name, self.why, self.try_, self.derivative = name, why, try_, derivative

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise refused(self.name, self.why, self.try_)

    def __repr__(self) -> str:
        return f"<refusal of {self.name}>"


def refused(name: str, why: str, try_: str) -> UnknownFunction:
    """Return the error for a call that cannot be recorded, at the user's line."""
    return UnknownFunction(f"{name} cannot be recorded: {why}", user_location(), try_)


def refuse(*functions: Any, why: str, try_: str, derivative: bool = False) -> None:
    """Register functions that cannot be recorded; `derivative` if they have one nevertheless."""
    for fn in functions:
        register(fn, Refusal(spelled(fn), why, try_, derivative))


def leave(*functions: Any, why: str) -> None:
    """Register functions that take no traced value and so need no dispatch, with the reason."""
    PLAIN.update(dict.fromkeys(functions, why))


def constructs(*functions: Any, interposed: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register `(tracer, fn, *args, **kwargs) -> value` as the replacement of constructors, which have no traced
    argument. `interposed`: Python functions outside NumPy's modules, whose calls must be intercepted.
    """
    def decorate(make: Callable[..., Any]) -> Callable[..., Any]:
        for fn in functions:
            _claim(("constructor", fn), f"the constructor {fn.__name__}")
            CONSTRUCTORS[fn] = make
            if interposed:
                PYTHON.append(fn)
        return make
    return decorate


def _claim(key: Any, what: str) -> None:
    here = user_location_of_definition()
    if key in REGISTERED:
        raise DuplicateRule(f"{what} is already registered, at {REGISTERED[key]}", here, "keep one of the two")
    REGISTERED[key] = here


def user_location_of_definition() -> Location:
    """Return the first line outside this folder, where an op or a rule is being defined."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    if frame is None:
        return user_location()
    return Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


class StandIn:
    """A replacement for a function during a trace: it calls something else, but hashes, compares and pickles as the
    original.

    Each is the single instance of its own class, and the called function is a class attribute, so that a call is as
    fast as that of a plain function.
    """

    __slots__ = ("__wrapped__",)

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.__wrapped__ = fn

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.__wrapped__)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return other is self.__wrapped__ or other is self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce__(self) -> str:
        return self.__wrapped__.__qualname__
