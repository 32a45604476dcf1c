"""functions: map, leaves and ravel, for arithmetic on nested parameters and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numbers.cotangents import dtype_of, shape_of
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.tensors import is_tensor
from tapegrad.tree.flatten import flatten, leaves_of


def map(fn: Callable[..., Any], x: Any, *others: Any) -> Any:
    """Return `fn(leaf, *leaves of others)` for each number, array or tensor of a nested `x`, nested as `x` is.

    The others are nested as `x` or as its gradient. A leaf for which another has None keeps its value. Raises
    ArgumentError for another nesting.

    >>> map(lambda p, g: p - 0.1 * g, {"w": [1.0, 2.0], "b": 3.0}, {"w": [10.0, None], "b": 20.0})
    {'w': [0.0, 2.0], 'b': 1.0}
    """
    found: list[Any] = []
    structure = flatten(x, "", found, [], shared=False)
    rows = zip(found, *[structure.unmirror(other) for other in others])
    return structure.build([row[0] if any(part is None for part in row) else fn(*row) for row in rows])


def leaves(x: Any) -> list[Any]:
    """Return the numbers, arrays and tensors of a nested structure; dicts in the order of their keys.

    >>> leaves({"a": [1.0, 2.0], "b": 3.0})
    [1.0, 2.0, 3.0]
    """
    return leaves_of(x)


def ravel(x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return the numbers of a nested structure as one vector, and a function that nests such a vector as `x`.

    >>> vector, unravel = ravel({"a": np.ones((2, 2)), "b": 3.0})
    >>> vector, unravel(2 * vector)
    (array([1., 1., 1., 1., 3.]), {'a': array([[2., 2.],
           [2., 2.]]), 'b': np.float64(6.0)})
    """
    found: list[Any] = []
    structure = flatten(x, "", found, [], shared=False)
    shapes = [shape_of(leaf) for leaf in found]
    dtypes = [dtype_of(leaf) for leaf in found]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes], dtype=int).tolist()

    def unravel(vector: Any) -> Any:
        """Return a vector nested as the structure, with its shapes and the dtypes of its arrays."""
        parts = []
        for shape, dtype, start, end in zip(shapes, dtypes, [0, *ends], ends):
            part = vector[start:end].reshape(shape) if shape else vector[start]
            parts.append(part.astype(dtype) if isinstance(part, np.ndarray) and dtype != part.dtype else part)
        return structure.build(parts)
    if any(is_tensor(leaf) for leaf in found):
        return torch.cat([torch.as_tensor(leaf).reshape(-1) for leaf in found]), unravel
    return np.concatenate([np.reshape(leaf, -1) for leaf in found]) if found else np.zeros(0), unravel
