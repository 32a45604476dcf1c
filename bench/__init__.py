"""Benchmarks: each objective written once, each peer behind one adapter, one table of ratios."""
