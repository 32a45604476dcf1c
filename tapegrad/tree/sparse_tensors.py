"""sparse_tensors: torch's sparse tensors as containers: the stored numbers are one leaf, their positions are static."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.sparse_tensors import Form, is_sparse_tensor, put_together, taken_apart
from tapegrad.numbers.tensor_array import TensorArray, unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.tree.nodes import Container, Level


class Places:
    """The positions of a sparse tensor's numbers, as copies, since they may be written to."""

    __slots__ = ("form", "places", "stored")
    exact = True  # keys compare it by `==`, not by its repr

    def __init__(self, form: Form, places: tuple[Any, ...], stored: tuple[int, ...]) -> None:
        self.form, self.places, self.stored = form, tuple([place.detach().clone() for place in places]), stored

    def fit(self, values: Any) -> bool:
        """False unless `values` is a tensor of the stored shape (rows of a Jacobian and None are not)."""
        return is_tensor(values) and tuple(values.shape) == self.stored

    def around(self, parts: tuple[Any, ...]) -> Any:
        """Return a sparse tensor with these numbers; numbers that do not fit unchanged."""
        values, = parts
        return put_together(self.form, (*self.places, values)) if self.fit(values) else values

    def gradient(self, values: Any) -> Any:
        """Return the gradient by a sparse tensor, itself sparse; duplicate positions get one entry, as in torch."""
        if self.form.coalesced or not self.fit(values):
            return self.around((values,))
        places, at = torch.unique(self.places[0], dim=1, return_inverse=True)
        kept = torch.zeros(places.shape[1], dtype=torch.int64, device=at.device)
        kept[at] = torch.arange(len(at), device=at.device)
        return put_together(self.form._replace(coalesced=True), (places, values[kept]))

    def are_of(self, x: Any) -> bool:
        """True if a sparse tensor has these positions, in this order."""
        form, (*places, values) = taken_apart(x)
        return (self.form[:2] == form[:2] and self.stored == tuple(values.shape)
                and all(map(torch.equal, self.places, places)))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Places) and (self.form, self.stored) == (other.form, other.stored)
                and all(map(torch.equal, self.places, other.places)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (f"tensor of layout torch.{self.form.layout} and shape {self.form.size} with {self.stored[0]} numbers "
                "at its own positions")


class SparseTensor(Container):
    """A sparse tensor: its numbers are a child, and its positions are children if they are traced."""

    __slots__ = ("parts",)

    def __init__(self, x: Any) -> None:
        form, (*places, values) = taken_apart(x)
        traced = any(hasattr(type(place), "_tracer") for place in places)
        self.parts = [*((place, f"places[{i}]") for i, place in enumerate(places) if traced), (values, "values")]
        metadata, make = ((form, put_together) if traced
                          else (Places(form, tuple(places), tuple(values.shape)), Places.around))
        super().__init__(x, Level((), metadata, (), make))
        self.type = torch.Tensor

    def seed(self, value: Any) -> Any:
        """Return the numbers of a sparse cotangent; raise ArgumentError if its positions differ."""
        known, wrapped = self.metadata if isinstance(self.metadata, Places) else None, type(value) is TensorArray
        value = unwrap(value)
        if known is None or not is_sparse_tensor(value) or not known.are_of(value):
            raise ArgumentError("the seed of a sparse tensor with other indices, or with traced indices",
                                None, "return y.to_dense(), with a dense seed")
        values = taken_apart(value)[1][-1]
        return wrap(values) if wrapped else values

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.leafy:
            return None
        if not isinstance(self.metadata, Places):
            raise ArgumentError("a gradient by a sparse tensor whose indices are traced", None,
                                "differentiate by its values, and make the tensor in the function")
        return self.metadata.gradient(self.children[-1].mirror(leaves, memo))
