"""shapes: rewrite rules of `simplify` for calls that rearrange, broadcast and reduce arrays.

A rule is `(walk, op, *args, **kwargs) -> replacement or None`. The replacement has the call's type, shape and dtype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.kinds import Axis
from tapegrad.ops.index import pieces_with_indices
from tapegrad.optimise.algebra import FILLED, is_filled, number, same
from tapegrad.tape.spec import same_type, spec_of
from tapegrad.tape.tape import Call, Constant, Operation
from tapegrad.transforms.walk import Walk, is_call

ELEMENTWISE = (
    ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.square, ops.sqrt, ops.exp, ops.log, ops.sin,
    ops.cos, ops.tanh, ops.reciprocal, ops.abs, ops.pow, ops.maximum, ops.minimum, ops.where, ops.multiply_no_nan,
    ops.product_no_nan, ops.divide_no_nan, ops.equal, ops.not_equal, ops.less, ops.less_equal, ops.greater,
    ops.greater_equal)

PIECES = 4  # of a sum of which a row is taken: of more, the whole is soon cheaper than its rows


def shape(x: Any) -> tuple[int, ...]:
    """Return the shape of an argument, () for a number."""
    return spec_of(x).shape


def is_array(x: Any) -> bool:
    """Return whether an argument is an array, not a NumPy scalar."""
    return spec_of(x).is_array


# -- broadcast operands: elementwise calls broadcast by themselves, and equal elements are computed once


def stretched(w: Walk, op: Call, *args: Any) -> Any:
    """f(broadcast_to(x, s), y) is f(x, y); if all operands are broadcast it is broadcast_to(f(x, …), s). A constant
    array of one number counts as broadcast.
    """
    if not is_array(op) or not op.spec.ndim:
        return None
    slim = [narrow(arg) for arg in args]
    if op.fn is ops.pow and not isinstance(slim[1], Operation) and slim[1] == 0.5:
        slim[1] = args[1]  # NumPy takes a square root for a scalar 0.5, which differs at -0.0 and -inf
    if all(map(_is, slim, args)):
        return None
    if np.broadcast_shapes(*map(shape, slim)) == op.spec.shape:
        if _same_dtype(slim, args):
            return w.instead(op, op.fn, *map(_plain, slim, [slim] * len(slim)))
        return None
    # Python numbers raise where NumPy's give inf
    if not _same_dtype(slim, args) or all(spec_of(arg).dtype is None for arg in slim):
        return None
    return w.instead(op, ops.broadcast_to, w.make(op, op.fn, *slim), op.spec.shape)


def narrow(x: Any) -> Any:
    """Return the value that an operand of an elementwise call was broadcast from, or the operand itself."""
    while True:
        if is_call(x, ops.broadcast_to) and not x.kwargs:
            x = x.args[0]
        elif is_call(x, ops.reshape) and shape(x) == (1,) * (len(shape(x)) - len(shape(x.args[0]))) + shape(x.args[0]):
            x = x.args[0]  # axes of length 1 in front
        else:
            break
    if (isinstance(x, Constant) or is_filled(x)) and is_array(x) and x.spec.size > 1:
        same_everywhere = number(x)
        return x if same_everywhere is None else same_everywhere
    return x


def _is(a: Any, b: Any) -> bool:
    return a is b


def _same_dtype(slim: list[Any], args: tuple[Any, ...]) -> bool:
    """Return whether narrowing keeps all dtypes; a Python number takes an array's, which must be its own."""
    wide = [spec_of(arg).dtype for arg in slim if spec_of(arg).dtype is not None]
    for a, b in zip(slim, args):
        dtype, was = spec_of(a).dtype, spec_of(b).dtype
        if was is None:
            continue  # a Python number stays one
        if was not in wide if dtype is None else dtype != was:
            return False
    return True


def _plain(x: Any, operands: list[Any]) -> Any:
    """Return a NumPy float as a Python float if an array operand has its dtype."""
    if isinstance(x, np.floating) and any(isinstance(arg, Operation) and arg.spec.has_dtype(x.dtype)
                                          for arg in operands):
        return x.item()
    return x


def restretched(w: Walk, op: Call, x: Any, to: Any) -> Any:
    """broadcast_to(broadcast_to(x, s), t) is broadcast_to(x, t), or x if it has that shape."""
    slim = narrow(x) if not isinstance(x, Constant) else x
    if same(slim, op):
        return slim
    return (None if slim is x or not isinstance(slim, Operation) or not is_array(slim)
            else w.instead(op, ops.broadcast_to, slim, op.spec.shape))


# -- sums


def axes(x: Any, axis: Axis) -> tuple[int, ...]:
    """Return the axes that a reduction of `x` along `axis` removes, counted from the front."""
    ndim = len(shape(x))
    return (tuple(range(ndim)) if axis is None or not ndim
            else tuple(sorted(a % ndim for a in (axis if isinstance(axis, tuple) else (axis,)))))


def sum_of_one_axis(w: Walk, op: Call, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """sum(x, axis=(1,)) and sum(x, axis=-1) of a matrix are written sum(x, axis=1)."""
    if dtype is not None or axis is None or not is_array(x):
        return None
    plain = axes(x, axis)
    simple = plain[0] if len(plain) == 1 else plain
    return None if simple == axis and type(simple) is type(axis) else _sum(w, op, x, simple, keepdims)


def _sum(w: Walk, op: Call, x: Any, axis: Axis, keepdims: bool) -> Any:
    given = {} if axis is None else {"axis": axis}
    return w.instead(op, ops.sum, x, **given, **({"keepdims": True} if keepdims else {}))


def sum_of_nothing(w: Walk, op: Call, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """sum(x) over axes of length 1 is a reshape."""
    if (dtype is not None or not is_array(op) or not is_array(x) or x.spec.dtype != op.spec.dtype
        or any(shape(x)[a] != 1 for a in axes(x, axis))):
        return None
    return w.instead(op, ops.reshape, x, op.spec.shape)


def sum_of_stretched(w: Walk, op: Call, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """sum(broadcast_to(x, s)) is x times the number of copies."""
    if dtype is not None or not is_array(x):
        return None
    slim, over = narrow(x), axes(x, axis)
    have = (1,) * (len(shape(x)) - len(shape(slim))) + shape(slim)
    if (slim is x or not over or not x.spec.size or any(have[a] != 1 for a in over)
        or not spec_of(slim).has_dtype(op.spec.dtype)):
        return None
    kept = tuple(n for a, n in enumerate(have) if a not in over or keepdims)
    if shape(slim) != kept:
        slim = w.make(op, ops.reshape, slim, kept)
    made = w.make(op, ops.multiply, slim, math.prod(shape(x)[a] for a in over))
    made = w.make(op, ops.broadcast_to, made, op.spec.shape) if shape(made) != op.spec.shape else made
    return made if same_type(made.spec, op.spec) else None


# elements from which NumPy's sum stays: it loses fewer digits
WHOLE = 1 << 18


def sum_of_products(w: Walk, op: Call, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """sum(a * b) is vdot(a, b), or vecdot(a, b) over the last axis, and sum(square(a)) likewise: one pass instead of
    two, and no temporary array. In double precision only: BLAS sums sequentially, which rounds too coarsely in other
    dtypes.
    """
    pair = x.args * 2 if is_call(x, ops.square) else x.args if is_call(x, ops.multiply) else ()
    if (dtype is not None or keepdims or not pair or not w.once(x) or not all(is_array(a) and same(a, x) for a in pair)
        or x.spec.dtype != np.float64):
        return None
    last, over = len(shape(x)) - 1, axes(x, axis)
    whole = over == tuple(range(last + 1))
    if whole and x.spec.size >= WHOLE:
        return None
    if over == (last,):
        return w.instead(op, ops.vecdot, *pair)
    if whole:
        return w.instead(op, ops.vdot, *(_in_order(w, op, a) for a in pair))
    return None


def _in_order(w: Walk, op: Call, x: Any) -> Any:
    """Return an array in C order. vdot would copy any other itself, without planned memory and once for each operand.
    """
    return x if x.spec.is_contiguous else w.make(op, ops.copy, x, order="C")


# -- arrangements


def reshaped(w: Walk, op: Call, x: Any, to: Any, **kwargs: Any) -> Any:
    """reshape(x, its shape) is x; reshape(reshape(x, s), t) is reshape(x, t); of a sum with keepdims it is a sum
    without.
    """
    if kwargs or not is_array(x):
        return None
    if same(x, op):
        return x
    if is_call(x, ops.reshape) and not x.kwargs and is_array(x.args[0]):
        return same(x.args[0], op) or w.instead(op, ops.reshape, x.args[0], op.spec.shape)
    if is_call(x, ops.permute_dims):
        return _of_one_axis_less(w, op, x)
    if is_call(x, ops.sum) and x.kwargs.get("keepdims") and "dtype" not in x.kwargs and w.once(x):
        over = axes(x.args[0], x.kwargs.get("axis"))
        if op.spec.ndim and op.spec.shape == tuple(n for a, n in enumerate(shape(x.args[0])) if a not in over):
            return _sum(w, op, x.args[0], x.kwargs.get("axis"), False)
    return None


def _of_one_axis_less(w: Walk, op: Call, x: Any) -> Any:
    """reshape(permute_dims(reshape(x))) is permute_dims(x) if the reshapes only add or drop axes of length 1."""
    base, order = x, _long(x)
    if [shape(x)[a] for a in order] != [shape(op)[a] for a in _long(op)]:
        return None
    while True:
        if is_call(base, ops.permute_dims):
            first = base.kwargs.get("axes", base.args[1] if len(base.args) > 1 else None)
            order = [first[a] % len(first) if first is not None else len(shape(base)) - 1 - a for a in order]
        elif is_call(base, ops.reshape) and not base.kwargs and is_array(base.args[0]) \
                and [n for n in shape(base) if n != 1] == [n for n in shape(base.args[0]) if n != 1]:
            order = [_long(base.args[0])[_long(base).index(a)] for a in order]
        else:
            break
        base = base.args[0]
    if len(shape(base)) != len(shape(op)) or not is_array(base):
        return None
    short, long = (a for a in range(len(shape(base))) if shape(base)[a] == 1), iter(order)
    axes = tuple([next(short) if n == 1 else next(long) for n in shape(op)])
    return same(base, op) if axes == tuple(range(len(axes))) else w.instead(op, ops.permute_dims, base, axes=axes)


def _long(x: Any) -> list[int]:
    """Return the axes whose length is not 1."""
    return [a for a, n in enumerate(shape(x)) if n != 1]


def rearranged(w: Walk, op: Call, x: Any, axis: Axis = None) -> Any:
    """expand_dims and squeeze are reshapes."""
    return w.instead(op, ops.reshape, x, op.spec.shape) if is_array(x) and is_array(op) else None


def transposed(w: Walk, op: Call, x: Any, axes: Any = None) -> Any:
    """An identity transpose is dropped, two are merged, and all are written with explicit axes."""
    ndim = len(shape(x))
    if not is_array(x):
        return None
    order = tuple(range(ndim))[::-1] if axes is None else tuple(a % ndim for a in axes)
    if order == tuple(range(ndim)):
        return same(x, op)
    if not is_call(x, ops.permute_dims) or not is_array(x.args[0]):
        return None if axes == order and "axes" in op.kwargs else w.instead(op, ops.permute_dims, x, axes=order)
    inner = x.kwargs.get("axes", x.args[1] if len(x.args) > 1 else None)
    first = tuple(range(ndim))[::-1] if inner is None else tuple(a % ndim for a in inner)
    both = tuple(first[a] for a in order)
    return x.args[0] if both == tuple(range(ndim)) else w.instead(op, ops.permute_dims, x.args[0], axes=both)


def everything(index: tuple[Any, ...], of: tuple[int, ...]) -> bool:
    """Return whether an index of constant slices and new axes reads all of an array, in order."""
    if any(part is not None and part is not Ellipsis and not isinstance(part, slice)
           for part in index) or not _steady(index):
        return False
    before = index[:index.index(Ellipsis)] if Ellipsis in index else index
    after = index[len(before) + 1:]
    slices = [part for part in before if part is not None], [part for part in after if part is not None]
    lengths = *of[:len(slices[0])], *of[len(of) - len(slices[1]):]
    return all(part.indices(n) == (0, n, 1) for part, n in zip((*slices[0], *slices[1]), lengths))


def read_whole(w: Walk, op: Call, x: Any, *index: Any) -> Any:
    """x[:] is x, and x[:, None] a reshape."""
    if not is_array(x) or not is_array(op) or not everything(index, shape(x)):
        return None
    return same(x, op) or w.instead(op, ops.reshape, x, op.spec.shape)


def read_along_one(w: Walk, op: Call, x: Any, *index: Any) -> Any:
    """x[:, 0] is a reshape if the axis has length 1."""
    if not is_array(x) or not is_array(op) or len(index) != len(shape(x)) or not all(type(part) in (int, slice)
                                                                                     for part in index):
        return None
    slices = tuple([slice(None) if type(part) is int and n == 1 else part for part, n in zip(index, shape(x))])
    return w.instead(op, ops.reshape, x, op.spec.shape) if slices != index and everything(slices, shape(x)) else None


def _steady(index: tuple[Any, ...]) -> bool:
    """Return whether an index consists of constant slices, new axes and integers."""
    return all(part is None or part is Ellipsis or type(part) is int or (isinstance(part, slice) and not any(
        isinstance(end, Operation) for end in (part.start, part.stop, part.step))) for part in index)


def read_at_once(w: Walk, op: Call, x: Any, *index: Any) -> Any:
    """x[i][j] is x[i, j]."""
    if (is_call(x, ops.getitem) and is_array(x) and all(type(part) is int for part in x.args[1:]) and _steady(index)
        and Ellipsis not in index):
        return w.instead(op, ops.getitem, x.args[0], *x.args[1:], *index)
    return None


def read_of_piece(w: Walk, op: Call, x: Any, *index: Any) -> Any:
    """scatter(x, i)[i] is x."""
    piece, places = _only_piece(x)
    return same(piece, op) if places and places == index else None


def dot_of_pieces(w: Walk, op: Call, a: Any, b: Any, **how: Any) -> Any:
    """scatter(x, i) @ scatter(y, i) is x @ y: the rest are zeros."""
    (x, places), (y, others) = _only_piece(a), _only_piece(b)
    if not places or places != others or how or op.spec.ndim or shape(x) != shape(y) or len(shape(x)) != 1:
        return None
    return w.instead(op, op.fn, x, y)


def _only_piece(x: Any) -> tuple[Any, Any]:
    """Return the only piece of a sum of such, an array, and its index, of constants: (None, ()) where there is none."""
    if not is_call(x, ops.scatter) or len(x.kwargs["ranks"]) > 1 or x.kwargs.keys() - {"shape", "ranks"}:
        return None, ()
    piece, *index = x.args
    return (piece, tuple(index)) if _steady(tuple(index)) and is_array(piece) else (None, ())


def read_of_pieces(w: Walk, op: Call, x: Any, *places: Any) -> Any:
    """scatter(x, 0, i, y, 1, j)[0] is scatter(x, i), and of the only piece at that row it is x[...]."""
    row, *index = places or (None,)
    if (not is_call(x, ops.scatter) or x.kwargs.keys() - {"shape", "ranks"} or type(row) is not int
            or not 1 < len(x.kwargs["ranks"]) <= PIECES or not is_array(op)):
        return None
    (n, *inner), pieces = x.kwargs["shape"], list(pieces_with_indices(x.args, x.kwargs["ranks"]))
    if not all(index and type(index[0]) is int and _steady(index[1:]) for _, index in pieces):
        return None
    here = [(piece, index[1:]) for piece, index in pieces if index[0] % n == row % n]
    only = here[0][0] if len(here) == 1 and everything(here[0][1], (*inner,)) else None
    if only is not None and is_array(only) and spec_of(only).has_dtype(x.spec.dtype) and shape(only) == (*inner,):
        whole = only
    elif here and all(index for _, index in here):
        parts = [part for piece, index in here for part in (piece, *index)]
        whole = w.make(op, ops.scatter, *parts, shape=(*inner,), ranks=tuple([len(index) for _, index in here]))
    else:
        return None
    return w.instead(op, ops.getitem, whole, *index) if index else whole if same(whole, op) else None


# -- adding into zeros


def scattered_whole(w: Walk, op: Call, *parts: Any, shape: tuple[int, ...], ranks: tuple[int, ...],
                    dtype: Any = None) -> Any:
    """scatter(x, :, None) puts all of x into zeros: a reshape."""
    piece, index = parts[0], parts[1:]
    if len(ranks) > 1 or not is_array(piece) or not is_array(op) or not everything(index, shape):
        return None
    if piece.spec.dtype != op.spec.dtype or piece.spec.size != op.spec.size:
        return None
    return same(piece, op) or w.instead(op, ops.reshape, piece, shape)


def scattered_alike(w: Walk, op: Call, *parts: Any, shape: tuple[int, ...], ranks: tuple[int, ...],
                    **how: Any) -> Any:
    """scatter(x, i, y, i) is scatter(x + y, i), which rounds as the sums at those places do."""
    first, index, rest, ranks = parts[0], parts[1:1 + ranks[0]], parts[1 + ranks[0]:], ranks[1:]
    if how or not (is_array(first) and _steady(index)):
        return None
    total = first
    while (ranks and _steady(rest[1:1 + ranks[0]]) and rest[1:1 + ranks[0]] == index and is_array(rest[0])
           and same_type(rest[0].spec, first.spec)):
        total, rest, ranks = w.make(op, ops.add, total, rest[0]), rest[1 + ranks[0]:], ranks[1:]
    if total is first:
        return None
    return w.instead(op, ops.scatter, total, *index, *rest, shape=shape, ranks=(len(index), *ranks))


def scattered_together(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """scatter(x, i) + scatter(y, j) is one scatter of both pieces."""
    if not (is_call(a, ops.scatter) and is_call(b, ops.scatter) and w.once(a) and w.once(b)
            and same_type(a.spec, b.spec) and is_array(op)):
        return None
    if a.kwargs.get("dtype") != b.kwargs.get("dtype"):
        return None
    ranks = *a.kwargs["ranks"], *b.kwargs["ranks"]
    return w.instead(op, ops.scatter, *a.args, *b.args, **{**a.kwargs, "ranks": ranks})


SHAPES = (
    (ops.broadcast_to, restretched), (ops.sum, sum_of_one_axis), (ops.sum, sum_of_nothing), (ops.sum, sum_of_stretched),
    (ops.sum, sum_of_products),
    (ops.reshape, reshaped), (ops.expand_dims, rearranged), (ops.squeeze, rearranged), (ops.permute_dims, transposed),
    (ops.getitem, read_whole), (ops.getitem, read_along_one), (ops.getitem, read_at_once),
    (ops.getitem, read_of_piece), (ops.getitem, read_of_pieces), (ops.vecdot, dot_of_pieces),
    (ops.scatter, scattered_whole), (ops.scatter, scattered_alike), (ops.add, scattered_together),
    *((op, stretched) for op in ELEMENTWISE),
)

LOOKS_AT: dict[Any, frozenset[Any]] = {stretched: FILLED | {ops.broadcast_to, ops.reshape, ops.full, ops.full_like},
                                       scattered_together: frozenset([ops.scatter])}
"""The calls that a rule looks for among the arguments, as in `algebra`."""
