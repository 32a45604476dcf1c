"""elementwise: the types of elementwise results, by NumPy's promotion.

Python numbers are weak beside an array. A Python operator on Python numbers alone yields a Python number, a NumPy
function a NumPy scalar.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.lazy import needed
from tapegrad.rules.types.family import (
    Family,
    Unknown,
    by_value,
    dtype_of,
    inexact,
    known,
    nest,
    number,
    numeric,
    numerics,
    promoted,
    python,
    real_of,
)
from tapegrad.rules.types.layout import array, copied, made, together_in_memory
from tapegrad.tape.spec import Spec

# -- ufuncs, and Python's operators


def by_ufunc(ufunc: np.ufunc, operation: Any = None) -> Family:
    """Return the family of a ufunc and of the Python operator that corresponds to it."""
    of_python = _PYTHON.get(operation)

    def family(*xs: Any) -> Spec:
        specs = numerics(xs)
        if of_python is not None and _is_python(specs):
            return python(of_python(*[x.type for x in specs]))
        return _by_loop(ufunc, specs)
    return family


def _is_python(specs: list[Spec]) -> bool:
    """True if Python's arithmetic on these yields a Python number. np.float64 is a subclass of float, so a Python
    complex accepts it as an operand.
    """
    return all(x.is_python for x in specs) or (specs[0].type is complex and specs[-1].type is np.float64)


def by_scipy(name: str, *, scalar: Any = None, part: int | None = None) -> Family:
    """Return the family of a scipy.special ufunc or its result `part`; `scalar` replaces it until SciPy is imported."""
    def family(*xs: Any) -> Spec:
        specs = numerics(xs)
        if scalar is not None and "scipy.special" not in sys.modules and issubclass(specs[0].type, float):
            return python(float)
        special = needed("scipy.special")
        ufunc = getattr(special._ufuncs if name.startswith("_") else special, name, None)
        if not isinstance(ufunc, np.ufunc):
            raise Unknown(f"scipy.special.{name} is no ufunc")
        return _by_loop(ufunc, specs, part)
    return family


def by_scipy_part(name: str, double: bool = False) -> Family:
    """Return the family of a scipy.special function whose result is chosen by the argument `part`; one that computes in
    `double` precision returns the type of its arguments.
    """
    parts = functools.cache(lambda part: by_scipy(name, part=part))

    def family(*xs: Any, part: int) -> Spec:
        dtype, found = promoted(*numerics(xs)), parts(part)(*xs)
        return recast(found, dtype) if double and dtype.kind == "f" and dtype.itemsize < 8 else found
    return family


def by_loop(ufunc: np.ufunc) -> Family:
    """Return the family of a function of one array that has the ufunc's result dtype."""
    def family(x: Any, *_: Any, **__: Any) -> Spec:
        return _by_loop(ufunc, [numeric(x)])
    return family


def recast(x: Spec, dtype: Any) -> Spec:
    """Return the type of a number or array in another dtype with the same layout."""
    if not x.is_array:
        return number(dtype)
    strides = x.strides and tuple([step // x.itemsize * dtype.itemsize for step in x.strides])
    return Spec(np.ndarray, dtype, x.shape, strides)


_NARROW = (np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.complex64))


def of_integer(name: str) -> Family:
    """Return the family of a scipy.special function of an integer and a number, or of its `derivative`."""
    def family(n: Any, x: Any, derivative: Any = False) -> Spec:
        order, x = numerics([n, x])
        if x.dtype in _NARROW:
            raise Unknown("SciPy chooses a loop")
        x = recast(x, np.result_type(dtype_of(x), float))  # SciPy makes arrays, and reflects in double
        order = number(np.dtype(int)) if not order.shape else recast(order, np.dtype(int))
        found = by_scipy(f"_{name}_d" if known(derivative) else f"_{name}")(order, x)
        # for other arrays SciPy 1.15 makes one in C order
        return found if x.is_contiguous else array(found.dtype, found.shape, None)
    return family


def branch(x: Any, k: Any) -> Spec:
    """Return the type of a branch of Lambert's function."""
    return by_scipy("_lambertw")(x, recast(numeric(k), np.dtype(int)) if numeric(k).shape else number(np.dtype(int)),
                                 python(float))


def integral(*xs: Any, powers: Any = None) -> Spec:
    """Return the type of an integral in double precision, in the arrays' dtype; with `powers`, the numbers' too."""
    specs = numerics(xs)
    dtypes = [dtype_of(x) for x in specs if x.is_array or powers is not None]
    dtype = np.result_type(np.float32, *dtypes) if dtypes else np.dtype(np.float64)
    return _row_by_row(dtype, specs)


def in_double(*xs: Any, **_: Any) -> Spec:
    """Return the type of a result computed in double precision."""
    specs = numerics(xs)
    return _row_by_row(np.result_type(promoted(*specs), np.float64), specs)


def boxed_in_double(x: Any, n: Any = 0) -> Spec:
    """Return the type of an array computed in double precision, possibly without axes."""
    spec = numeric(x)
    dtype = np.result_type(dtype_of(spec), np.float64)
    return array(dtype, spec.shape, () if spec.is_contiguous else None)


def _row_by_row(dtype: Any, specs: list[Spec]) -> Spec:
    shape = np.broadcast_shapes(*[x.shape for x in specs])
    plain = all(x.is_contiguous for x in specs) or len(shape) == 1
    return array(dtype, shape, () if plain else None) if shape else number(dtype)


def _by_loop(ufunc: np.ufunc, specs: list[Spec], part: int | None = None) -> Spec:
    dtypes = _resolved(ufunc, *[x.type if x.type in _WEAK else dtype_of(x) for x in specs])
    shape = np.broadcast_shapes(*[x.shape for x in specs])
    if ufunc.nout == 1 or part is not None:
        return made(dtypes[part or 0], shape, specs)
    return nest(*[made(dtype, shape, specs) for dtype in dtypes])


@functools.lru_cache(1 << 14)
def _resolved(ufunc: np.ufunc, *kinds: Any) -> Any:
    return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))[ufunc.nin:]


_WEAK = frozenset([int, float, complex])


def _widest(*kinds: type) -> type:
    return complex if complex in kinds else float if float in kinds else int


def _quotient(*kinds: type) -> type:
    return complex if complex in kinds else float


def _bits(*kinds: type) -> type:
    return bool if all(kind is bool for kind in kinds) else int


_PYTHON: dict[Any, Callable[..., type]] = {
    **dict.fromkeys((operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.neg,
                     operator.pos), _widest),
    operator.truediv: _quotient,
    operator.abs: lambda kind: float if kind in (float, complex) else int,
    **dict.fromkeys((operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge), lambda *_: bool),
    **dict.fromkeys((operator.and_, operator.or_, operator.xor), _bits),
    **dict.fromkeys((operator.invert, operator.lshift, operator.rshift), lambda *_: int),
}


@by_value
def power(x: Any, p: Any) -> Spec:
    """Return the type of `x ** p`; for Python numbers it depends on values unless the exponent is known."""
    base, exponent = numerics((x, p))
    if _is_python([base, exponent]):
        if complex in (base.type, exponent.type):
            return python(complex)
        if type(p) is Spec or p != p or p in (float("inf"), -float("inf")):
            whole, least = exponent.type is not float, None
        else:
            whole, least = p == int(p), p
        if not whole:
            raise Unknown("a negative number to a power that is no integer is complex")
        if float in (base.type, exponent.type):
            return python(float)
        if least is None:
            raise Unknown("an integer to a negative power is a float")
        return python(int if least >= 0 else float)
    if base.kind == "b" and exponent.is_python:
        raise Unknown("the square of truths is of another type than other powers")
    if _SQUARES_KEEP_THEIR_TYPE and base.is_array and not exponent.shape and not exponent.is_python:
        raise Unknown("an array's square is of another type than other powers")
    return _by_loop(np.power, [base, exponent])


# Before NumPy 2.3 a low-precision array keeps its dtype when squared by a scalar exponent of higher precision.
_SQUARES_KEEP_THEIR_TYPE = (np.ones(1, np.float32) ** np.float64(2)).dtype == np.float32


# -- other elementwise functions


def floating(*xs: Any, **_: Any) -> Spec:
    """Return the type of a floating-point formula of these: integers become double precision."""
    specs = numerics(xs)
    return made(inexact(promoted(*specs)), np.broadcast_shapes(*[x.shape for x in specs]), specs)


def floating_array(*xs: Any, **_: Any) -> Spec:
    """Return the same type as an array, possibly without axes, as `np.where` makes."""
    specs = numerics(xs)
    shape = np.broadcast_shapes(*[x.shape for x in specs])
    dtype = inexact(promoted(*specs))
    return array(dtype, shape, together_in_memory(dtype.itemsize, shape, specs))


def chosen(condition: Any, a: Any, b: Any) -> Spec:
    """Return the type of `np.where`: an array, possibly without axes."""
    specs = numerics((condition, a, b))
    dtype, shape = promoted(*specs[1:]), np.broadcast_shapes(*[x.shape for x in specs])
    return array(dtype, shape, together_in_memory(dtype.itemsize, shape, specs))


def angle(z: Any, deg: Any = False) -> Spec:
    """Return the type of the angles of numbers, which are real."""
    spec = numeric(z)
    dtype = real_of(dtype_of(spec))
    return made(_resolved(np.arctan2, dtype, dtype)[0], spec.shape, [spec])


def interpolated(x: Any, xp: Any, fp: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of interpolated values, in double precision."""
    spec, dtype = numeric(x), np.dtype(np.complex128 if numeric(fp).is_complex else np.float64)
    return made(dtype, spec.shape)


def clipped(x: Any, low: Any = None, high: Any = None) -> Spec:
    """Return the type of a number or array clipped to bounds, either of which may be None."""
    specs = numerics([part for part in (x, low, high) if part is not None])
    return made(promoted(*specs), np.broadcast_shapes(*[part.shape for part in specs]), specs)


def rounded(x: Any, decimals: Any = 0) -> Spec:
    """Return the type of `np.round`."""
    spec = numeric(x)
    dtype = dtype_of(spec)
    dtype = np.dtype(np.float16) if dtype.kind == "b" else dtype
    return made(dtype, spec.shape, [spec])


def part(x: Any) -> Spec:
    """Return the type of a real or imaginary part; for a complex array, a view of every second number."""
    spec = numeric(x)
    if spec.is_python:
        return python(float if spec.type in (float, complex) else int)
    dtype = real_of(spec.dtype)
    return Spec(dtype.type, dtype, (), ()) if spec.is_scalar else Spec(np.ndarray, dtype, spec.shape, spec.strides)


def imaginary(x: Any) -> Spec:
    """Return the type of an imaginary part; for real arrays, new zeros."""
    spec = numeric(x)
    return part(x) if spec.kind == "c" or not spec.is_array else copied(spec.dtype, spec)


def conjugated(x: Any) -> Spec:
    """Return the type of a conjugate; a Python complex remains one."""
    spec = numeric(x)
    return spec if spec.type is complex else _by_loop(np.conjugate, [spec])


# -- the same numbers, in another dtype or in new memory


def itself(x: Any, *_: Any, **__: Any) -> Spec:
    """Return the type of the first argument."""
    return x if type(x) is Spec else numeric(x)


def second(_x: Any, value: Any) -> Spec:
    """Return the type of the second argument."""
    return value if type(value) is Spec else numeric(value)


def new_array(x: Any) -> Spec:
    """Return the type of `np.array(x)`: an array, possibly without axes."""
    spec = numeric(x)
    return copied(dtype_of(spec), spec)


def copy(x: Any, order: str = "K") -> Spec:
    """Return the type of a copy."""
    spec = numeric(x)
    return copied(dtype_of(spec), spec, order)


def as_number(x: Any) -> Spec:
    """Return the type of `np.asarray(x)[()]`: an array without axes becomes a number."""
    spec = numeric(x)
    return spec if spec.has_axes else number(dtype_of(spec))


def cast(x: Any, dtype: Any) -> Spec:
    """Return the type of an array in another dtype; without axes it becomes a number."""
    spec, dtype = numeric(x), np.dtype(known(dtype))
    return copied(dtype, spec) if spec.shape else number(dtype)


def listed(*xs: Any, dtype: Any) -> Spec:
    """Return the type of an array of numbers."""
    return array(np.dtype(dtype), (len(xs),))


def element(_x: Any, dtype: Any) -> Spec:
    """Return the type of a number in a dtype."""
    return number(np.dtype(dtype))


def item(x: Any, *_: Any) -> Spec:
    """Return the type of the Python number at one place of an array."""
    dtype = dtype_of(numeric(x))
    kind = {"b": bool, "i": int, "u": int, "f": float, "c": complex}[dtype.kind]
    if dtype.char in "gG":
        return number(dtype)
    return python(kind)


def converted(to: Any) -> Spec:
    """Return the type of a number in another number system."""
    if to not in PYTHON:
        raise Unknown("the number system is not one of NumPy's or Python's")
    return python(to)


def always(kind: type) -> Family:
    """Return the family of a result that is always a Python number of one type."""
    return lambda *_, **__: python(kind)


def to_digits(x: Any, ndigits: Any = None) -> Spec:
    """Return the type of Python's `round`."""
    spec = numeric(x)
    if ndigits is None:
        return python(int)
    return python(float if spec.type is float else int) if spec.is_python else spec
