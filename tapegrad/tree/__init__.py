"""Flattening of nested arguments. For users: `map`, `leaves` and `ravel` of nested parameters and gradients."""

from tapegrad.tree.functions import leaves, map, ravel

__all__ = ["leaves", "map", "ravel"]
