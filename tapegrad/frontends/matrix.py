"""matrix: the stand-in for an np.matrix of traced numbers, which sums of SciPy's sparse matrices return."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad import ops
from tapegrad.numbers.cotangents import shape_of
from tapegrad.numbers.lazy import optree
from tapegrad.numbers.systems import OPERATORS
from tapegrad.rules.op import Traced
from tapegrad.rules.registry import refused
from tapegrad.tree.nodes import NAMESPACE


class MatrixStandIn:
    """A stand-in for an np.matrix of traced numbers. It gives its array by `np.asarray(m)`, `m.A` or `m.A1` and refuses
    all else, because the operators of a matrix differ from an array's. A traced function returns it as an np.matrix.
    """

    __slots__ = ("A",)

    def __init__(self, array: Any) -> None:
        _registered()
        self.A = array

    @property
    def A1(self) -> Any:
        """The numbers as a flat array, row by row."""
        return ops.reshape(self.A, (-1,))

    @property
    def T(self) -> MatrixStandIn:
        """The transpose."""
        return MatrixStandIn(ops.permute_dims(self.A))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return shape_of(self.A)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise _refusal(name)


def _refusal(name: str) -> Exception:
    return refused(f"{name} of an np.matrix", "its operators differ from those of an array",
                   "use np.asarray(m); or a sparse array, csr_array in place of csr_matrix")


def _refusing(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *others: Any, **kwargs: Any) -> Any:
        raise _refusal(name)
    return refuse


_ASKED = ("array array_ufunc array_function getitem setitem iter len contains matmul rmatmul "
          "eq ne lt le gt ge bool float complex int index")
for _name in (*OPERATORS, *(f"__{name}__" for name in _ASKED.split())):
    setattr(MatrixStandIn, _name, _refusing(_name))


def _parts(m: Any) -> Any:
    return (m.A,), None


def _matrix(_: Any, parts: Any) -> Any:
    array, = parts
    is_plain = isinstance(array, np.ndarray) and not isinstance(array, Traced)
    return array.view(np.matrix) if is_plain else MatrixStandIn(array)


@functools.cache
def _registered() -> None:
    """Register the class with optree, once the first instance is made."""
    plain: Any = MatrixStandIn
    optree.register_pytree_node(plain, _parts, _matrix, namespace=NAMESPACE)
