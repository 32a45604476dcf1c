"""sparse: SciPy's sparse arrays and matrices as containers: the stored numbers are one leaf, the pattern is static."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tapegrad.numbers.lazy import needed, optree
from tapegrad.tree.nodes import NAMESPACE

FORMATS = ("csr", "csc", "coo", "dia", "bsr")


class Pattern:
    """The static part of a sparse matrix: its class, its shape, and the positions of its stored numbers.

    The positions are copies, since a matrix may be sorted or changed in place.
    """

    __slots__ = ("attributes", "cls", "stored")
    exact = True  # keys compare it by `==`, not by its repr

    def __init__(self, x: Any) -> None:
        self.cls, self.stored = type(x), tuple(x.data.shape)
        self.attributes = {name: _copied(part) for name, part in vars(x).items() if name != "data"
                           and not name.startswith("_tapegrad")}

    def fill(self, data: Any) -> Any:
        """Return a sparse matrix of this pattern around `data`; data of another shape (a Jacobian's, None) unchanged.
        """
        if getattr(data, "shape", None) != self.stored:
            return data
        new = object.__new__(self.cls)
        vars(new).update({name: _copied(part) for name, part in self.attributes.items()}, data=data)
        return new

    def places(self) -> list[Any]:
        """Return the arrays of the positions."""
        at = self.attributes
        return [*(at[name] for name in ("indptr", "indices", "offsets") if name in at), *at.get("coords", ())]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Pattern) and self.cls is other.cls
                and self.attributes["_shape"] == other.attributes["_shape"]
                and all(map(np.array_equal, self.places(), other.places())))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        stored = int(np.prod(self.stored))
        return f"{self.cls.__name__} of shape {self.attributes['_shape']} with {stored} numbers at its own positions"


def _copied(part: Any) -> Any:
    return tuple(map(_copied, part)) if type(part) is tuple else part.copy() if hasattr(part, "dtype") else part


def like(x: Any, data: Any) -> Any:
    """Return a sparse matrix with the class and pattern of `x` that stores other numbers."""
    pattern = Pattern(x)
    pattern.stored = tuple(data.shape)
    return pattern.fill(data)


def _take_apart(x: Any) -> Any:
    return (x.data,), Pattern(x)


def _put_together(pattern: Any, parts: Any) -> Any:
    return pattern.fill(*parts)


def is_sparse(x: Any) -> bool:
    """True for a SciPy sparse array or matrix."""
    if not str(type(x).__module__).startswith("scipy.sparse.") or not hasattr(x, "format"):
        return False
    _register()
    return True


@functools.cache
def _register() -> None:
    found = needed("scipy.sparse")
    for name in FORMATS:
        for kind in ("array", "matrix"):
            cls: Any = getattr(found, f"{name}_{kind}")
            optree.register_pytree_node(cls, _take_apart, _put_together, namespace=NAMESPACE)
