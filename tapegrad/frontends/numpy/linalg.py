"""NumPy spellings of the linalg family."""
