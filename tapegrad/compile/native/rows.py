"""rows: which calls on long arrays run row by row in one loop, and the form of each for one row.

A batch is the axes that a loop runs over: the first axis of a table of many short rows, all axes of any other long
array, whose rows are then numbers. A call belongs to a batch if each row of its result depends on the same row of its
arguments only, or if it is a reduction over the whole batch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad import ops
from tapegrad.compile.native.elementwise import computing_kind
from tapegrad.compile.native.table import JOINS, ROWS, reduced, reduces
from tapegrad.compile.native.values import FLOATS, dense, element_kind, is_few, kind_of
from tapegrad.rules.op import Op
from tapegrad.tape.spec import Spec, spec_of
from tapegrad.tape.tape import Call, Constant, Operation

Shape = tuple[int, ...]
ROW = 32  # elements of a row, at most
FEW = 16  # rows, at least
PRODUCT = 256  # multiplications of a product of one row
MATRIX = 144  # elements of a matrix that multiplies rows: beyond, BLAS is faster
SINKS = {**{fn: fn.__name__ for fn in JOINS}, **dict.fromkeys(
    (ops.mean, ops.vdot, ops.vecdot, ops.dot, ops.matmul), "sum")}
"""The operation that combines the rows of a reduction over a batch."""


class Form(NamedTuple):
    """A call for one row: of the arguments `along` it uses the same row; `sink` names the operation that combines rows
    if the batch is reduced.
    """

    fn: Op
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    spec: Spec
    along: frozenset[Operation]
    sink: str = ""


def batch_of(x: Spec) -> Shape | None:
    """Return the axes that a loop over an array runs over, None for a short array."""
    if element_kind(x) is None or is_few(x.shape):
        return None
    if x.ndim > 1 and x.shape[0] >= FEW and math.prod(x.shape[1:]) <= ROW:
        return x.shape[:1]
    return x.shape


def row_spec(x: Spec, shape: Shape) -> Spec:
    """Return the spec of a row of this shape; of a number, its own."""
    if not x.is_array or x.dtype is None:
        return x
    return Spec(np.ndarray, x.dtype, shape, dense(shape, x.itemsize)) if shape else Spec(x.dtype.type, x.dtype, (), ())


def lead_of(x: Any, rank: int) -> tuple[Shape, Shape]:
    """Return the axes of an argument that belong to the batch, and those of a row with `rank` axes."""
    shape = spec_of(x).shape
    cut = max(len(shape) - rank, 0)
    return shape[:cut], shape[cut:]


def form(op: Operation) -> tuple[Shape, Form] | None:
    """Return the batch of a call and its form for one row; None for a call that runs in no loop."""
    if not isinstance(op.fn, Op):
        return None
    write = _FORMS.get(op.fn)
    if op.fn is ops.scatter and _adds_rows(op):
        write = _adds
    of = spec_of(op.args[0]) if op.fn in SINKS or write is _adds else op.spec
    batch = batch_of(of) if write is not None else None
    if batch is None and (write is _adds or (op.fn is ops.getitem and _are_places(op.args[1:], of.shape[:1]))):
        batch = of.shape[:1]  # registers have no numbers: what is read or written at computed places is in memory
    if write is None or batch is None:
        return None
    found = write(op, batch, of)
    return None if found is None else (batch, found)


def _elementwise(op: Call, batch: Shape, y: Spec) -> Form | None:
    if computing_kind(op) is None:
        return None
    return _aligned(op, op.fn, op.args, batch, y.ndim - len(batch), row_spec(y, y.shape[len(batch):]), op.kwargs)


def _aligned(op: Call, fn: Op, args: Sequence[Any], batch: Shape, rank: int, spec: Spec, kwargs: dict[str, Any],
             sink: str = "") -> Form | None:
    """Return the form of a call whose arguments are broadcast."""
    along = set()
    for x in args:
        if isinstance(x, Operation) and spec_of(x).is_array:
            lead, row = lead_of(x, rank)
            if lead == batch:
                along.add(x)
            elif math.prod(lead) > 1 and len(batch) == 1:
                return None
            if math.prod(row) > ROW:
                return None
        elif not isinstance(x, Operation) and isinstance(x, np.ndarray) and x.size > ROW:
            return None
    uniform = {x for x in args if isinstance(x, Operation) and x not in along}
    return None if along & uniform else Form(fn, tuple(args), kwargs, spec, frozenset(along), sink)


def _reduction(op: Call, batch: Shape, x: Spec) -> Form | None:
    axes = reduced(op, x.ndim)
    if axes is None or not isinstance(op.args[0], Operation):
        return None
    if not reduces(op.fn, element_kind(x), kind_of(op.spec)):
        return None
    keep, n = bool(op.kwargs.get("keepdims")), len(batch)
    inside = tuple([a - n for a in axes if a >= n])
    whole = axes[:n] == list(range(n))
    if not whole and any(a < n for a in axes):
        return None
    shape = tuple([1 if a in axes else k for a, k in enumerate(x.shape) if keep or a not in axes])
    row = shape[n:] if keep or not whole else shape
    fn = ops.sum if whole and op.fn is ops.mean else op.fn
    if not inside:  # rows are combined elementwise
        fn, kwargs = ops.astype, {}
        row = x.shape[n:]
    else:
        kwargs = {"axis": inside, "keepdims": keep}
    if not whole and not inside:
        return None
    spec = Spec(np.ndarray, op.spec.dtype, shape)  # even if the result is a number
    return Form(fn, op.args, kwargs, row_spec(spec, row), frozenset(op.args), SINKS[op.fn] if whole else "")


def _product(op: Call, batch: Shape, x: Spec) -> Form | None:
    a, b = map(spec_of, op.args[:2])
    if op.kwargs or len(op.args) != 2 or element_kind(a) not in FLOATS or a.dtype != b.dtype:
        return None
    n = len(batch)
    both = frozenset(x for x in op.args if isinstance(x, Operation))
    if op.fn is ops.vdot or (a.ndim == 1 and b.ndim == 1):
        if a.shape != b.shape or len(both) != len({id(x) for x in op.args}):
            return None
        inner = row_spec(a, a.shape[n:])
        number = row_spec(a, ())
        return Form(ops.vdot if inner.is_array else ops.multiply, op.args, {}, number, both, "sum")
    if n != 1 or a.ndim < 2 or a.shape[:1] != batch or not isinstance(op.args[0], Operation):
        return None
    if op.fn is ops.vecdot and a.shape == b.shape and len(both) == len({id(x) for x in op.args}):
        return Form(op.fn, op.args, {}, row_spec(op.spec, op.spec.shape[1:]), both)
    if op.fn in (ops.matmul, ops.dot) and a.ndim == 2 and b.ndim <= 2 and op.spec.ndim >= 1 \
            and b.size <= MATRIX and op.args[0] is not op.args[1]:
        return Form(ops.matmul, op.args, {}, row_spec(op.spec, op.spec.shape[1:]), frozenset(op.args[:1]))
    if op.fn is ops.matmul and a.ndim == 3 and b.ndim == 3 and b.shape[:1] == batch and len(both) == 2 \
            and op.spec.size // batch[0] * a.shape[2] <= PRODUCT:
        return Form(op.fn, op.args, {}, row_spec(op.spec, op.spec.shape[1:]), both)
    return None


def _reads(op: Call, batch: Shape, y: Spec) -> Form | None:
    """Return the form of x[:, ...] of a table, or of x[i] for an array of integers i."""
    x, index = op.args[0], op.args[1:]
    if len(batch) != 1 or op.kwargs or not isinstance(x, Operation) or element_kind(x.spec) is None:
        return None
    if _are_places(index, batch):
        fits = math.prod(x.spec.shape[len(index):]) <= ROW and x not in index
        return Form(op.fn, op.args, {}, row_spec(y, y.shape[1:]), frozenset(index)) if fits else None
    rest = _within(index, x.spec.ndim)
    if rest is None or x.spec.shape[:1] != batch or math.prod(x.spec.shape[1:]) > ROW:
        return None
    if not rest:
        return Form(ops.positive, op.args[:1], {}, row_spec(y, y.shape[1:]), frozenset([x]))
    return Form(op.fn, (x, *rest), {}, row_spec(y, y.shape[1:]), frozenset([x]))


def _within(index: Sequence[Any], ndim: int) -> tuple[Any, ...] | None:
    """Return the index within a row that an index of a table amounts to, None if it selects rows."""
    if any(isinstance(part, (Operation, np.ndarray, list)) for part in index) or not index:
        return None
    if index[0] is Ellipsis:
        used = sum(part is not None for part in index[1:])
        return (Ellipsis, *index[1:]) if used < ndim else None
    whole = isinstance(index[0], slice) and index[0] == slice(None)
    return tuple(index[1:]) if whole else None


def _writes(op: Call, batch: Shape, y: Spec) -> Form | None:
    """Return the form of a scatter or setitem of columns of a table."""
    if len(batch) != 1:
        return None
    rank = y.ndim - 1
    along, args, at = set(), list[Any](), 0
    if op.fn is ops.setitem:
        x, value, *index = op.args
        rest = _within(index, y.ndim)
        if op.kwargs or rest is None or not rest or not isinstance(x, Operation):
            return None
        pieces = [(x, y.ndim), (value, 1 + _rank(y, rest))]
        args, kwargs = [x, value, *rest], {}
    else:
        if op.kwargs.keys() - {"shape", "ranks", "order"}:
            return None
        pieces, ranks = [], []
        for count in op.kwargs["ranks"]:
            rest = _within(op.args[at + 1:at + 1 + count], y.ndim)
            if not rest:
                return None
            pieces.append((op.args[at], 1 + _rank(y, rest)))
            args += [op.args[at], *rest]
            ranks.append(len(rest))
            at += 1 + count
        kwargs = {"shape": y.shape[1:], "ranks": tuple(ranks)}
    for x, full in pieces:
        if kind_of(spec_of(x)) is None or (spec_of(x).is_array and not isinstance(x, Operation)):
            return None
        if spec_of(x).is_array:
            lead, row = lead_of(x, full - 1)
            if math.prod(row) > ROW or (lead != batch and math.prod(lead) > 1):
                return None
            if lead == batch:
                along.add(x)
            elif any(x is other for other in along):
                return None
    return Form(op.fn, tuple(args), kwargs, row_spec(y, y.shape[1:]), frozenset(along)) if rank else None


def _are_places(index: Sequence[Any], batch: Shape) -> bool:
    """Return whether an index consists of integer arrays, one integer for each row of a batch."""
    return len(index) > 0 and all(isinstance(part, Operation) and element_kind(part.spec) == "i"
                                  and part.spec.shape == batch for part in index)


def _adds_rows(op: Operation) -> bool:
    """Return whether a scatter adds rows at integer arrays of indices."""
    piece, *index = op.args
    if op.kwargs.keys() - {"shape", "ranks", "order"} or op.kwargs["ranks"] != (len(index),):
        return False
    return (isinstance(piece, Operation) and _are_places(index, piece.spec.shape[:1]) and piece not in index
            and element_kind(piece.spec) is not None and piece.spec.dtype == op.spec.dtype and piece.spec.kind != "b"
            and piece.spec.shape[1:] == op.spec.shape[len(index):])


def _adds(op: Call, batch: Shape, x: Spec) -> Form | None:
    if len(batch) != 1:
        return None
    return Form(ops.positive, op.args[:1], {}, row_spec(x, x.shape[1:]), frozenset(op.args), "scatter")


def _rank(y: Spec, index: tuple[Any, ...]) -> int:
    """Return the number of axes of the part that an index selects from a row."""
    return int(np.ndim(np.empty(y.shape[1:])[index]))


def _moves(op: Call, batch: Shape, y: Spec) -> Form | None:
    """Return the form of a call that moves elements within rows."""
    if len(batch) != 1 or not all(isinstance(x, Operation) and x.spec.dtype == y.dtype for x in _moved(op)):
        return None
    args, kwargs, row = op.args, dict(op.kwargs), row_spec(y, y.shape[1:])
    given = _moved(op)
    if op.fn in (ops.stack, ops.concat):
        axis = kwargs.get("axis", 0) % y.ndim
        if axis == 0 or len(set(given)) != len(given):
            return None
        kwargs = {"axis": axis - 1}
    elif op.fn is ops.expand_dims or op.fn is ops.squeeze:
        axes = kwargs.get("axis", args[1] if len(args) > 1 else None)
        ndim = y.ndim if op.fn is ops.expand_dims else given[0].spec.ndim
        if axes is None or any(a % ndim == 0 for a in np.atleast_1d(axes).tolist()):
            return None
        args, kwargs = given, {"axis": tuple([a % ndim - 1 for a in np.atleast_1d(axes).tolist()])}
    elif op.fn is ops.permute_dims:
        axes = kwargs.get("axes")
        if axes is None or axes[0] != 0:
            return None
        kwargs = {"axes": tuple([a - 1 for a in axes[1:]])}
    elif op.fn is ops.reshape:
        args, kwargs = (given[0], y.shape[1:]), {}
    elif op.fn is ops.broadcast_to:
        if given[0].spec.shape[:1] != batch or given[0].spec.ndim != y.ndim:
            return None
        args, kwargs = (given[0], y.shape[1:]), {}
    if any(x.spec.shape[:1] != batch or math.prod(x.spec.shape[1:]) > ROW for x in given):
        return None
    return Form(op.fn, args, kwargs, row, frozenset(given))


def _moved(op: Call) -> tuple[Any, ...]:
    return op.args if op.fn in (ops.stack, ops.concat) else op.args[:1]


def is_view(op: Operation) -> bool:
    """Return whether a call on an array in memory only computes an address."""
    return op.fn in _VIEWS and not any(
        isinstance(x, (Operation, np.ndarray)) and not isinstance(x, Constant) for x in op.args[1:])


_VIEWS = frozenset([ops.getitem, ops.reshape, ops.permute_dims, ops.expand_dims, ops.squeeze, ops.broadcast_to])
_FORMS: dict[Any, Any] = {
    **dict.fromkeys((*ROWS, ops.astype), _elementwise),
    **dict.fromkeys(JOINS, _reduction),
    **dict.fromkeys((ops.vdot, ops.vecdot, ops.dot, ops.matmul), _product), ops.getitem: _reads,
    **dict.fromkeys((ops.setitem, ops.scatter), _writes),
    **dict.fromkeys((ops.stack, ops.concat, ops.expand_dims, ops.squeeze, ops.permute_dims, ops.reshape,
                     ops.broadcast_to), _moves)}
