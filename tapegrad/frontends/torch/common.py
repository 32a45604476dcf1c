"""What torch's frontends share: torch's promotion, made explicit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tapegrad import ops
from tapegrad.brief import plain
from tapegrad.rules import Traced
from tapegrad.tensors import is_tensor, numpy_dtype

_OF_NUMBERS = {bool: lambda: torch.bool, int: lambda: torch.int64, float: torch.get_default_dtype,
               complex: lambda: torch.promote_types(torch.get_default_dtype(), torch.complex32)}


def result_type(*xs: Any) -> torch.dtype:
    """Return the dtype of torch's promotion: tensors with axes decide, then those without, then numbers, unless the latter are of a higher kind.

    >>> result_type(torch.zeros(3), torch.zeros((), dtype=torch.float64), 2), result_type(torch.arange(3), 0.5)
    (torch.float32, torch.float32)
    """
    ranks: list[Any] = [None, None, None]
    for x in map(plain, xs):
        at = 2 if not is_tensor(x) else 0 if x.ndim else 1
        dtype = x.dtype if at < 2 else next(of() for kind, of in _OF_NUMBERS.items() if isinstance(x, (kind, np.bool_) if kind is bool else kind))
        ranks[at] = dtype if ranks[at] is None else torch.promote_types(ranks[at], dtype)
    return _combined(_combined(ranks[0], ranks[1]), ranks[2])


def _combined(higher: Any, lower: Any) -> Any:
    """Return the dtype of two ranks: the lower one counts where it is of a higher kind (c10's combine_categories)."""
    if higher is None or lower is None:
        return higher or lower
    if higher.is_complex or (higher.is_floating_point and not lower.is_complex):
        return higher
    if higher.is_floating_point:
        return torch.promote_types(higher, torch.complex32)
    return torch.promote_types(higher, lower) if higher is torch.bool or lower.is_floating_point or lower.is_complex else higher


def settled(*xs: Any, floating: bool = False) -> list[Any]:
    """Return the arguments of an elementwise function brought to one dtype, that of torch's promotion.

    The ops promote as NumPy does (a 0-d tensor does not give way, integers are divided in float64), and so must not have to. Numbers stay
    numbers. `floating` is for functions that make integers real: in torch's default dtype.
    """
    dtype = result_type(*xs)
    if floating and not dtype.is_floating_point and not dtype.is_complex:
        dtype = torch.get_default_dtype()
    return [brought(x, dtype) for x in xs]


def brought(x: Any, dtype: torch.dtype) -> Any:
    """Return a tensor in another dtype, a number as Python's."""
    value = plain(x)
    if is_tensor(value):
        return x if value.dtype is dtype else ops.astype(x, dtype=numpy_dtype(dtype))
    return x.item() if isinstance(x, np.generic) and not isinstance(x, Traced) else x
