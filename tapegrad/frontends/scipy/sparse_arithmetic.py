"""scipy.sparse's arithmetic: products, sums, and elementwise operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as ss
from scipy.sparse._base import _spbase
from scipy.sparse._bsr import _bsr_base
from scipy.sparse._compressed import _cs_matrix
from scipy.sparse._coo import _coo_base
from scipy.sparse._csc import _csc_base
from scipy.sparse._dia import _dia_base

from tapegrad import ops
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.matrix import MatrixStandIn
from tapegrad.frontends.scipy.sparse import methods, note_zeros, ones, positions, stored, summed
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array, Axis
from tapegrad.ops.sparse import major_of, sparse_matmul, sparse_product
from tapegrad.rules.registry import means, refused, register
from tapegrad.tree.sparse import like

# -- products


def compressed(x: Any) -> tuple[Any, Any, Any, bool]:
    """Return the stored numbers, their indices, the offsets of rows or columns, and whether they are columns'."""
    if x.format == "coo" and x.ndim == 2:  # keeps the order of storage, in which SciPy sums
        rows, columns = x.coords
        order = np.argsort(rows, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=x.shape[0]))]).astype(rows.dtype)
        return stored(x.data, order + 1), columns[order], indptr, False
    x = x if x.format in ("csr", "csc") else x.tocsr()
    return x.data, x.indices, x.indptr, x.format == "csc"


def matmul(self: Any, other: Array) -> Any:
    """Return the product with a dense vector or matrix."""
    data, indices, indptr, transposed = compressed(self)
    y = sparse_matmul(data, indices, indptr, other, shape=self._shape_as_2d, **({"transposed": True} if transposed
                      else {}))
    return y[0] if self.ndim == 1 else y


def product(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function for the product of two sparse matrices, which stores every element that may differ from 0."""
    def multiply(self: Any, other: Array) -> Any:
        if self.ndim != 2 or other.ndim != 2:
            raise refused("a product of one-dimensional sparse arrays", "it has no derivative rule",
                          "use arrays of one row or column")
        found = fn(ones(self), ones(other))
        at = found if found.format in ("csr", "csc") else found.tocsr()
        (a, *a_places, ta), (b, *b_places, tb) = compressed(self), compressed(other)
        data = sparse_product(a, *a_places, b, *b_places, at.indices, at.indptr, shapes=(*self.shape, other.shape[1]),
                              transposed=(ta, tb, at.format == "csc"))
        return like(at, data).asformat(found.format)
    return multiply


_KINDS = (_cs_matrix, _coo_base, _dia_base, _bsr_base)
for _fn in methods(dict.fromkeys(_KINDS, "_matmul_vector _matmul_multivector")):
    register(_fn, matmul)
for _fn in methods(dict.fromkeys(_KINDS, "_matmul_sparse")):
    register(_fn, product(_fn))

# -- elementwise operations


def _at(x: Any, places: Any) -> Any:
    """Return the numbers that `x` stores at the stored elements of `places`; 0 where it stores none."""
    x = summed(x).asformat(places.format)
    major = major_of(places.indptr)
    index = (major, places.indices) if places.format == "csr" else (places.indices, major)
    return stored(x.data,
                  np.asarray(positions(x)[index[-places.ndim:]]).reshape(-1) if len(major) else np.zeros(0, int))


_BINARY: dict[str, Any] = {"_plus_": ops.add, "_minus_": ops.subtract, "_elmul_": ops.multiply,
                           "_maximum_": ops.maximum, "_minimum_": ops.minimum,
                           "_ne_": ops.not_equal, "_lt_": ops.less, "_gt_": ops.greater}


def _computed(places: Any, data: Array) -> Any:
    """Return a matrix with the stored elements of `places` and new numbers; False is not stored."""
    y = like(places, data)
    if dtype_of(data) == np.bool_:
        y.eliminate_zeros()
    return y


@means(*methods({_cs_matrix: "_scalar_binopt"}))
def beside_number(self: Any, other: Array, op: Any) -> Any:
    x = summed(self)
    return _computed(x, op(x.data, other))


@means(*methods({_cs_matrix: "_binopt"}))
def binary(self: Any, other: Array, op: str) -> Any:
    if op not in _BINARY:
        raise refused(f"{op.strip('_')} of two sparse matrices", "the positions of stored numbers depend on values",
                      "use A.toarray(), or A.data if both store numbers at the same positions")
    places = ones(self)._binopt(ones(other), "_elmul_" if op == "_elmul_" else "_plus_")
    y = _computed(places, _BINARY[op](_at(self, places), _at(other, places)))
    return note_zeros(y)


@means(*methods({_csc_base: "nonzero"}))
def nonzero(self: Any) -> Any:
    return self.tocsr().nonzero()  # in the order of SciPy's own


@means(*methods({_bsr_base: "_binopt"}))
def of_blocks(self: Any, other: Any, op: str, *shapes: Any) -> Any:
    return self.tocsr()._binopt(other.tocsr(), op).tobsr(self.blocksize)


@means(*methods({_cs_matrix: "_getnnz"}))
def count_of_stored(self: Any, axis: Axis = None) -> Any:
    if getattr(self, "_tapegrad_zeros", False):
        raise refused("A.nnz", "the result stores a 0 that SciPy would leave out", "A.count_nonzero()")
    return ones(self)._getnnz(axis)


@means(*methods({_dia_base: "multiply"}))
def multiply_diagonals(self: Any, other: Array) -> Any:
    if not ss.issparse(other) and not shape_of(plain(as_array(other))):
        return self._mul_scalar(other)
    return self.tocsr().multiply(other).asformat("dia")


def _total(fn: Any) -> None:
    @means(fn)
    def total(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        axis = static(axis)
        if self.ndim == 1 and axis in (None, 0, -1):
            return np.sum(self.data, dtype=dtype)
        if self.ndim != 2 or axis not in (None, 0, 1, -1, -2, (0,), (1,)) or out is not None:
            raise refused("this sum of a sparse array", "it has no derivative rule",
                          "A.sum(), A.sum(axis=0) or A.sum(axis=1)")
        x = self if self.format == "coo" else self.tocoo()
        if axis is None:
            return np.sum(x.data, dtype=dtype)
        kept = 1 - (axis[0] if isinstance(axis, tuple) else axis) % 2
        kind = np.sum(np.zeros(0, dtype_of(x.data))).dtype  # NumPy sums booleans and narrow integers in a wider dtype
        y = ops.scatter(ops.astype(x.data, dtype=kind), x.coords[kept], shape=(x.shape[kept],), ranks=(1,), dtype=kind)
        y = y if dtype is None else ops.astype(y, dtype=np.dtype(dtype))
        return y if isinstance(self, ss.sparray) else MatrixStandIn(ops.reshape(y, (-1, 1) if kept == 0 else (1, -1)))


for _fn in methods(dict.fromkeys((_spbase, _cs_matrix, _dia_base), "sum")):
    _total(_fn)


def _beside_dense(fn: Callable[..., Any], op: Any) -> None:
    @means(fn)
    def of_dense(self: Any, other: Array) -> Any:
        y = op(self.toarray(), as_array(other))
        return y if isinstance(self, ss.sparray) else MatrixStandIn(y)


for _names, _op in (("_add_dense", ops.add), ("_sub_dense", ops.subtract),
                    ("_rsub_dense", lambda x, other: ops.subtract(other, x))):
    for _fn in methods(dict.fromkeys((_spbase, _cs_matrix, _coo_base), _names)):
        _beside_dense(_fn, _op)
