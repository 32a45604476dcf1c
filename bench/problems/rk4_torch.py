"""The Runge-Kutta integration for torch: it is plain arithmetic, and takes tensors as it is."""

from bench.problems.rk4 import objective

__all__ = ["objective"]
