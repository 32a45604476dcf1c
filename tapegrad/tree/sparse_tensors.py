"""torch's sparse tensors as containers: what they store is one leaf, where it stands is static."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.numbers.lazy import torch
from tapegrad.numbers.sparse_tensors import Form, is_sparse_tensor, put_together, taken_apart
from tapegrad.numbers.tensor_array import TensorArray, unwrap, wrap
from tapegrad.numbers.tensors import is_tensor
from tapegrad.tree.nodes import Container, Level


class Places:
    """Where the numbers of a sparse tensor stand, in copies: they may be written to."""

    __slots__ = ("form", "places", "stored")
    exact = True  # it is compared by all that it holds

    def __init__(self, form: Form, places: tuple[Any, ...], stored: tuple[int, ...]) -> None:
        self.form, self.places, self.stored = form, tuple([place.detach().clone() for place in places]), stored

    def fit(self, values: Any) -> bool:
        """False for what is no tensor of as many numbers: the rows of a Jacobian, say, or None."""
        return is_tensor(values) and tuple(values.shape) == self.stored

    def around(self, parts: tuple[Any, ...]) -> Any:
        """Return a sparse tensor of these numbers; what does not fit, as it is."""
        values, = parts
        return put_together(self.form, (*self.places, values)) if self.fit(values) else values

    def gradient(self, values: Any) -> Any:
        """Return a gradient by a sparse tensor, sparse too: numbers at one place have one, as in torch."""
        if self.form.coalesced or not self.fit(values):
            return self.around((values,))
        places, at = torch.unique(self.places[0], dim=1, return_inverse=True)
        kept = torch.zeros(places.shape[1], dtype=torch.int64, device=at.device)
        kept[at] = torch.arange(len(at), device=at.device)
        return put_together(self.form._replace(coalesced=True), (places, values[kept]))

    def are_of(self, x: Any) -> bool:
        """True for the places of a sparse tensor, in their order."""
        form, (*places, values) = taken_apart(x)
        return (self.form[:2] == form[:2] and self.stored == tuple(values.shape)
                and all(map(torch.equal, self.places, places)))

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Places) and (self.form, self.stored) == (other.form, other.stored)
                and all(map(torch.equal, self.places, other.places)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (f"tensor of layout torch.{self.form.layout} and shape {self.form.size} with {self.stored[0]} numbers "
                "in places of its own")


class SparseTensor(Container):
    """A sparse tensor: its numbers are a part, and where they stand is another where that is traced."""

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
        """Return the numbers of a cotangent; raise ArgumentError where they stand elsewhere."""
        known, wrapped = self.metadata if isinstance(self.metadata, Places) else None, type(value) is TensorArray
        value = unwrap(value)
        if known is None or not is_sparse_tensor(value) or not known.are_of(value):
            raise ArgumentError("the seed of a sparse tensor that stands in other places, or in places that are traced",
                                None, "to return y.to_dense(), with a dense seed")
        values = taken_apart(value)[1][-1]
        return wrap(values) if wrapped else values

    def mirror(self, leaves: list[Any], memo: dict[int, Any]) -> Any:
        if not self.leafy:
            return None
        if not isinstance(self.metadata, Places):
            raise ArgumentError("a gradient by a sparse tensor whose places are traced", None,
                                "the gradient by its values, of which the tensor is made in the function")
        return self.metadata.gradient(self.children[-1].mirror(leaves, memo))
