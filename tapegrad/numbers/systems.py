"""systems: number systems besides Python's, NumPy's and torch's (Fraction, Decimal, mpmath, the user's), by type."""

from __future__ import annotations

import enum
import math
import numbers
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile
from types import FrameType, FunctionType
from typing import Any

import numpy as np

from tapegrad.errors import DuplicateRule, UnknownFunction, user_location
from tapegrad.numbers.dtypes import NUMERIC, is_extension, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensors import ORDINARY

OPERATORS = frozenset(["__neg__", "__abs__", *(f"__{side}{name}__" for side in ("", "r")
                                                for name in ("add", "sub", "mul", "truediv", "floordiv", "mod",
                                                             "pow"))])


class System:
    """The adapter for one kind of number that computes by Python's operators.

    convert: `convert(x, kind)` makes any number one of class `kind`, exactly if possible. literal: `literal(x, kind)`
    converts a float literal of the program. functions: implementations by op name; ops that are neither there nor
    operators are refused. attributes, methods: the op that each attribute or method of a traced number calls.
    precision: the name of its context's precision in PRECISION. declined: for a family of classes with their own
    operators, the error by which an operator declines an unknown operand. partial: the order is partial, and an
    undecided comparison is None.
    """

    __slots__ = ("attributes", "convert", "declined", "functions", "is_complex", "literal", "methods", "partial",
                 "precision")

    def __init__(self, convert: Callable[[Any, Any], Any], functions: Mapping[str, Callable[..., Any]],
                 attributes: Mapping[str, str] = {},
                 methods: Mapping[str, str] = {}, is_complex: bool = False, precision: str = "",
                 literal: Callable[[float, Any], Any] | None = None, declined: type[Exception] | None = None,
                 partial: bool = False) -> None:
        self.literal = literal or (lambda x, kind: convert(Fraction(repr(x)) if math.isfinite(x) else x, kind))
        self.partial = partial
        self.convert, self.is_complex, self.precision, self.declined = convert, is_complex, precision, declined
        self.functions, self.attributes, self.methods = dict(functions), dict(attributes), dict(methods)

    def run(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute an op on numbers of this system; raise UnknownFunction if the system does not define it."""
        if any(holds_objects(x) or (type(x) is np.ndarray and x.dtype.kind == "b") for x in args):
            return op.read(*args, **kwargs)  # NumPy computes these, by the operators of the elements
        self.check(op)
        y = self.functions.get(op.__name__, op.read)(*args, **kwargs)
        if op.pythonic:
            check_decided(op.__name__, y)
        return y

    def check(self, op: Any) -> None:
        """Raise UnknownFunction for an undefined op, even if NumPy computes something for such objects."""
        if not (op.pythonic or op.effects.nested or op.__name__ in self.functions
                or op.__name__ in _ARRANGES):
            kind = next(kind.__name__ for kind, known in SYSTEMS.items() if known is self).lstrip("_")
            raise UnknownFunction(f"{op.__name__} has no exact meaning for {kind}", user_location(),
                                  "use arithmetic, or pass float(...) of the argument: its gradient is then a float")


def check_decided(name: str, y: Any) -> None:
    """Raise UnknownFunction for an undecided comparison (None), as of overlapping intervals."""
    if y is None:
        raise UnknownFunction(f"{name} of these numbers is undecided: neither true nor false for the whole interval",
                              user_location(),
                              "split the intervals so that they do not overlap, and call the function for each part")


def truth(x: Any) -> bool:
    """Return whether a number is nonzero; raise UnknownFunction for an interval that contains 0 and other numbers."""
    known = None if type(x) in ORDINARY else system_of(type(x))
    if known is not None and known.partial:
        check_decided("bool", known.functions["equal"](x, known.convert(0, type(x))))
    return bool(x)


SYSTEMS: dict[type, System] = {}
PRECISION: dict[str, Callable[[], Any]] = {}  # functions that read each precision; the name is also a guard's fact
OWNERS: set[type] = set()  # library classes whose methods are among these; their objects hold no traced values
# library functions that accept only such numbers: replaced in a trace that has one among its inputs
INTERPOSED: list[FunctionType] = []


def register(kind: type, convert: Callable[..., Any] | None = None, functions: Mapping[str, Callable[..., Any]] = {}, *,
             is_complex: bool = False) -> None:
    """Register a class of numbers, and its subclasses, to be differentiated in their own arithmetic by Python's
    operators.

    `convert(x)` makes one from an int or a float (default: `kind` itself); `functions` implements ops other than
    operators, by name.

    >>> import tapegrad as tg
    >>> class Modular:
    ...     def __init__(self, n): self.n = int(n) % 7
    ...     def __mul__(self, other): return Modular(self.n * getattr(other, "n", other))
    ...     __rmul__ = __mul__
    ...     def __add__(self, other): return Modular(self.n + getattr(other, "n", other))
    ...     __repr__ = lambda self: f"{self.n} mod 7"
    >>> tg.numbers.register(Modular)
    >>> tg.gradient(lambda x: x * x * x, Modular(3))
    (6 mod 7,)
    """
    make = kind if convert is None else convert
    add(kind,
        System(lambda x, cls: x if isinstance(x, kind) else make(x), {**_OF_ANY, **functions}, is_complex=is_complex,
               literal=lambda x, cls: make(x)))


def add(kind: type, system: System) -> None:
    """Register the adapter for numbers of a class."""
    if kind in SYSTEMS:
        raise DuplicateRule(f"numbers of {kind.__name__} are registered already", user_location(),
                            "keep one of the two")
    SYSTEMS[kind] = system
    forget()


def forget() -> None:
    """Clear the cached look-ups of adapters."""
    _found.cache_clear()
    _is_unknown.cache_clear()


@lru_cache(maxsize=4096)
def _found(cls: type) -> System | None:
    for base in cls.__mro__:
        if base in SYSTEMS:
            return SYSTEMS[base]
        if not OPERATORS.isdisjoint(vars(base)):
            return next((SYSTEMS[of] for of in cls.__mro__ if of in SYSTEMS and SYSTEMS[of].declined), None)
    return None


def system_of(cls: type) -> System | None:
    """Return the adapter for a class of numbers, None for Python's, NumPy's or torch's and for other classes. A
    subclass that defines operators is another kind of number.
    """
    return _found(cls)


@lru_cache(maxsize=4096)
def _is_unknown(cls: type) -> bool:
    known = (int, float, complex, np.ndarray, np.generic, enum.Enum)
    return (issubclass(cls, numbers.Number) and not issubclass(cls, known) and not hasattr(cls, "_tracer")
            and system_of(cls) is None)


def system(x: Any) -> System | None:
    """Return the adapter for a number or for the number behind a proxy."""
    return None if type(x) in ORDINARY else system_of(type(plain(x)))


def has_others(ops: Sequence[Any], kinds: Collection[type] | None = None) -> bool:
    """True if a tape's values include numbers other than Python's, NumPy's or torch's. `kinds` gives their classes if
    known; arrays are then not examined.
    """
    dtypes = {getattr(plain(op.val), "dtype", None) for op in ops} if kinds is None else ()
    arrays = any(is_extension(dtype) or getattr(dtype, "kind", "") == "O" for dtype in dtypes)
    kinds = {type(op.val) for op in ops} if kinds is None else kinds
    if any(hasattr(kind, "_tracer") for kind in kinds):
        kinds = {type(plain(op.val)) for op in ops}
    return arrays or any(system_of(kind) is not None for kind in kinds)


# -- arrays of objects

_COMMON = ORDINARY - {np.ndarray}
_REAL = frozenset([int, float, np.float64, np.float32, np.int64])
# ops that only rearrange arrays, valid for object arrays of any system
_ARRANGES = frozenset(["broadcast_to", "concatenate", "expand_dims", "getfield", "pack", "reshape", "scatter",
                       "squeeze", "stack", "sum"])


def is_numeric(x: Any) -> bool:
    """True for an array of numbers: of a numeric dtype, or of objects that are numbers.

    >>> is_numeric(np.array([Fraction(1, 3), 2])), is_numeric(np.array(["one", None]))
    (True, False)
    """
    kind = letter(x.dtype)
    return kind in NUMERIC or (kind == "O" and kind_within(x) is not None)


def holds_objects(x: Any) -> bool:
    """True for an array of objects."""
    return getattr(getattr(x, "dtype", None), "kind", "") == "O"


def kind_within(x: Any) -> type | None:
    """Return the class of the numbers in an object array: that of the first number of a registered system, else float
    or int. None if it holds complex numbers or other objects, and for other values.
    """
    if not holds_objects(x):
        return None
    kinds: Any = dict.fromkeys(map(type, x.flat))
    own = [kind for kind in kinds if (known := system_of(kind)) is not None and not known.is_complex]
    if not kinds or not all(kind in own or kind in _REAL for kind in kinds):
        return None
    return own[0] if own else int if kinds.keys() <= {int} else float


def system_within(x: Any) -> System | None:
    """Return the adapter for a number, for the elements of an object array, or for those behind a proxy."""
    if type(x) in _COMMON or (type(x) is np.ndarray and x.dtype.kind != "O"):
        return None
    kind = kind_within(plain(x))
    return system(x) if kind is None else system_of(kind)


def as_objects(dx: Any, x: Any) -> Any:
    """Return a gradient with elements of the class of those in the object array `x`; other gradients unchanged."""
    kind = kind_within(x)
    if kind is not None and kind is not int:
        dx.flat = [as_kind(each, kind) for each in dx.flat]
    return dx


def refuse_unknown(x: Array, name: str) -> System | None:
    """Return the adapter of a number; refuse one of an unregistered class, since rules would mix floats into it."""
    kind: Any = type(x)
    if _is_unknown(kind):
        raise UnknownFunction(f"{name} is a {kind.__name__} of {kind.__module__}, a number type that tapegrad does not "
                              "support", user_location(),
                              f"float(x), or tapegrad.numbers.register({kind.__name__}) to differentiate in its own "
                              "arithmetic")
    return system_of(kind)


def plain_number(x: Any) -> Any:
    """Return a number converted to its Python or NumPy base class if its own class, the user's, overrides operators:
    ops have computed with the base value alone. Other values are returned unchanged.
    """
    kind: Any = type(x)
    if kind in ORDINARY or not issubclass(kind, (int, float, complex, np.number)) or issubclass(kind, enum.Enum):
        return x
    own = list(takewhile(lambda base: base.__module__ not in ("builtins", "numpy"), kind.__mro__))
    return x if all(OPERATORS.isdisjoint(vars(base)) for base in own) else kind.__mro__[len(own)].__pos__(x)


# -- conversion. For a traced number it is an op, which is defined in a higher layer

RECORDED: dict[str, Callable[..., Any]] = {}


def as_kind(x: Any, kind: Any) -> Any:
    """Return a number converted to a class: a Python class or one of a number system."""
    if type(x) is kind or ((known := system_of(kind)) is not None and known.declined and system(x) is known):
        return x
    if hasattr(type(x), "_tracer"):
        return x if type(plain(x)) is kind else RECORDED["convert"](x, to=kind)
    return converted(x, kind)


def promoted(args: tuple[Any, ...], y: Array) -> tuple[Any, ...]:
    """Return the arguments of a call, with floats converted if its value is of a number system, as the operators do: a
    formula that computes with a float alone would round.
    """
    if system(y) is None:
        return args
    kind = type(plain(y))
    return tuple([as_kind(x, kind) if isinstance(plain(x), (float, complex, np.generic)) else x for x in args])


def converted(x: Any, kind: Any) -> Any:
    """Return a plain number converted to a class."""
    known = system_of(kind)
    x = x.item() if isinstance(x, (np.generic, np.ndarray)) else x
    if is_complex_number(x) and not (kind is complex or (known is not None and known.is_complex)):
        x = x.real
    if known is not None:
        return known.convert(x, kind)
    try:
        return kind(x)
    except (TypeError, ValueError) as err:
        raise UnknownFunction(f"a {type(x).__name__} cannot be converted to {kind.__name__} here",
                              user_location(), "pass all arguments as numbers of one type") from err


def is_complex_number(x: Array) -> bool:
    """True for a complex number other than NumPy's and torch's."""
    if isinstance(x, complex):
        return True
    known = system_of(type(x))
    return known is not None and known.is_complex


# -- functions common to all systems


def number_of(x: Array, known: System, *others: Any) -> Any:
    """Return a literal of a formula as a number of the others' class."""
    if system_of(type(x)) is not None:
        return x
    return known.convert(x, next(type(other) for other in others if system_of(type(other)) is known))


def _where(condition: Array, a: Array, b: Array) -> Any:
    known = system_of(type(a)) or system_of(type(b))
    if known is None:
        return a if condition else b
    return number_of(a, known, b) if condition else number_of(b, known, a)


def _like(x: Array, value: Array) -> Any:
    return converted(value, type(x))


_OF_ANY: dict[str, Callable[..., Any]] = {
    "convert": lambda x, to: converted(x, to), "number_like": _like, "where": _where, "stop_gradient": lambda x: x,
    "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
}


def functions(**own: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions of a system of real or complex numbers: the common ones and its own."""
    return {
        **_OF_ANY, "real": lambda x: x.real, "imag": lambda x: x.imag, "conjugate": lambda x: x.conjugate(),
        "sign": lambda x: _like(x, (x > 0) - (x < 0)), "isnan": lambda x: x != x,
        "maximum": lambda a, b: a if a >= b else b, "minimum": lambda a, b: a if a <= b else b,
        "round": lambda x, decimals=0: round(x, decimals), **own,
    }


# -- detection of operators in the code of number classes that receive a proxy as operand

# the functions of fractions.py that test an operand's class
_OPERAND = frozenset(["forward", "_richcmp", "__eq__", "__pow__"])
_OPERATOR = OPERATORS | {"__div__", "__rdiv__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "_cmp",
                         "mpf_convert_rhs", "mpf_convert_lhs", "mpc_convert_lhs"}


def computes(frame: FrameType, x: Array) -> bool:
    """True for a frame of a number class that tests whether it can compute with a traced operand; it should return
    NotImplemented, which leaves the operator to the proxy.
    """
    if frame.f_globals.get("__name__") == "abc" and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals.get("__name__", "")
    if module == "fractions":
        return frame.f_code.co_name in _OPERAND and (isinstance(x, int) or system_of(type(x)) is not None)
    if module == "mpmath.ctx_iv":  # it raises for unknown operands, and declines a number without an `_mpi_`
        if hasattr(x, "_mpi_"):
            return False
        raise UnknownFunction(f"an interval combined with a traced {type(x).__name__}", user_location(),
                              "pass all arguments as intervals")
    return module.partition(".")[0] in ("mpmath", "sympy")


def decline(x: Any, frame: FrameType) -> None:
    """Raise the error by which an operator of the number family declines an operand, if the frame is one."""
    known = system_within(x)
    if known is not None and known.declined and computes(frame, x):
        raise known.declined(f"a traced {type(x).__name__}")


def is_operator(frame: FrameType | None) -> bool:
    """True for a frame called by one of mpmath's operators rather than its functions."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "mpmath":
        name = frame.f_code.co_name
        if name in _OPERATOR:
            return True
        if name not in ("convert", "_convert_fallback", "mpf_convert_arg"):
            return False
        frame = frame.f_back
    return False
