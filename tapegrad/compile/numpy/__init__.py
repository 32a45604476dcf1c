"""Tapes as straight-line Python that calls NumPy."""
