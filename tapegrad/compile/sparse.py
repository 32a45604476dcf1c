"""sparse_jacobian, sparse_hessian: derivatives with mostly zero entries, many columns in one sweep.

Columns without a common row get one colour and are swept together: the sum of such columns holds all their entries. The
entries and their positions are computed from a run of the function; a compiled function has both for the path that was
taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.jacobian import Columns, Derivative, Direction, Rows, Sweeps, asked_for, checked_mode
from tapegrad.compile.memo import anew, memoised
from tapegrad.errors import ArgumentError, user_location
from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.dtypes import INEXACT, letter
from tapegrad.numbers.formatting import plain
from tapegrad.numbers.lazy import needed, torch
from tapegrad.numbers.tensors import is_tensor
from tapegrad.rules.activity import has_gradient
from tapegrad.rules.op import Traced
from tapegrad.transforms.colouring import colours_of_columns, colours_of_symmetric
from tapegrad.transforms.forward import Push
from tapegrad.transforms.grad import gradient_of
from tapegrad.transforms.patterns import sparse
from tapegrad.transforms.sparsity import pattern_of, size_of
from tapegrad.tree.argnums import Argnums, Wanted
from tapegrad.tree.flatten import leaves_of

ROOM = 1 << 21  # bytes that the largest value may take for all columns that are swept at once: they stay in the cache


@memoised
def sparse_jacobian(
    f: Callable[..., Any], argnums: Argnums = 0, mode: Direction = "auto", chunk_size: int | None = None
) -> SparseDerivative:
    """Return a function of f's arguments that returns the derivative of its value by an argument, as a
    `scipy.sparse.csr_array`.

    It has a row for each number of the value and a column for each number of the argument; nested ones and several
    `argnums` are concatenated. The sparsity pattern is found on the tape, as by `jacobian_sparsity`. Columns without a
    common row are swept together, forwards, or rows backwards, as `mode` says; "auto" compares the most entries of a
    row and of a column. Frequent calls are compiled, with pattern and colours; a call that takes another path finds its
    own. `chunk_size` is that of `jacobian`. Raises ImportError without SciPy, ArgumentError for complex arguments, for
    another mode, and if the pattern is too large.

    >>> sparse_jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    return SparseDerivative(f, asked_for(argnums, "sparse_jacobian"), *checked_mode(mode, chunk_size), _numbers)


@memoised
def sparse_hessian(f: Callable[..., Any], argnums: Argnums = 0, chunk_size: int | None = None) -> SparseDerivative:
    """Return a function of f's arguments that returns the second derivatives of its value, a real number, as a
    `scipy.sparse.csr_array`.

    It is computed forward over reverse, as by `hessian`. Columns are swept together by a star colouring, which takes
    half of the entries from their mirror images. Rows, columns and errors are those of `sparse_jacobian`.

    >>> sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    asked = asked_for(argnums, "sparse_hessian")
    made = SparseDerivative(gradient_of(f, asked), asked, *checked_mode("forward", chunk_size), _symmetric)
    made.named(f, functools.partial(anew, sparse_hessian, f, argnums, chunk_size))
    return made


class SparseDerivative(Derivative):
    """A function of f's arguments that returns the derivative as a sparse array."""

    often, warmup = 1, 1  # finding a pattern and its colours mostly takes longer than compiling

    def __init__(
        self, f: Callable[..., Any], asked: Wanted, mode: str, chunk: int | None, made: Callable[[Sweeps], Any],
        *how: bool
    ) -> None:
        needed("scipy.sparse")
        super().__init__(f, asked, mode, chunk, made, *how)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, Traced) for x in leaves_of((args, kwargs, self._f))):
            raise ArgumentError(
                "a sparse derivative is returned as a SciPy array, which is not traced: it cannot be differentiated "
                "again",
                user_location(),
                "tg.jacobian, tg.hessian, tg.jvp or tg.hvp inside a traced function",
            )
        numbers, columns, starts, shape = super().__call__(*args, **kwargs)
        return sparse.csr_array(
            (numbers.detach().cpu().numpy() if is_tensor(numbers) else numbers, columns, starts), shape
        )


# -- the entries and their positions, the parts of a `csr_array`


def _numbers(sweeps: Sweeps) -> tuple[Any, Any, Any, tuple[int, int]]:
    pattern = pattern_of(sweeps.tape)
    rows, columns = _places(pattern)
    by_columns = _by_columns(sweeps, pattern)
    if by_columns:
        colours = colours_of_columns(pattern)
        found = _pushed(sweeps, colours)
        numbers = _read(found, colours[columns], rows)
    else:
        colours = colours_of_columns(pattern.T)
        found = _pulled(sweeps, colours)
        numbers = _read(found, colours[rows], columns)
    return numbers, pattern.indices, pattern.indptr, pattern.shape


def _symmetric(sweeps: Sweeps) -> tuple[Any, Any, Any, tuple[int, int]]:
    pattern = pattern_of(sweeps.tape)
    pattern = (pattern + pattern.T).tocsr()
    colours = colours_of_symmetric(pattern)
    rows, columns = _places(pattern)
    lower = np.minimum(colours[rows], colours[columns])
    numbers = _read(_pushed(sweeps, colours), lower, np.where(colours[rows] >= colours[columns], rows, columns))
    return numbers, pattern.indices, pattern.indptr, pattern.shape


def _places(pattern: Any) -> tuple[Any, Any]:
    """Return the rows and the columns of the entries, in memory order."""
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr)), pattern.indices


def _by_columns(sweeps: Sweeps, pattern: Any) -> bool:
    mode = sweeps.mode
    if mode != "auto" or any(map(ops.is_complex, sweeps.layout.leaves)):
        return mode != "reverse"
    along_rows, along_columns = (np.diff(each.indptr).max(initial=0) for each in (pattern, pattern.tocsc()))
    return bool(along_rows <= 2 * along_columns)  # a backward sweep takes longer


def _pushed(sweeps: Sweeps, colours: Any) -> Any:
    """Return the sum of the columns of each colour."""
    layout = sweeps.layout
    found = _swept(sweeps, Columns(layout, Push(sweeps.tape), layout.places), list(layout.inputs.values()), colours)
    kept = [k for k, y in enumerate(layout.leaves) if has_gradient(y)]
    return _side_by_side([found[k] for k in kept] if found else [], [layout.leaves[k] for k in kept], colours)


def _pulled(sweeps: Sweeps, colours: Any) -> Any:
    """Return the sum of the rows of each colour."""
    layout = sweeps.layout
    kept = [k for k, y in enumerate(layout.leaves) if has_gradient(y)]
    found = _swept(sweeps, Rows(layout, sweeps.tape, kept), [layout.leaves[k] for k in kept], colours)
    return _side_by_side(found, list(layout.inputs.values()), colours)


def _swept(sweeps: Sweeps, sweep: Callable[..., list[Any]], xs: Sequence[Any], colours: Any) -> list[Any]:
    """Return the results of a sweep for the seed of each colour, 1 at its numbers and 0 elsewhere, stacked."""
    starts = np.cumsum([0, *map(size_of, xs)])

    def rows(start: int, stop: int) -> list[Any]:
        here = colours == np.arange(start, stop)[:, None]
        return [_like(here[:, a:b].reshape(-1, *shape_of(x)), plain(x)) for x, a, b in zip(xs, starts, starts[1:])]

    count = int(colours.max(initial=-1)) + 1
    return sweeps.of_rows(
        sweep, count, rows, lambda: ([part[0] for part in rows(k, k + 1)] for k in range(count)), ROOM
    )


def _like(rows: Any, x: Any) -> Any:
    """Return rows of 0 and 1 in the kind of number of `x`."""
    dtype = dtype_of(x)
    if is_tensor(x):
        return torch.as_tensor(rows, dtype=x.dtype if dtype.kind in "fc" else torch.float64, device=x.device)
    return rows.astype(dtype if dtype is not None and letter(dtype) in INEXACT else float)


def _side_by_side(found: Sequence[Any], ys: Sequence[Any], colours: Any) -> Any:
    """Return the sweep results of each colour concatenated to one row, with zeros for absent derivatives."""
    count = int(colours.max(initial=-1)) + 1
    flat = [
        _like(np.zeros((count, size_of(y))), plain(y)) if part is None else ops.reshape(part, (count, size_of(y)))
        for part, y in zip(found or [None] * len(ys), ys)
    ]
    return flat[0] if len(flat) == 1 else ops.concat(*flat, axis=1)


def _read(found: Any, rows: Any, columns: Any) -> Any:
    """Return the entries at some rows and columns, by one flat index, which takes NumPy half the time."""
    count, width = shape_of(found)
    return ops.take(ops.reshape(found, (count * width,)), rows * width + columns)
