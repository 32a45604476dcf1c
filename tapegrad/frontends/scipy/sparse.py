"""scipy.sparse: SciPy's own Python code runs on traced numbers; this file implements its methods that call C.

A sparse matrix in a trace is SciPy's, with a traced `data`. An operation that only moves numbers (a slice, another
format) is run on their positions instead, which shows where each number goes. The sparsity pattern does not depend on
values: a sum that is 0 is stored, and has a gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as ss
from scipy.sparse._base import _spbase
from scipy.sparse._bsr import _bsr_base
from scipy.sparse._compressed import _cs_matrix
from scipy.sparse._coo import _coo_base
from scipy.sparse._csc import _csc_base
from scipy.sparse._csr import _csr_base
from scipy.sparse._dia import _dia_base
from scipy.sparse._index import IndexMixin
from scipy.sparse._lil import _lil_base

from tapegrad import ops
from tapegrad.errors import MutationError, user_location
from tapegrad.frontends.common import as_array, static
from tapegrad.frontends.matrix import MatrixStandIn
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.kinds import Array
from tapegrad.ops.sparse import major_of
from tapegrad.rules.activity import carries_no_gradient
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import RUN_AS_PYTHON, constructs, leave, means, refuse, refused
from tapegrad.trace.call_arguments import guard_content
from tapegrad.trace.views import peek
from tapegrad.tree.copies import running
from tapegrad.tree.sparse import Pattern, like


def fixed(x: Any) -> Any:
    """Return indices as plain integers, also inside slices and tuples; traced ones are guarded."""
    if isinstance(x, slice):
        return slice(*map(fixed, (x.start, x.stop, x.step)))
    if isinstance(x, (tuple, list)):
        return type(x)(map(fixed, x))
    if not isinstance(x, Traced):
        return x
    if not shape_of(plain(x)):
        return static(x)
    return guard_content(x) if dtype_of(plain(x)).kind in "iu" and not x._tracer.independent(peek(x)) else np.array(x)  # type: ignore[attr-defined]


def integers(x: Any) -> Any:
    """Return the indices of a new matrix, floats cut to integers as by SciPy."""
    if isinstance(x, (tuple, list)):
        return type(x)(map(integers, x))
    return ops.astype(x, dtype=np.dtype(int)) if isinstance(x, Traced) and dtype_of(plain(x)).kind == "f" else x


def positions(x: Any, start: int = 1) -> Any:
    """Return a copy of a matrix that stores each number's position, counted from `start`, instead of the number."""
    return like(x, numbered(shape_of(x.data), start))


def numbered(shape: tuple[int, ...], start: int = 1) -> Any:
    """Return an array of positions, counted from `start`."""
    return np.arange(start, start + math.prod(shape)).reshape(shape)


def ones(x: Any) -> Any:
    """Return a plain matrix with the sparsity pattern of `x` that stores ones."""
    return like(x, np.ones(shape_of(x.data)))


def stored(data: Array, at: Any) -> Any:
    """Return the numbers at these positions, 0 at position 0."""
    flat, wanted = data if len(shape_of(data)) == 1 else ops.reshape(data, (-1,)), at > 0
    if wanted.all():
        return ops.take(flat, at - 1, axis=0)
    where = np.nonzero(wanted)
    numbers = ops.take(flat, at[where] - 1, axis=0)
    return ops.scatter(numbers, *where, shape=at.shape, ranks=(at.ndim,), dtype=dtype_of(data))


def placed(found: Any, data: Array, given: Any = None) -> Any:
    """Return the matrix, array or number in which each position in `found` is replaced by the number at it. Where
    `found` shares memory with the positions `given`, the result is a view of `data`.
    """
    if ss.issparse(found):
        return like(found, handed_on(data, found.data, given))
    at = np.asarray(found)
    return stored(data, at) if at.ndim else stored(data, at[None])[0]


def handed_on(data: Array, at: Any, given: Any) -> Any:
    """Return the numbers at positions; a view of `data` if `at` is a view of the positions `given`."""
    if given is None or not np.shares_memory(at, given):
        return stored(data, at)
    if at.size == given.size:
        return data if at.shape == given.shape else ops.reshape(data, at.shape)
    start = at.flat[0] - given.flat[0]
    return data[start: start + at.size] if np.array_equal(at, given[start: start + at.size]) else stored(data, at)


def note_zeros(y: Any) -> Any:
    """Note in a matrix whether it stores a 0 that SciPy would leave out: its number of stored elements is refused."""
    y._tapegrad_zeros = not np.all(plain(y.data))
    return y


def summed(x: Any) -> Any:
    """Return a matrix without duplicate entries: their numbers are summed."""
    if x.format in ("csr", "csc", "bsr") and positions(x).has_canonical_format:
        return x
    if x.format in ("dia", "bsr"):
        return x
    keys = np.stack(x.coords if x.format == "coo" else (major_of(x.indptr), x.indices))
    unique, group = np.unique(keys, axis=1, return_inverse=True)
    if unique.shape == keys.shape:
        return x
    data = ops.scatter(x.data, group.reshape(-1), shape=(unique.shape[1],), ranks=(1,), dtype=dtype_of(x.data))
    new = like(x, data)
    if x.format == "coo":
        new.coords = tuple(part.astype(x.coords[0].dtype) for part in unique)
    else:
        counts = np.bincount(unique[0], minlength=len(x.indptr) - 1)
        new.indptr = np.concatenate([[0], np.cumsum(counts)]).astype(x.indptr.dtype)
        new.indices = unique[1].astype(x.indices.dtype)
    new.has_canonical_format = True
    return new


def methods(names: dict[Any, str]) -> list[Any]:
    """Return those of the classes' methods with these names that this version of SciPy has."""
    return [vars(cls)[name] for cls, several in names.items() for name in several.split() if name in vars(cls)]


_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_count = itertools.count(1)


def number_of(tracer: Any) -> int:
    """Return the number of a trace, which marks the matrices that are made in it."""
    return _numbers.setdefault(tracer, next(_count))


# -- constructors from numbers and indices


def _constructor(cls: Any, places: int) -> None:
    make = cls.__init__

    @means(make)
    def init(self: Any, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, **how: Any) -> None:
        shape = None if shape is None else fixed(shape)
        if ss.issparse(arg1):
            found = arg1.asformat(self.format, copy=copy)
        elif type(arg1) is tuple and len(arg1) == 2 and places == 3:
            found = self._coo_container(arg1, shape=shape).asformat(self.format)
        elif type(arg1) is tuple:
            data = as_array(arg1[0])
            given = numbered(shape_of(data))
            make(self, (given, *fixed(integers(arg1[1:]))), shape, copy=copy, **how)
            self.data = handed_on(data, self.data, given)
            return _as_dtype(self, dtype)
        else:
            x = as_array(arg1)
            x = ops.reshape(x, (1, -1)) if len(shape_of(x)) == 1 and not issubclass(type(self), ss.sparray) else x
            full = ss.coo_array(np.ones(shape_of(x)))
            found = self._coo_container((x[full.coords], full.coords), shape=shape_of(x)).asformat(self.format)
        vars(self).update(vars(like(found, found.data)))
        return _as_dtype(self, dtype)

    constructs(make)(_made_here)


def _made_here(tracer: Any, fn: Callable[..., Any], self: Any, *args: Any, **kwargs: Any) -> None:
    fn(self, *args, **kwargs)
    self._tapegrad_made = number_of(tracer)


def _as_dtype(x: Any, dtype: Any) -> None:
    if dtype is not None and dtype_of(x.data) != np.dtype(dtype):
        x.data = ops.astype(x.data, dtype=np.dtype(dtype))


for _cls, _places in ((_cs_matrix, 3), (_coo_base, 2), (_dia_base, 2), (_bsr_base, 3)):
    _constructor(_cls, _places)

# -- methods that move numbers


def _moving(fn: Any, sums: bool = False) -> None:
    """Register a method that moves numbers; with `sums` it may add up those that meet."""
    @means(fn)
    def move(self: Any, *args: Any, **kwargs: Any) -> Any:
        if fn.__name__ == "toarray" and (kwargs.get("out") is not None or any(part is not None for part in args[1:])):
            raise refused("A.toarray with out=", "it would write into an array that is not traced",
                          "out[...] = A.toarray()")
        args, kwargs = fixed(args), {key: fixed(arg) for key, arg in kwargs.items()}
        x = summed(self) if sums and _adds(fn(ones(self), *args, **kwargs)) else self
        probe = positions(x)
        y = placed(fn(probe, *args, **kwargs), x.data, probe.data)
        if self.format == "dia" and ss.issparse(y):
            note_zeros(y)
        return y


def _adds(found: Any) -> bool:
    """True if `found`, a result computed from ones, holds a sum of several."""
    return bool(np.any((found.data if ss.issparse(found) else np.asarray(found)) > 1))


def _changing(fn: Any) -> None:
    """Register a method that changes a matrix's sparsity pattern in place."""
    @means(fn)
    def change(self: Any, *args: Any) -> None:
        x = summed(self) if fn.__name__ == "sum_duplicates" else self
        probe, before = positions(x), positions(x).data
        fn(probe, *fixed(args))
        data = self.data if x is self and np.array_equal(probe.data, before) else stored(x.data, probe.data)
        vars(self).update(vars(like(probe, data)))


MOVED = {_cs_matrix: "tocoo", _csr_base: "tocsc", _csc_base: "tocsr", _coo_base: "transpose reshape",
         _dia_base: "tocsr transpose",
         _bsr_base: "tocoo tocsr tocsc transpose"}
SUMMED = {_spbase: "reshape", _cs_matrix: "toarray diagonal", _csr_base: "tobsr _getrow _getcol",
          _csc_base: "_getrow _getcol",
          IndexMixin: "__getitem__", _dia_base: "diagonal",
          _bsr_base: "diagonal", _coo_base: "toarray tocsr tocsc todia diagonal __getitem__"}
CHANGED = {_cs_matrix: "sum_duplicates sort_indices resize", _coo_base: "sum_duplicates resize"}
for _fn in methods(MOVED):
    _moving(_fn)
for _fn in methods(SUMMED):
    _moving(_fn, sums=True)
for _fn in methods(CHANGED):
    _changing(_fn)


def write(fn: Any, self: Any, values: Any, shape: tuple[int, ...], *key: Any) -> None:
    """Write numbers into a matrix. `fn` writes their positions, counted on from those of the stored numbers, which
    shows where each goes. Raises MutationError for a matrix that the program has not made.
    """
    traced: Any = self.data if isinstance(self.data, Traced) else None
    tracer = running.tracers[-1]
    if traced._tracer is not tracer if traced is not None else getattr(self, "_tapegrad_made", 0) != number_of(tracer):
        raise MutationError("a traced value is written into a sparse matrix that the trace does not own",
                            user_location(), "A.copy() in the function")
    def put(matrix: Any, new: Any) -> None:
        # a list of lists: SciPy warns that csr matrices change their pattern slowly
        there = matrix.tolil() if hasattr(self, "_tapegrad_lists") else matrix
        fn(there, *key, new[()])
        vars(matrix).update(vars(matrix if there is matrix else there.tocsr()))
    trial = ones(self)
    put(trial, np.zeros(shape))
    x = summed(self) if _adds(trial) else self
    n = math.prod(shape_of(x.data))
    values = values.toarray() if ss.issparse(values) else as_array(values)
    probe = positions(x)
    put(probe, numbered(shape, n + 1))
    alike = [n for n in shape_of(values) if n != 1] == [n for n in shape if n != 1]  # equal up to axes of length 1
    spread = (ops.reshape if alike else ops.broadcast_to)(values, shape) if shape_of(values) != shape else values
    kind = dtype_of(self.data)
    spread = ops.astype(spread, dtype=kind) if dtype_of(spread) != kind else spread
    both = ops.concat(ops.reshape(x.data, (-1,)), ops.reshape(spread, (-1,)), axis=0)
    there = probe.data > n
    if (x is self and traced is not None and Pattern(probe) == Pattern(x)
        and not (probe.data != positions(x).data)[~there].any()):
        # the pattern is unchanged: write in place, so that matrices that share the memory see it
        traced[there] = both[probe.data[there] - 1]
    else:
        vars(self).update(vars(placed(probe, both)))


_LISTS = "it stores numbers one by one, in lists or a dict"
_MADE = "coo_array((numbers, (rows, columns)), shape), of arrays or lists; numbers at the same place add up"


def of_rows(self: Any) -> None:
    """Turn a matrix of lists into one of compressed rows, into which traced numbers can be written."""
    made, kind = getattr(self, "_tapegrad_made", 0), ss.csr_array if isinstance(self, ss.sparray) else ss.csr_matrix
    if made != number_of(running.tracers[-1]) or self.format == "dok":
        outside = " from outside the function" * (self.format == "lil")
        raise refused(f"a traced number in a {self.format}_array{outside}", _LISTS, _MADE)
    found = vars(self.tocsr())
    self.__class__ = kind
    vars(self).clear()
    vars(self).update(found, _tapegrad_made=made, _tapegrad_lists=True)


constructs(_lil_base.__init__, interposed=True)(_made_here)


def _setting(fn: Callable[..., Any]) -> None:
    @means(fn)
    def setitem(self: Any, key: Any, x: Array) -> None:
        if self.format in ("dok", "lil"):
            of_rows(self)
            self[key] = x
            return
        key = fixed(key)
        part = ones(self)[key]
        write(lambda probe, new: fn(probe, key, new), self, x, part.shape if self.ndim == 2 else np.shape(part))


for _fn in methods(dict.fromkeys((IndexMixin, _lil_base, _coo_base), "__setitem__")):
    _setting(_fn)


@means(*methods(dict.fromkeys((_cs_matrix, _coo_base), "_setdiag")))
def setdiag(self: Any, values: Array, k: int) -> None:
    k = static(k)
    length = len(ones(self).diagonal(k))
    values = as_array(values)
    if len(shape_of(values)):
        length = min(length, shape_of(values)[0])
        values = values[:length]
    fn = type(self)._setdiag
    write(lambda probe, new: fn(probe, new, k), self, values, (length,))


@means(*methods(dict.fromkeys((_cs_matrix, _coo_base, _bsr_base), "eliminate_zeros")))
def eliminate_zeros(self: Any) -> None:
    if not isinstance(self.data, Traced) or not carries_no_gradient(peek(self.data)):
        if not np.all(np.any(self.data != 0, axis=tuple(range(1, np.ndim(self.data))))):  # a block counts as a whole
            raise refused("eliminate_zeros", "an element that is 0 may have a gradient",
                          "use the matrix as it is: stored zeros do not change results")
        return
    x = like(self, np.array(self.data))
    x.eliminate_zeros()
    vars(self).update(vars(x))


def _joining(fn: Callable[..., Any]) -> None:
    """Register a function that joins blocks, given in a list or in rows."""
    @means(fn)
    def join(blocks: Any, *args: Any, **kwargs: Any) -> Any:
        def each(blocks: Any, of: Callable[[Any], Any]) -> list[Any]:
            return [x and each(x, of) if x is None or isinstance(x, (list, tuple))
                    else of(x if ss.issparse(x) else ss.coo_array(x)) for x in blocks]
        sums, datas = _adds(fn(each(blocks, ones), *args, **kwargs)), [np.zeros(1)[:0]]

        def part(x: Any) -> Any:
            x = summed(x) if sums else x
            datas.append(ops.reshape(x.data, (-1,)))
            return positions(x, 1 + sum(shape_of(data)[0] for data in datas[:-1]))
        found = fn(each(blocks, part), *args, **kwargs)
        kind = np.result_type(*map(dtype_of, datas[1:]))
        alike = [x if dtype_of(x) == kind else ops.astype(x, dtype=kind) for x in datas[1:]]
        return placed(found, ops.concat(*alike, axis=0))


for _fn in (ss.hstack, ss.vstack, ss.bmat, ss.block_array):
    _joining(_fn)


@means(ss.spmatrix.todense)
def todense(self: Any, order: Any = None, out: Array | None = None) -> Any:
    return MatrixStandIn(self.toarray(order, out))


refuse(_csr_base.tolil, _spbase.tolil, why=_LISTS, try_=_MADE)

CLASSES = "bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix csr_array csr_matrix dia_array dia_matrix"
MAKERS = ("block_diag diags diags_array expand_dims find kron kronsum matrix_transpose permute_dims spdiags swapaxes "
          "tril triu")
LEFT = {"get_index_dtype safely_cast_index_arrays issparse isspmatrix isspmatrix_bsr isspmatrix_coo isspmatrix_csc "
        "isspmatrix_csr isspmatrix_dia isspmatrix_dok isspmatrix_lil": "tests the type of an object",
        "eye eye_array identity rand random random_array": "takes sizes, and returns plain matrices",
        "dok_array dok_matrix lil_array lil_matrix": _LISTS, "load_npz save_npz": "files",
        "SparseWarning SparseEfficiencyWarning sparray spmatrix": "abstract and warning classes"}
RUN_AS_PYTHON.update(getattr(ss, name) for name in f"{CLASSES} {MAKERS}".split() if hasattr(ss, name))
for _names, _why in LEFT.items():
    leave(*(getattr(ss, name) for name in _names.split() if hasattr(ss, name)), why=_why)
