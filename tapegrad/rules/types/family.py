"""family: how an op says the type of its result, and the type of a call.

A family takes the arguments of a call: the `Spec` of each one of which the type alone is known, and the value of each
one that is known (an axis, a slice, a number that the program wrote down). It returns the Spec of the result, and
raises `Unknown` where values decide it, or nobody has said. It computes nothing.

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
    """Raised by a family: the type of the result does not follow from what is known of the arguments."""


class Typed(Protocol):
    """An op, as far as its type is concerned."""

    spec: Family
    lower: dict[str, Any]


def opaque(why: str, dynamic: bool = False) -> Family:
    """Return the family of an op of whose result no type is known before it has run, and say why; `dynamic` if values
    decide its shape, or may.

    A user's function is one; so is `unique`, whose result is as long as values say.
    """
    def family(*_: Any, **__: Any) -> Spec:
        raise Unknown(why)
    family.why, family.dynamic = why, dynamic  # type: ignore[attr-defined]
    return family


def by_value(family: Family) -> Family:
    """Note that values decide which of several types comes out: a matrix of real numbers may have complex eigenvalues.
    """
    family.by_value = True  # type: ignore[attr-defined]
    return family


def is_dynamic(family: Family) -> bool:
    """True if values decide the shape of the result, or may."""
    return getattr(family, "dynamic", False)


def is_by_value(family: Family) -> bool:
    """True if values decide which of several types comes out."""
    return getattr(family, "by_value", False)


def spec_of_call(op: Typed, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> Spec:
    """Return the spec of what a call returns, without running it; NOTHING where it does not follow.

    An argument is an operation, an absent value or a Spec, of which the type counts, or a value that is known.
    """
    known = [spec_of(x) if type(x) in OF and type(x) not in _NESTS else x for x in args]
    found = spec_by(op.spec, known, kwargs or {})
    return _of_tensors(op, known, kwargs or {}) if found is NOTHING and not hasattr(op.spec, "why") else found


def _of_tensors(op: Typed, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Spec:
    """Return what torch says of a call with tensors, on tensors without memory."""
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
    """Return the spec of the same on a device."""
    return Spec(x.type, x.dtype, x.shape, x.strides, device if x.device == "meta" else x.device,
                tuple([_placed(part, device) for part in x.parts]))


_NESTS = (tuple, list)
OF[Spec] = lambda x: x


def spec_by(family: Family, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Spec:
    """Return what a family says of Specs and values; NOTHING where it cannot tell, or the call would be refused."""
    try:
        return family(*args, **kwargs)
    except (Unknown, TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError):
        return NOTHING  # the call raises where it runs, or has another number system's types


# -- what families ask of arguments


def numeric(x: Any) -> Spec:
    """Return the spec of a number of Python's or NumPy's, or of a plain array of numbers; of others nothing is known.
    """
    found = x if type(x) is Spec else spec_of(x)
    if found.is_python or (found.kind in KINDS and (found.is_array or found.is_scalar)):
        return found
    raise Unknown(f"{found} is no number of Python's or NumPy's")


def numerics(xs: Iterable[Any]) -> list[Spec]:
    """Return the specs of several numbers or arrays."""
    return [numeric(x) for x in xs]


def dtype_of(x: Spec) -> Any:
    """Return the dtype of a number or array, of a Python number that of an array of it."""
    return np.dtype(x.type) if x.dtype is None else x.dtype


def promoted(*xs: Spec) -> Any:
    """Return the dtype that NumPy gives to what is computed of these; Python's numbers take that of the others."""
    return _promoted(*[x.type if x.is_python else x.dtype for x in xs])


def together(*xs: Spec) -> Any:
    """Return the dtype of an array of all of these: a Python number counts as an array of it."""
    return _promoted(*map(dtype_of, xs))


@functools.lru_cache(1 << 12)
def _promoted(*kinds: Any) -> Any:
    return np.result_type(*[kind(0) if kind in PYTHON else kind for kind in kinds])


def inexact(dtype: Any) -> Any:
    """Return the dtype in which NumPy divides numbers of this one: integers become float64."""
    return dtype if dtype.kind in "fc" else np.dtype(np.float64)


def real_of(dtype: Any) -> Any:
    """Return the dtype of the real part of numbers."""
    return _PARTS[dtype.char] if dtype.kind == "c" else dtype


_PARTS = {"F": np.dtype(np.float32), "D": np.dtype(np.float64), "G": np.dtype(np.longdouble)}


def complex_of(dtype: Any) -> Any:
    """Return the dtype of complex numbers with such parts."""
    return dtype if dtype.kind == "c" else _WHOLE.get(dtype.char, np.dtype(np.complex128))


_WHOLE = {"e": np.dtype(np.complex64), "f": np.dtype(np.complex64), "g": np.dtype(np.clongdouble)}


def axis_of(axis: Any, ndim: int) -> int:
    """Return an axis counted from the front."""
    axis = known(axis)
    if not -ndim <= axis < ndim:
        raise ValueError(f"no axis {axis} of {ndim}")
    return axis % ndim  # type: ignore[no-any-return]


def axes_of(axis: Any, ndim: int) -> list[int]:
    """Return the axes that an argument means, counted from the front; None means all."""
    if axis is None:
        return list(range(ndim))
    return [axis_of(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]


def known(x: Any) -> Any:
    """Return an argument whose value is needed; raise Unknown where its type alone is known."""
    if type(x) is Spec:
        raise Unknown("a value decides")
    return x


def knowns(xs: Any) -> tuple[int, ...]:
    """Return a number or a sequence of them as a tuple of integers that are known."""
    if isinstance(xs, (tuple, list)):
        return tuple([int(known(x)) for x in xs])
    xs = known(xs)
    return tuple(map(int, xs)) if getattr(xs, "ndim", 0) else (int(xs),)


# -- what families return


def number(dtype: Any) -> Spec:
    """Return the spec of a number of NumPy's."""
    return FIXED.get(dtype.type) or Spec(dtype.type, dtype, (), ())


def python(kind: type) -> Spec:
    """Return the spec of a number of Python's."""
    return FIXED[kind]


def nest(*parts: Spec, kind: type = tuple) -> Spec:
    """Return the spec of a tuple."""
    return Spec(kind, parts=parts)
