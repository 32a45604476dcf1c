"""NumPy's contractions, and its functions that extract parts of matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.frontends.common import as_array, keywords, static
from tapegrad.frontends.numpy.shape import moveaxis, swapaxes
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.dtypes import is_extension
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.batched_product import LETTERS
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import means
from tapegrad.trace import views
from tapegrad.trace.proxy import recorded


def _ndim(x: Array) -> int:
    return len(shape_of(x))


def _flat(x: Array) -> Any:
    return ops.reshape(as_array(x), (-1,))


# -- products of vectors and matrices


@means(np.linalg.matmul)
def matmul(x1: Array, x2: Array, /) -> Any:
    return ops.matmul(as_array(x1), as_array(x2))


@means(np.linalg.vecdot)
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    return ops.vecdot(moveaxis(x1, axis, -1), moveaxis(x2, axis, -1))


@means(np.dot, np.ndarray.dot)
def dot(a: Array, b: Array, out: Array | None = None) -> Any:
    a, b = as_array(a), as_array(b)
    m, n = _ndim(a), _ndim(b)
    if not m or not n:  # NumPy converts a number to an array first, and so promotes by its dtype
        return ops.multiply(*[ops.scalar(x) if dtype_of(x) is None else x for x in (a, b)])
    y = ops.matmul(a, b) if m < 3 and n < 3 else ops.dot(a, b)
    if is_extension(plain(a).dtype) or is_extension(plain(b).dtype):  # for which `@` returns float32
        return ops.astype(y, dtype=np.result_type(dtype_of(a), dtype_of(b)))
    return y


@means(np.inner)
def inner(a: Array, b: Array, /) -> Any:
    a, b = as_array(a), as_array(b)
    return dot(a, swapaxes(b, -1, -2) if _ndim(a) and _ndim(b) > 1 else b)


@means(np.vdot)
def vdot(a: Array, b: Array, /) -> Any:
    return ops.vdot(as_array(a), as_array(b))


@means(np.outer, np.linalg.outer)
def outer(a: Array, b: Array, out: Array | None = None) -> Any:
    return ops.multiply(ops.reshape(as_array(a), (-1, 1)), _flat(b))


@means(np.kron)
def kron(a: Array, b: Array) -> Any:
    a, b = as_array(a), as_array(b)
    ndim = max(_ndim(a), _ndim(b))
    left, right = ((1,) * (ndim - _ndim(x)) + shape_of(x) for x in (a, b))
    product = ops.multiply(ops.reshape(a, tuple(k for n in left for k in (n, 1))),
                           ops.reshape(b, tuple(k for n in right for k in (1, n))))
    return ops.reshape(product, tuple(m * n for m, n in zip(left, right)))


@means(np.cross)
def cross(a: Array, b: Array, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    a, b = as_array(a), as_array(b)
    if axis is not None:
        axisa = axisb = axisc = axis
    lengths = shape_of(a)[axisa: axisa + 1 or None], shape_of(b)[axisb: axisb + 1 or None]
    if lengths != ((3,), (3,)):
        # ValueError, or a warning, in NumPy's words
        np.cross(np.ones(shape_of(a)), np.ones(shape_of(b)), axisa, axisb, axisc)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    planar = [_ndim(x) for x in (a, b) if shape_of(x)[-1] == 2]
    a0, a1, b0, b1 = a[..., 0], a[..., 1], b[..., 0], b[..., 1]
    c2 = a0 * b1 - a1 * b0
    if len(planar) == 2:
        return c2 if shape_of(c2) else ops.reshape(ops.stack(c2, axis=0), ())  # an array, which can be written to
    if shape_of(a)[-1] == 2:  # a missing component is left out: a zero in its place times inf would be nan
        c0, c1 = a1 * b[..., 2], -(a0 * b[..., 2])
    elif shape_of(b)[-1] == 2:
        c0, c1 = -(a[..., 2] * b1), a[..., 2] * b0
    else:
        c0, c1 = a1 * b[..., 2] - a[..., 2] * b1, a[..., 2] * b0 - a0 * b[..., 2]
    return moveaxis(ops.stack(c0, c1, c2, axis=-1), -1, axisc)


@means(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Array | None = None) -> Any:
    """Multiply in the cheapest order (Cormen et al., Introduction to Algorithms, section 14.2)."""
    xs = list(map(as_array, arrays))
    if len(xs) < 2:
        np.linalg.multi_dot([])  # ValueError, in NumPy's words
    sizes = [shape_of(xs[0])[0] if _ndim(xs[0]) == 2 else 1, *[shape_of(x)[-1] if _ndim(x) == 2 else 1 for x in xs]]
    sizes[1] = shape_of(xs[0])[-1]

    @functools.cache
    def cheapest(i: int, j: int) -> tuple[int, int]:
        costs = [(cheapest(i, k)[0] + cheapest(k + 1, j)[0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                 for k in range(i, j)]
        return min(costs, default=(0, i))

    def product(i: int, j: int) -> Any:
        k = cheapest(i, j)[1]
        return xs[i] if i == j else ops.matmul(product(i, k), product(k + 1, j))
    return product(0, len(xs) - 1)


# -- products over any axes


@means(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    return ops.tensordot(as_array(a), as_array(b), axes=static(axes))


@means(np.linalg.tensordot)
def tensordot_of_two(x1: Array, x2: Array, /, *, axes: Axis = 2) -> Any:
    return tensordot(x1, x2, axes)


@means(np.einsum)
def einsum(*operands: Any, out: Any = None, optimize: Any = False, dtype: Any = None, order: str = "K",
           casting: str = "safe") -> Any:
    subscripts, given = _subscripts(operands)
    xs = list(map(as_array, given))
    if len(xs) == 1:
        (mine, *_), output = ops.labels(subscripts, [_ndim(xs[0])])
        if _is_view(shape_of(xs[0]), mine, output):  # NumPy ignores `dtype` then
            return _arrange(xs[0], mine, output) if shape_of(xs[0]) else ops.read(ops.array(xs[0]), ())
    return ops.einsum(subscripts, *xs, **keywords(optimize=optimize, dtype=dtype))


def _is_view(shape: tuple[int, ...], mine: str, output: str) -> bool:
    """True if an einsum of one operand sums nothing: NumPy then returns a view, while the op would copy."""
    return len(mine) == len(shape) and len(set(zip(mine, shape))) == len(output) and sorted(set(mine)) == sorted(output)


def _arrange(x: Array, mine: str, output: str) -> Any:
    """Return `x` with its axes permuted, and the diagonals of axes that have the same letter."""
    for letter in output:
        while mine.count(letter) > 1:
            i = mine.index(letter)
            k = mine.index(letter, i + 1)
            x, mine = views.lock(diagonal(x, 0, i, k)), mine[:i] + mine[i + 1: k] + mine[k + 1:] + letter
    return x if mine == output else ops.permute_dims(x, axes=tuple(map(mine.index, output)))


@means(np.einsum_path, constant=True)
def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    subscripts, xs = _subscripts(operands)
    return np.einsum_path(subscripts, *[np.broadcast_to(0.0, shape_of(as_array(x))) for x in xs], optimize=optimize)


def _subscripts(operands: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return einsum's subscripts as text, and its operands, from either calling convention."""
    if isinstance(operands[0], str):
        return operands[0].replace(" ", ""), operands[1:]

    def letters(axes: Any) -> str:
        # in the order of character codes: A-Z come before a-z
        return "".join("..." if i is Ellipsis else sorted(LETTERS)[i] for i in axes)
    pairs = len(operands) // 2
    inputs = ",".join(letters(operands[2 * k + 1]) for k in range(pairs))
    return inputs + (f"->{letters(operands[-1])}" if len(operands) % 2 else ""), operands[: 2 * pairs: 2]


# -- parts of a matrix


@means(np.diagonal, np.ndarray.diagonal)
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    x = as_array(a)
    if _ndim(x) < 2:
        np.empty(shape_of(x)).diagonal()  # raises NumPy's error
    if _ndim(x) != 2 or (axis1, axis2) != (0, 1):
        x = moveaxis(x, (axis1, axis2), (-2, -1))
    which = keywords(offset=offset)
    if isinstance(x, Traced) and type(x._val) is np.ndarray:
        y = x._val.diagonal(which.get("offset", 0), -2, -1)
        view = views.cut(x, ops.diagonal, (), y, which)
        if view is not None:
            return recorded(x._tracer, ops.diagonal, (views.peek(x),), y, which, view)
    return ops.diagonal(x, **which)


@means(np.linalg.diagonal)
def diagonal_of_last(x: Array, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


@means(np.trace, np.ndarray.trace)
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
    return ops.sum(diagonal(a, offset, axis1, axis2), **keywords(axis=-1, dtype=dtype))


@means(np.linalg.trace)
def trace_of_last(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


@means(np.diag)
def diag(v: Any, k: int = 0) -> Any:
    x, k = as_array(v), static(k)
    if _ndim(x) != 1:
        return diagonal(x, k) if _ndim(x) == 2 else np.diag(np.ones(shape_of(x)))  # ValueError, in NumPy's words
    n = shape_of(x)[0]
    return ops.scatter(x, *ops.diagonal_index(n, k), shape=(n + abs(k),) * 2, ranks=(2,))


@means(np.diagflat)
def diagflat(v: Array, k: int = 0) -> Any:
    return diag(_flat(v), k)


@means(np.tril)
def tril(m: Array, k: int = 0) -> Any:
    return ops.tril(as_array(m), **keywords(k=k))


@means(np.triu)
def triu(m: Array, k: int = 0) -> Any:
    return ops.triu(as_array(m), **keywords(k=k))
