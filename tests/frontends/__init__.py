"""How NumPy, SciPy and torch spell the ops."""
