"""Ops of order: sorting, the positions that sort, places in a sorted array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.elementwise import constant
from tapegrad.ops.index import take_along_axis
from tapegrad.rules import define


def _sort_cotangent(dy: Any, y: Any, x: Any, axis: int = -1) -> Any:
    # sorting is reading along the permutation that sorts; ties stay in their order
    return take_along_axis.cotangent(0, dy, y, (x, argsort(x, axis=axis, stable=True)), {"axis": axis})


sort = define("sort", lambda x, axis=-1: np.sort(x, axis=axis), (_sort_cotangent,))
argsort = constant("argsort", lambda x, axis=-1, stable=False: np.argsort(x, axis=axis, kind="stable" if stable else None))
argpartition = constant("argpartition", lambda x, kth, axis=-1: np.argpartition(x, kth, axis=axis))
searchsorted = constant("searchsorted", lambda x1, x2, side="left": np.searchsorted(x1, x2, side=side))
digitize = constant("digitize", np.digitize)
