"""NumPy spellings of the index family."""
