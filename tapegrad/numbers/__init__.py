"""What numbers, arrays and tensors are: their kinds, how each is written, compared, converted and read in part."""

from tapegrad.numbers import exact
from tapegrad.numbers.systems import register

__all__ = ["register"]
