"""family: the interface of result types, and the type of a call.

A family takes the arguments of a call: the `Spec` of each argument whose type alone is known, and the value of each
known one (an axis, a slice, a literal number). It returns the Spec of the result and computes nothing; it raises
`Unknown` if values decide the type or the type is not declared.

>>> from tapegrad.rules.op import OPS
>>> from tapegrad.tape.spec import parsed
>>> spec_of_call(OPS["matmul"], (parsed("float32[2,3]"), parsed("float64[3,4]")))
float64[2,4]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tapegrad.numbers.formatting import PYTHON
from tapegrad.numbers.meta_tensors import evaluated, without_memory
from tapegrad.tape.spec import FIXED, NOTHING, OF, Spec, spec_of

Family = Callable[..., Spec]
KINDS = "biufc"
"""NumPy's letters for the dtypes of numbers."""


class Unknown(Exception):
    """Raised by a family if the type of the result does not follow from the known facts about the arguments."""


class Typed(Protocol):
    """The part of an op that this module uses."""

    spec: Family
    lower: dict[str, Any]


def opaque(why: str, dynamic: bool = False) -> Family:
    """Return the family of an op whose result type is unknown before it runs, with the reason; `dynamic` if the shape
    may depend on values.

    Examples are a user's function, and `unique`, whose result length depends on values.
    """
    def family(*_: Any, **__: Any) -> Spec:
        raise Unknown(why)
    family.why, family.dynamic = why, dynamic  # type: ignore[attr-defined]
    return family


def by_value(family: Family) -> Family:
    """Mark a family whose result type depends on values: a real matrix may have complex eigenvalues."""
    family.by_value = True  # type: ignore[attr-defined]
    return family


def is_dynamic(family: Family) -> bool:
    """True if the shape of the result may depend on values."""
    return getattr(family, "dynamic", False)


def is_by_value(family: Family) -> bool:
    """True if the type of the result depends on values."""
    return getattr(family, "by_value", False)


def spec_of_call(op: Typed, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Spec:
    """Return the spec of a call's result without running it, NOTHING if it does not follow.

    An argument is a known value, or stands for its type only: an operation, an absent value or a Spec.
    """
    known = [spec_of(x) if type(x) in OF and type(x) not in _NESTS else x for x in args]
    found = spec_by(op.spec, known, kwargs or {})
    return _of_tensors(op, known, kwargs or {}) if found is NOTHING and not hasattr(op.spec, "why") else found


def _of_tensors(op: Typed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Spec:
    """Return the result spec of a call with tensors, found by running torch on meta tensors."""
    given = [x for x in args if type(x) is Spec]
    devices = {x.device for x in given if x.system == "torch"}
    run = op.lower.get("torch")
    if len(devices) != 1 or run is None or any(x.is_memory for x in given):
        return NOTHING
    found = evaluated(run, [_stand_in(x) if type(x) is Spec else x for x in args], kwargs)
    return NOTHING if found is None else _placed(spec_of(found), devices.pop())


def _stand_in(x: Spec) -> Any:
    return without_memory(x.dtype, x.shape, x.strides) if x.system == "torch" else x.type(1)


def _placed(x: Spec, device: str) -> Spec:
    return Spec(x.type, x.dtype, x.shape, x.strides, device if x.device == "meta" else x.device,
                tuple([_placed(part, device) for part in x.parts]))


_NESTS = (tuple, list)
OF[Spec] = lambda x: x


def spec_by(family: Family, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Spec:
    """Return the result of a family on Specs and values, NOTHING if it is unknown or the call would be refused."""
    try:
        return family(*args, **kwargs)
    except (Unknown, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
        return NOTHING  # the call will raise when it runs, or its types belong to another number system


# -- helpers for the arguments of families


def numeric(x: Any) -> Spec:
    """Return the spec of a Python or NumPy number or a plain array of numbers; raise Unknown for other values."""
    found = x if type(x) is Spec else spec_of(x)
    if found.is_python or (found.kind in KINDS and (found.is_array or found.is_scalar)):
        return found
    raise Unknown(f"{found} is no number of Python's or NumPy's")


def numerics(xs: Iterable[Any]) -> list[Spec]:
    """Return the specs of several numbers or arrays."""
    return [numeric(x) for x in xs]


def dtype_of(x: Spec) -> Any:
    """Return the dtype of a number or array; for a Python number, the dtype of an array of it."""
    return np.dtype(x.type) if x.dtype is None else x.dtype


def promoted(*xs: Spec) -> Any:
    """Return the dtype of NumPy's result for these operands; Python numbers are weak."""
    return _promoted(*[x.type if x.is_python else x.dtype for x in xs])


def together(*xs: Spec) -> Any:
    """Return the common dtype with Python numbers taken as arrays (not weak)."""
    return _promoted(*map(dtype_of, xs))


@functools.lru_cache(1 << 12)
def _promoted(*kinds: Any) -> Any:
    return np.result_type(*[kind(0) if kind in PYTHON else kind for kind in kinds])


def inexact(dtype: Any) -> Any:
    """Return the dtype of NumPy's division: integers become float64."""
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def real_of(dtype: Any) -> Any:
    """Return the dtype of the real part of numbers."""
    return _PARTS[dtype.char] if dtype.kind == "c" else dtype


_PARTS = {"F": np.dtype(np.float32), "D": np.dtype(np.float64), "G": np.dtype(np.longdouble)}


def complex_of(dtype: Any) -> Any:
    """Return the complex dtype with parts of this dtype."""
    return dtype if dtype.kind == "c" else _WHOLE.get(dtype.char, np.dtype(np.complex128))


_WHOLE = {"e": np.dtype(np.complex64), "f": np.dtype(np.complex64), "g": np.dtype(np.clongdouble)}


def axis_of(axis: Any, ndim: int) -> int:
    """Return an axis counted from the front."""
    axis = known(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"no axis {axis} of {ndim}")
    return axis % ndim  # type: ignore[no-any-return]


def axes_of(axis: Any, ndim: int) -> list[int]:
    """Return the axes that an `axis` argument names, counted from the front; None means all."""
    if axis is None:
        return list(range(ndim))
    return [axis_of(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]


def known(x: Any) -> Any:
    """Return an argument whose value is needed; raise Unknown if only its type is known."""
    if type(x) is Spec:
        raise Unknown("a value decides")
    return x


def knowns(xs: Any) -> tuple[int, ...]:
    """Return a known number or sequence of numbers as a tuple of integers."""
    if isinstance(xs, (tuple, list)):
        return tuple([int(known(x)) for x in xs])
    xs = known(xs)
    return tuple(map(int, xs)) if getattr(xs, "ndim", 0) else (int(xs),)


# -- results of families


def number(dtype: Any) -> Spec:
    """Return the spec of a NumPy scalar."""
    return FIXED.get(dtype.type) or Spec(dtype.type, dtype, (), ())


def python(kind: type) -> Spec:
    """Return the spec of a Python number."""
    return FIXED[kind]


def nest(*parts: Spec, kind: type = tuple) -> Spec:
    """Return the spec of a tuple."""
    return Spec(kind, parts=parts)
