"""Benchmarks: each objective written once, each peer behind one adapter, one table of ratios."""

import os

os.environ["TAPEGRAD_CACHE"] = ""  # a first call compiles
