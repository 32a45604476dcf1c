"""Tests of tracing what SciPy's solvers are called on."""
