"""quantities: numbers with units from unit libraries. The number is a leaf, the unit is static."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from tapegrad.numbers.cotangents import Absorbing


class Quantities(NamedTuple):
    """The adapter for a class of quantities: `number` and `unit` take one apart, `make` builds one, `into` converts it
    to another unit (and raises as the library does if that is impossible), `one` is the unit of plain numbers.
    """

    number: Callable[[Any], Any]
    unit: Callable[[Any], Any]
    make: Callable[[Any, Any], Any]
    into: Callable[[Any, Any], Any]
    one: Callable[[Any], Any]


QUANTITIES: dict[type, Quantities] = {}


def add_quantities(kind: type, known: Quantities) -> None:
    """Register the adapter for a class of quantities and its subclasses."""
    QUANTITIES[kind] = known
    quantities_of.cache_clear()


@functools.cache
def quantities_of(cls: Any) -> Quantities | None:
    """Return the adapter for a class of quantities, None for other classes."""
    return next((QUANTITIES[base] for base in cls.__mro__ if base in QUANTITIES), None)


class Measure(NamedTuple):
    """The unit of a quantity, its class and adapter."""

    cls: type
    known: Quantities
    unit: Any

    def make(self, x: Any) -> Any:
        """Return a quantity of this unit; a zero cotangent has no unit."""
        return x if isinstance(x, Absorbing) else self.known.make(x, self.unit)

    def taken(self, x: Any) -> Any:
        """Return the number of a quantity converted to this unit; raise as its library does if that is impossible."""
        return self.known.number(self.known.into(x, self.unit))

    def per(self, x: Any, other: Measure | None) -> Any:
        """Return the derivative of a number, or of a quantity with unit `other`, by a quantity of this unit."""
        if x is None:
            return None
        if other is None:
            return self.known.make(x, self.known.one(self.unit) / self.unit)
        return self.known.make(other.known.number(x), other.unit / self.unit)


def measure_of(x: Any) -> Measure | None:
    """Return the unit of a quantity, None for other values."""
    cls: Any = getattr(type(x), "_viewed_as", type(x))
    known = quantities_of(cls)
    return None if known is None else Measure(cls, known, known.unit(x))
