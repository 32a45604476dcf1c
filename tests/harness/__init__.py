"""The differential harness: one row, a function at some arguments, goes through every mode, and one comparison serves them all."""
