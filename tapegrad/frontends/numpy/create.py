"""NumPy spellings of the create family."""
