"""NumPy's reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, no_out
from tapegrad.rules import means


@means(np.sum, np.ndarray.sum)
def sum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = True) -> Any:
    no_out(out)
    x = as_array(a)
    if where is not True:
        x = ops.where(where, x, 0)
    y = ops.sum(x, **keywords(axis=axis, dtype=dtype, keepdims=keepdims))
    return y if initial is None else y + initial
