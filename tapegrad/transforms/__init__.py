"""Transforms: from a tape, the tape of another function."""
