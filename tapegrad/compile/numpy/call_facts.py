"""call_facts: what a call is to those who write it as NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.rules.op import Op
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Operation

UFUNCS: dict[Op, np.ufunc] = {}
# what NumPy's own `**` makes of them; of integers these are not the floats that powers are
_POWERS = {2: np.square, 1: np.positive, 0.5: np.sqrt}
BLAS = frozenset("fdFD")


def ufunc_of(op: Call) -> np.ufunc | None:
    """Return the ufunc that a call on arrays is, None if it is no ufunc's."""
    found = UFUNCS.get(op.fn) if not op.kwargs else None
    if found is np.power and spec_of(op.args[0]).kind == "b":
        return None  # the operator's are small integers, the ufunc's large ones
    if found is np.power and op.spec.is_memory and op.spec.dtype.kind in "fc":
        exponent, alike = op.args[1], spec_of(op.args[0]).has_dtype(op.spec.dtype)  # not integers to 0.5
        if (type(exponent) in (int, float) and exponent in _POWERS and alike
            and (op.spec.dtype.kind == "f" or exponent != 1)):
            return _POWERS[exponent]
    return found


def is_elementwise(op: Call) -> bool:
    """True for a call that may write its value over an argument: each element depends on those in its place alone."""
    return ufunc_of(op) is not None or masked(op) is not None


def masked(op: Call) -> tuple[Any, bool] | None:
    """Return x of a call that is where(c, x, 0.0) of real floats, and True; of where(c, 0.0, x), x and
    False; None for another call.

    Such a call is written as a product of x's bits, seen as integers, with 1 or 0: what is not chosen is 0.0 whatever
    it was (inf or nan too), and there is no branch in it. NumPy's own `where` and its masked copies take ten times as
    long where the mask is true by chance.
    """
    if op.fn is not ops.where or len(op.args) != 3 or not op.spec.has_axes or op.spec.dtype.char not in "efd":
        return None
    c, a, b = op.args
    if spec_of(c).kind != "b" or not spec_of(c).has_axes:
        return None
    for x, other, chosen in ((a, b, True), (b, a, False)):
        zero = type(other) in (int, float) and other == 0 and math.copysign(1.0, other) > 0
        if zero and spec_of(x).has_axes and spec_of(x).dtype == op.spec.dtype:
            return x, chosen
    return None


REDUCTIONS: dict[Op, np.ufunc] = {ops.sum: np.add, ops.prod: np.multiply, ops.max: np.maximum, ops.min: np.minimum,
                                  ops.any: np.logical_or, ops.all: np.logical_and}


REDUCE = {ufunc: ufunc.reduce for ufunc in REDUCTIONS.values()}


def reduced(op: Call) -> tuple[np.ufunc, Any, bool, Any] | None:
    """Return ufunc, axis, keepdims and count of a reduction that its ufunc's `reduce`
    computes, None for another call.
    """
    ufunc = np.add if op.fn is ops.mean else REDUCTIONS.get(op.fn)
    if ufunc is None or len(op.args) != 1:
        return None
    x = spec_of(op.args[0])
    if not x.is_array or x.kind not in "fc" or x.dtype.char == "e" or not x.size:
        return None
    if not op.kwargs.keys() <= {"axis", "keepdims"}:
        return None
    axis = op.kwargs.get("axis")
    along = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    count = math.prod(x.shape[a] for a in along) if op.fn is ops.mean else None
    return ufunc, axis, bool(op.kwargs.get("keepdims", False)), count


COLUMNS, ROWS = 16, 512  # at most, and at least, of a table that lies column by column


def is_tall(x: Spec) -> bool:
    """True for a table of many rows (along one axis or several) and few columns: NumPy's inner loops run along the last
    axis, and would be short.

    Where it lies column by column, a product with a column takes a quarter of the time, a sum
    along the rows a twentieth.
    """
    return x.ndim > 1 and 1 < x.shape[-1] <= COLUMNS and x.size >= ROWS * x.shape[-1] and x.is_contiguous


def turned_strides(x: Spec) -> tuple[int, ...]:
    """Return the strides of an array that lies column by column."""
    assert x.strides is not None
    rows = x.size // x.shape[-1] * x.itemsize
    return (*(stride // x.shape[-1] for stride in x.strides[:-1]), rows)


def dense_strides(x: Spec) -> tuple[int, ...] | None:
    """Return the strides of a dense array whose axes lie in memory in the order of x's, None where that is C's."""
    if x.is_contiguous:
        return None
    given = x.strides
    assert given is not None
    order = sorted(range(x.ndim), key=lambda axis: -abs(given[axis]))
    strides, step = [0] * x.ndim, x.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(x.shape[axis], 1)
    return tuple(strides)


def goes_along(op: Operation) -> bool:
    """True for a call that is computed as fast or faster where its arguments lie column by column."""
    return isinstance(op, Call) and (is_elementwise(op) or reduced(op) is not None or is_tall_vecdot(op))


def gathers(op: Call) -> bool:
    """True for a read of rows, by an array of integers, that are many and short: they are put down column by column."""
    if (op.fn is not ops.getitem or len(op.args) != 2 or op.kwargs or not op.spec.has_axes or op.spec.ndim != 2
        or not is_tall(op.spec)):
        return False
    x, index = map(spec_of, op.args)
    return x.is_array and x.ndim == 2 and index.is_array and index.ndim == 1 and index.kind in "iu"


def is_tall_vecdot(op: Call) -> bool:
    """True for a vecdot of many short rows, for each of which NumPy would call BLAS: twenty times as long,
    where they lie column by column.
    """
    def fits(x: Spec) -> bool:
        return bool(x.is_array and x.dtype.char in "fd" and x.dtype == op.spec.dtype and 1 < x.shape[-1] <= COLUMNS)
    return op.fn is ops.vecdot and op.spec.has_axes and op.spec.size >= ROWS and all(map(fits, map(spec_of, op.args)))


def reads_float(op: Call) -> bool:
    """True for a read of one float64, which is written as a read of Python's number: its
    arithmetic is twice as fast.
    """
    return op.fn in (ops.getitem, ops.getitem_masked) and op.spec.type is np.float64 and not op.kwargs \
        and spec_of(op.args[0]).is_array and all(spec_of(part).type is int for part in op.args[1:])


FLOATING = frozenset([ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.positive])
# beside arrays and numbers of these dtypes a Python float means what NumPy's float64 does
_WIDE = frozenset("?bBhHiIlLqQdD")


def is_narrow(arg: Any) -> bool:
    """True for an array or number of NumPy's beside which a Python float gives way, and NumPy's float64 does not."""
    dtype = spec_of(arg).dtype
    return dtype is not None and getattr(dtype, "char", "") not in _WIDE
