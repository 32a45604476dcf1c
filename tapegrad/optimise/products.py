"""products: rewrite rules of `simplify` for products of matrices.

A rule is `(walk, op, *args, **kwargs) -> replacement or None`, as in `shapes`. Two rules drop terms that multiply a
zero of a diagonal matrix. If the other factor is inf or nan, BLAS does not define whether such a term is nan (Demmel et
al. 2022, Proposed consistent exception handling for the BLAS and LAPACK): its reference skips zeros, others do not.
Those rules therefore apply only to dtypes that NumPy passes to BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.ops.linalg import labels
from tapegrad.optimise.shapes import axes, is_array, narrow, shape
from tapegrad.tape.spec import same_type, spec_of
from tapegrad.tape.tape import Call, Constant, Operation
from tapegrad.transforms.walk import Walk, is_call

BLAS = "fdFD"  # dtypes whose products NumPy computes with BLAS


def _is_product(x: Any) -> bool:
    """Return whether a value is a product of matrices, or of stacks of them, that BLAS computes."""
    return is_call(x, ops.matmul) and is_array(x) and x.spec.dtype.char in BLAS and all(
        is_array(a) and spec_of(a).ndim > 1 and spec_of(a).dtype == x.spec.dtype for a in x.args)


def _turned(w: Walk, op: Call, x: Any) -> Any:
    """Transpose the last two axes."""
    ndim = len(shape(x))
    return w.make(op, ops.permute_dims, x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


# -- the diagonal of a product, and its sum


def diagonal_of_product(w: Walk, op: Call, x: Any, offset: Any = 0) -> Any:
    """diagonal(a @ b) is sum(a * bᵀ) over the last axis: the other products are not computed."""
    if not (offset == 0 and type(offset) is int and _is_product(x) and w.once(x) and shape(x)[-1] == shape(x)[-2]
            and is_array(op) and x.spec.size):
        return None
    a, b = x.args
    return w.instead(op, ops.sum, w.make(op, ops.multiply, a, _turned(w, op, b)), axis=len(shape(x)) - 1)


def sum_of_sum(w: Walk, op: Call, x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """A sum over all axes of sum(x, axis) is sum(x), and of vecdot(a, b) it is sum(a * b)."""
    if (dtype is not None or keepdims or not is_array(x) or axes(x, axis) != tuple(range(len(shape(x))))
        or not w.once(x)):
        return None
    if (is_call(x, ops.sum) and "dtype" not in x.kwargs and is_array(x.args[0])
            and spec_of(x.args[0]).dtype.kind in "fc"):
        return w.instead(op, ops.sum, x.args[0])
    if is_call(x, ops.vecdot) and x.spec.dtype == np.float64 and shape(x.args[0]) == shape(x.args[1]):
        return w.instead(op, ops.sum, w.make(op, ops.multiply, *x.args))
    return None


# -- products with a diagonal matrix: the identity, a constant one, the cotangent of a diagonal or of a trace


def product_with_diagonal(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """diag(d) @ x is d[:, None] * x, x @ diag(d) is x * d, and x @ (s I) is s * x."""
    if not is_array(op) or op.spec.dtype.char not in BLAS or not op.spec.size:
        return None
    for x, matrix, left in ((b, a, True), (a, b, False)):
        fits = isinstance(x, Operation) and is_array(x) and spec_of(x).dtype == op.spec.dtype == spec_of(matrix).dtype
        d = _diagonal(w, op, matrix) if fits else None
        if d is None:
            continue
        if left and shape(d) and len(shape(x)) > 1:
            d = w.make(op, ops.expand_dims, d, axis=-1)
        elif not left and len(shape(d)) > 1:
            d = w.make(op, ops.expand_dims, d, axis=-2)
        made = w.make(op, ops.multiply, x, d)
        return made if same_type(made.spec, op.spec) else None
    return None


def _diagonal(w: Walk, op: Call, x: Any) -> Any:
    """Return the diagonal (..., n) of a matrix known to be diagonal, or a number if all its elements are equal; None
    for other matrices.
    """
    if not isinstance(x, Operation) or len(shape(x)) < 2 or shape(x)[-1] != shape(x)[-2]:
        return None
    if isinstance(x, Constant):
        return _constant_diagonal(w, op, x)
    if isinstance(x, Call) and is_call(x, ops.scatter) and "order" not in x.kwargs:
        return _scattered_diagonal(x)
    if is_call(x, ops.multiply):  # a diagonal matrix times a number, or times a vector by rows or columns
        for s, matrix in (x.args, x.args[::-1]):
            fits = shape(matrix) == shape(x) and (shape(s) == ()
                                                  or (len(shape(x)) == 2 and spec_of(s).size == shape(x)[0]))
            d = _diagonal(w, op, matrix) if fits else None
            if d is not None:
                s = s if len(shape(s)) < 2 else w.make(op, ops.reshape, s, shape(x)[:1])
                return w.make(op, ops.multiply, s, d)
    if is_call(x, ops.permute_dims) and len(shape(x)) == 2:
        return _diagonal(w, op, x.args[0])
    return None


def _constant_diagonal(w: Walk, op: Call, x: Constant) -> Any:
    if x.spec.ndim != 2 or x.spec.dtype.char not in BLAS:
        return None
    d = np.diagonal(x.val)
    if np.count_nonzero(x.val) != np.count_nonzero(d):
        return None
    if (d == d[0]).all():
        return d[0].item() if x.spec.dtype.char in "dD" else d[0]
    return w.constant(op, d.copy())


def _scattered_diagonal(x: Call) -> Any:
    """Return the piece of a scatter whose only index is [..., arange(n), arange(n)]."""
    piece, index = x.args[0], x.args[1:]
    n, ndim = shape(x)[-1], len(shape(x))
    if (len(x.kwargs["ranks"]) > 1 or not is_array(piece) or shape(piece) != shape(x)[:-1]
        or spec_of(piece).dtype != x.spec.dtype):
        return None
    if len(index) == 3 and index[0] is Ellipsis:
        index = index[1:]
    elif ndim > 2:
        return None
    if len(index) != 2 or not all(_counts(part, n) for part in index):
        return None
    slim = narrow(piece)
    return slim if shape(slim) == () else piece


def _counts(x: Any, n: int) -> bool:
    """Return whether an argument is the constant 0, 1, …, n - 1."""
    val = x.val if isinstance(x, Constant) else x
    return type(val) is np.ndarray and val.dtype.kind in "iu" and np.array_equal(val, np.arange(n))


# -- sums of products by their letters


def contracted(w: Walk, op: Call, subscripts: Any, *xs: Any, **_: Any) -> Any:
    """einsum('ij,jk->ik') is a matrix product, 'ij,ij->' the sum of an elementwise product, 'ii->i' a diagonal,
    ',ij->ji' a scalar multiple. Real and complex floats only: integers are summed in another dtype.
    """
    if type(subscripts) is not str or not all(isinstance(x, Operation) and _is_floating(x) for x in xs
                                              if shape(x)) or not _is_floating(op):
        return None
    dtypes = {spec_of(x).dtype for x in xs if shape(x)}
    if len(dtypes) != 1 or dtypes != {op.spec.dtype} or not all(spec_of(x).size for x in xs if shape(x)):
        return None
    terms, out = labels(subscripts.replace(" ", ""), [len(shape(x)) for x in xs])
    if len(xs) == 1:
        made = _of_one(w, op, xs[0], terms[0], out)
    elif len(xs) == 2 and all(len(set(term)) == len(term) for term in (*terms, out)):
        made = _of_two(w, op, xs, terms, out)
    else:
        return None
    return made if isinstance(made, Operation) and same_type(made.spec, op.spec) else None


def _is_floating(x: Any) -> bool:
    return getattr(spec_of(x).dtype, "char", "") in tuple(BLAS)


def _of_one(w: Walk, op: Call, x: Any, term: str, out: str) -> Any:
    if len(term) == 2 and term[0] == term[1] and shape(x)[0] == shape(x)[1] and out in ("", term[0]):
        line = w.make(op, ops.diagonal, x, offset=0)
        return line if out else w.make(op, ops.sum, line)
    return None


def _of_two(w: Walk, op: Call, xs: tuple[Any, ...], terms: list[str], out: str) -> Any:
    """Return a scalar multiple, the sum of an elementwise product, or matrix products batched over the axes that both
    arrays and the result have. Axes of the first array alone are rows, of the second alone columns.
    """
    (a, b), (p, q) = xs, terms
    if not p or not q:
        s, x, term = (a, b, q) if not p else (b, a, p)
        return w.make(op, ops.multiply, s, _ordered(w, op, x, term, out)) if sorted(term) == sorted(out) else None
    size = dict(zip(p + q, shape(a) + shape(b)))
    if tuple([size[c] for c in p]) != shape(a) or not set(p) ^ set(q) <= set(out) <= set(size):
        return None  # an axis of length 1 is broadcast, or one array is summed by itself
    if not out and set(p) == set(q):
        return w.make(op, ops.sum, w.make(op, ops.multiply, a, _ordered(w, op, b, q, p)))
    if out[-1:] not in q and not set(out) <= set(p):
        a, b, p, q = b, a, q, p
    both = [c for c in out if c in p and c in q]
    rows, columns = [c for c in out if c not in q], [c for c in out if c not in p]
    summed = [c for c in p if c not in out]

    def table(x: Any, term: str, *axes: Sequence[str]) -> Any:
        """Return an array with one axis for each group of axes, of length 1 for a group that it lacks."""
        x = _ordered(w, op, x, term, "".join([c for group in axes for c in group if c in term]))
        wanted = tuple([math.prod(size[c] for c in group if c in term) for group in axes])
        return x if shape(x) == wanted else w.make(op, ops.reshape, x, wanted)
    if not summed:
        return w.make(op, ops.multiply, table(a, p, *out), table(b, q, *out))
    made = w.make(op, ops.matmul, table(a, p, *both, rows, summed), table(b, q, *both, summed, columns))
    found = "".join([*both, *rows, *columns])
    if shape(made) != (wanted := tuple([size[c] for c in found])):
        made = w.make(op, ops.reshape, made, wanted)
    return _ordered(w, op, made, found, out)


def _ordered(w: Walk, op: Call, x: Any, term: str, wanted: str) -> Any:
    return x if term == wanted else w.make(op, ops.permute_dims, x, axes=tuple([term.index(c) for c in wanted]))


def norm_of_squares(w: Walk, op: Call, x: Any, ord: Any = 2, **along: Any) -> Any:
    """vector_norm(x) is sqrt(sum(x * x))."""
    if ord != 2 or getattr(spec_of(x).dtype, "char", "") not in ("f", "d") or not is_array(x):
        return None
    return w.instead(op, ops.sqrt, w.make(op, ops.sum, w.make(op, ops.multiply, x, x), **along))


# -- triangular systems


def solved_by_substitution(w: Walk, op: Call, a: Any, b: Any) -> Any:
    """solve(L, b) is solve_triangular if L is a Cholesky factor, the result of tril or triu, or the transpose of one.
    Both call LAPACK, which leaves open which elements are nan if the arguments are not finite.
    """
    found = _triangle(a)
    if found is None or not is_array(b) or not 0 < len(shape(b)) < 3 or spec_of(b).dtype != spec_of(a).dtype:
        return None
    x, lower, trans = found
    turned = {"trans": trans} if trans else {}
    return w.instead(op, ops.solve_triangular, x, b, **turned, lower=lower, check_finite=False)


def _triangle(x: Any) -> tuple[Operation, bool, int] | None:
    """Return a triangular matrix, whether it is lower, and 1 or 2 if `x` is its plain or conjugate transpose (else 0);
    None for other matrices.
    """
    if not is_array(x) or len(shape(x)) != 2 or spec_of(x).dtype.char not in BLAS or shape(x)[0] != shape(x)[1]:
        return None
    if is_call(x, ops.permute_dims) or is_call(x, ops.conjugate):
        found = _triangle(x.args[0])
        turned = {ops.permute_dims: (1, 0, None), ops.conjugate: (None, 2, 1)}[x.fn]
        trans_of = None if found is None else turned[found[2]]
        return None if found is None or trans_of is None else (found[0], found[1], trans_of)
    if is_call(x, ops.cholesky):
        return x, not (x.kwargs.get("upper", False) or x.args[1:] not in ((), (False,))), 0
    for cut, lower in ((ops.tril, True), (ops.triu, False)):
        k = x.kwargs.get("k", 0) if is_call(x, cut) and len(x.args) == 1 else None
        if type(k) is int and (k <= 0 if lower else k >= 0):
            return x, lower, 0
    return None


PRODUCTS = ((ops.diagonal, diagonal_of_product), (ops.sum, sum_of_sum), (ops.matmul, product_with_diagonal),
            (ops.einsum, contracted), (ops.vector_norm, norm_of_squares), (ops.solve, solved_by_substitution))
