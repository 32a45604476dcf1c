"""Numbers, arrays and tensors: their kinds, formatting, comparison, conversion and indexing."""

from tapegrad.numbers import exact
from tapegrad.numbers.systems import register

__all__ = ["register"]
