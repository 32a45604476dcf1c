"""stored: the types of products with sparse matrices, given by their stored numbers, and of filters along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.rules.types.family import Unknown, known, numeric, numerics, promoted
from tapegrad.rules.types.layout import array
from tapegrad.tape.spec import Spec


def sparse_matmul(data: Any, indices: Any, indptr: Any, x: Any, *, shape: Any, transposed: Any = False) -> Spec:
    """Return the type of a sparse matrix times a dense one."""
    specs = numerics((data, x))
    return array(promoted(*specs), (shape[0], *specs[1].shape[1:]), () if specs[1].ndim == 1 else None)


def sampled_matmul(a: Any, b: Any, indices: Any, indptr: Any, *, transposed: Any = False) -> Spec:
    """Return the type of a dense product evaluated at the stored entries of a sparse matrix."""
    return array(promoted(*numerics((a, b))), numeric(indices).shape[:1])


def sparse_product(a: Any, _ai: Any, _ap: Any, b: Any, _bi: Any, _bp: Any, indices: Any, indptr: Any, *, shapes: Any,
                   transposed: Any) -> Spec:
    """Return the type of a product of sparse matrices evaluated at the stored entries of a third."""
    return array(promoted(*numerics((a, b))), numeric(indices).shape[:1])


def sparse_solve(data: Any, indices: Any, indptr: Any, b: Any, *, trans: Any = "N") -> Spec:
    """Return the type of the solution of a sparse system."""
    specs = numerics((data, b))
    return array(np.result_type(promoted(*specs), np.float32), specs[1].shape, () if specs[1].ndim == 1 else None)


def convolved_arrays(x1: Any, x2: Any, mode: Any = "full", method: Any = "direct") -> Spec:
    """Return the type of a convolution of arrays of one rank."""
    specs = numerics((x1, x2))
    pairs = list(zip(specs[0].shape, specs[1].shape, strict=True))
    if mode == "full":
        shape = [n + m - 1 for n, m in pairs]
    elif mode == "same":
        shape = list(specs[0].shape)
    else:
        shape = [max(n, m) - min(n, m) + 1 for n, m in pairs]
    if not shape:
        raise Unknown("numbers are multiplied")
    return array(promoted(*specs), shape, () if len(shape) == 1 else None)


def filtered(x: Any, *_: Any, output: Any = None, **__: Any) -> Spec:
    """Return the type of an image filtered by a window of weights; `output` is the dtype if it differs."""
    spec = numeric(x)
    dtype = spec.dtype if output is None else np.dtype(output)
    dtype = np.promote_types(dtype, np.complex64) if spec.kind == "c" else dtype
    return array(dtype, spec.shape, () if spec.is_contiguous else None)


def filtered_by(b: Any, a: Any, x: Any, axis: Any = -1) -> Spec:
    """Return the type of a signal after a recursive filter."""
    specs = numerics((b, a, x))
    known(axis)
    return array(promoted(*specs), specs[2].shape, () if specs[2].ndim == 1 else None)
