"""Products with sparse matrices, and systems of equations, from the stored numbers and their positions.

A matrix is `data, indices, indptr`, rows compressed as in SciPy's csr, or columns where it is `transposed`. The shape
is that of the matrix. Each rule consists of these ops again: the cotangent of `data` is the product of two dense arrays
at the positions of the matrix alone.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import ZERO, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Cotangent
from tapegrad.numbers.lazy import Lazy, torch
from tapegrad.numbers.tensors import device_of, on_host, to_tensor
from tapegrad.ops.elementwise import conj
from tapegrad.ops.shape import permute_dims, reshape
from tapegrad.rules import types
from tapegrad.rules.facts import AUTOGRAD, EACH, FRESH, RAISES, Joint
from tapegrad.rules.registry import define

ss: Any = Lazy("scipy.sparse")
ssl: Any = Lazy("scipy.sparse.linalg")

Shape = tuple[int, int]


def matrix(data: Array, indices: Array, indptr: Any, shape: Shape, transposed: bool = False) -> Any:
    """Return SciPy's array of the stored numbers."""
    return (ss.csc_array if transposed else ss.csr_array)((data, indices, indptr), shape=shape)


def major_of(indptr: Any) -> Any:
    """Return the row of each stored number, or its column where columns are compressed."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


# -- on torch: in its own sparse layout, where all are tensors of a kind that it multiplies


@functools.cache
def _has_warned() -> None:
    """Trigger torch's only warning that compressed layouts are in beta, and suppress it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.eye(1).to_sparse_csr()


def _tensors(xs: Sequence[Array], places: Sequence[Array]) -> tuple[Any, ...] | None:
    """Return numbers and positions as tensors, the numbers in one dtype; None where torch has no product of these."""
    device = device_of(xs)
    moved = [to_tensor(x, device) for x in xs]
    dtype = functools.reduce(torch.promote_types, [x.dtype for x in moved])
    if dtype.itemsize < 4 or not (dtype.is_floating_point or dtype.is_complex) or not all(x.numel() for x in moved):
        return None
    _has_warned()
    return (*[x.to(dtype) for x in moved], *[to_tensor(place, device) for place in places])


def _torch_matmul(data: Array, indices: Array, indptr: Any, x: Array, *, shape: Shape, transposed: bool = False) -> Any:
    found = _tensors((data, x), (indices, indptr))
    if found is None:
        return on_host(_matmul)(data, indices, indptr, x, shape=shape, transposed=transposed)
    data, x, indices, indptr = found
    layout = torch.sparse_csc if transposed else torch.sparse_csr
    return torch.sparse_compressed_tensor(indptr, indices, data, shape, layout=layout, check_invariants=False) @ x


def _torch_sampled(a: Array, b: Array, indices: Array, indptr: Any, *, transposed: bool = False) -> Any:
    found = _tensors((a, b), (indices, indptr))
    if found is None:
        return on_host(_sampled)(a, b, indices, indptr, transposed=transposed)
    a, b, indices, indptr = found
    (major, minor), counts = (b, a) if transposed else (a, b), indptr.diff()
    y = torch.repeat_interleave(major, counts, 0, output_size=len(indices)) * minor[indices]
    return y if a.ndim == 1 else y.sum(1)


# -- a sparse matrix times a dense one


def _matmul(data: Array, indices: Array, indptr: Any, x: Array, *, shape: Shape, transposed: bool = False) -> Any:
    return matrix(data, indices, indptr, shape, transposed) @ x


def _matmul_by_data(dy: Cotangent, _y: Array, _data: Any, indices: Array, indptr: Any, x: Array, *, shape: Shape,
                    transposed: bool = False) -> Any:
    return sampled_matmul(dy, conj(x), indices, indptr, transposed=transposed)


def _matmul_by_x(dy: Cotangent, _y: Array, data: Array, indices: Array, indptr: Any, _x: Array, *, shape: Shape,
                 transposed: bool = False) -> Any:
    return sparse_matmul(conj(data), indices, indptr, dy, shape=shape[::-1], transposed=not transposed)


def _columns(members: Any, *args: Any, **kwargs: Any) -> Any:
    """Batch an op whose last argument is a vector, or columns: those of the members are put side by side."""
    at, x = len(args) - 1, args[-1]
    if not members.only(at):
        return NotImplemented
    if members.ndim(at) == 1:
        return permute_dims(members.op.run(*args[:-1], permute_dims(x, axes=(1, 0)), **kwargs), axes=(1, 0))
    n, k = members.shape(at)
    wide = reshape(permute_dims(x, axes=(1, 0, 2)), (n, members.size * k))
    y = members.op.run(*args[:-1], wide, **kwargs)
    return permute_dims(reshape(y, (shape_of(y)[0], members.size, k)), axes=(1, 0, 2))


sparse_matmul = define("sparse_matmul", _matmul, (_matmul_by_data, None, None, _matmul_by_x), tangent=EACH,
                       torch=_torch_matmul, effects=AUTOGRAD, batch=_columns, memory=FRESH, spec=types.sparse_matmul)


# -- a dense matrix times the transpose of another, at the places of a sparse one: sum_k a[i, k] b[j, k]


def _sampled(a: Array, b: Array, indices: Array, indptr: Any, *, transposed: bool = False) -> Any:
    (major, minor), counts = (b, a) if transposed else (a, b), np.diff(indptr)
    if a.ndim == 1:
        return np.repeat(major, counts) * minor[indices]
    y = np.zeros(len(indices), np.result_type(a, b))
    for k in range(a.shape[1]):  # column by column, to avoid arrays of all products
        y += np.repeat(major[:, k], counts) * minor[indices, k]
    return y


def _of_dense(y: Array, indices: Array, indptr: Any, x: Array, n: int, transposed: bool) -> Any:
    """Return the product of the matrix with these numbers and n rows, and a dense one."""
    return sparse_matmul(y, indices, indptr, conj(x), shape=(n, shape_of(x)[0]), transposed=transposed)


sampled_matmul = define("sampled_matmul", _sampled, (
    lambda dy, _y, a, b, indices, indptr, *, transposed=False: _of_dense(dy, indices, indptr, b, shape_of(a)[0],
                                                                         transposed),
    lambda dy, _y, a, b, indices, indptr, *, transposed=False: _of_dense(dy, indices, indptr, a, shape_of(b)[0],
                                                                         not transposed),
    None, None), tangent=EACH, torch=_torch_sampled, effects=AUTOGRAD, batch=False, memory=FRESH,
                        spec=types.sampled_matmul)


# -- a sparse matrix times a sparse one, at the places of a third


def _product(a: Array, a_indices: Any, a_indptr: Any, b: Array, b_indices: Any, b_indptr: Any, indices: Array,
             indptr: Any, *, shapes: tuple[int, int, int], transposed: tuple[bool, bool, bool]) -> Any:
    m, k, n = shapes
    left = matrix(a, a_indices, a_indptr, (m, k), transposed[0])
    right = matrix(b, b_indices, b_indptr, (k, n), transposed[1])
    y, major = (left @ right).tocsr(), major_of(indptr)
    y.sum_duplicates()
    rows, columns = (indices, major) if transposed[2] else (major, indices)
    return np.asarray(y[rows, columns]).reshape(-1) if len(rows) else np.zeros(0, y.dtype)


def _by_left(dy: Cotangent, _y: Any, a: Any, a_indices: Any, a_indptr: Any, b: Any, b_indices: Any, b_indptr: Any,
             indices: Any, indptr: Any, *, shapes: tuple[int, int, int], transposed: tuple[bool, bool, bool]) -> Any:
    (m, k, n), (ta, tb, ty) = shapes, transposed
    return sparse_product(dy, indices, indptr, conj(b), b_indices, b_indptr, a_indices, a_indptr, shapes=(m, n, k),
                          transposed=(ty, not tb, ta))


def _by_right(dy: Cotangent, _y: Any, a: Any, a_indices: Any, a_indptr: Any, b: Any, b_indices: Any, b_indptr: Any,
              indices: Any, indptr: Any, *, shapes: tuple[int, int, int], transposed: tuple[bool, bool, bool]) -> Any:
    (m, k, n), (ta, tb, ty) = shapes, transposed
    return sparse_product(conj(a), a_indices, a_indptr, dy, indices, indptr, b_indices, b_indptr, shapes=(k, m, n),
                          transposed=(not ta, ty, tb))


sparse_product = define("sparse_product", _product, (_by_left, None, None, _by_right, None, None, None, None),
                        tangent=EACH, torch=on_host(_product), batch=False, memory=FRESH, spec=types.sparse_product)


# -- a sparse system of equations


def _factors(*stored: Any) -> Any:
    """Return the `splu` factors of the matrix with these columns. A thread keeps those of the last two matrices,
    because the sweep solves by the factors of the program.
    """
    # kept on the function, which an exported module has too
    here = vars(_factors).setdefault("threads", threading.local())
    known = getattr(here, "known", [])
    for *then, factors in known:
        if stored[0].dtype == then[0].dtype and all(map(np.array_equal, stored, then)):
            return factors
    n = len(stored[2]) - 1
    factors = ssl.splu(ss.csc_array(stored, shape=(n, n), copy=True))
    here.known = [*known[-1:], (*(part.copy() for part in stored), factors)]
    return factors


_ADJOINT = {"N": "H", "H": "N"}


def _solve(data: Any, indices: Any, indptr: Any, b: Any, *, trans: str = "N") -> Any:
    kind = np.result_type(data, b, np.float32)
    return _factors(data.astype(kind), indices, indptr).solve(b.astype(kind), trans)


def _solve_adjoint(dy: Cotangent, data: Array, indices: Array, indptr: Any, trans: str) -> Any:
    if trans == "T":
        return conj(sparse_solve(data, indices, indptr, conj(dy)))
    return sparse_solve(data, indices, indptr, dy, trans=_ADJOINT[trans])


def _solve_vjp(y: Array, data: Array, indices: Array, indptr: Any, b: Array, *, trans: str = "N") -> Any:
    def sparse_solve_pullback(dy: Cotangent) -> tuple[Any, ...]:
        w = _solve_adjoint(dy, data, indices, indptr, trans)
        left, right = {"N": (w, conj(y)), "T": (conj(y), w), "H": (y, conj(w))}[trans]
        return -sampled_matmul(left, right, indices, indptr, transposed=True), ZERO, ZERO, w
    return sparse_solve_pullback


def _solve_tangent(ts: Any, y: Array, data: Array, indices: Array, indptr: Any, b: Array, *, trans: str = "N") -> Any:
    ddata, _, _, db = ts
    if ddata is not None:
        n = len(plain(indptr)) - 1
        moved = sparse_matmul(conj(ddata) if trans == "H" else ddata, indices, indptr, y, shape=(n, n),
                              transposed=trans == "N")
        db = -moved if db is None else db - moved
    return sparse_solve(data, indices, indptr, db, trans=trans)


# solves with the matrix of these columns (trans "N"), with its transpose ("T"), or with its adjoint ("H")
sparse_solve = define("sparse_solve", _solve, rule=Joint(_solve_vjp), tangent=_solve_tangent, effects=RAISES,
                      torch=on_host(_solve),
                      batch=_columns, memory=FRESH, spec=types.sparse_solve)

