"""The rational function for torch: it is plain arithmetic, and takes tensors as it is."""

from bench.problems.rational import objective

__all__ = ["objective"]
