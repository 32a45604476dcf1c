"""Functions that ask for the types of values, in a file that a test loads by its path."""

from typing import Any


def is_float(x: Any) -> bool:
    return type(x) is float
