"""Batching rules for products: one product of larger matrices where all members share a factor.

A batched vector is a matrix of rows. A batched stack of rows is one matrix too, and so is a batched matrix beside a
shared one.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.numbers.kinds import Array
from tapegrad.rules.batching import Members
from tapegrad.rules.op import OPS

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters that einsum may use for axes."""


def matmul_members(members: Members, a: Array, b: Array) -> Any:
    """Batch `matmul`."""
    matmul, reshape, size, (m, n) = members.op.run, OPS["reshape"], members.size, (members.ndim(0), members.ndim(1))
    if members.only(0):
        if m == 1 and n > 2:
            return (
                matmul(reshape(a, (size, *(1,) * (n - 1), -1 if size else members.shape(0)[0])), b)[..., 0, :]
                if size
                else NotImplemented
            )
        if n > 2:
            return matmul(members.aligned(0, a, n), b)
        shape = members.shape(0)
        rows = a if m == 1 else reshape(a, (size * math.prod(shape[:-1]), shape[-1]))
        return reshape(matmul(rows, b), members.result)
    if members.only(1):
        if n == 1 and m == 2:
            return matmul(b, _transposed(a, 2))
        if n == 1:  # one number per row
            return (
                matmul(b, a)
                if m == 1
                else matmul(a, reshape(b, (size, *(1,) * (m - 2), members.shape(1)[0], 1)))[..., 0]
            )
        if m == 2 == n:  # the columns of all members side by side
            rows, (inner, width) = members.shape(0)[0], members.shape(1)
            side = reshape(OPS["permute_dims"](b, axes=(1, 0, 2)), (inner, size * width))
            return OPS["permute_dims"](reshape(matmul(a, side), (rows, size, width)), axes=(1, 0, 2))
        return matmul(a, members.aligned(1, b, m))
    if m == 1 and n == 1:
        return OPS["sum"](a * b, axis=-1)
    ndim = max(m, n, 2)
    a = reshape(a, (size, *(1,) * (ndim - 1), *members.shape(0))) if m == 1 else members.aligned(0, a, ndim)
    b = reshape(b, (size, *(1,) * (ndim - 2), *members.shape(1), 1)) if n == 1 else members.aligned(1, b, ndim)
    return reshape(matmul(a, b), members.result)


def _transposed(x: Array, ndim: int) -> Any:
    return OPS["permute_dims"](x, axes=(*range(ndim - 2), ndim - 1, ndim - 2))


def dot_members(members: Members, a: Array, b: Array) -> Any:
    """Batch `dot`: a product of matrices, or of an axis of one array with an axis of another."""
    m, n = members.ndim(0), members.ndim(1)
    if not m or not n:
        ndim = max(m, n)
        return OPS["multiply"].run(members.aligned(0, a, ndim), members.aligned(1, b, ndim))
    if m <= 2 and n <= 2:
        return matmul_members(Members(OPS["matmul"], members.size, members.args, members.batched, members.y), a, b)
    return _contracted(members, a, b, [m - 1], [max(n - 2, 0)])


def tensordot_members(members: Members, a: Array, b: Array, axes: Any = 2) -> Any:
    """Batch `tensordot`."""
    m, n = members.ndim(0), members.ndim(1)
    if isinstance(axes, int):
        return _contracted(members, a, b, list(range(m - axes, m)), list(range(axes)))
    of_a, of_b = ([part] if isinstance(part, int) else list(part) for part in axes)
    return _contracted(members, a, b, [i % m for i in of_a], [i % n for i in of_b])


def _contracted(members: Members, a: Array, b: Array, of_a: list[int], of_b: list[int]) -> Any:
    """Sum the products over pairs of axes."""
    tensordot, m, n = OPS["tensordot"].run, members.ndim(0), members.ndim(1)
    if members.only(0):
        return tensordot(a, b, axes=(tuple([i + 1 for i in of_a]), tuple(of_b)))
    if members.only(1):
        y = tensordot(a, b, axes=(tuple(of_a), tuple([i + 1 for i in of_b])))
        at = m - len(of_a)
        return OPS["permute_dims"](y, axes=(at, *range(at), *range(at + 1, m + n - 2 * len(of_a) + 1))) if at else y
    free_a, free_b = ([i for i in range(ndim) if i not in of] for ndim, of in ((m, of_a), (n, of_b)))
    inner, size = math.prod(members.shape(0)[i] for i in of_a), members.size
    rows = OPS["permute_dims"](a, axes=(0, *[i + 1 for i in (*free_a, *of_a)]))
    columns = OPS["permute_dims"](b, axes=(0, *[i + 1 for i in (*of_b, *free_b)]))
    rows = OPS["reshape"](rows, (size, math.prod(members.shape(0)[i] for i in free_a), inner))
    columns = OPS["reshape"](columns, (size, inner, math.prod(members.shape(1)[i] for i in free_b)))
    return OPS["reshape"](OPS["matmul"].run(rows, columns), members.result)


def vdot_members(members: Members, a: Array, b: Array) -> Any:
    """Batch `vdot`: over all elements, in C's order."""
    count = math.prod(members.shape(0))
    rows = [OPS["reshape"](x, (members.size, count) if flag else (count,)) for x, flag in zip((a, b), members.batched)]
    return OPS["vecdot"].run(*rows)


def einsum_members(members: Members, subscripts: str, *xs: Any, **kwargs: Any) -> Any:
    """Batch `einsum`: the batch gets a letter of its own."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    spare = next((letter for letter in LETTERS if letter not in inputs + output), None)
    if spare is None:
        return NotImplemented
    terms = inputs.split(",")
    if not arrow:
        output = ("..." if "." in inputs else "") + "".join(
            sorted({c for c in inputs if c.isalpha() and inputs.count(c) == 1})
        )
    terms = [spare + term if flag else term for term, flag in zip(terms, members.batched[1:])]
    if len(xs) > 2:  # by pairs, as products of matrices: otherwise NumPy loops over all letters at once
        kwargs = {"optimize": True, **kwargs}
    return members.op.run(f"{','.join(terms)}->{spare}{output}", *xs, **kwargs)


def solve_members(members: Members, a: Array, b: Array, *rest: Any, **how: Any) -> Any:
    """Batch `solve`, also of triangular systems: one factorisation for all right-hand sides of a shared matrix."""
    m, n, size = members.ndim(0), members.ndim(1), members.size

    def solve(a: Array, b: Array) -> Any:
        return members.op.run(a, b, *rest, **how)

    if n == 1:
        if members.only(1) and m == 2:
            return OPS["permute_dims"](solve(a, OPS["permute_dims"](b, axes=(1, 0))), axes=(1, 0))
        columns = OPS["reshape"](b, (*([size] if members.batched[1] else []), *(1,) * (m - 2), *members.shape(1), 1))
        return solve(a, columns)[..., 0]
    if members.only(1) and m == 2 == n:
        rows, width = members.shape(1)
        side = OPS["reshape"](OPS["permute_dims"](b, axes=(1, 0, 2)), (rows, size * width))
        return OPS["permute_dims"](OPS["reshape"](solve(a, side), (rows, size, width)), axes=(1, 0, 2))
    ndim = max(m, n)
    return solve(members.aligned(0, a, ndim), members.aligned(1, b, ndim))
