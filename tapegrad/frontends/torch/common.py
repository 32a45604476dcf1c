"""Helpers of torch's frontend: torch's promotion, made explicit, and tests of dtypes and tensors."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Complex, Integral, Real
from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.numbers.cotangents import dtype_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.numbers.tensor_dtypes import numpy_dtype, torch_dtype
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.op import Traced
from tapegrad.trace import views

# -- promotion


def result_type(*xs: Any) -> torch.dtype:
    """Return the dtype of torch's promotion: tensors with axes take precedence over 0-d tensors, and these over
    numbers, unless the latter are of a higher kind.

    >>> result_type(torch.zeros(3), torch.zeros((), dtype=torch.float64), 2), result_type(torch.arange(3), 0.5)
    (torch.float32, torch.float32)
    """
    ranks: list[Any] = [None, None, None]
    for x in map(plain, xs):
        at = 2 if is_number(x) else 0 if x.ndim else 1
        dtype = _of_number(x) if at == 2 else torch_dtype(x.dtype)
        ranks[at] = dtype if ranks[at] is None else torch.promote_types(ranks[at], dtype)
    return _combined(_combined(ranks[0], ranks[1]), ranks[2])


def is_number(x: Array) -> bool:
    """True for Python and NumPy numbers, and their proxies: in torch's promotion each gives way to a tensor."""
    return isinstance(plain(x), (Complex, np.bool_))


def _of_number(x: Array) -> torch.dtype:
    if isinstance(x, bool):
        return torch.bool
    if isinstance(x, Integral):
        return torch.int64
    return (torch.get_default_dtype() if isinstance(x, (Real, np.bool_))
            else torch.promote_types(torch.get_default_dtype(), torch.complex32))


def _combined(higher: Any, lower: Any) -> Any:
    """Return the dtype of two ranks: the lower one counts if it is of a higher kind (c10's combine_categories)."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex or (higher.is_floating_point and not lower.is_complex):
        return higher
    if higher.is_floating_point:
        return torch.promote_types(higher, torch.complex32)
    return (torch.promote_types(higher, lower) if higher is torch.bool or lower.is_floating_point or lower.is_complex
            else higher)


def kind_of(dtype: torch.dtype) -> str:
    """Return "b", "i", "f" or "c" for bools, integers, floating and complex numbers; "" for dtypes that NumPy's
    promotion does not cover.

    >>> kind_of(torch.uint8), kind_of(torch.bfloat16), kind_of(torch.complex32)
    ('i', 'f', '')
    """
    if dtype is torch.complex32 or str(dtype).startswith("torch.float8"):
        return ""
    return "c" if dtype.is_complex else "f" if dtype.is_floating_point else "b" if dtype is torch.bool else "i"


def inexact(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of torch's real-valued functions: the default dtype for integers."""
    return dtype if dtype.is_floating_point or dtype.is_complex else torch.get_default_dtype()


def settled(xs: Any, kinds: str = "ifc", floating: bool = False) -> list[Any] | None:
    """Return the arguments of an elementwise function in the dtype of torch's promotion; None if its kind is not among
    `kinds`.

    The ops promote as NumPy does (a 0-d tensor does not give way, integers are divided in float64), so they get
    arguments of one dtype. Numbers stay numbers. `floating` functions convert integers to torch's default dtype.
    """
    if all(map(is_number, xs)):
        return None
    dtype = result_type(*xs)
    dtype = inexact(dtype) if floating else dtype
    if (kind_of(dtype) or "?") not in kinds or (kind_of(dtype) == "i"
                                                and any(is_number(x) and not _fits(plain(x), dtype) for x in xs)):
        return None
    # the tape holds for these dtypes only: another replay might need no cast
    if any(not is_number(x) and torch_dtype(plain(x).dtype) is not dtype for x in xs):
        for x in xs:
            guard_dtype(x)
    return [brought(x, dtype) for x in xs]


def _fits(x: Array, dtype: torch.dtype) -> bool:
    """True for a number that a tensor of integers can hold; torch keeps the last bits of any other."""
    known = torch.iinfo(dtype)
    return bool(known.min <= x <= known.max)


def guard_dtype(x: Array) -> None:
    """Guard a tensor's dtype."""
    if isinstance(x, Traced) and not is_number(x):
        x._fact("dtype", dtype_of(plain(x)))  # type: ignore[attr-defined]


def cast(x: Array, dtype: torch.dtype) -> Any:
    """Return a tensor in the dtype that the program asks for; itself, guarded, if it has that dtype."""
    if torch_dtype(plain(x).dtype) is dtype:
        guard_dtype(x)
    return brought(x, dtype)


def brought(x: Any, dtype: torch.dtype) -> Any:
    """Return a tensor in another dtype, or a number as a Python number."""
    value = plain(x)
    if not is_number(value):
        return x if torch_dtype(value.dtype) is dtype else ops.astype(x, dtype=numpy_dtype(dtype))
    if not isinstance(value, np.generic):
        return x
    if type(x) is np.bool_:
        return float(x)  # torch treats np.bool_ as a floating-point number
    return ops.item(x) if isinstance(x, Traced) else x.item()


# -- tests of arguments


def tensors_only(*xs: Any) -> bool:
    """True if all arguments are tensors, as most functions of torch require."""
    return all(is_tensor(plain(x)) for x in xs)


def one_dtype_of(*xs: Any) -> bool:
    """True if all are tensors of one dtype, which torch's products require, while an op would promote."""
    return tensors_only(*xs) and len({plain(x).dtype for x in xs}) == 1


def tensors_among(xs: Any) -> Iterator[Any]:
    """Yield the tensors among some arguments."""
    return (x for x in xs if is_tensor(plain(x)))


def related(x: Any, y: Any) -> Any:
    """Return `y`, noting that it shares memory with `x` in torch but not on the tape: a write to either is detected."""
    if isinstance(x, Traced) and isinstance(y, Traced):
        views.place(x).storage.relate(views.place(y).storage)
    return y
