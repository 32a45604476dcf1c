"""quantities: numbers with a unit, of libraries that compute with them. The number is a leaf, the unit is static."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.numbers.cotangents import Absorbing


class Quantities(NamedTuple):
    """The adapter for a class of quantities: the number of one, its unit, a quantity of both; one in another unit,
    which raises what the library raises where that does not fit; the unit of plain numbers.
    """

    number: Callable[[Any], Any]
    unit: Callable[[Any], Any]
    make: Callable[[Any, Any], Any]
    into: Callable[[Any, Any], Any]
    one: Callable[[Any], Any]


QUANTITIES: dict[type, Quantities] = {}


def add_quantities(kind: type, known: Quantities) -> None:
    """Say how quantities of a class, and of its subclasses, are taken apart."""
    QUANTITIES[kind] = known
    known_as.cache_clear()


@functools.cache
def known_as(cls: Any) -> Quantities | None:
    """Return the adapter for a class of quantities, None for others."""
    return next((QUANTITIES[base] for base in cls.__mro__ if base in QUANTITIES), None)


class Measure(NamedTuple):
    """The unit of a quantity, and its class."""

    cls: type
    known: Quantities
    unit: Any

    def make(self, x: Any) -> Any:
        """Return a quantity of this unit; a cotangent of nothing has none."""
        return x if isinstance(x, Absorbing) else self.known.make(x, self.unit)

    def taken(self, x: Any) -> Any:
        """Return the number that a quantity has in this unit; raise what its library raises where it has none."""
        return self.known.number(self.known.into(x, self.unit))

    def per(self, x: Any, other: Measure | None) -> Any:
        """Return a derivative by a quantity of this unit: a number, or a quantity of another unit over which it is
        taken.
        """
        if x is None:
            return None
        if other is None:
            return self.known.make(x, self.known.one(self.unit) / self.unit)
        return self.known.make(other.known.number(x), other.unit / self.unit)


def measure_of(x: Any) -> Measure | None:
    """Return the unit of a quantity, None for what is none."""
    cls: Any = getattr(type(x), "_viewed_as", type(x))
    known = known_as(cls)
    return None if known is None else Measure(cls, known, known.unit(x))
