"""products: large products of matrices on a tape that may run beside each other, and how NumPy's code runs them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.compile.groups import Members, grouped_by, ungrouped
from tapegrad.numbers.parallel import quietly
from tapegrad.tape.spec import spec_of
from tapegrad.tape.tape import Operation, Tape

LARGE = 2e6  # flops from which a product waits for others: a twentieth of a millisecond
WORTH = 2e7  # flops, besides the heaviest product's, from which several threads are started: half a millisecond to one
THREADS_OF_BLAS = "scipy_openblas_get_num_threads64_"


def flops_of(op: Operation) -> int:
    """Return how many flops a product takes."""
    return 2 * op.spec.size * spec_of(op.args[0]).shape[-1] * (4 if op.spec.is_complex else 1)


def is_large(op: Operation) -> bool:
    """True for a product of arrays which takes long enough to run beside others."""
    return op.fn is ops.matmul and not op.kwargs and all(
        x.is_array and x.kind in "fc" and x.ndim > 1 for x in (op.spec, *map(spec_of, op.args))) \
        and flops_of(op) >= LARGE


def gain_by_threads(flops: Sequence[int]) -> bool:
    """True for products of so many flops that gain by several threads."""
    return sum(flops) - max(flops, default=0) >= WORTH


def beside_each_other(tape: Tape) -> Tape:
    """Return a tape on which large products stand together where none of them needs another's value."""
    large = {op: None for op in tape.ops if is_large(op)}
    if not gain_by_threads([flops_of(op) for op in large]):
        return tape
    return ungrouped(grouped_by(tape, Members(large, lambda arg, op: False, lambda op: False)))


def products(*pairs: tuple[Any, Any]) -> list[Any]:
    """Return the products of pairs of arrays, each computed whole by one of several threads.

    Where NumPy has anything to warn of, or to raise, they are made again one after the other.
    """
    if _threads_of_blas()() == 1:
        found: list[Any] = [None] * len(pairs)

        def product(k: int) -> None:
            found[k] = pairs[k][0] @ pairs[k][1]
        if quietly(product, len(pairs)):
            return found
    return [a @ b for a, b in pairs]


def blas(name: str) -> Any:
    """Return a function of the BLAS that NumPy brings along. Raises OSError or AttributeError where it has none."""
    return ctypes.CDLL(np._core._multiarray_umath.__file__)[name]  # type: ignore[attr-defined]


@cache
def _threads_of_blas() -> Any:
    """Return what says on how many threads BLAS computes one product; 0 where nobody knows."""
    try:
        return blas(THREADS_OF_BLAS)
    except (OSError, AttributeError):
        return int
