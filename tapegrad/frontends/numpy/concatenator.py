"""np.r_ and np.c_."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array
from tapegrad.frontends.numpy.numeric import as_dtype
from tapegrad.frontends.numpy.shape import common_dtype
from tapegrad.numbers.cotangents import shape_of
from tapegrad.rules.registry import means


@means(type(np.r_).__getitem__)
def concatenated(self: Any, key: Any) -> Any:
    """Join the parts in the brackets: NumPy's function, called with numbered parts, shows where each number goes."""
    parts: list[Any] = []
    numbered: list[Any] = []
    count = 0
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, str):
            numbered.append(part)
            continue
        x = np.r_[part] if isinstance(part, slice) else as_array(part)
        size = int(np.prod(shape_of(x)))
        numbered.append(np.arange(count, count + size).reshape(shape_of(x)))
        parts.append(x)
        count += size
    dtype = common_dtype(*parts)
    flat = ops.concat(*[ops.reshape(as_dtype(x, dtype), (-1,)) for x in parts], axis=0)
    return ops.take(flat, self[tuple(numbered)])
