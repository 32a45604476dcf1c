"""Contractions: sums of products over shared axes, and the parts of a matrix.

The cotangent of a contraction is a contraction of the cotangent with the other factor's conjugate, so that every rule
consists of fast matrix products.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.kinds import Array, Axis, Cotangent
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import product, together
from tapegrad.ops.batched_product import (
    LETTERS,
    dot_members,
    einsum_members,
    matmul_members,
    tensordot_members,
    vdot_members,
)
from tapegrad.ops.elementwise import conj
from tapegrad.ops.index import sparse
from tapegrad.ops.shape import expand_dims, permute_dims, reshape
from tapegrad.rules import batching, types
from tapegrad.rules.facts import EACH, FRESH, MOVED, READONLY_VIEW, direct, linear_in
from tapegrad.rules.registry import define


def _ndim(x: Array) -> int:
    return x.ndim if type(x) is np.ndarray else len(shape_of(x))


def adjoint(x: Array) -> Any:
    """Return the conjugate transpose of a matrix, or of each in a stack."""
    if type(x) is np.ndarray:
        return conj(x.swapaxes(-1, -2))
    ndim = _ndim(x)
    return conj(permute_dims(x, axes=(*range(ndim - 2), ndim - 1, ndim - 2)))


def _rows(x: Any) -> Any:
    """Return a stack of matrices as one matrix with all their rows."""
    shape = shape_of(x)
    return reshape(x, (math.prod(shape[:-1]), shape[-1]))


# -- products of matrices: NumPy's rules for vectors (no axis of their own) and stacks (leading axes broadcast)


def _matmul_left(dy: Cotangent, _y: Array, _a: Array, b: Array) -> Any:
    m, n = _ndim(_a), _ndim(b)
    if n == 1:
        return dy * conj(b) if m == 1 else dy[..., None] * conj(b)
    if m == 1:
        return matmul(conj(b), dy[..., None])[..., 0]
    if m == 2 < n:  # one matrix for a whole stack: the sum over the stack is one product too
        stack = (*range(n - 2), n - 1)
        return tensordot(dy, conj(b), axes=(stack, stack))
    return matmul(dy, adjoint(b))


def _matmul_right(dy: Cotangent, _y: Array, a: Array, _b: Array) -> Any:
    m, n = _ndim(a), _ndim(_b)
    if m == 1:
        return dy * conj(a) if n == 1 else conj(a)[:, None] * dy[..., None, :]
    if n == 1:
        return matmul(adjoint(a), dy[..., None])[..., 0]
    if n == 2 < m:
        return matmul(adjoint(_rows(a)), _rows(dy))
    return matmul(adjoint(a), dy)


matmul = define("matmul", operator.matmul, direct(_matmul_left, _matmul_right),
                means=(np.matmul, operator.matmul), tangent=EACH, torch=product("matmul"), spec=types.matmul,
                batch=matmul_members)
vecdot = define("vecdot", np.vecdot, (
    lambda dy, _y, _a, b: expand_dims(conj(dy), axis=-1) * b, lambda dy, _y, a, _b: expand_dims(dy, axis=-1) * a),
                means=(np.vecdot,), tangent=EACH,
    batch=batching.stacked(1, 1),
    torch=lambda a, b: matmul.lower["torch"](a.conj()[..., None, :], b[..., None])[..., 0, 0], spec=types.by_core(1, 1))

# over all elements, in C's order, whatever the shapes
vdot = define("vdot", np.vdot, (
    lambda dy, _y, _a, b: conj(dy) * reshape(b, shape_of(_a)), lambda dy, _y, a, _b: dy * reshape(a, shape_of(_b))),
    tangent=EACH, batch=vdot_members, torch=lambda a, b: torch.vdot(*(x.reshape(-1) for x in together((a, b)))),
    memory=FRESH, spec=types.vdot)

matvec = define("matvec", np.matvec, (
    lambda dy, _y, _a, v: dy[..., :, None] * conj(v)[..., None, :], lambda dy, _y, a, _v: conj(vecmat(dy, a))),
                means=(np.matvec,), tangent=EACH,
    batch=batching.stacked(2, 1),
    torch=lambda a, v: matmul.lower["torch"](a, v[..., None])[..., 0], spec=types.by_core(2, 1))
vecmat = define("vecmat", np.vecmat, (
    lambda dy, _y, _v, a: matvec(a, conj(dy)), lambda dy, _y, v, _a: v[..., :, None] * dy[..., None, :]),
                means=(np.vecmat,), tangent=EACH,
    batch=batching.stacked(1, 2),
    torch=lambda v, a: matmul.lower["torch"](v.conj()[..., None, :], a)[..., 0, :], spec=types.by_core(1, 2))

# -- products over any axes


def _dot_axes(a: Array, b: Array) -> Any:
    return (_ndim(a) - 1,), (max(_ndim(b) - 2, 0),)


def summed(axes: Any, m: int, n: int) -> tuple[list[int], list[int]]:
    """Return the axes of `a` and of `b` that are summed over, in pairs."""
    if isinstance(axes, int):
        return list(range(m - axes, m)), list(range(axes))
    of_a, of_b = ((part,) if isinstance(part, int) else part for part in axes)
    return [i % m for i in of_a], [i % n for i in of_b]


def _arrange(dx: Cotangent, axes: list[int]) -> Any:
    """Transpose `dx`, which has the axes of x in this order."""
    order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
    return dx if order == tuple(range(len(axes))) else permute_dims(dx, axes=order)


def _tensordot_left(dy: Cotangent, _y: Array, _a: Array, b: Array, axes: Axis = 2) -> Any:
    m, n = _ndim(_a), _ndim(b)
    of_a, of_b = summed(axes, m, n)
    mine, free = [i for i in range(m) if i not in of_a], tuple(i for i in range(n) if i not in of_b)
    dx = tensordot(dy, conj(b), axes=(tuple(range(len(mine), _ndim(dy))), free))
    return _arrange(dx, mine + [i for _, i in sorted(zip(of_b, of_a))])


def _tensordot_right(dy: Cotangent, _y: Array, a: Array, _b: Array, axes: Axis = 2) -> Any:
    m, n = _ndim(a), _ndim(_b)
    of_a, of_b = summed(axes, m, n)
    mine, free = [i for i in range(n) if i not in of_b], tuple(i for i in range(m) if i not in of_a)
    dx = tensordot(conj(a), dy, axes=(free, tuple(range(len(free)))))
    return _arrange(dx, [i for _, i in sorted(zip(of_a, of_b))] + mine)


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    a, b = together((a, b))
    of_a, of_b = summed(axes, a.ndim, b.ndim)
    free_a, free_b = ([i for i in range(x.ndim) if i not in of] for x, of in ((a, of_a), (b, of_b)))
    inner = math.prod(a.shape[i] for i in of_a)
    shape = [a.shape[i] for i in free_a] + [b.shape[i] for i in free_b]
    rows = a.permute(free_a + of_a).reshape(math.prod(a.shape[i] for i in free_a), inner)
    columns = b.permute(of_b + free_b).reshape(inner, math.prod(b.shape[i] for i in free_b))
    return matmul.lower["torch"](rows, columns).reshape(shape)


def _dot(a: Array, b: Array) -> Any:
    return _tensordot(a, b, _dot_axes(a, b)) if a.ndim and b.ndim else torch.mul(*together((a, b)))


tensordot = define("tensordot", np.tensordot, (_tensordot_left, _tensordot_right), torch=_tensordot, tangent=EACH,
                   batch=tensordot_members, memory=FRESH, spec=types.tensordot)
dot = define("dot", np.dot, (lambda dy, _y, _a, b: _tensordot_left(dy, _y, _a, b, _dot_axes(_a, b)),
                             # for stacks, of each pair
                             lambda dy, _y, a, _b: _tensordot_right(dy, _y, a, _b, _dot_axes(a, _b))), torch=_dot,
             tangent=EACH, batch=dot_members, memory=FRESH, spec=types.dot)


def labels(subscripts: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the letters of each operand's axes and of the output's, with ellipses written out."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    letters = sorted({c for c in inputs if c.isalpha()})
    spare = "".join(c for c in LETTERS if c not in letters)
    widths = [rank - len(term.replace("...", "")) if "." in term else 0 for rank, term in zip(ranks, terms)]
    stretch = spare[:max(widths, default=0)]
    if not arrow:
        output = ("..." if "." in inputs else "") + "".join(c for c in letters if inputs.count(c) == 1)
    return [term.replace("...", stretch[len(stretch) - width:])
            for term, width in zip(terms, widths)], output.replace("...", stretch)


def _einsum_cotangent(i: int, dy: Cotangent, y: Array, subscripts: str, *xs: Any, optimize: Any = False,
                      **_: Any) -> Any:
    """Contract the cotangent with the other operands.

    A repeated letter (`ii`) becomes two with a Kronecker delta between them. An axis that only this operand has was
    summed alone, and gets an axis of length 1, which the sweep broadcasts. An axis of length 1 may have been broadcast.
    """
    terms, output = labels(subscripts, [_ndim(x) for x in xs])
    mine, x = terms.pop(i - 1), xs[i - 1]
    factors = [dy, *(conj(other) for k, other in enumerate(xs, 1) if k != i)]
    terms = [output, *terms]
    unused = iter(sorted(set(LETTERS) - set("".join([mine, *terms]))))
    axes: list[str] = []
    for letter, n in zip(mine, shape_of(x)):
        axes.append(letter if letter not in axes else next(unused))
        if axes[-1] != letter:
            terms.append(letter + axes[-1])
            factors.append(np.eye(n))
    known = set("".join(terms))
    kept = "".join(letter for letter, n in zip(axes, shape_of(x)) if letter in known and n != 1)
    dx = einsum(f"{','.join(terms)}->{kept}", *factors, **({"optimize": True} if optimize or len(factors) > 2 else {}))
    return dx if len(kept) == len(axes) else dx[tuple(slice(None) if letter in kept else None for letter in axes)]


def _einsum(subscripts: str, *xs: Any, **kwargs: Any) -> Any:
    y = np.einsum(subscripts, *xs, **kwargs)
    # for one operand NumPy returns a view where nothing is summed
    return y.copy() if len(xs) == 1 and np.may_share_memory(y, xs[0]) else y


def _einsum_type(subscripts: str, *xs: Any, optimize: Any = False, **_: Any) -> Any:
    return types.einsum(*labels(subscripts, [_ndim(x) for x in xs]), xs, optimize)


einsum = define("einsum", _einsum, _einsum_cotangent, tangent=EACH,
                batch=einsum_members, torch=lambda subscripts, *xs, **_: product("einsum", subscripts)(*xs),
                memory=FRESH, spec=_einsum_type)

# -- parts of a matrix, the last two axes


def diagonal_index(n: int, offset: int) -> tuple[Any, Any]:
    """Return the rows and the columns of a diagonal of length `n`."""
    return np.arange(n) + max(-offset, 0), np.arange(n) + max(offset, 0)


diagonal = define("diagonal", lambda x, offset=0: np.diagonal(x, offset, -2, -1), (
    lambda dy, _y, x, offset=0: sparse(x, dy, (..., *diagonal_index(shape_of(_y)[-1], offset))),),
                  memory=READONLY_VIEW, tangent=linear_in(0), batch=batching.stacked(2),
    torch=lambda x, offset=0: x.diagonal(offset, -2, -1), spec=types.diagonal)


def _triangle(x: Any) -> Any:
    return x.expand(len(x), len(x)) if x.ndim == 1 else x  # NumPy repeats a vector as rows


def _inside(x: Any, k: Any) -> Any:
    """Return where a matrix lies below a diagonal of a fractional number, which NumPy casts in its own way."""
    rows, columns = x.shape[-2:]
    return torch.from_numpy(np.tri(rows, columns, k, bool)).to(x.device)


def _lower(x: Any, k: Any = 0) -> Any:
    x = _triangle(x)
    return torch.tril(x, int(k)) if k == int(k) else x.masked_fill(~_inside(x, k), 0)


def _upper(x: Any, k: Any = 0) -> Any:
    x = _triangle(x)
    return torch.triu(x, int(k)) if k == int(k) else x.masked_fill(_inside(x, k - 1), 0)


tril = define("tril", np.tril, (lambda dy, _y, _x, k=0: tril(dy, k=k),), tangent=linear_in(0),
              batch=batching.stacked(2), torch=_lower, memory=MOVED, spec=types.triangle)
triu = define("triu", np.triu, (lambda dy, _y, _x, k=0: triu(dy, k=k),), tangent=linear_in(0),
              batch=batching.stacked(2), torch=_upper, memory=MOVED, spec=types.triangle)
