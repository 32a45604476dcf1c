"""A search for numbers that are silently wrong: random programs, every mode against every other, finds shrunk to a few lines.

`python -m tests.fuzz --seeds 0:1000` searches; `--help` says more.
"""
