"""NumPy programs as functions that other systems for automatic differentiation can use."""
